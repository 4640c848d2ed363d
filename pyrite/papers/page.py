"""A table or figure of a paper beside its own: the picture, and one self-contained page."""

from collections.abc import Callable, Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator, PercentFormatter

from pyrite.files import write
from pyrite.losses import loss
from pyrite.noise import noise_model
from pyrite.papers.reproduction import Reproduction, heading
from pyrite.report.figures import curves_figure
from pyrite.report.style import COLOURS, line_style, picture, save, templates

__all__ = ["reproduction_figure", "write_reproduction"]

_WORDS: Final = {"test_accuracy": "test accuracy", "alpha": "mean weight, times 2"}
_GROUPS: Final = (("all", COLOURS[0]), ("right", COLOURS[0]), ("wrong", COLOURS[1]))
_SHARES: Final = ("test_accuracy", "train_accuracy", "clean_accuracy", "memorised", "recovered")


def write_reproduction(found: Reproduction, folder: str | Path) -> list[Path]:
    """Write the picture, as PNG and SVG, where the recipe has one and cells are finished, and the page."""
    folder = Path(folder)
    stem = found.stem
    figure = reproduction_figure(found)
    paths = [] if figure is None else [save(figure, folder / f"{stem}.{kind}") for kind in ("png", "svg")]
    draw: Callable[[], Figure] = lambda: reproduction_figure(found) or Figure()  # noqa: E731
    page = (
        templates()
        .get_template("reproduction.html")
        .render(
            found=found,
            table=found.table(),
            scale=found.scale_settings,
            picture=None if figure is None else picture(draw),
        )
    )
    return [*paths, write(folder / f"{stem}.html", page.encode())]


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
    return {"history": _history, "margins": _margins, "bars": _bars}[wanted.kind](found)


def _history(found: Reproduction) -> Figure:
    """Columns over the epochs: one row of panels per column, the mean over seeds between the lowest and the highest."""
    wanted = found.recipe.figure
    assert wanted is not None
    assert found.results is not None
    axes = found.results.axes
    across = axes[wanted.panels] if wanted.panels else [""]
    figure = Figure(figsize=(3.6 * len(across) + 0.8, 2.7 * len(wanted.columns) + 0.6), layout="constrained")
    grid = figure.subplots(len(wanted.columns), len(across), sharex=True, sharey="row", squeeze=False)
    for row, column in zip(grid, wanted.columns, strict=True):
        for panel, label in zip(row, across, strict=True):
            fixed = {wanted.panels: label} if wanted.panels else {}
            for number, (name, chosen) in enumerate(_lines(found, fixed)):
                _line(panel, found, chosen, column, name, number)
            panel.grid(axis="y", alpha=0.25)
            panel.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
            if column in _SHARES:
                panel.yaxis.set_major_formatter(PercentFormatter(1, decimals=0, symbol=" %"))
        row[0].set_ylabel(_WORDS.get(column) or (heading(column)))
    for panel, label in zip(grid[0], across, strict=True):
        panel.set_title(label, fontsize=10)
    figure.supxlabel("epoch", fontsize=10)
    handles, names = grid[0, 0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside upper center", ncols=4, frameon=False, fontsize=9)
    return figure


def _lines(found: Reproduction, fixed: Mapping[str, str]) -> Iterator[tuple[str, dict[str, str]]]:
    """The lines of a panel: a name, and the labels of a cell."""
    wanted, results = found.recipe.figure, found.results
    assert wanted is not None
    assert results is not None
    free = [axis for axis in results.axes if axis not in fixed]
    for labels in product(*(results.axes[axis] for axis in free)):
        chosen = {**fixed, **dict(zip(free, labels, strict=True))}
        shown = [chosen[axis] for axis in free if len(results.axes[axis]) > 1]
        yield " ".join(shown), chosen


def _line(axes: Axes, found: Reproduction, chosen: Mapping[str, str], column: str, name: str, number: int) -> None:
    assert found.results is not None
    place = tuple(chosen[axis] for axis in found.results.axes)
    cells = [found.results.cells.get((place, seed)) for seed in found.results.seeds]
    columns = [cell.facts["history"].get(column) for cell in cells if cell is not None]
    known = [values for values in columns if values and None not in values]
    if not known:
        return
    table = np.array([values[: min(map(len, known))] for values in known], np.float64)
    epochs, style = np.arange(1, table.shape[1] + 1), line_style(number)
    axes.plot(epochs, table.mean(0), linewidth=1.6, label=name, **style)  # type: ignore[arg-type]
    if len(table) > 1:
        axes.fill_between(epochs, table.min(0), table.max(0), color=style["color"], alpha=0.15, linewidth=0)


def _margins(found: Reproduction) -> Figure:
    """Histograms of margins at a few epochs, one row per cell of the first seed; right labels blue, wrong ones red."""
    assert found.results is not None
    place_of = {
        " ".join(labels): (labels, seed) for labels, seed in found.results.cells if seed == min(found.results.seeds)
    }
    drawn = {name: found.results.cells[place] for name, place in place_of.items()}
    rows = {name: cell.facts["margins"] for name, cell in drawn.items() if "margins" in cell.facts}
    epochs = max((len(margins["epochs"]) for margins in rows.values()), default=1)
    figure = Figure(figsize=(1.7 * epochs + 0.4, 1.15 * len(rows) + 0.7), layout="constrained")
    grid = figure.subplots(len(rows), epochs, sharex=True, squeeze=False)
    for line, (name, margins) in zip(grid, rows.items(), strict=True):
        for panel, place in zip(line, range(epochs), strict=True):
            _histogram(panel, margins, place)
        line[0].set_title(name, fontsize=8.5, loc="left", parse_math=False)
    figure.supxlabel("margin of the given label", fontsize=10)
    patches = [Patch(color=colour, alpha=0.5, label=f"{name} labels") for name, colour in _GROUPS[1:]]
    figure.legend(handles=patches, loc="outside upper right", ncols=2, frameon=False, fontsize=9)
    return figure


def _histogram(axes: Axes, margins: Mapping[str, object], place: int) -> None:
    epochs: list[int] = margins["epochs"]  # type: ignore[assignment]
    axes.set(yticks=[], xlim=(-21, 21))
    axes.spines["left"].set_visible(False)
    axes.tick_params(labelsize=8)
    if place >= len(epochs):
        return
    for name, colour in _GROUPS:
        if name in margins:
            counts = np.array(margins[name][place], np.float64)  # type: ignore[index]
            # The first and the last bin are open; drawn, they are as wide as the others.
            edges = np.linspace(float(margins["first_edge"]), float(margins["last_edge"]), len(counts))  # type: ignore[arg-type]
            step = edges[1] - edges[0]
            axes.stairs(
                counts / max(1.0, counts.sum()), np.append(edges - step, edges[-1]), fill=True, color=colour, alpha=0.5
            )
    axes.text(0.03, 0.95, f"epoch {epochs[place]}", transform=axes.transAxes, va="top", fontsize=7.5)


def _bars(found: Reproduction) -> Figure:
    """One group of bars per label of the panels' axis, or per column; the thin line is the standard deviation."""
    wanted, results = found.recipe.figure, found.results
    assert wanted is not None
    assert results is not None
    groups = [(label, {wanted.panels: label}) for label in results.axes[wanted.panels]] if wanted.panels else [("", {})]
    figure = Figure(figsize=(7, 3.6), layout="constrained")
    axes = figure.subplots()
    names: list[str] = []
    for group, (_, fixed) in enumerate(groups):
        lines = list(_lines(found, fixed))
        bars = [(name, chosen, column) for column in wanted.columns for name, chosen in lines]
        for number, (name, chosen, column) in enumerate(bars):
            values = results.values(chosen, column)
            if values:
                where = group + (number - (len(bars) - 1) / 2) * 0.8 / len(bars)
                short = heading(column)
                text = f"{name}, {short}" if len(wanted.columns) > 1 else name
                deviation = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
                axes.bar(where, float(np.mean(values)), 0.75 / len(bars), yerr=deviation, color=COLOURS[number % 7],
                         label=None if text in names else text)  # fmt: skip
                names.append(text)
    axes.set_xticks(range(len(groups)), [label for label, _ in groups])
    axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0, symbol=" %"))
    figure.legend(loc="outside upper center", ncols=4, frameon=False, fontsize=9)
    return figure


def _matrices(noises: list[str], classes: int) -> Figure:
    figure = Figure(figsize=(3 * len(noises), 3), layout="constrained")
    for axes, spec in zip(np.atleast_1d(figure.subplots(1, len(noises))), noises, strict=True):
        matrix = noise_model(spec).matrix(classes, 0)
        axes.imshow(matrix, cmap="Blues", vmin=0, vmax=1)
        for row, column in product(range(classes), repeat=2):
            shade = "white" if matrix[row, column] > 0.5 else "black"
            axes.text(column, row, f"{matrix[row, column]:.2f}", ha="center", va="center", fontsize=8, color=shade)
        axes.set(title=spec, xticks=range(classes), yticks=range(classes), xlabel="given", ylabel="true")
    return figure
