"""``pyrite demo``: the first thing to run."""

from pathlib import Path
from typing import Annotated

import typer

from pyrite.cli.terminal import AsJson, Seed, failures, is_first, print_json


def demo(
    out: Annotated[Path, typer.Option(help="The folder for the runs, the pictures and the report.")] = Path("demo"),
    epochs: Annotated[int | None, typer.Option(help="Times over the data, instead of 40.")] = None,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Train on digits of which 40 % are labelled wrong, with five losses, and write a report."""
    from pyrite.cli.compare import print_comparison
    from pyrite.comparing import demo as demo_runs
    from pyrite.report.figures import learning_figure, margins_figure
    from pyrite.report.page import write_page
    from pyrite.report.style import save

    def begin(name: str, seed: int) -> None:
        if not as_json and is_first():
            typer.echo(name, err=True)

    with failures():
        comparison = demo_runs(out, epochs=epochs, seed=seed, begin=begin, progress=False if as_json else None)
    if not is_first():
        return
    pictures = [
        save(learning_figure(comparison), out / "learning.png"),
        save(margins_figure(comparison), out / "margins.png"),
    ]
    report = write_page(comparison, out / "report.html", "Digits, 40 % of them labelled wrong")
    if as_json:
        written = {"pictures": [str(path) for path in pictures], "report": str(report)}
        print_json(comparison.to_dict() | written)
        return
    print_comparison(comparison)
    for path in (*pictures, report):
        typer.echo(f"wrote {path}")
    typer.echo(f"Open {report.resolve().as_uri()} in a browser.")
