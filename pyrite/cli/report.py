"""``pyrite report``: the page of a run."""

from pathlib import Path
from typing import Annotated

import typer

from pyrite.cli.terminal import RunPath, warn


def report(
    run: RunPath, out: Annotated[Path | None, typer.Option(help="The page; RUN/report.html by default.")] = None
) -> None:
    """Write the HTML page of a run, with suspect labels and training curves."""
    from pyrite.report.audit_page import write_audit_page
    from pyrite.run_audits import audit
    from pyrite.training import Run

    result = audit(Run.load(run))
    page = write_audit_page(result, out or run / "report.html")
    for warning in result.warnings:
        warn(warning)
    typer.echo(f"wrote {page}")
