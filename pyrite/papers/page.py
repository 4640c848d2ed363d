"""A table or figure of a paper beside its own: the picture, and one self-contained page."""

from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any, Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import PercentFormatter

from pyrite.files import write
from pyrite.losses import loss
from pyrite.noise import noise_model
from pyrite.papers.claims import Results
from pyrite.papers.recipe import Figure as Wanted
from pyrite.papers.reproduction import Reproduction, heading
from pyrite.report.figures import complete, curves_figure, draw_lines, style_epochs
from pyrite.report.style import COLOURS, picture, save, templates
from pyrite.training import METRICS

_GROUPS: Final = (("all", COLOURS[0]), ("right", COLOURS[0]), ("wrong", COLOURS[1]))


def write_reproduction(found: Reproduction, folder: str | Path) -> list[Path]:
    """Write the picture, as PNG and SVG, where the recipe has one and cells are finished, and the page."""
    figure, base = reproduction_figure(found), Path(folder) / found.stem
    drawn = None if figure is None else picture(lambda: reproduction_figure(found) or Figure())
    template = templates().get_template("reproduction.html")
    title = f"{found.recipe.article}: {found.recipe.title}"
    page = template.render(title=title, found=found, table=found.table(), scale=found.scale_settings, picture=drawn)
    pictures = [] if figure is None else [save(figure, f"{base}.{kind}") for kind in ("png", "svg")]
    return [*pictures, write(f"{base}.html", page.encode())]


def reproduction_figure(found: Reproduction) -> Figure | None:
    """The figure of a recipe; None if it has none, or nothing to draw yet."""
    wanted = found.recipe.figure
    if wanted is None:
        return None
    if wanted.kind == "curves":
        return curves_figure([loss(spec) for spec in wanted.losses], wanted.classes)
    if wanted.kind == "matrices":
        return _matrices(wanted.losses, wanted.classes)
    if found.results is None or not found.results.cells:
        return None
    return {"history": _history, "margins": _margins, "bars": _bars}[wanted.kind](found.results, wanted)


def _history(results: Results, wanted: Wanted) -> Figure:
    """Columns over the epochs: one row of panels per column, the mean over seeds between the lowest and the highest."""
    across = results.axes[wanted.panels] if wanted.panels else [""]
    figure = Figure(figsize=(3.6 * len(across) + 0.8, 2.7 * len(wanted.columns) + 0.6), layout="constrained")
    grid = figure.subplots(len(wanted.columns), len(across), sharex=True, sharey="row", squeeze=False)
    for row, column in zip(grid, wanted.columns, strict=True):
        for panel, label in zip(row, across, strict=True):
            lines = _lines(results, {wanted.panels: label} if wanted.panels else {})
            drawn = {name: [cell.facts["history"].get(column) for cell in results.runs(one)] for name, one in lines}
            draw_lines(panel, {name: complete(columns) for name, columns in drawn.items()})
            style_epochs(panel, percent=column in METRICS and METRICS[column].percent)
            panel.set_ylabel(METRICS[column].explanation if column in METRICS else column)
            panel.label_outer()
    for panel, label in zip(grid[0], across, strict=True):
        panel.set_title(label, fontsize=10)
    handles, names = grid[0, 0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside upper center", ncols=4, frameon=False, fontsize=9)
    return figure


def _lines(results: Results, fixed: Mapping[str, str]) -> Iterator[tuple[str, dict[str, str]]]:
    """The lines of a panel: a name, and the labels of a cell."""
    free = [axis for axis in results.axes if axis not in fixed]
    for labels in product(*(results.axes[axis] for axis in free)):
        chosen = {**fixed, **dict(zip(free, labels, strict=True))}
        yield " ".join(chosen[axis] for axis in free if len(results.axes[axis]) > 1), chosen


def _margins(results: Results, wanted: Wanted) -> Figure:
    """Histograms of margins at a few epochs, one row per cell of the first seed; right labels blue, wrong ones red."""
    first = {" ".join(labels): cell for (labels, seed), cell in results.cells.items() if seed == min(results.seeds)}
    rows = {name: cell.facts["margins"] for name, cell in first.items() if "margins" in cell.facts}
    epochs = max((len(margins["epochs"]) for margins in rows.values()), default=1)
    figure = Figure(figsize=(1.7 * epochs + 0.4, 1.15 * len(rows) + 0.7), layout="constrained")
    grid = figure.subplots(len(rows), epochs, sharex=True, squeeze=False)
    for line, (name, margins) in zip(grid, rows.items(), strict=True):
        for place, panel in enumerate(line):
            panel.set(yticks=[], xlim=(-21, 21))
            panel.spines["left"].set_visible(False)
            panel.tick_params(labelsize=8)
            if place < len(margins["epochs"]):
                _histogram(panel, margins, place)
        line[0].set_title(name, fontsize=8.5, loc="left", parse_math=False)
    figure.supxlabel("margin of the given label", fontsize=10)
    patches = [Patch(color=colour, alpha=0.5, label=f"{name} labels") for name, colour in _GROUPS[1:]]
    figure.legend(handles=patches, loc="outside upper right", ncols=2, frameon=False, fontsize=9)
    return figure


def _histogram(axes: Axes, margins: Mapping[str, Any], place: int) -> None:
    for name, colour in _GROUPS:
        if name in margins:
            counts = np.array(margins[name][place], np.float64)
            # The first and the last bin are open; drawn, they are as wide as the others.
            edges = np.linspace(float(margins["first_edge"]), float(margins["last_edge"]), len(counts))
            edges = np.append(2 * edges[0] - edges[1], edges)
            axes.stairs(counts / max(1.0, counts.sum()), edges, fill=True, color=colour, alpha=0.5)
    axes.text(0.03, 0.95, f"epoch {margins['epochs'][place]}", transform=axes.transAxes, va="top", fontsize=7.5)


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
    figure.legend(loc="outside upper center", ncols=4, frameon=False, fontsize=9)
    return figure


def _matrices(noises: list[str], classes: int) -> Figure:
    figure = Figure(figsize=(3 * len(noises), 3), layout="constrained")
    for axes, spec in zip(np.atleast_1d(figure.subplots(1, len(noises))), noises, strict=True):
        matrix = noise_model(spec).matrix(classes, 0)
        axes.imshow(matrix, cmap="Blues", vmin=0, vmax=1)
        for (row, column), value in np.ndenumerate(matrix):
            shade = "white" if value > 0.5 else "black"
            axes.text(column, row, f"{value:.2f}", ha="center", va="center", fontsize=8, color=shade)
        axes.set(title=spec, xticks=range(classes), yticks=range(classes), xlabel="given", ylabel="true")
    return figure
