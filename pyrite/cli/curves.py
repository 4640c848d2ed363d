"""``pyrite curves``: draw weighting curves."""

from pathlib import Path
from typing import Annotated

import typer


def curves(
    losses: Annotated[list[str], typer.Argument(help="Losses, such as 'ce' 'mae' 'unit(imae(T=8))'.")],
    classes: Annotated[int, typer.Option(help="Draw the initial margins of this many classes behind them.")] = 10,
    out: Annotated[Path, typer.Option(help="The picture to write; its ending says the format.")] = Path("curves.png"),
) -> None:
    """Draw how much each loss weights a sample, by its margin and by the probability of its label."""
    from pyrite.losses import loss
    from pyrite.report.weight_curves import draw_curves

    typer.echo(f"wrote {draw_curves([loss(text) for text in losses], out, classes=classes)}")
