"""``pyrite compare``: the same training with several losses, side by side."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Unpack

import typer

from pyrite.cli.terminal import (
    AsJson,
    DataName,
    completes,
    echo,
    failures,
    is_first,
    print_json,
    print_table,
    warn,
    with_settings,
)

if TYPE_CHECKING:
    from pyrite.comparing import Comparison
    from pyrite.settings import Settings


@with_settings(without=("method", "loss"))
def compare(
    data: DataName,
    methods: Annotated[
        list[str],
        typer.Argument(help="Losses or methods, such as ce 'gce(q=0.7)'.", autocompletion=completes("loss", "method")),
    ],
    out: Annotated[Path, typer.Option(help="The folder for the runs and the table.")],
    seeds: Annotated[int, typer.Option(help="Number of seeds, starting at --seed.")] = 1,
    with_clean: Annotated[
        bool,
        typer.Option("--with-clean", help="Also train without --noise; the column 'diff' is the drop in accuracy."),
    ] = False,
    workers: Annotated[int, typer.Option(help="Number of parallel runs.", rich_help_panel="Running")] = 1,
    columns: Annotated[
        str,
        typer.Option(
            help="Columns of the table, named as in comparison.json, such as alpha,snr,diff.",
            rich_help_panel="Running",
        ),
    ] = "",
    as_json: AsJson = False,
    **options: "Unpack[Settings]",
) -> None:
    """Train several losses or methods on the same labels and compare the results. Repeat the command to resume."""
    from pyrite.comparing import check_columns, compare as compare_runs

    def begin(name: str, seed: int) -> None:
        if not as_json and is_first():
            echo(f"{name}, seed {seed}", err=True)

    names = check_columns([name.strip() for name in columns.split(",")] if columns else [])
    with failures():
        comparison = compare_runs(
            data, methods, out=out, seeds=seeds, with_clean=with_clean, workers=workers, begin=begin,
            progress=not as_json, **options,
        )  # fmt: skip
    if is_first():
        from pyrite.report.page import write_page

        page = write_page(comparison, comparison.path / "report.html", columns=names)
        if as_json:
            print_json(comparison.to_dict())
        else:
            print_comparison(comparison, names)
            echo(f"wrote {page}")


def print_comparison(comparison: "Comparison", columns: Sequence[str] = ()) -> None:
    """Print the table and the warnings of the runs."""
    table = comparison.table(columns)
    # Without spaces, so that a narrow window does not separate a number from its standard deviation.
    rows = [(row[0], *(cell.replace(" ", "") for cell in row[1:])) for row in table.rows]
    print_table(table.headings, rows, caption="accuracies in per cent; best on test was chosen on test labels")
    for sentence in comparison.rows[0].runs[0].facts["notes"]:
        warn(sentence)
    for row in comparison.rows:
        for run in row.runs:
            for warning in run.facts["warnings"]:
                warn(f"{row.name}: {warning}")
    echo(f"wrote {comparison.path / 'table.md'}")
