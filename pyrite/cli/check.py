"""``pyrite check``: will a loss underfit?"""

from typing import Annotated

import typer

from pyrite.cli.terminal import AsJson, completes, echo, print_json, with_settings
from pyrite.errors import PyriteError
from pyrite.settings import READING


@with_settings(only=READING)
def check(
    loss: Annotated[
        str, typer.Argument(help="A loss, such as 'mae' or 'gce(q=0.7)'.", autocompletion=completes("loss"))
    ],
    data: Annotated[str | None, typer.Argument(help="Data, by which the margins of a net are measured.")] = None,
    classes: Annotated[int | None, typer.Option(help="The number of classes, where no data is given.")] = None,
    model: Annotated[str | None, typer.Option(help="A net, such as 'resnet20', whose margins are measured.")] = None,
    as_json: AsJson = False,
    **reading: str,
) -> None:
    """Say whether a loss will underfit with this many classes, and what cures it."""
    from pyrite.data import load
    from pyrite.losses import underfitting
    from pyrite.training import check_on_net

    if classes is None and data is None:
        raise PyriteError("the number of classes is missing: give --classes K, or data")
    if classes is not None and data is not None:
        raise PyriteError(f"--classes {classes} is given, but {data} has its own classes: leave it out")
    if data is None and model is None:
        verdict = underfitting(loss, classes or 0)
    else:
        verdict = check_on_net(loss, model, None if data is None else load(data, **reading), classes)
    print_json(verdict.to_dict()) if as_json else echo(str(verdict))
