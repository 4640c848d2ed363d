"""``pyrite tune``: choose loss, parameters and learning rate on labels that are partly wrong."""

import re
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Unpack

import typer

from pyrite.cli.terminal import (
    AsJson,
    DataName,
    completes,
    echo,
    failures,
    print_json,
    print_table,
    warn,
    with_settings,
)

if TYPE_CHECKING:
    from pyrite.settings import Settings
    from pyrite.tuning import Tuning


@with_settings(without=("method", "loss"), as_text=("lr",))
def tune(
    data: DataName,
    out: Annotated[Path, typer.Option(help="Folder for the trials and the result; an existing search is continued.")],
    methods: Annotated[
        list[str] | None,
        typer.Argument(
            help="Losses or methods with ranges, such as ce 'gce(q=between(0.1, 0.9))'; a few by default.",
            autocompletion=completes("loss", "method"),
        ),
    ] = None,
    trials: Annotated[int, typer.Option(help="Total number of trials, over all processes.")] = 20,
    by: Annotated[str, typer.Option(help="The criterion on held-out given labels: accuracy or mae.")] = "accuracy",
    prune: Annotated[
        bool, typer.Option(help="Stop a trial early if it falls behind the others.", rich_help_panel="Running")
    ] = True,
    as_json: AsJson = False,
    **options: "Unpack[Settings]",
) -> None:
    """Select the loss, its parameters and the learning rate without clean labels. Repeat the command to resume."""
    from pyrite.report.style import save
    from pyrite.report.tuning import tuning_figure
    from pyrite.tuning import tune as tune_runs
    from pyrite.tuning.result import MISLEADING

    if by == "ce":
        warn(MISLEADING)
    with failures(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=re.escape(MISLEADING))  # already printed above
        tuning = tune_runs(data, methods, out=out, trials=trials, by=by, prune=prune, progress=not as_json, **options)
    picture = save(tuning_figure(tuning), out / "tuning.png")
    if as_json:
        print_json(tuning.to_dict() | {"picture": str(picture)})
        return
    _print(tuning)
    echo(f"wrote {out / 'table.md'}, {out / 'tuning.json'} and {picture}")


def _print(tuning: "Tuning") -> None:
    """Print the trials, the choice, and the command that trains with it."""
    table = tuning.table()
    print_table(table.headings, table.rows, left=2)
    echo(f"{tuning.sentence}.")
    if tuning.tested:
        echo(f"{tuning.tested}.")
    if tuning.command is not None:
        echo(f"Train with it on all samples:\n  {tuning.command}")
