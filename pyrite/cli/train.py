"""``pyrite train``: train on labels that are partly wrong, and leave a run directory."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from pyrite.training import Observer, Run


def train(
    data: Annotated[str | None, typer.Argument(help="A data set's name, a folder, or a file.")] = None,
    loss: Annotated[str | None, typer.Option(help="A loss, such as 'gce(q=0.7)'; see 'pyrite list losses'.")] = None,
    method: Annotated[str | None, typer.Option(help="A method; --loss LOSS is short for 'erm(LOSS)'.")] = None,
    noise: Annotated[str | None, typer.Option(help="Make labels wrong first, such as 'symmetric(0.4)'.")] = None,
    corrections: Annotated[Path | None, typer.Option(help="Corrected labels, as the report exports them.")] = None,
    drop_suspects: Annotated[
        float | None,
        typer.Option(help="Leave out labels that are wrong with this probability; audits first if need be."),
    ] = None,
    model: Annotated[str | None, typer.Option(help="A net; by default one that suits the data.")] = None,
    epochs: Annotated[int | None, typer.Option(help="Times over the data.")] = None,
    batch_size: Annotated[int | None, typer.Option(help="Samples a step, over all processes.")] = None,
    lr: Annotated[float | None, typer.Option(help="The learning rate.")] = None,
    optimiser: Annotated[str | None, typer.Option(help="Such as 'adam(lr=1e-3, eps=0.1)'.")] = None,
    schedule: Annotated[str | None, typer.Option(help="Such as linear, cosine or 'steps(at=[40, 80])'.")] = None,
    clip: Annotated[float | None, typer.Option(help="The largest norm of a gradient.")] = None,
    accumulate: Annotated[int | None, typer.Option(help="Send a batch through the net in so many pieces.")] = None,
    augment: Annotated[str | None, typer.Option(help="Such as 'crop_flip(pad=4)', or none.")] = None,
    samples: Annotated[int | None, typer.Option(help="Train on so many samples only.")] = None,
    validation: Annotated[float | None, typer.Option(help="Hold out this share, with its given labels.")] = None,
    precision: Annotated[str | None, typer.Option(help="float32, float64 or bfloat16.")] = None,
    compiled: Annotated[bool, typer.Option("--compile", help="Run the net through torch.compile.")] = False,
    checkpoint_every: Annotated[int | None, typer.Option(help="Save after so many steps too.")] = None,
    seed: Annotated[int | None, typer.Option(help="Everything random comes from it.")] = None,
    device: Annotated[str | None, typer.Option(help="cpu or cuda.")] = None,
    out: Annotated[Path | None, typer.Option(help="The run's folder; a new one by default.")] = None,
    resume: Annotated[Path | None, typer.Option(help="Go on with the run in this folder.")] = None,
    config: Annotated[Path | None, typer.Option(help="A recipe, as TOML; options come before it.")] = None,
    tensorboard: Annotated[bool, typer.Option("--tensorboard", help="Write for TensorBoard too.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result for a program to read.")] = False,
) -> None:
    """Train a model on labels that are partly wrong."""
    from pyrite.training import train as train_run

    values: dict[str, Any] = {"method": method, "noise": noise, "epochs": epochs, "batch_size": batch_size}
    values |= {"schedule": schedule, "clip": clip, "accumulate": accumulate, "augment": augment, "samples": samples}
    values |= {"validation": validation, "precision": precision, "compile": compiled or None, "seed": seed}
    values |= {"device": device, "optimiser": optimiser, "checkpoint_every": checkpoint_every}
    values |= {"corrections": corrections and str(corrections), "drop_suspects": drop_suspects}
    given = {name: value for name, value in values.items() if value is not None}
    given |= {"model": model, "loss": loss, "lr": lr, "config": config, "progress": not as_json}
    with failures():
        if resume is None and (audited := _to_be_audited(given)):
            run = _without_suspects(data, out, given, audited, tensorboard)
        else:
            run = train_run(data, out=out, resume=resume, observers=_observers(tensorboard), **given)
    if is_first():
        names = ("corrected", "dropped", "warnings", "unreadable")
        said = {name: run.facts[name] for name in names if name in run.facts}
        typer.echo(json.dumps({"run": str(run.path), **run.table, **said}, indent=2)) if as_json else _show(run)


def _to_be_audited(given: dict[str, Any]) -> dict[str, Any]:
    """If suspects are to be dropped and nothing says which those are: what decides that, checked before hours pass."""
    from pyrite.training import Recipe

    said = {} if given["config"] is None else Recipe.read(given["config"])
    said |= {name: value for name, value in given.items() if value is not None}
    if not said.get("drop_suspects") or said.get("corrections"):
        return {}
    names = ("noise", "drop_suspects", "device", "validation")
    # Held-out samples tell how many labels are wrong: without them there would be a ranking, and nothing to drop.
    wanted = {"validation": 0.2} | {name: said[name] for name in names if name in said}
    recipe = Recipe.make(data="", corrections="those of the audit", **wanted)
    return {name: getattr(recipe, name) for name in names[1:]}


def _without_suspects(
    data: str | None, out: Path | None, options: dict[str, Any], audited: dict[str, Any], tensorboard: bool
) -> "Run":
    """Train and audit in ``OUT/audit``, then train in ``OUT`` without suspects. Called again it goes on."""
    from pyrite.run_audits import audit
    from pyrite.training import new_folder, train_once

    begun = out is not None and (out / "audit" / "recipe.toml").exists()
    home = out if out is not None and begun else new_folder(out, audited["device"])
    ranking = home / "audit" / "suspects.csv"
    try:
        everything = options | audited | {"drop_suspects": 0.0, "observers": _observers(tensorboard)}
        first = train_once(data, out=home / "audit", **everything)
        if is_first():
            found = audit(first)
            found.to_csv(ranking)
            typer.echo(found.sentence, err=not options["progress"])
        rest = options | {"corrections": str(ranking), "observers": _observers(tensorboard)}
        return train_once(data, out=home, **rest)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"stopped and saved; go on with the same command and --out {home}") from None


def _observers(tensorboard: bool) -> list["Observer"]:
    if not tensorboard:
        return []
    from pyrite.integrations import TensorBoard

    return [TensorBoard()]


@contextmanager
def failures() -> Iterator[None]:
    """A run that fails is one sentence and exit code 1; one that was stopped says how to go on: 130, as in shells."""
    from pyrite.training import RunFailed

    try:
        yield
    except (RunFailed, KeyboardInterrupt) as error:
        if is_first():
            typer.echo(f"pyrite: {error}", err=True)
        raise typer.Exit(1 if isinstance(error, RunFailed) else 130) from None


def is_first() -> bool:
    """Of several processes one speaks."""
    return os.environ.get("RANK", "0") == "0"


def _show(run: "Run") -> None:
    from rich.console import Console
    from rich.table import Table

    from pyrite.training import COLUMNS

    table = Table(box=None, show_header=False)
    for name, value in run.table.items():
        if value is not None:
            table.add_row(COLUMNS[name].long, f"{100 * value:6.2f} %")
    Console().print(table)
    if "dropped" in run.facts:
        typer.echo(f"{run.facts['corrected']} labels were corrected, {run.facts['dropped']} samples dropped")
    if unreadable := run.facts["unreadable"]:
        path, reason = next(iter(unreadable.items()))
        typer.echo(
            f"{len(unreadable)} images could not be read and were set aside, the first: {path} ({reason})", err=True
        )
    for warning in run.facts["warnings"]:
        typer.echo(f"pyrite: {warning}", err=True)
    typer.echo(f"wrote {run.path}")
