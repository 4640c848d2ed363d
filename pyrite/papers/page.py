"""A table or figure of a paper beside its own: the picture, and one self-contained page."""

import re
from collections.abc import Callable, Iterator, Mapping
from itertools import groupby, product
from pathlib import Path
from typing import Final, cast

import numpy as np
import torch
from matplotlib import rcParams
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from pyrite.curves import Curve, expected_margin, initial_margins
from pyrite.data import load
from pyrite.errors import PyriteError
from pyrite.files import write
from pyrite.losses import loss
from pyrite.noise import corrupt, noise_model
from pyrite.papers.cells import column_and_ending
from pyrite.papers.claims import Results
from pyrite.papers.recipe import Figure as Wanted
from pyrite.papers.reproduction import Reproduction, heading
from pyrite.report.figures import (
    Histograms,
    add_legend,
    complete_columns,
    curves_figure,
    draw_lines,
    draw_margins,
    draw_matrix,
    shade_margins,
    style_epochs,
)
from pyrite.report.style import COLOURS, line_style, picture, save, templates
from pyrite.training import METRICS, measure_start

_FROM: Final = 0.25  # the probability from which the area of a loss is drawn
_EXAMPLES: Final = (0.05, 0.5, 0.95)  # probabilities of the labels of three samples
_SHOWN: Final = 12  # images


def write_reproduction(found: Reproduction, folder: str | Path) -> list[Path]:
    """Write the picture, as PNG and SVG, where the recipe has one and cells are finished, and the page."""
    figure, base = reproduction_figure(found), Path(folder) / found.stem
    drawn = None if figure is None else picture(lambda: reproduction_figure(found) or Figure())
    template = templates().get_template("reproduction.html")
    title = f"{found.recipe.article}: {found.recipe.title}"
    page = template.render(
        title=title, found=found, table=found.table(), published=found.published(), legend=_legend(found),
        picture=drawn, plain=_plain,
    )  # fmt: skip
    pictures = [] if figure is None else [save(figure, f"{base}.{kind}") for kind in ("png", "svg")]
    return [*pictures, write(f"{base}.html", page.encode())]


def _legend(found: Reproduction) -> str:
    """What the headings of several columns mean."""
    names = found.recipe.columns if len(found.recipe.columns) > 1 else []
    parts = [f"{heading(name)}: {METRICS[name].explanation}" for name in names if name in METRICS]
    return f"{'; '.join(parts)}. " if parts else ""


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
    names: dict[str, str] = {}  # colours
    for group, label in enumerate(groups):
        lines = list(_lines(results, {wanted.panels: label} if wanted.panels else {}))
        cells = [(name, column, results.values(chosen, column)) for column in wanted.columns for name, chosen in lines]
        bars = [(name, column, values) for name, column, values in cells if values]
        for number, (name, column, values) in enumerate(bars):
            where = group + (number - (len(bars) - 1) / 2) * 0.8 / len(bars)
            text = f"{name}, {heading(column)}" if len(wanted.columns) > 1 else name
            is_new, colour = text not in names, names.setdefault(text, COLOURS[len(names) % 7])
            deviation = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
            axes.bar(where, float(np.mean(values)), 0.75 / len(bars), yerr=deviation, color=colour,
                     label=text if is_new else None)  # fmt: skip
    axes.set_xticks(range(len(groups)), groups)
    axes.set(
        xlabel=wanted.panels, ylabel=heading(wanted.columns[0]) if len(wanted.columns) == 1 else "", ylim=(0, None)
    )
    axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0, symbol=" %"))
    add_legend(figure, axes, loc="outside upper center", ncols=3, fontsize=9)
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


def _panels(wanted: Wanted) -> Figure:
    """Weight curves in groups, which a slash separates, over the margins of normal scores of 10 and 100 classes."""
    groups = [list(group) for is_end, group in groupby(wanted.losses, lambda spec: spec == "/") if not is_end]
    figure = Figure(figsize=(12, 3.8), layout="constrained")
    margin = torch.linspace(-9, 9, 721, dtype=torch.float64)
    for axes, group in zip(figure.subplots(1, len(groups), sharey=True), groups, strict=True):
        for classes, shade in ((10, 0.12), (100, 0.3)):
            shade_margins(axes, initial_margins(classes), 1 / 3, alpha=shade, label=f"{classes} classes")
        for number, spec in enumerate(group):
            axes.plot(margin, cast(Curve, loss(spec)).weight_at(margin), label=spec, **line_style(number))
        axes.set(xlabel="soft margin of the label", xlim=(-9, 9), ylim=(0, 1.45))
        axes.legend(fontsize=8, frameon=False, loc="upper right")
    figure.axes[0].set_ylabel("weight of the sample")
    return figure


def _areas(wanted: Wanted) -> Figure:
    """-dL/dp over the probability: w(p) / (p (1 - p)), whose area from p to 1 is the loss of p."""
    figure = Figure(figsize=(3.2 * len(wanted.losses), 3.2), layout="constrained")
    p = torch.linspace(0.02, 0.98, 481, dtype=torch.float64)
    for number, (axes, spec) in enumerate(
        zip(figure.subplots(1, len(wanted.losses), sharey=True), wanted.losses, strict=True)
    ):
        slope = cast(Curve, loss(spec)).weight_at(torch.logit(p)) / (p * (1 - p))
        axes.plot(p, slope, **line_style(number))
        axes.fill_between(p, slope, where=(p >= _FROM).tolist(), color=COLOURS[number % 7], alpha=0.25, lw=0)
        axes.set(title=spec, xlabel="probability of the label", xlim=(0, 1), ylim=(0, 20))
    figure.axes[0].set_ylabel("-dL/dp")
    return figure


def _pipeline(wanted: Wanted) -> Figure:
    """The gradient by the probability of the label, and its L1 norm by the scores, of three samples."""
    figure = Figure(figsize=(9, 3.2), layout="constrained")
    p = torch.tensor(_EXAMPLES, dtype=torch.float64)
    titles = ("-dL/dp of the label: before the softmax's derivative", "L1 norm of dL/dz: what updates the net")
    for axes, title in zip(figure.subplots(1, 2), titles, strict=True):
        for number, spec in enumerate(wanted.losses):
            weight = cast(Curve, loss(spec)).weight_at(torch.logit(p))
            heights = weight / (p * (1 - p)) if axes is figure.axes[0] else 2 * weight
            axes.bar(np.arange(3) + 0.27 * (number - 1), heights, 0.25, color=COLOURS[number], label=spec)
        axes.set_title(title, fontsize=10)
        axes.set_xticks(range(3), [f"p = {value}" for value in _EXAMPLES])
    figure.axes[0].legend(frameon=False, fontsize=9)
    return figure


def _matrices(wanted: Wanted) -> Figure:
    figure = Figure(figsize=(3 * len(wanted.losses), 3), layout="constrained")
    for axes, spec in zip(np.atleast_1d(figure.subplots(1, len(wanted.losses))), wanted.losses, strict=True):
        draw_matrix(axes, noise_model(spec).matrix(wanted.classes, 0))
        axes.set_title(spec)
    return figure


def _samples(wanted: Wanted) -> Figure | None:
    """The first images of CIFAR-10 with the labels that each noise gives them, wrong ones in red; None without data."""
    figure = Figure(figsize=(_SHOWN, 1.5 * len(wanted.losses)), layout="constrained")
    try:
        sets = {
            spec: load("cifar10n(column='worse_label')" if spec == "human" else "cifar10") for spec in wanted.losses
        }
    except PyriteError:
        return None
    for row, (spec, data) in zip(figure.subplots(len(sets), _SHOWN), sets.items(), strict=True):
        true = data.labels if data.true is None else data.true
        given = data.labels if spec == "human" else corrupt(true, spec, classes=len(data.classes), seed=0).given
        for axes, image, now, right in zip(row, np.asarray(data.inputs[:_SHOWN]), given, true, strict=False):
            axes.imshow(np.moveaxis(image, 0, -1))
            axes.set(xticks=[], yticks=[])
            colour = "tab:red" if now != right else "tab:green"
            axes.spines[:].set(color=colour, linewidth=3)
            axes.set_xlabel(data.classes[now], fontsize=9, color=colour)
        row[0].set_ylabel(spec, fontsize=9)
    return figure


def _starts(wanted: Wanted) -> Figure:
    """Margins of untrained nets, written as ``net, classes``, over those of normal scores."""
    figure = Figure(figsize=(3 * len(wanted.losses), 3), layout="constrained")
    for axes, spec in zip(figure.subplots(1, len(wanted.losses)), wanted.losses, strict=True):
        net, _, classes = spec.partition(", ")
        shape = (1, 28, 28) if net == "cnn4" else (3, 32, 32)
        starts = [measure_start(net, shape=shape, classes=int(classes), seed=seed, batch_size=64) for seed in range(3)]
        real, simulated = np.concatenate([start.margins for start in starts]), initial_margins(int(classes))
        axes.hist(real, bins=60, density=True, color=COLOURS[0], alpha=0.5, label="net")
        counts, edges = np.histogram(simulated, bins=80, density=True)
        axes.plot((edges[:-1] + edges[1:]) / 2, counts, color=str(rcParams["text.color"]), label="normal scores")
        axes.set(title=f"{net}, {classes} classes", xlabel="soft margin of the label")
    figure.axes[0].legend(frameon=False, fontsize=9)
    return figure


def _contrasts(wanted: Wanted) -> Figure:
    """exp(T u / 4) over the probability, of the weight u at unit maximum: dotted T = 0.5, dashed 4, solid 8."""
    figure = Figure(figsize=(3.4 * len(wanted.losses), 3.2), layout="constrained")
    p = torch.linspace(0.001, 0.999, 400, dtype=torch.float64)
    for axes, spec in zip(figure.subplots(1, len(wanted.losses), sharey=True), wanted.losses, strict=True):
        unit = cast(Curve, loss(f"unit({spec})")).weight_at(torch.logit(p))
        for degree, style in ((0.5, ":"), (4.0, "--"), (8.0, "-")):
            axes.plot(p, torch.exp(degree * unit / 4), style, color=COLOURS[0], label=f"T = {degree:g}")
        axes.set(title=f"exponential of {spec}", xlabel="probability of the label", xlim=(0, 1), ylim=(0, None))
    figure.axes[0].set_ylabel("weight of the sample")
    figure.axes[0].legend(frameon=False, fontsize=9)
    return figure


def _bounds(wanted: Wanted) -> Figure:
    """The noise ratio up to which shifted MAE is asymmetric, by τ, beside those of symmetric noise of 40 and 80 %."""
    figure = Figure(figsize=(6, 3.8), layout="constrained")
    axes = figure.subplots()
    for number, classes in enumerate(map(int, wanted.losses)):
        start = -expected_margin(classes)
        tau = np.linspace(1.0, start, 50)
        axes.plot(tau, np.exp(2 * (tau - start)), color=COLOURS[number], label=f"shifted MAE, {classes} classes")
        for rate, style in ((0.4, ":"), (0.8, "--")):
            ratio = rate / (1 - rate) / (classes - 1)
            axes.plot(
                tau, np.full_like(tau, ratio), style, color=COLOURS[number], label=f"symmetric noise of {rate:.0%}"
            )
    axes.set(xlabel="τ", ylabel="noise ratio", yscale="log")
    axes.legend(frameon=False, fontsize=8, ncols=3, loc="upper center", bbox_to_anchor=(0.5, -0.18))
    return figure


PICTURES: Final[Mapping[str, Callable[[Wanted], Figure | None]]] = {
    "curves": lambda wanted: curves_figure([loss(spec) for spec in wanted.losses], wanted.classes),
    "panels": _panels,
    "areas": _areas,
    "pipeline": _pipeline,
    "contrasts": _contrasts,
    "bounds": _bounds,
    "matrices": _matrices,
    "samples": _samples,
    "starts": _starts,
}
"""What draws each kind of figure that needs no runs."""
