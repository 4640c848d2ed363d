"""The plot of weighting curves: against the margin, and against the probability of the label."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from matplotlib import rcParams
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pyrite.criterion import Loss
from pyrite.curves import Curve, initial_margins
from pyrite.errors import PyriteError
from pyrite.report.style import line_style, save

__all__ = ["curves_figure", "draw_curves"]


def draw_curves(losses: Sequence[Loss], path: str | Path, classes: int = 10) -> Path:
    """Draw the weight that each loss gives to a sample, with the margins of an untrained model in the background."""
    return save(curves_figure(losses, classes), path)


def curves_figure(losses: Sequence[Loss], classes: int = 10, *, narrow: bool = False) -> Figure:
    """The figure that ``draw_curves`` saves; if ``narrow``, as wide as a column of text, with two rows."""
    if not losses:
        raise PyriteError("losses is empty: name at least one, such as 'ce'")
    curves = []
    for loss in losses:
        if not isinstance(loss, Curve):
            raise PyriteError(f"{str(loss)!r} has no weighting curve: it depends on more than the margin of the label")
        curves.append(loss)
    figure = Figure(figsize=(6, 6.6) if narrow else (11, 4.8), layout="constrained")
    by_margin, by_probability = figure.subplots(2, 1) if narrow else figure.subplots(1, 2, width_ratios=(3, 2))
    drawn = initial_margins(classes)
    low, high = min(-8.0, float(drawn[0])), 8.0
    margin = torch.linspace(low, high, 801, dtype=torch.float64)
    probability = torch.linspace(0.0005, 0.9995, 801, dtype=torch.float64)
    for number, curve in enumerate(curves):
        style = line_style(number)
        by_margin.plot(margin, curve.weight_at(margin), label=str(curve), **style)
        by_probability.plot(probability, curve.weight_at(torch.logit(probability)), **style)
    _draw_initial_margins(by_margin, drawn, classes)
    by_margin.set(xlabel="soft margin of the label", ylabel="weight of the sample", xlim=(low, high), ylim=(0, None))
    by_probability.set(xlabel="probability of the label", xlim=(0, 1), ylim=by_margin.get_ylim())
    figure.legend(loc="outside upper center", ncols=2 if narrow else 3, frameon=False, fontsize=9 if narrow else None)
    return figure


def _draw_initial_margins(axes: Axes, drawn: np.ndarray, classes: int) -> None:
    """Draw the distribution of initial margins, scaled to a third of the height of the plot."""
    counts, edges = np.histogram(drawn, bins=60)
    height = counts / counts.max() * axes.get_ylim()[1] / 3
    shade = str(rcParams["text.color"])  # for light and for dark pages
    label = f"margins of an untrained model, {classes} classes"
    axes.fill_between((edges[:-1] + edges[1:]) / 2, height, color=shade, alpha=0.15, linewidth=0, zorder=0, label=label)
