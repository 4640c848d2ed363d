"""``pyrite report``: the page of a run."""

from pathlib import Path
from typing import Annotated

import typer


def report(
    run: Annotated[Path, typer.Argument(help="A run's folder.")],
    out: Annotated[Path | None, typer.Option(help="The page; RUN/report.html by default.")] = None,
) -> None:
    """Write a run's page: which labels look wrong, and how training went."""
    from pyrite.auditing import audit
    from pyrite.report.audit_page import write_audit_page
    from pyrite.training import Run

    typer.echo(f"wrote {write_audit_page(audit(Run.load(run)), out or run / 'report.html')}")
