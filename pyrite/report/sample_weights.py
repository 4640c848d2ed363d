"""The plot of the mean sample weight over training, by which losses underfit."""

from pathlib import Path

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from pyrite.comparing import Comparison
from pyrite.errors import PyriteError
from pyrite.report.learning import draw_line, known_values
from pyrite.report.style import save

__all__ = ["draw_weights", "weights_figure"]


def draw_weights(comparison: Comparison, path: str | Path) -> Path:
    """Draw the mean sample weight of every loss up to each epoch: alpha of the history."""
    return save(weights_figure(comparison), path)


def weights_figure(comparison: Comparison) -> Figure:
    """The figure that ``draw_weights`` saves: alpha on the left, and as a share of its largest value on the right.

    On the left, a loss that starts with marginal weights stays at the bottom; on the right, one whose weights fade
    falls early (Ou & Zhang, Figure 1). With several seeds a line is their mean, in a band.
    """
    known = {row.name: known_values(row, "alpha") for row in comparison.rows}
    if not any(known.values()):
        raise PyriteError(f"{comparison.path} has nothing to draw: no run knows its sample weights")
    figure = Figure(figsize=(9, 3.9), layout="constrained")
    absolute, relative = figure.subplots(1, 2, sharex=True)
    for number, (name, values) in enumerate(known.items()):
        draw_line(absolute, name, values, number)
        draw_line(relative, name, [value / max(value.max(), 1e-300) for value in values], number)
    absolute.set_ylabel("twice the mean weight so far", fontsize=11)
    relative.set_ylabel("as a share of its largest value", fontsize=11)
    for axes in (absolute, relative):
        axes.set_xlabel("epoch", fontsize=11)
        axes.set_ylim(bottom=0)
        axes.margins(x=0.01)
        axes.grid(axis="y", alpha=0.25)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
    legend = figure.legend(*absolute.get_legend_handles_labels(), loc="outside upper left", ncols=3, frameon=False)
    for text in legend.get_texts():
        text.set_parse_math(False)
    return figure
