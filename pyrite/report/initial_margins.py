"""The plot of margins before training: of real nets, and as the formula assumes them."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from matplotlib import rcParams
from matplotlib.figure import Figure

from pyrite.curves import initial_margins
from pyrite.errors import PyriteError
from pyrite.report.style import COLOURS, save
from pyrite.training import Start

__all__ = ["draw_initial_margins", "initial_margins_figure"]

_ACROSS = 3  # nets per row
_BINS = 60


def draw_initial_margins(starts: Mapping[str, Start], classes: int, path: str | Path) -> Path:
    """Draw the margins of nets before training, as ``measure_start`` measures them, beside normal scores."""
    return save(initial_margins_figure(starts, classes), path)


def initial_margins_figure(starts: Mapping[str, Start], classes: int) -> Figure:
    """The figure that ``draw_initial_margins`` saves: one panel per net (Ou & Zhang, Figures 2 and 6).

    The line is the distribution for normal scores with a spread of 1, which Eq. 4 assumes.
    """
    if not starts:
        raise PyriteError("starts is empty: measure at least one net")
    assumed = initial_margins(classes)
    low, high = np.quantile(np.concatenate([assumed, *(start.margins for start in starts.values())]), [0.001, 0.999])
    edges = np.linspace(low - 0.2, high + 0.2, _BINS + 1)
    density, _ = np.histogram(assumed, edges, density=True)
    rows = -(-len(starts) // _ACROSS)
    figure = Figure(figsize=(3.1 * min(_ACROSS, len(starts)) + 0.4, 2.3 * rows + 0.7), layout="constrained")
    grid = figure.subplots(rows, min(_ACROSS, len(starts)), sharex=True, squeeze=False).flatten()
    for axes, (name, start) in zip(grid, starts.items(), strict=False):
        axes.hist(start.margins, edges, density=True, color=COLOURS[0], alpha=0.5, label="measured")
        axes.stairs(density, edges, color=rcParams["text.color"], linewidth=1.2, label="normal scores, spread 1")
        axes.set_title(f"{name}: mean {start.margin:.2f}, spread {start.spread:.2f}", fontsize=10, parse_math=False)
        axes.set(yticks=[])
        axes.tick_params(labelbottom=True)  # also where the row below has no panel
        axes.spines["left"].set_visible(False)
    for axes in grid[len(starts) :]:
        axes.set_axis_off()
    figure.supxlabel(f"margin before training, {classes} classes", fontsize=11)
    handles, names = grid[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside upper left", ncols=2, frameon=False)
    return figure
