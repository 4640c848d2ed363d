"""``pyrite compare``: the same training with several losses, side by side."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from pyrite.experiments import Comparison


def compare(
    data: Annotated[str, typer.Argument(help="A data set's name, a folder, or a file.")],
    methods: Annotated[list[str], typer.Argument(help="Losses or methods, such as ce 'gce(q=0.7)'.")],
    out: Annotated[Path, typer.Option(help="The folder for the runs and the table.")],
    noise: Annotated[str | None, typer.Option(help="Make labels wrong first, such as 'symmetric(0.4)'.")] = None,
    model: Annotated[str | None, typer.Option(help="A net; by default one that suits the data.")] = None,
    epochs: Annotated[int | None, typer.Option(help="Times over the data.")] = None,
    samples: Annotated[int | None, typer.Option(help="Train on so many samples only.")] = None,
    augment: Annotated[str | None, typer.Option(help="Such as 'crop_flip(pad=4)', or none.")] = None,
    lr: Annotated[float | None, typer.Option(help="The learning rate.")] = None,
    config: Annotated[Path | None, typer.Option(help="Everything else that a recipe says, as TOML.")] = None,
    seed: Annotated[int | None, typer.Option(help="The first seed, 0 if nothing says otherwise.")] = None,
    seeds: Annotated[int, typer.Option(help="How many seeds.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result for a program to read.")] = False,
) -> None:
    """Train with several losses on the same labels and put the results side by side. Again: go on where it stopped."""
    from pyrite.cli.train import failures, is_first
    from pyrite.experiments import compare as compare_runs

    values: dict[str, Any] = {"noise": noise, "model": model, "epochs": epochs, "samples": samples, "augment": augment}
    values |= {"lr": lr, "config": config}
    given = {name: value for name, value in values.items() if value is not None}

    def begin(name: str, number: int) -> None:
        if not as_json and is_first():
            typer.echo(f"{name}, seed {number}", err=True)

    with failures():
        found = compare_runs(data, methods, out=out, seed=seed, seeds=seeds, begin=begin, progress=not as_json, **given)
    if is_first():
        typer.echo(json.dumps(found.to_dict(), indent=2)) if as_json else show(found)


def show(found: "Comparison") -> None:
    """Print the table, and what the runs warn of."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, header_style="bold", caption="per cent; best on test was chosen on test labels")
    table.add_column("loss", overflow="fold")
    for name, words in found.columns().items():
        # Headings break, so that the names of losses need not.
        width = max(map(len, [*words.split(), *(row.spelled(name) for row in found.rows)]))
        table.add_column(words, justify="right", width=width)
    for row in found.rows:
        # Without spaces a narrow window does not break a number from its spread.
        table.add_row(Text(row.name), *(row.spelled(name).replace(" ", "") for name in found.columns()))
    # Off a terminal nothing is known of a width, so no line is broken.
    console = Console()
    console.print(table) if console.is_terminal else Console(width=200).print(table)
    for row in found.rows:
        for warning in (said for run in row.runs for said in run.facts["warnings"]):
            typer.echo(f"pyrite: {row.name}: {warning}", err=True)
    typer.echo(f"wrote {found.path / 'table.md'}")
