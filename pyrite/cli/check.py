"""``pyrite check``: how is a table read, and will a loss underfit?"""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pyrite.cli.terminal import AsJson, completes, echo, print_json, print_table, with_settings
from pyrite.errors import PyriteError
from pyrite.settings import READING

if TYPE_CHECKING:
    from pyrite.data import Dataset


@with_settings(only=READING)
def check(
    loss: Annotated[
        str,
        typer.Argument(
            metavar="DATA|LOSS",
            help="A file or folder of data; or a loss, such as 'gce(q=0.7)'.",
            autocompletion=completes("loss"),
        ),
    ],
    data: Annotated[str | None, typer.Argument(help="Data on which to measure the initial margins of a net.")] = None,
    classes: Annotated[int | None, typer.Option(help="Number of classes, if no data are given.")] = None,
    model: Annotated[str | None, typer.Option(help="The net to measure, such as 'resnet20'.")] = None,
    as_json: AsJson = False,
    **reading: str,
) -> None:
    """Print the column types of a table, or predict whether a loss underfits and suggest a remedy."""
    from pyrite.data import load

    if data is None and _is_path(loss):
        return _print_reading(load(loss, **reading), loss, as_json)
    from pyrite.losses import loss as read_loss, underfitting
    from pyrite.training import check_on_net

    read_loss(loss)
    if classes is None and data is None:
        raise PyriteError("the number of classes is missing: pass --classes K, or data")
    if classes is not None and data is not None:
        raise PyriteError(f"--classes {classes} is given, but {data} has its own classes: omit --classes")
    if data is None and model is None:
        verdict = underfitting(loss, classes or 0)
    else:
        verdict = check_on_net(loss, model, None if data is None else load(data, **reading), classes)
    print_json(verdict.to_dict()) if as_json else echo(str(verdict))


def _is_path(text: str) -> bool:
    return os.path.exists(text) or os.sep in text or Path(text).suffix.lower() in (".csv", ".tsv", ".parquet", ".npz")


def _print_reading(data: "Dataset", source: str, as_json: bool) -> None:
    """How a data set was read: its size, its classes and its columns."""
    import numpy as np

    from pyrite.data.column_reading import reading_table

    shares = np.bincount(data.labels, minlength=len(data.classes)) / len(data)
    if as_json:
        classes = dict(zip(data.classes, shares.tolist(), strict=True))
        columns = [one._asdict() for one in data.reading]
        return print_json(
            {"samples": len(data), "label": data.label, "classes": classes, "columns": columns, "notes": data.warnings}
        )
    named = [f"{data.classes[place]} {100 * shares[place]:.0f} %" for place in np.argsort(-shares)[:6]]
    more = f" and {len(data.classes) - 6} more" if len(data.classes) > 6 else ""
    echo(f"{source}: {repr(data)[1:-1].partition(': ')[2]}")
    echo(f"labels{f' in {data.label!r}' if data.label else ''}: {', '.join(named)}{more}")
    if data.reading:
        table = reading_table(data.reading, len(data))
        print_table(table.headings, table.rows, left=len(table.headings))
    for note in data.warnings:
        if not note.endswith("left out"):  # the table has it
            echo(note)
