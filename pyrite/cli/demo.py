"""``pyrite demo``: the first thing to run."""

from pathlib import Path
from typing import Annotated

import typer

from pyrite.cli.terminal import AsJson, Seed, failures, is_first, print_json


def demo(
    out: Annotated[Path, typer.Option(help="The folder for the runs, the pictures and the report.")] = Path("demo"),
    epochs: Annotated[
        int | None, typer.Option(help="Number of passes over the data; by default 40 (audit: 28).")
    ] = None,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Find wrong labels in digits with 40 % label noise, compare six training methods and write a report."""
    from pyrite.cli.compare import print_comparison
    from pyrite.demonstration import demo as demo_runs
    from pyrite.report.audit_page import write_audit_page
    from pyrite.report.figures import margins_figure
    from pyrite.report.page import DEMO_COLUMNS, check_audit, demo_figure, write_demo_page
    from pyrite.report.style import save

    def begin(name: str, seed: int) -> None:
        if not as_json and is_first():
            typer.echo(name, err=True)

    with failures():
        done = demo_runs(out, epochs=epochs, seed=seed, begin=begin, progress=False if as_json else None)
    if not is_first():
        return
    pictures = [save(demo_figure(done), out / "demo.png"), save(margins_figure(done.comparison), out / "margins.png")]
    review = write_audit_page(done.audit, out / "audit" / "report.html")
    report = write_demo_page(done, out / "report.html")
    check = check_audit(done.audit)
    if as_json:
        written = {"pictures": [str(path) for path in pictures], "review": str(review), "report": str(report)}
        print_json(done.comparison.to_dict() | {"audit": done.audit.summary(), "check": check._asdict()} | written)
        return
    typer.echo(f"{check.wrong:,} of {check.labels:,} labels of digits were corrupted.")
    typer.echo(f"\nFind the wrong labels:\n{done.audit.sentence[0].upper()}{done.audit.sentence[1:]}.")
    for sentence in check.sentences:
        typer.echo(sentence)
    typer.echo("\nTrain on the wrong labels:")
    print_comparison(done.comparison, DEMO_COLUMNS)
    typer.echo(f"wrote {', '.join(map(str, pictures))}\nReview page of the audit: {review}\nReport: {report}")
    typer.echo(f"Open {report.resolve().as_uri()} in a browser.")
