"""What commands have in common: arguments, printing by one process, tables, and failures."""

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

AsJson = Annotated[bool, typer.Option("--json", help="Print the result for a program to read.")]
DataName = Annotated[str, typer.Argument(help="A data set's name, a folder, or a file.")]
RunPath = Annotated[Path, typer.Argument(help="A run's folder.")]
Seed = Annotated[int, typer.Option(help="Everything random comes from it.")]


@contextmanager
def failures() -> Iterator[None]:
    """A failed run prints one sentence and exits with code 1; one that was stopped exits with 130, as in shells."""
    from pyrite.training import RunFailed

    try:
        yield
    except (RunFailed, KeyboardInterrupt) as error:
        if is_first():
            warn(error)
        raise typer.Exit(1 if isinstance(error, RunFailed) else 130) from None


def is_first() -> bool:
    """Whether this is the first of several processes, the only one that prints."""
    return os.environ.get("RANK", "0") == "0"


def warn(message: object) -> None:
    """Print one line on standard error."""
    typer.echo(f"pyrite: {message}", err=True)


def print_json(values: object) -> None:
    """Print a result for a program to read."""
    typer.echo(json.dumps(values, indent=2))


def print_table(
    headings: Sequence[str], rows: Sequence[Sequence[str]], *, left: int = 1, caption: str | None = None
) -> None:
    """Print a table, in columns.

    Args:
        headings: one per column; empty for a table without headings.
        rows: the cells, as text.
        left: the number of columns with text, which is aligned to the left and wraps in a narrow window. In the others,
            which contain numbers, the headings wrap.
        caption: printed below the table.
    """
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    columns = len(headings) or len(rows[0])
    table = Table(box=None, header_style="bold", caption=caption, show_header=bool(headings))
    for place in range(columns):
        heading = headings[place] if headings else ""
        if place < left:
            table.add_column(heading, overflow="fold")
        else:
            width = max(map(len, [*heading.split(), *(row[place] for row in rows)]), default=1)
            table.add_column(heading, justify="right", width=width)
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    # If the output is not a terminal, its width is unknown, and lines are not broken.
    console = Console()
    (console if console.is_terminal else Console(width=200)).print(table)
