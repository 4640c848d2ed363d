"""The plot of a search: the criterion of every trial, over the trials and over each range."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator, PercentFormatter

from pyrite.report.figures import add_legend
from pyrite.report.style import line_style
from pyrite.tuning import Trial, Tuning
from pyrite.tuning.space import METHOD, Between

Drawn = list[tuple[Trial, float]]


def tuning_figure(tuning: Tuning) -> Figure:
    """The criterion of each trial with the best so far, and below it over the learning rate and every range.

    One colour per loss; pruned trials are hollow, at their last value.
    """
    ended: Drawn = [(trial, trial.values[-1]) for trial in tuning.trials if trial.state in ("complete", "pruned")]
    choices = tuning.space.ranges[METHOD].ends
    styles = {name: line_style(number)["color"] for number, name in enumerate(choices)}
    params = [name for name, allowed in tuning.space.ranges.items() if isinstance(allowed, Between)]
    panels = ["lr", *(name for name in params if name not in ("lr", "lr_factor"))]
    rows = 1 + (len(panels) + 1) // 2
    # As narrow as a column of text, so that it stays legible on a phone.
    figure = Figure(figsize=(6, 1.4 + 2.2 * rows + 0.2 * len(choices)), layout="constrained")
    grid = figure.add_gridspec(rows, 2)
    first = figure.add_subplot(grid[0, :])
    _scatter(first, ended, styles, {trial.number: float(trial.number) for trial, _ in ended})
    _best_so_far(first, tuning)
    first.set_xlabel("trial", fontsize=11)
    first.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
    _finish(first, tuning)
    for number, name in enumerate(panels):
        axes = figure.add_subplot(grid[1 + number // 2, number % 2], sharey=first)
        axes.tick_params(labelleft=number % 2 == 0)
        at = {trial.number: float(trial.lr if name == "lr" else trial.params.get(name, "nan")) for trial, _ in ended}
        _scatter(axes, ended, styles, at)
        allowed = tuning.space.ranges.get(name)
        if isinstance(allowed, Between):
            _span(axes, allowed)
        elif name == "lr":
            _span(axes, Between(min(at.values()) / 1.1, max(at.values()) * 1.1, log=True))
        axes.set_xlabel("learning rate" if name == "lr" else name, fontsize=11)
        _finish(axes, tuning, labelled=number % 2 == 0)
    marks = [Line2D([], [], marker="o", linestyle="", color=colour, label=name) for name, colour in styles.items()]
    marks += [Line2D([], [], color="0.5", label="best so far, of finished trials")]
    if any(trial.state == "pruned" for trial, _ in ended):
        marks.append(Line2D([], [], marker="o", linestyle="", color="0.5", markerfacecolor="none", label="pruned"))
    add_legend(figure, first, marks, ncols=1)
    return figure


def _scatter(axes: Axes, ended: Drawn, styles: Mapping[Any, str], at: Mapping[int, float]) -> None:
    for trial, value in ended:
        if at[trial.number] != at[trial.number]:  # another loss, which has no such parameter
            continue
        colour = styles[trial.params[METHOD]]
        fill = colour if trial.state == "complete" else "none"
        axes.scatter(at[trial.number], value, s=28, edgecolors=colour, facecolors=fill, linewidths=1.4, zorder=3)


def _best_so_far(axes: Axes, tuning: Tuning) -> None:
    known = [(trial.number, trial.value) for trial in tuning.trials if trial.value is not None]
    accumulate = (np.maximum if tuning.criterion.rises else np.minimum).accumulate
    best = accumulate([value for _, value in known]).tolist()
    numbers = [*(number for number, _ in known), tuning.trials[-1].number]
    axes.step(numbers, [*best, best[-1]], where="post", color="0.5", linewidth=1.4, zorder=2)


def _span(axes: Axes, allowed: Between) -> None:
    """Show the whole range, also where nothing was tried."""
    if not allowed.log:
        edge = 0.04 * (allowed.high - allowed.low)
        axes.set_xlim(allowed.low - edge, allowed.high + edge)
        return
    edge = (allowed.high / allowed.low) ** 0.04
    axes.set(xscale="log", xlim=(allowed.low / edge, allowed.high * edge))
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5), numticks=4))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_locator(NullLocator())


def _finish(axes: Axes, tuning: Tuning, labelled: bool = True) -> None:
    if labelled:
        axes.set_ylabel(f"held-out {tuning.criterion.words}", fontsize=10)
    if tuning.criterion.rises:
        axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0, symbol=" %"))
    axes.grid(axis="y", alpha=0.25)
