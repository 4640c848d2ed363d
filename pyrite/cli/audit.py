"""``pyrite audit``: which labels are wrong, as a ranking, a summary and a page to look at."""

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pyrite.cli.train import failures, is_first

if TYPE_CHECKING:
    from pyrite.auditing import Audit


def audit(
    data: Annotated[str | None, typer.Argument(help="A data set's name, a folder, a file, or a run's folder.")] = None,
    scores: Annotated[Path | None, typer.Option(help="Scores of a model of yours, .npy: a row a sample.")] = None,
    labels: Annotated[Path | None, typer.Option(help="With --scores: the given labels, .npy or .txt.")] = None,
    kind: Annotated[str | None, typer.Option(help="What they are: logits, probabilities, log-probabilities.")] = None,
    loss: Annotated[str | None, typer.Option(help="The loss to train with.")] = None,
    method: Annotated[str | None, typer.Option(help="The method to train with.")] = None,
    noise: Annotated[str | None, typer.Option(help="Make labels wrong first, to see how well they are found.")] = None,
    model: Annotated[str | None, typer.Option(help="A net; by default one that suits the data.")] = None,
    epochs: Annotated[int | None, typer.Option(help="Times over the data.")] = None,
    samples: Annotated[int | None, typer.Option(help="Look at so many samples only.")] = None,
    validation: Annotated[float | None, typer.Option(help="Hold out this share: it tells the noise rate.")] = None,
    seed: Annotated[int | None, typer.Option(help="Everything random comes from it.")] = None,
    device: Annotated[str | None, typer.Option(help="cpu or cuda.")] = None,
    config: Annotated[Path | None, typer.Option(help="A recipe, as TOML; options come before it.")] = None,
    out: Annotated[Path | None, typer.Option(help="The folder; the run's, or a new one, by default.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary for a program to read.")] = False,
) -> None:
    """Find wrong labels: train once, rank the suspects, write a page to review them on."""
    values: dict[str, Any] = {"loss": loss, "method": method, "noise": noise, "model": model, "epochs": epochs}
    values |= {"samples": samples, "validation": validation, "device": device, "config": config}
    options = {name: value for name, value in values.items() if value is not None}
    if (data is None) == (scores is None):
        raise ValueError("say what to audit: DATA to train on, a run's folder, or --scores with --labels and --kind")
    if scores is not None:
        found, folder = _of_scores(scores, labels, kind, options, seed), out or Path("audit")
    else:
        if labels is not None or kind is not None:
            raise ValueError(f"{'labels' if labels is not None else 'kind'} is for --scores, and {data} has its own")
        found, folder = _of_data(str(data), out, options, seed, quiet=as_json)
    if is_first():
        _write(found, folder)
        typer.echo(json.dumps(found.summary() | {"folder": str(folder)}, indent=2)) if as_json else _show(found, folder)


def _of_data(
    data: str, out: Path | None, options: dict[str, Any], seed: int | None, quiet: bool
) -> tuple["Audit", Path]:
    from pyrite.run_audits import audit as find

    trained = os.path.isfile(os.path.join(data, "recipe.toml"))
    with failures():
        found = find(data, seed=seed, **(options if trained else options | {"out": out, "progress": not quiet}))
    assert found.run is not None
    return found, out if trained and out is not None else found.run.path


def _of_scores(
    scores: Path, labels: Path | None, kind: str | None, options: dict[str, Any], seed: int | None
) -> "Audit":
    from pyrite.run_audits import audit as find

    if labels is None or kind is None:
        missing = "--labels" if labels is None else "--kind logits, probabilities or log-probabilities"
        raise ValueError(f"with --scores say {missing} too")
    return find(_labels(labels), scores=_array(scores), kind=kind, seed=seed, **options)  # type: ignore[arg-type]


def _array(path: Path) -> Any:
    """Numbers of a .npy file, looked at where they lie: not all of them need fit into memory."""
    import numpy as np

    try:
        return np.lib.format.open_memmap(path, mode="r")
    except (OSError, ValueError, EOFError) as error:
        raise ValueError(f"cannot read {path}: {error}") from None


def _labels(path: Path) -> Any:
    """Class numbers: a .npy file, or a text with one a line."""
    import numpy as np

    if path.suffix == ".npy":
        return np.asarray(_array(path))
    try:
        return np.array([int(line) for line in path.read_text(encoding="utf-8").split()], np.int64)
    except (OSError, ValueError) as error:
        raise ValueError(f"cannot read {path}: {error}; labels are class numbers, one a line") from None


def _write(found: "Audit", folder: Path) -> None:
    from pyrite.report.audit_page import write_audit_page

    found.to_csv(folder / "suspects.csv")
    found.to_json(folder / "audit.json")
    write_audit_page(found, folder / "report.html")


def _show(found: "Audit", folder: Path) -> None:
    typer.echo(f"{found.sentence[0].upper()}{found.sentence[1:]}.")
    if found.can_tell and not found.is_suspect.any():
        typer.echo("No label is a suspect.")
    elif found.can_tell:
        typer.echo(
            f"{int(found.is_suspect.sum()):,} suspects, likely wrong with {100 * found.threshold:.0f} % or more:"
        )
        names = found.classes
        for row in found.ranking[: min(5, int(found.is_suspect.sum()))].tolist():
            where = found.paths[row] if found.paths else f"sample {found.index[row]}"
            # A suspect's own label may still be the likeliest of all.
            other = next(choice for choice in found.choices[row] if choice != found.labels[row])
            given, better = names[found.labels[row]], names[other]
            typer.echo(f"  {where}: given {given}, rather {better} ({100 * found.wrong_probability[row]:.1f} % wrong)")
    for warning in found.warnings:
        typer.echo(f"pyrite: {warning}", err=True)
    typer.echo(f"wrote {folder / 'suspects.csv'}, audit.json and the page to review them on:")
    typer.echo(f"{folder / 'report.html'}")
