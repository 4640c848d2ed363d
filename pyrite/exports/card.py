"""The model card of a run: what it was trained on, how, how well, and what it is not good for."""

from typing import Any

import numpy as np

from pyrite.data import Part
from pyrite.models import Architecture
from pyrite.training import COLUMNS, Run, python_name
from pyrite.training.run_files import read_json

__all__ = ["model_card"]

_LISTED = 30  # classes that are named; of more only the number is given


def model_card(run: Run) -> str:
    """A page in Markdown about the model of a run."""
    audit = _audit(run)
    parts = [
        f"# Model card: {_name(run)}",
        "## Model",
        _model(run),
        "## Data and labels",
        _data(run, audit),
        "## Results",
        _results(run),
        "## Limits",
        "\n".join(f"- {sentence}" for sentence in _limits(run, audit)),
        "## Settings",
        "```toml\n" + run.config.to_toml() + "```",
    ]
    return "\n\n".join(parts) + "\n"


def _name(run: Run) -> str:
    return run.path.resolve().name


def _model(run: Run) -> str:
    config, facts = run.config, run.facts
    described = isinstance(config.model, Architecture)
    weights = sum(weight.numel() for weight in run.model.parameters()) if described else None
    rows = [
        ("net", f"`{python_name(config.model)}`" + (f", {weights:,} parameters" if weights else "")),
        ("features", "none: samples as they are" if config.features is None else f"`{config.features}`"),
        ("trained with", f"`{config.method}`, {config.epochs} epochs, seed {config.seed}"),
        ("saved", run.choice),
        ("versions", ", ".join(f"{name} {version}" for name, version in facts.get("versions", {}).items())),
    ]
    return _table([row for row in rows if row[1]])


def _data(run: Run, audit: dict[str, Any] | None) -> str:
    part, given, true = run.labels["part"], run.labels["given"], run.labels.get("true")
    used = np.isin(part, (Part.TRAIN, Part.VALIDATION, Part.META))
    names = run.classes
    listed = ", ".join(names) if len(names) <= _LISTED else f"{', '.join(names[:5])} and so on"
    counts = np.bincount(given[used], minlength=len(names))
    rows = [
        ("data", f"`{run.config.data}`"),
        ("samples", f"{np.sum(part == Part.TRAIN):,} trained on, {np.sum(part == Part.VALIDATION):,} held out"),
        ("classes", f"{len(names)}: {listed}"),
        ("samples per class", f"{counts.min():,} to {counts.max():,}"),
    ]
    if run.config.noise:
        rows.append(("noise that was added", f"`{run.config.noise}`"))
    if true is not None:
        rows.append(("labels known to be wrong", f"{100 * np.mean(given[used] != true[used]):.1f} %"))
    if audit is not None:
        rows.append(("audit of the labels", audit["sentence"]))
    return _table(rows)


def _results(run: Run) -> str:
    known = {COLUMNS[name]: value for name, value in run.table.items() if value is not None}
    rows = [
        (column.explanation, f"{column.formatted(value)} %") for column, value in known.items() if column.by_default
    ]
    return _table(rows) if rows else "Nothing was measured."


def _limits(run: Run, audit: dict[str, Any] | None) -> list[str]:
    """What a user must know, as far as the run itself shows it."""
    sentences = ["It tells apart the classes above and no others: anything else is called one of them."]
    if run.table.get("final_test_accuracy") is None:
        held_out = run.table.get("validation_accuracy") is not None
        sentences.append(
            "Its accuracy is measured on held-out given labels, wrong ones included: there was no test part."
            if held_out
            else "Its accuracy on samples that it was not trained on is not known: none were kept aside."
        )
    if audit is None:
        sentences.append(f"The labels were not audited: `pyrite audit {run.path}` estimates how many are wrong.")
    sentences.append("Its probabilities are the softmax of its scores, and are not calibrated.")
    unused = len(run.facts.get("unreadable", ()))
    if unused:
        sentences.append(f"{unused} samples could not be read and were set aside.")
    return sentences + [f"{warning[0].upper()}{warning[1:]}." for warning in run.facts["warnings"] if warning]


def _audit(run: Run) -> dict[str, Any] | None:
    path = run.path / "audit.json"
    return read_json(path, sentence=str) if path.exists() else None


def _table(rows: list[tuple[str, str]]) -> str:
    # A vertical bar in a name would end the cell.
    cells = (f"| {name} | {value.replace('|', chr(92) + '|')} |" for name, value in rows)
    return "\n".join(["| | |", "|---|---|", *cells])
