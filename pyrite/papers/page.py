"""A table or figure of a paper beside its own: the picture, and one self-contained page."""

import re
from collections.abc import Callable, Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Final

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from pyrite.files import write
from pyrite.papers.cells import column_and_ending
from pyrite.papers.claims import Results
from pyrite.papers.pictures import PICTURES
from pyrite.papers.recipe import Figure as Wanted
from pyrite.papers.reproduction import Reproduction, heading
from pyrite.report.figures import (
    Histograms,
    add_legend,
    complete_columns,
    draw_lines,
    draw_margins,
    style_epochs,
)
from pyrite.report.style import COLOURS, picture, save, templates
from pyrite.training import METRICS


def write_reproduction(found: Reproduction, folder: str | Path) -> list[Path]:
    """Write the picture, as PNG and SVG, where the recipe has one and cells are finished, and the page."""
    figure, base = reproduction_figure(found), Path(folder) / found.stem
    drawn = None if figure is None else picture(lambda: reproduction_figure(found) or Figure())
    template = templates().get_template("reproduction.html")
    title = f"{found.recipe.article}: {found.recipe.title}"
    page = template.render(title=title, found=found, table=found.table(), picture=drawn, plain=_plain)
    pictures = [] if figure is None else [save(figure, f"{base}.{kind}") for kind in ("png", "svg")]
    return [*pictures, write(f"{base}.html", page.encode())]


_ENDINGS: Final = {
    "_first": "in the first epoch",
    "_most": "at its largest",
    "_least": "at its smallest",
    "_kept": "at the end over its largest",
    "_gain": "gained in training",
    "_lost": "below its largest at the end",
}


def _plain(sentence: str) -> str:
    """A finding with the names of columns in words.

    >>> _plain("final_memorised of CE minus GCE, above 0")
    'wrong labels, by the final model, CE minus GCE, above 0'
    >>> _plain("alpha_kept of CE above 0.5")
    'mean weight in training, times 2, at the end over its largest, CE above 0.5'
    """

    def words(match: re.Match[str]) -> str:
        name, of = match.groups()
        column, ending = column_and_ending(name)
        plain = METRICS[column].explanation if column in METRICS else column.replace("_", " ")
        return ", ".join(filter(None, (plain, _ENDINGS.get(ending)))) + (", " if of else "")

    return re.sub(r"\b([a-z]+(?:_[a-z]+)+)\b( of )?", words, sentence)


def reproduction_figure(found: Reproduction) -> Figure | None:
    """The figure of a recipe; None if it has none, or nothing to draw yet."""
    wanted = found.recipe.figure
    if wanted is None:
        return None
    if wanted.kind in PICTURES:
        return PICTURES[wanted.kind](wanted)
    if found.results is None or not found.results.cells:
        return None
    kinds: dict[str, Callable[[Results, Wanted], Figure | None]]
    kinds = {"history": _history, "margins": _margins, "bars": _bars}
    return kinds[wanted.kind](found.results, wanted)


def _history(results: Results, wanted: Wanted) -> Figure:
    """Columns over the epochs: one row of panels per column, the mean over seeds between the lowest and the highest."""
    across = results.axes[wanted.panels] if wanted.panels else [""]
    figure = Figure(figsize=(3.6 * len(across) + 0.8, 2.7 * len(wanted.columns) + 0.6), layout="constrained")
    grid = figure.subplots(len(wanted.columns), len(across), sharex=True, sharey="row", squeeze=False)
    for row, column in zip(grid, wanted.columns, strict=True):
        for panel, label in zip(row, across, strict=True):
            lines = _lines(results, {wanted.panels: label} if wanted.panels else {})
            drawn = {
                name: [_column(cell.facts["history"], column) for cell in results.runs(one)] for name, one in lines
            }
            draw_lines(panel, {name: complete_columns(columns) for name, columns in drawn.items()})
            style_epochs(panel, percent=column == "intact_accuracy" or (column in METRICS and METRICS[column].percent))
            panel.set_ylabel(METRICS[column].explanation if column in METRICS else column.replace("_", " "))
            panel.label_outer()
    for panel, label in zip(grid[0], across, strict=True):
        panel.set_title(label, fontsize=10)
    add_legend(figure, grid[0, 0], loc="outside upper center", ncols=4, fontsize=9)
    return figure


def _lines(results: Results, fixed: Mapping[str, str]) -> Iterator[tuple[str, dict[str, str]]]:
    """The lines of a panel: a name, and the labels of a cell."""
    free = [axis for axis in results.axes if axis not in fixed]
    for labels in product(*(results.axes[axis] for axis in free)):
        chosen = {**fixed, **dict(zip(free, labels, strict=True))}
        yield " ".join(chosen[axis] for axis in free if len(results.axes[axis]) > 1), chosen


def _margins(results: Results, wanted: Wanted) -> Figure | None:
    """Histograms of margins at a few epochs, one row per cell of the first seed."""
    rows = {}
    for (labels, seed), cell in results.cells.items():
        kept = cell.facts.get("margins", {})
        groups = {name: np.array(kept[name]) for name in ("all", "right", "wrong") if name in kept}
        if groups and seed == results.seeds[0]:
            bins = next(iter(groups.values())).shape[1]  # pairs of those that the run had
            edges = np.linspace(kept["first_edge"], kept["last_edge"], 2 * bins - 1)[1::2]
            rows[" ".join(labels)] = {
                epoch: Histograms(edges, {name: counts[place] for name, counts in groups.items()})
                for place, epoch in enumerate(kept["epochs"])
            }
    return draw_margins(rows) if rows else None


def _bars(results: Results, wanted: Wanted) -> Figure:
    """One group of bars per label of the panels' axis, or per column; the thin line is the standard deviation."""
    groups = results.axes[wanted.panels] if wanted.panels else [""]
    figure = Figure(figsize=(7, 3.6), layout="constrained")
    axes = figure.subplots()
    names: set[str] = set()
    for group, label in enumerate(groups):
        lines = list(_lines(results, {wanted.panels: label} if wanted.panels else {}))
        bars = [(name, chosen, column) for column in wanted.columns for name, chosen in lines]
        for number, (name, chosen, column) in enumerate(bars):
            if values := results.values(chosen, column):
                where = group + (number - (len(bars) - 1) / 2) * 0.8 / len(bars)
                text = f"{name}, {heading(column)}" if len(wanted.columns) > 1 else name
                deviation = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
                axes.bar(where, float(np.mean(values)), 0.75 / len(bars), yerr=deviation, color=COLOURS[number % 7],
                         label=None if text in names else text)  # fmt: skip
                names.add(text)
    axes.set_xticks(range(len(groups)), groups)
    axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0, symbol=" %"))
    add_legend(figure, axes, loc="outside upper center", ncols=4, fontsize=9)
    return figure


def _column(history: Mapping[str, list[float]], column: str) -> list[float] | None:
    """A column of a history; the accuracy on the intact labels follows from those on right and on wrong ones."""
    if column != "intact_accuracy" or "memorised" not in history:
        return history.get(column)
    given, clean, memorised = (np.array(history[name]) for name in ("train_accuracy", "clean_accuracy", "memorised"))
    # The fraction of wrong labels is the one that makes the accuracy on given labels the mean of the two.
    wrong = float(np.nanmedian((clean - given) / np.where(clean == memorised, np.nan, clean - memorised)))
    intact: list[float] = ((1 - wrong) * clean + wrong * np.array(history["recovered"])).tolist()
    return intact
