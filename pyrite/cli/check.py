"""``pyrite check``: will a loss underfit?"""

import json
from typing import Annotated

import typer


def check(
    loss: Annotated[str, typer.Argument(help="A loss, such as 'mae' or 'gce(q=0.7)'.")],
    classes: Annotated[int, typer.Option(help="The number of classes.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print numbers for a program to read.")] = False,
) -> None:
    """Say whether a loss will underfit with this many classes, and what cures it."""
    from pyrite.losses import underfitting

    verdict = underfitting(loss, classes)
    typer.echo(json.dumps(verdict.to_dict(), indent=2) if as_json else str(verdict))
