"""Plots of runs and comparisons over their epochs, of weighting curves, and of margins before training."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from matplotlib import rcParams
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from pyrite.comparing import Comparison, Row
from pyrite.criterion import Loss
from pyrite.curves import Curve, initial_margins
from pyrite.errors import PyriteError
from pyrite.report.style import COLOURS, line_style
from pyrite.training import METRICS, Run, Start

_Values = Sequence[npt.NDArray[np.float64]]
_LETTERS = 60  # of a title; more do not fit above a row
_LEAST = 6.0  # the axis of margins reaches at least this far
_COVERED = 0.98  # and in most panels covers this fraction of the samples
_ACROSS, _BINS = 3, 60  # nets per row, and bins, of margins before training


# --- over the epochs --------------------------------------------------------------------------------------------------


def learning_figure(comparison: Comparison) -> Figure:
    """Metrics such as test accuracy and the fraction of wrong labels followed, epoch by epoch, one colour per loss.

    A panel without numbers is left out. With several seeds a line is their mean, in a band from the lowest
    to the highest.
    """
    panels = {name: _known_values(comparison, name) for name, one in METRICS.items() if "comparison" in one.drawn}
    panels = {name: known for name, known in panels.items() if any(known.values())}
    if not panels:
        raise PyriteError(f"{comparison.path} has nothing to draw: no run has test accuracy or true labels")
    # As narrow as a column of text, so that it stays legible on a phone.
    figure = Figure(figsize=(6, 1.2 + 2.9 * len(panels)), layout="constrained")
    grid = figure.subplots(len(panels), 1, sharex=True, squeeze=False).flatten()
    for axes, (name, known) in zip(grid, panels.items(), strict=True):
        draw_lines(axes, known)
        axes.set_ylabel(METRICS[name].explanation, fontsize=11)
        style_epochs(axes, percent=True)
        axes.label_outer()
    grid[-1].set_ylim(bottom=0)
    _legend(figure, grid[0], fontsize=10.5)
    return figure


def run_figure(run: Run) -> Figure:
    """One run over its epochs: the metrics that are drawn, such as accuracies and which labels are followed."""
    known = {name: [line.get(name) for line in run.history] for name, one in METRICS.items() if "run" in one.drawn}
    drawn = {name: values for name, values in known.items() if values and None not in values}
    if not drawn:
        raise PyriteError(f"{run.path} has nothing to draw: no epoch is finished")
    if "clean_accuracy" in drawn:  # then right and wrong labels are drawn apart
        drawn.pop("train_accuracy", None)
    figure = Figure(figsize=(6, 3.9 + 0.1 * len(drawn)), layout="constrained")
    axes = figure.subplots()
    draw_lines(axes, {METRICS[name].explanation: [np.array(values)] for name, values in drawn.items()})
    axes.set_ylim(0, 1.02)
    style_epochs(axes, percent=True)
    _legend(figure, axes)
    return figure


def weights_figure(comparison: Comparison) -> Figure:
    """The mean sample weight of every loss up to each epoch, and on the right as a fraction of its largest value.

    On the left, a loss that starts with marginal weights stays at the bottom; on the right, one whose weights fade
    falls early (Ou & Zhang, Figure 1). With several seeds a line is their mean, in a band.
    """
    known = _known_values(comparison, "alpha")
    if not any(known.values()):
        raise PyriteError(f"{comparison.path} has nothing to draw: no run has sample weights")
    figure = Figure(figsize=(9, 3.9), layout="constrained")
    absolute, relative = figure.subplots(1, 2, sharex=True)
    draw_lines(absolute, known)
    draw_lines(relative, {name: [one / max(one.max(), 1e-300) for one in values] for name, values in known.items()})
    absolute.set_ylabel("twice the mean weight so far", fontsize=11)
    relative.set_ylabel("as a fraction of its largest value", fontsize=11)
    for axes in (absolute, relative):
        axes.set_ylim(bottom=0)
        style_epochs(axes)
    _legend(figure, absolute, ncols=3)
    return figure


def _known_values(comparison: Comparison, name: str) -> dict[str, _Values]:
    """A column of the histories, of the runs that have it, by the name of the row."""

    return {row.name: complete([line.get(name) for line in run.history] for run in row.runs) for row in comparison.rows}


def complete(columns: Iterable[Sequence[float | None] | None]) -> _Values:
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


def _legend(figure: Figure, axes: Axes, ncols: int = 2, fontsize: float = 10) -> None:
    legend = figure.legend(
        *axes.get_legend_handles_labels(), loc="outside upper left", ncols=ncols, frameon=False, fontsize=fontsize
    )
    for text in legend.get_texts():  # a dollar sign in a name must not start a formula
        text.set_parse_math(False)


# --- margins of the given labels --------------------------------------------------------------------------------------


def margins_figure(comparison: Comparison | Run) -> Figure:
    """Histograms of the margins of right and of wrong labels at a few epochs, one row per loss.

    Of several seeds the first is drawn; a run alone is one row. Every histogram has the same area, to compare shapes.
    The fraction of labels beyond an end of the axis is written there.
    """
    if isinstance(comparison, Run):
        comparison = Comparison(comparison.path, (Row(str(comparison.config.method), (comparison,)),))
    shown = [(row.name, row.runs[0], epochs) for row in comparison.rows if (epochs := _epochs(row.runs[0]))]
    if not shown:
        raise PyriteError(f"{comparison.path} has nothing to draw: no run has finished an epoch")
    reach = _reach(shown)
    figure = Figure(figsize=(6, 0.9 + 1.45 * len(shown)), layout="constrained")
    grid = figure.subplots(len(shown), max(len(epochs) for *_, epochs in shown), sharex=True, squeeze=False)
    for line, (name, run, epochs) in zip(grid, shown, strict=True):
        for axes in line[len(epochs) :]:
            axes.set_visible(False)
        for axes, epoch in zip(line, epochs, strict=False):
            _draw_margins(axes, run.samples, epoch, reach)
            # The name of a loss may be longer than a panel is wide, so the epoch stands inside.
            axes.text(0.03, 0.97, f"epoch {epoch}", transform=axes.transAxes, va="top", fontsize=8.5)
        first, short = line[0], name if len(name) <= _LETTERS else name[: _LETTERS - 1] + "…"
        first.set_title(" ", fontsize=10)  # reserves space for the title, which may reach over the next panels
        title = first.text(0, 1.06, short, transform=first.transAxes, fontweight="bold", parse_math=False)
        title.set_in_layout(False)
    figure.supxlabel("margin of the given label", fontsize=11)
    _legend(figure, grid[0, 0], fontsize=10.5)
    return figure


def _epochs(run: Run) -> list[int]:
    """The epochs that are shown: the first, the last, and between them about a sixth and a half of the way."""
    # A run that was killed between two files has one line of its history more than it has histograms.
    count = min(len(run.history), len(run.samples["margins"])) if run.history else 0
    return sorted({1, max(1, round(count / 6)), max(1, round(count / 2)), count}) if count else []


def _draw_margins(axes: Axes, samples: Mapping[str, npt.NDArray[Any]], epoch: int, reach: float) -> None:
    edges, groups = samples["margin_edges"], {"all labels": samples["margins"][epoch - 1]}
    if "noisy_margins" in samples:
        wrong = samples["noisy_margins"][epoch - 1]
        groups = {"right labels": groups["all labels"] - wrong, "wrong labels": wrong}
    inside = np.flatnonzero((edges >= -reach) & (edges <= reach))
    low, high = inside[0], inside[-1]
    for place, ((label, counts), colour) in enumerate(zip(groups.items(), COLOURS, strict=False)):
        total = max(1, int(counts.sum()))
        height = counts[low + 1 : high + 1] / total / np.diff(edges[inside])
        axes.stairs(height, edges[inside], fill=True, color=colour, alpha=0.35)
        axes.stairs(height, edges[inside], color=colour, linewidth=1.2, label=label)
        below, above = counts[: low + 1].sum() / total, counts[high + 1 :].sum() / total
        for outside, words, x, side in ((below, "◂ {:.0%}", 0.03, "left"), (above, "{:.0%} ▸", 0.97, "right")):
            if outside >= 0.005:
                text, y = words.format(outside), 0.84 - 0.13 * place
                axes.text(x, y, text, transform=axes.transAxes, color=colour, ha=side, va="top", fontsize=8.5)
    # At 0 a label has a probability of one half.
    axes.axvline(0, color=axes.spines["left"].get_edgecolor(), linewidth=0.7, alpha=0.5)
    # Space above the histograms for the text. The lower bound keeps a few samples from filling the panel.
    top = max((float(patch.get_data().values.max()) for patch in axes.patches), default=0)  # type: ignore[attr-defined]
    axes.set(yticks=[], xlim=(-reach, reach), ylim=(0, 1.8 * max(top, 0.5 / reach)))
    axes.spines["left"].set_visible(False)
    axes.tick_params(labelsize=9)


def _reach(shown: Sequence[tuple[str, Run, list[int]]]) -> float:
    """The end of the axis on either side: as far as most of the panels need."""
    needed = []
    for _, run, epochs in shown:
        edges = np.abs(run.samples["margin_edges"])
        # A bin reaches as far as the outer one of its edges; the two without an outer one, to the last.
        outer = np.maximum(np.append(edges, edges[-1]), np.insert(edges, 0, edges[0]))
        order = np.argsort(outer, kind="stable")
        for epoch in epochs:
            counts = run.samples["margins"][epoch - 1][order].cumsum()
            needed.append(float(outer[order][np.searchsorted(counts / max(1, counts[-1]), _COVERED)]))
    return max(_LEAST, float(np.quantile(needed, 0.75)))


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
    # The initial margins, scaled to a third of the height of the plot.
    counts, edges = np.histogram(drawn, bins=_BINS)
    height = counts / counts.max() * by_margin.get_ylim()[1] / 3
    label = f"margins of an untrained model, {classes} classes"
    shade = str(rcParams["text.color"])  # for light and for dark pages
    by_margin.fill_between((edges[:-1] + edges[1:]) / 2, height, color=shade, alpha=0.15, lw=0, zorder=0, label=label)
    by_margin.set(xlabel="soft margin of the label", ylabel="weight of the sample", xlim=(low, high), ylim=(0, None))
    by_probability.set(xlabel="probability of the label", xlim=(0, 1), ylim=by_margin.get_ylim())
    figure.legend(loc="outside upper center", ncols=2 if narrow else 3, frameon=False, fontsize=9 if narrow else None)
    return figure


def initial_margins_figure(starts: Mapping[str, Start], classes: int) -> Figure:
    """Margins of nets before training, as ``measure_start`` measures them: one panel per net (Ou & Zhang, Figure 2, 6).

    The line is the distribution for normal scores with a spread of 1, which Eq. 4 assumes.
    """
    if not starts:
        raise PyriteError("starts is empty: measure at least one net")
    assumed = initial_margins(classes)
    low, high = np.quantile(np.concatenate([assumed, *(start.margins for start in starts.values())]), [0.001, 0.999])
    edges = np.linspace(low - 0.2, high + 0.2, _BINS + 1)
    density, _ = np.histogram(assumed, edges, density=True)
    rows, across = -(-len(starts) // _ACROSS), min(_ACROSS, len(starts))
    figure = Figure(figsize=(3.1 * across + 0.4, 2.3 * rows + 0.7), layout="constrained")
    grid = figure.subplots(rows, across, sharex=True, squeeze=False).flatten()
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
    _legend(figure, grid[0])
    return figure
