"""Plots of runs and comparisons over their epochs, of margins, of weighting curves, and of noise matrices."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from matplotlib import rcParams
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, PowerNorm
from matplotlib.figure import Figure, FigureBase
from matplotlib.ticker import MaxNLocator, PercentFormatter

from pyrite.comparing import Comparison, Row
from pyrite.criterion import Loss
from pyrite.curves import Curve, initial_margins
from pyrite.errors import PyriteError
from pyrite.report.style import COLOURS, line_style
from pyrite.training import METRICS, Run

_Values = Sequence[npt.NDArray[np.float64]]
_LETTERS = 60  # of a title; more do not fit above a row
_LEAST = 6.0  # the axis of margins reaches at least this far
_COVERED = 0.98  # and in most panels covers this fraction of the samples
_BINS = 60  # of margins before training

# From almost white over the first colour of the palette to a dark shade, so that small fractions are visible and large
# ones differ.
_SHADES = LinearSegmentedColormap.from_list("fractions", ["#F7F8F9", "#CFE3F1", "#7FB4DA", COLOURS[0], "#00304F"])


# --- over the epochs --------------------------------------------------------------------------------------------------


def learning_figure(comparison: Comparison, *, narrow: bool = False) -> Figure:
    """Metrics such as test accuracy and the fraction of wrong labels memorised, epoch by epoch, one colour per loss.

    A panel without numbers is left out. With several seeds a line is their mean, in a band from the lowest
    to the highest. If ``narrow``, panels are below each other, legible on a phone.
    """
    panels = {}
    for name in (name for name, metric in METRICS.items() if "comparison" in metric.drawn):
        known = {row.name: [[line.get(name) for line in run.history] for run in row.runs] for row in comparison.rows}
        complete = {label: complete_columns(columns) for label, columns in known.items()}
        if any(complete.values()):
            panels[name] = complete
    if not panels:
        raise PyriteError(f"{comparison.path} cannot be plotted: no run has test accuracy or true labels")
    figure = Figure(figsize=(6, 6.8) if narrow else (10, 4.2), layout="constrained")
    shape = (len(panels), 1) if narrow else (1, len(panels))
    grid = figure.subplots(*shape, sharex=True, squeeze=False).flatten()
    for axes, (name, complete) in zip(grid, panels.items(), strict=True):
        draw_lines(axes, complete)
        axes.set_ylabel(METRICS[name].explanation, fontsize=11)
        style_epochs(axes, percent=True)
        if narrow:
            axes.label_outer()
    grid[-1].set_ylim(bottom=0)
    add_legend(figure, grid[0], fontsize=10.5, ncols=2 if narrow else 3)
    return figure


def run_figure(run: Run) -> Figure:
    """One run over its epochs: the metrics that are drawn, such as accuracies and the fraction of labels memorised."""
    known = {name: [line.get(name) for line in run.history] for name, one in METRICS.items() if "run" in one.drawn}
    drawn = {name: values for name, values in known.items() if values and None not in values}
    if not drawn:
        raise PyriteError(f"{run.path} cannot be plotted: no epoch is finished")
    if "clean_accuracy" in drawn:  # then right and wrong labels are drawn apart
        drawn.pop("train_accuracy", None)
    figure = Figure(figsize=(6, 3.9 + 0.1 * len(drawn)), layout="constrained")
    axes = figure.subplots()
    draw_lines(axes, {METRICS[name].explanation: [np.array(values)] for name, values in drawn.items()})
    axes.set_ylim(0, 1.02)
    style_epochs(axes, percent=True)
    add_legend(figure, axes)
    return figure


def complete_columns(columns: Iterable[Sequence[float | None] | None]) -> _Values:
    """The columns that have a number in every epoch."""
    return [np.array(column, np.float64) for column in columns if column and None not in column]


def draw_lines(axes: Axes, known: Mapping[str, _Values]) -> None:
    """Draw the mean over runs of a value per epoch, in a band from the lowest to the highest."""
    for number, (label, values) in enumerate(known.items()):
        if not values:
            continue
        length = min(map(len, values))
        table, epochs, style = np.array([one[:length] for one in values]), np.arange(1, length + 1), line_style(number)
        marker = "o" if length == 1 else ""
        axes.plot(epochs, table.mean(0), linewidth=1.8, label=label, marker=marker, **style)  # type: ignore[arg-type]
        if len(table) > 1:
            axes.fill_between(epochs, table.min(0), table.max(0), color=style["color"], alpha=0.15, linewidth=0)


def style_epochs(axes: Axes, percent: bool = False) -> None:
    """Label the axis of epochs, and per cents."""
    axes.set_xlabel("epoch", fontsize=11)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
    axes.grid(axis="y", alpha=0.25)
    axes.margins(x=0.01)
    if percent:
        axes.yaxis.set_major_locator(MaxNLocator(steps=[1, 2, 5, 10]))  # whole per cents
        axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0, symbol=" %"))


def add_legend(figure: FigureBase, axes: Axes, more: Iterable[Artist] = (), **style: Any) -> None:
    """A legend above the figure, of what one panel has labels for, and of more."""
    options: dict[str, Any] = {"loc": "outside upper left", "ncols": 2, "frameon": False, "fontsize": 10} | style
    for text in figure.legend(handles=[*axes.get_legend_handles_labels()[0], *more], **options).get_texts():
        text.set_parse_math(False)  # a dollar sign in a name must not start a formula


# --- margins of the given labels --------------------------------------------------------------------------------------


class Histograms(NamedTuple):
    """Edges of bins, and counts of "right" and "wrong", or "all" labels; the outer bins have no outer edge."""

    edges: npt.NDArray[np.float64]
    groups: Mapping[str, npt.NDArray[np.integer]]

    @property
    def reach(self) -> float:
        """How far an axis must reach on either side to cover most of the labels."""
        edges = np.abs(self.edges)
        # A bin reaches as far as the outer one of its edges; the two without an outer one, to the last.
        outer = np.maximum(np.append(edges, edges[-1]), np.insert(edges, 0, edges[0]))
        order = np.argsort(outer, kind="stable")
        counts = np.sum([*self.groups.values()], 0)[order].cumsum()
        return float(outer[order][np.searchsorted(counts / max(1, counts[-1]), _COVERED)])


def margins_figure(comparison: Comparison | Run) -> Figure:
    """Histograms of the margins of right and of wrong labels at a few epochs, one row per loss.

    Of several seeds the first is drawn; a run alone is one row.
    """
    if isinstance(comparison, Run):
        comparison = Comparison(comparison.path, (Row(str(comparison.config.method), (comparison,)),))
    shown = {row.name: _margins_of(row.runs[0]) for row in comparison.rows}
    if not any(shown.values()):
        raise PyriteError(f"{comparison.path} cannot be plotted: no run has finished an epoch")
    return draw_margins({name: epochs for name, epochs in shown.items() if epochs})


def _margins_of(run: Run) -> dict[int, Histograms]:
    """Histograms of the first epoch, the last, and between them about a sixth and a half of the way."""
    # A run that was killed between two files has one line of its history more than it has histograms.
    count = min(len(run.history), len(run.samples["margins"])) if run.history else 0
    found = {}
    for epoch in sorted({1, max(1, round(count / 6)), max(1, round(count / 2)), count}) if count else ():
        groups = {"all": run.samples["margins"][epoch - 1]}
        if "noisy_margins" in run.samples:
            wrong = run.samples["noisy_margins"][epoch - 1]
            groups = {"right": groups["all"] - wrong, "wrong": wrong}
        found[epoch] = Histograms(run.samples["margin_edges"], groups)
    return found


def draw_margins(shown: Mapping[str, Mapping[int, Histograms]]) -> Figure:
    """Histograms of margins, one row per name and one panel per epoch.

    Every histogram has the same area, to compare shapes. The fraction of labels beyond an end of the axis is written
    there.
    """
    reach = max(_LEAST, float(np.quantile([one.reach for epochs in shown.values() for one in epochs.values()], 0.75)))
    across = max(map(len, shown.values()))
    figure = Figure(figsize=(1.5 * max(4, across), 0.9 + 1.45 * len(shown)), layout="constrained")
    grid = figure.subplots(len(shown), across, sharex=True, squeeze=False)
    for line, (name, epochs) in zip(grid, shown.items(), strict=True):
        for axes in line[len(epochs) :]:
            axes.set_visible(False)
        for axes, (epoch, histograms) in zip(line, epochs.items(), strict=False):
            _draw_histograms(axes, histograms, reach)
            # The name of a loss may be longer than a panel is wide, so the epoch stands inside.
            axes.text(0.03, 0.97, f"epoch {epoch}", transform=axes.transAxes, va="top", fontsize=8.5)
        first, short = line[0], _shorten(name, _LETTERS)
        first.set_title(" ", fontsize=10)  # reserves space for the title, which may reach over the next panels
        title = first.text(0, 1.06, short, transform=first.transAxes, fontweight="bold", parse_math=False)
        title.set_in_layout(False)
    figure.supxlabel("margin of the given label", fontsize=11)
    add_legend(figure, grid[0, 0], fontsize=10.5)
    return figure


def _draw_histograms(axes: Axes, histograms: Histograms, reach: float) -> None:
    edges, top = histograms.edges, 0.5 / reach  # a lower bound keeps a few samples from filling the panel
    inside = np.flatnonzero((edges >= -reach) & (edges <= reach))
    low, high = inside[0], inside[-1]
    for place, (name, counts) in enumerate(histograms.groups.items()):
        colour, total = COLOURS[name == "wrong"], max(1, int(counts.sum()))
        height = counts[low + 1 : high + 1] / total / np.diff(edges[inside])
        top = max(top, float(height.max()))
        axes.stairs(height, edges[inside], fill=True, color=colour, alpha=0.35)
        axes.stairs(height, edges[inside], color=colour, linewidth=1.2, label=f"{name} labels")
        below, above = counts[: low + 1].sum() / total, counts[high + 1 :].sum() / total
        for outside, words, x, side in ((below, "◂ {:.0%}", 0.03, "left"), (above, "{:.0%} ▸", 0.97, "right")):
            if outside >= 0.005:
                text, y = words.format(outside), 0.84 - 0.13 * place
                axes.text(x, y, text, transform=axes.transAxes, color=colour, ha=side, va="top", fontsize=8.5)
    # At 0 a label has a probability of one half.
    axes.axvline(0, color=axes.spines["left"].get_edgecolor(), linewidth=0.7, alpha=0.5)
    axes.set(yticks=[], xlim=(-reach, reach), ylim=(0, 1.8 * top))  # space above the histograms for the text
    axes.spines["left"].set_visible(False)
    axes.tick_params(labelsize=9)


# --- before training --------------------------------------------------------------------------------------------------


def curves_figure(losses: Sequence[Loss], classes: int = 10, *, narrow: bool = False) -> Figure:
    """The weight that each loss gives to a sample, with the margins of an untrained model in the background.

    If ``narrow``, it is as wide as a column of text, with two rows.
    """
    if not losses:
        raise PyriteError("losses is empty: name at least one, such as 'ce'")
    for loss in losses:
        if not isinstance(loss, Curve):
            raise PyriteError(f"{str(loss)!r} has no weighting curve: it depends on more than the margin of the label")
    figure = Figure(figsize=(6, 6.6) if narrow else (11, 4.8), layout="constrained")
    by_margin, by_probability = figure.subplots(2, 1) if narrow else figure.subplots(1, 2, width_ratios=(3, 2))
    drawn = initial_margins(classes)
    low, high = min(-8.0, float(drawn[0])), 8.0
    margin = torch.linspace(low, high, 801, dtype=torch.float64)
    probability = torch.linspace(0.0005, 0.9995, 801, dtype=torch.float64)
    for number, curve in enumerate(losses):
        assert isinstance(curve, Curve)
        style = line_style(number)
        by_margin.plot(margin, curve.weight_at(margin), label=str(curve), **style)
        by_probability.plot(probability, curve.weight_at(torch.logit(probability)), **style)
    label = f"margins of an untrained model, {classes} classes"
    shade_margins(by_margin, drawn, by_margin.get_ylim()[1] / 3, alpha=0.15, zorder=0, label=label)
    by_margin.set(xlabel="soft margin of the label", ylabel="weight of the sample", xlim=(low, high), ylim=(0, None))
    by_probability.set(xlabel="probability of the label", xlim=(0, 1), ylim=by_margin.get_ylim())
    figure.legend(loc="outside upper center", ncols=2 if narrow else 3, frameon=False, fontsize=9 if narrow else None)
    return figure


def shade_margins(axes: Axes, margins: npt.NDArray[np.float64], height: float, **style: Any) -> None:
    """The distribution of margins of untrained models as a shade of this height, for light and for dark pages."""
    counts, edges = np.histogram(margins, bins=_BINS)
    middle, heights = (edges[:-1] + edges[1:]) / 2, counts / counts.max() * height
    axes.fill_between(middle, heights, color=str(rcParams["text.color"]), lw=0, **style)


def matrix_figure(matrix: npt.ArrayLike, names: Sequence[str] | None = None, title: str = "") -> Figure:
    """T[i, j] = P(given j | true i) as a heat map: with names up to 30 classes, with numbers up to 12."""
    table = np.asarray(matrix, dtype=np.float64)
    if table.ndim != 2 or table.shape[0] != table.shape[1] or not np.isfinite(table).all():
        raise PyriteError(f"matrix has the shape {table.shape}, but must be square, of finite numbers")
    classes = len(table)
    if names is not None and len(names) != classes:
        raise PyriteError(f"names has {len(names)} names, but there are {classes} classes")
    side = float(np.clip(2.6 + 0.45 * classes, 4.5, 9.5))
    figure = Figure(figsize=(side + 1.3, side), layout="constrained")
    axes = figure.subplots()
    draw_matrix(axes, table, names)
    ticks = [0, 0.01, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1]
    bar = figure.colorbar(axes.images[0], ax=axes, shrink=0.8, aspect=30, ticks=ticks)
    bar.ax.yaxis.set_major_formatter(PercentFormatter(1, decimals=0, symbol=" %"))
    bar.outline.set_visible(False)
    lines = [_shorten(line, int(12 * side)) for line in title.splitlines()]
    axes.set_title("\n".join(lines), fontsize=10, parse_math=False)
    return figure


def draw_matrix(axes: Axes, matrix: npt.NDArray[np.float64], names: Sequence[str] | None = None) -> None:
    """Draw a noise matrix into one panel."""
    # Square roots, so that half a per cent is visible too.
    axes.imshow(matrix, cmap=_SHADES, norm=PowerNorm(0.5, vmin=0, vmax=1), interpolation="nearest")
    axes.tick_params(which="both", length=0)
    axes.spines[:].set_visible(False)
    # Up to 30 classes, white lines separate the cells; with more, thin lines separate numbered tens or hundreds.
    classes, few = len(matrix), len(matrix) <= 30
    step = 1 if few else 10 if classes <= 200 else 100
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_ticks(np.arange(0, classes + step, step) - 0.5, minor=True)
        axis.set_ticks(range(0, classes, step))
    axes.grid(which="minor", color="white" if few else "0.8", linewidth=1.5 if few else 0.5)
    axes.set(xlim=(-0.5, classes - 0.5), ylim=(classes - 0.5, -0.5), xlabel="given label", ylabel="true class")
    if few:
        shown = [_shorten(str(name), 24) for name in names or range(classes)]
        angle, side = (45, "right") if max(map(len, shown)) > 3 else (0, "center")
        # A dollar sign in a name must not start a formula.
        axes.set_xticks(range(classes), shown, rotation=angle, ha=side, parse_math=False)
        axes.set_yticks(range(classes), shown, parse_math=False)
    for (row, column), fraction in np.ndenumerate(matrix) if classes <= 12 else ():
        if fraction > 0:  # per cents; a dot for less than half a per cent
            text, colour = f"{100 * fraction:.0f}" if fraction >= 0.005 else "·", "white" if fraction > 0.35 else "0.15"
            axes.text(column, row, text, ha="center", va="center", color=colour, fontsize=9)


def _shorten(text: str, length: int) -> str:
    """A text of at most this length: the middle of a longer one is left out."""
    half = (length - 1) // 2
    return text if len(text) <= length else f"{text[:half]}…{text[-half:]}"
