"""What all commands share: who prints, how a table is printed, and what a failure looks like."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import typer

__all__ = ["failures", "is_first", "print_table", "warn"]


@contextmanager
def failures() -> Iterator[None]:
    """A run that fails is one sentence and exit code 1; one that was stopped says how to go on: 130, as in shells."""
    from pyrite.training import RunFailed

    try:
        yield
    except (RunFailed, KeyboardInterrupt) as error:
        if is_first():
            warn(error)
        raise typer.Exit(1 if isinstance(error, RunFailed) else 130) from None


def is_first() -> bool:
    """Of several processes one prints."""
    return os.environ.get("RANK", "0") == "0"


def warn(message: object) -> None:
    """One line on standard error."""
    typer.echo(f"pyrite: {message}", err=True)


def print_table(
    headings: Sequence[str], rows: Sequence[Sequence[str]], *, left: int = 1, caption: str | None = None
) -> None:
    """Print a table, in columns.

    Args:
        headings: one for each column; none for a table without.
        rows: the cells, as text.
        left: how many columns are text, aligned to the left; they wrap where the window is narrow. The others are
            numbers: their headings wrap instead.
        caption: printed under it.
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
    # Where the output is no terminal its width is unknown, so that no line is broken.
    console = Console()
    (console if console.is_terminal else Console(width=200)).print(table)
