"""The model card of a run: what it was trained on, how, how well, and what it is not good for."""

from collections.abc import Iterable

import numpy as np

from pyrite.data import Part
from pyrite.models import Architecture
from pyrite.training import Run, python_name
from pyrite.training.run import read_json

_LISTED = 30  # classes that are named; of more only the number is given


def model_card(run: Run) -> str:
    """A page in Markdown about the model of a run."""
    path = run.path / "audit.json"
    audited = read_json(path, sentence=str)["sentence"] if path.exists() else ""
    parts = {
        "Model": _table(_model(run)),
        "Data and labels": _table([*_data(run), ("audit of the labels", audited)]),
        "Results": _table(run.results.rows) if run.results.rows else "Nothing was measured.",
        "Limits": "\n".join(f"- {sentence}" for sentence in _limits(run, bool(audited))),
        "Settings": "```toml\n" + run.config.to_toml() + "```",
    }
    title = f"# Model card: {run.path.resolve().name}"
    return "\n\n".join([title, *(f"## {heading}\n\n{text}" for heading, text in parts.items())]) + "\n"


def _model(run: Run) -> list[tuple[str, str]]:
    config = run.config
    described = isinstance(config.model, Architecture)
    weights = sum(weight.numel() for weight in run.model.parameters()) if described else None
    return [
        ("net", f"`{python_name(config.model)}`" + (f", {weights:,} parameters" if weights else "")),
        ("features", "none: samples as they are" if config.features is None else f"`{config.features}`"),
        ("trained with", f"`{config.method}`, {config.epochs} epochs, seed {config.seed}"),
        ("saved", run.choice),
        ("versions", ", ".join(f"{name} {version}" for name, version in run.facts.get("versions", {}).items())),
    ]


def _data(run: Run) -> list[tuple[str, str]]:
    part, given, true, names = run.labels["part"], run.labels["given"], run.labels.get("true"), run.classes
    used = np.isin(part, (Part.TRAIN, Part.VALIDATION, Part.META))
    listed = ", ".join(names) if len(names) <= _LISTED else f"{', '.join(names[:5])} and so on"
    counts = np.bincount(given[used], minlength=len(names))
    wrong = "" if true is None else f"{100 * np.mean(given[used] != true[used]):.1f} %"
    return [
        ("data", f"`{run.config.data}`"),
        ("samples", f"{np.sum(part == Part.TRAIN):,} trained on, {np.sum(part == Part.VALIDATION):,} held out"),
        ("classes", f"{len(names)}: {listed}"),
        ("samples per class", f"{counts.min():,} to {counts.max():,}"),
        ("noise that was added", f"`{run.config.noise}`" if run.config.noise else ""),
        ("labels known to be wrong", wrong),
    ]


def _limits(run: Run, audited: bool) -> list[str]:
    """What a user must know, as far as the run itself shows it."""
    sentences = ["The model separates only the classes above: any other input is assigned to one of them."]
    if run.table.get("final_test_accuracy") is None:
        held_out = run.table.get("validation_accuracy") is not None
        sentences.append(
            "Its accuracy is measured on held-out given labels, wrong ones included: there was no test part."
            if held_out
            else "Its accuracy on samples that it was not trained on is not known: none were kept aside."
        )
    if not audited:
        sentences.append(f"The labels were not audited: `pyrite audit {run.path}` estimates how many are wrong.")
    sentences.append("Its probabilities are the softmax of its scores, and are not calibrated.")
    if unused := len(run.facts.get("unreadable", ())):
        sentences.append(f"{unused} samples could not be read and were set aside.")
    return sentences + [f"{warning[0].upper()}{warning[1:]}." for warning in run.facts["warnings"] if warning]


def _table(rows: Iterable[tuple[str, ...]]) -> str:
    # A vertical bar in a name would end the cell.
    cells = (f"| {name} | {value.replace('|', chr(92) + '|')} |" for name, value in rows if value)
    return "\n".join(["| | |", "|---|---|", *cells])
