"""``pyrite curves``: draw weighting curves."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from pyrite.criterion import Loss


def curves(
    losses: Annotated[
        list[str], typer.Argument(help="Losses, such as ce 'imae(T=8)', or run directories of meta_weight.")
    ],
    classes: Annotated[int, typer.Option(help="Number of classes for which the plot marks the initial margins.")] = 10,
    out: Annotated[Path, typer.Option(help="The image file; its suffix determines the format.")] = Path("curves.png"),
) -> None:
    """Plot the sample weight of each loss as a function of the margin and of the probability of the label."""
    from pyrite.report.figures import curves_figure
    from pyrite.report.style import save

    typer.echo(f"wrote {save(curves_figure([_curve(text) for text in losses], classes), out)}")


def _curve(text: str) -> "Loss":
    """A loss by its spec, or the learned weighting of a run by its folder."""
    if (Path(text) / "recipe.toml").is_file():
        from pyrite.training import Run

        return Run.load(text).weight_curve()
    from pyrite.losses import loss

    return loss(text)
