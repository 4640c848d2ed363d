"""``pyrite report``: the page of a run."""

from pathlib import Path
from typing import Annotated

import typer


def report(
    run: Annotated[Path, typer.Argument(help="A run's folder.")],
    out: Annotated[Path | None, typer.Option(help="The page; RUN/report.html by default.")] = None,
) -> None:
    """Write a run's page: which labels look wrong, and how training went."""
    from pyrite.report.audit_page import write_audit_page
    from pyrite.run_audits import audit
    from pyrite.training import Run

    result = audit(Run.load(run))
    page = write_audit_page(result, out or run / "report.html")
    for warning in result.warnings:
        typer.echo(f"pyrite: {warning}", err=True)
    typer.echo(f"wrote {page}")
