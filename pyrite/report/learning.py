"""The plot of training: test accuracy, and the share of wrong labels that are followed, over the epochs."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from pyrite.comparing import Comparison, Row
from pyrite.errors import PyriteError
from pyrite.report.style import line_style, save
from pyrite.training import COLUMNS, Run

__all__ = ["draw_learning", "draw_line", "known_values", "learning_figure", "run_figure"]

# The lines of one run, in this order. ``train_accuracy`` is drawn only where true labels are unknown.
_LINES = ("test_accuracy", "validation_accuracy", "train_accuracy", "clean_accuracy", "memorised", "recovered")
_PANELS = {"test_accuracy": "test accuracy", "memorised": "wrong labels followed"}


def draw_learning(comparison: Comparison, path: str | Path) -> Path:
    """Draw test accuracy and the share of wrong labels that are followed, epoch by epoch, one colour per loss."""
    return save(learning_figure(comparison), path)


def learning_figure(comparison: Comparison) -> Figure:
    """The figure that ``draw_learning`` saves.

    A panel without numbers is left out. With several seeds a line is their mean, in a band from the lowest
    to the highest.
    """
    panels = [name for name in _PANELS if any(known_values(row, name) for row in comparison.rows)]
    if not panels:
        raise PyriteError(f"{comparison.path} has nothing to draw: no run knows test accuracy or wrong labels")
    # As narrow as a column of text, so that it stays legible on a phone.
    figure = Figure(figsize=(6, 1.2 + 2.9 * len(panels)), layout="constrained")
    for axes, name in zip(np.atleast_1d(figure.subplots(len(panels), 1, sharex=True)), panels, strict=True):
        for number, row in enumerate(comparison.rows):
            draw_line(axes, row.name, known_values(row, name), number)
        axes.set_ylabel(_PANELS[name], fontsize=11)
        axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0, symbol=" %"))
        axes.grid(axis="y", alpha=0.25)
        axes.margins(x=0.01)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("epoch", fontsize=11)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
    handles, names = figure.axes[0].get_legend_handles_labels()
    legend = figure.legend(handles, names, loc="outside upper left", ncols=2, frameon=False, fontsize=10.5)
    for text in legend.get_texts():
        text.set_parse_math(False)
    return figure


def run_figure(run: Run) -> Figure:
    """One run over its epochs: test and validation accuracy, and which labels are followed, right and wrong apart."""
    known = {name: [line.get(name) for line in run.history] for name in _LINES}
    drawn = {name: values for name, values in known.items() if values and None not in values}
    if not drawn:
        raise PyriteError(f"{run.path} has nothing to draw: no epoch is finished")
    if "clean_accuracy" in drawn:
        drawn.pop("train_accuracy", None)
    figure = Figure(figsize=(6, 3.9 + 0.1 * len(drawn)), layout="constrained")
    axes = figure.subplots()
    for number, (name, values) in enumerate(drawn.items()):
        words = "test accuracy" if name == "test_accuracy" else COLUMNS[name].explanation
        marker = "o" if len(values) == 1 else ""
        axes.plot(range(1, len(values) + 1), values, label=words, linewidth=1.8, marker=marker, **line_style(number))  # type: ignore[arg-type]
    axes.set(xlabel="epoch", ylim=(0, 1.02))
    axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0, symbol=" %"))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
    axes.grid(axis="y", alpha=0.25)
    axes.margins(x=0.01)
    figure.legend(loc="outside upper left", ncols=2, frameon=False, fontsize=10)
    return figure


def draw_line(axes: Axes, label: str, values: Sequence[npt.NDArray[np.float64]], number: int) -> None:
    """Draw the mean over runs of a value per epoch, in a band from the lowest to the highest."""
    if not values:
        return
    shared = min(map(len, values))
    table = np.array([one[:shared] for one in values], np.float64)
    epochs = np.arange(1, shared + 1)
    style = line_style(number)
    axes.plot(epochs, table.mean(0), linewidth=1.8, label=label, **style)  # type: ignore[arg-type]
    if len(table) > 1:
        axes.fill_between(epochs, table.min(0), table.max(0), color=style["color"], alpha=0.15, linewidth=0)


def known_values(row: Row, name: str) -> Sequence[npt.NDArray[np.float64]]:
    """A column of the histories, of the runs that have it."""
    columns = ([line.get(name) for line in run.history] for run in row.runs)
    return [np.array(column, np.float64) for column in columns if column and None not in column]
