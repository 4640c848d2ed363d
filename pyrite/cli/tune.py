"""``pyrite tune``: choose loss, parameters and learning rate on labels that are partly wrong."""

import json
import re
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from pyrite.experiments import Tuning


def tune(
    data: Annotated[str, typer.Argument(help="A data set's name, a folder, or a file.")],
    out: Annotated[Path, typer.Option(help="The folder for the runs and the result; again: go on there.")],
    methods: Annotated[
        list[str] | None,
        typer.Argument(help="Losses or methods with ranges, such as ce 'gce(q=between(0.1, 0.9))'; a few by default."),
    ] = None,
    trials: Annotated[int, typer.Option(help="How many, of all processes together.")] = 20,
    by: Annotated[str, typer.Option(help="What to go by on held-out given labels: accuracy or mae.")] = "accuracy",
    lr: Annotated[str | None, typer.Option(help="A learning rate or a range: 'between(0.01, 1, log=True)'.")] = None,
    prune: Annotated[bool, typer.Option(help="End trials early that are behind the others.")] = True,
    noise: Annotated[str | None, typer.Option(help="Make labels wrong first, such as 'symmetric(0.4)'.")] = None,
    model: Annotated[str | None, typer.Option(help="A net; by default one that suits the data.")] = None,
    epochs: Annotated[int | None, typer.Option(help="Times over the data, for each trial.")] = None,
    batch_size: Annotated[int | None, typer.Option(help="Samples a step.")] = None,
    optimiser: Annotated[str | None, typer.Option(help="Such as adamw; with a rate in it that is not tuned.")] = None,
    augment: Annotated[str | None, typer.Option(help="Such as 'crop_flip(pad=4)', or none.")] = None,
    samples: Annotated[int | None, typer.Option(help="Choose on so many samples only.")] = None,
    validation: Annotated[float | None, typer.Option(help="The share to hold out and choose by, 0.2.")] = None,
    seed: Annotated[int | None, typer.Option(help="Everything random comes from it.")] = None,
    device: Annotated[str | None, typer.Option(help="cpu or cuda.")] = None,
    config: Annotated[Path | None, typer.Option(help="Everything else that a recipe says, as TOML.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result for a program to read.")] = False,
) -> None:
    """Choose loss, parameters and learning rate without clean labels. Typed again: go on; at a time: share the work."""
    from pyrite.cli.train import failures
    from pyrite.experiments import tune as tune_runs
    from pyrite.experiments.criteria import TRAP
    from pyrite.report.tuning import draw_tuning

    values: dict[str, Any] = {"noise": noise, "model": model, "epochs": epochs, "batch_size": batch_size}
    values |= {"optimiser": optimiser, "augment": augment, "samples": samples, "validation": validation}
    values |= {"seed": seed, "device": device, "config": config}
    given = {name: value for name, value in values.items() if value is not None}
    if by == "ce":
        typer.echo(f"pyrite: {TRAP}", err=True)
    with failures(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=re.escape(TRAP))  # said above, in one line
        found = tune_runs(
            data, methods, out=out, trials=trials, by=by, lr=lr, prune=prune, progress=not as_json, **given
        )
    picture = draw_tuning(found, out / "tuning.png")
    if as_json:
        typer.echo(json.dumps(found.to_dict() | {"picture": str(picture)}, indent=2))
        return
    _show(found)
    typer.echo(f"wrote {out / 'table.md'}, {out / 'tuning.json'} and {picture}")


def _show(found: "Tuning") -> None:
    """Print the trials, the choice, and what to do with it."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    heads, _, *rows = [line.strip("| ").split(" | ") for line in found.to_markdown().splitlines()]
    table = Table(box=None, header_style="bold")
    for name in heads:
        table.add_column(name, justify="left" if name.startswith("loss") else "right", overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell.strip("`")) for cell in row))
    console = Console()
    console.print(table) if console.is_terminal else Console(width=200).print(table)
    typer.echo(f"{found.sentence}.")
    if found.tested:
        typer.echo(f"{found.tested}.")
    if found.command is not None:
        typer.echo(f"Train with it on all samples:\n  {found.command}")
