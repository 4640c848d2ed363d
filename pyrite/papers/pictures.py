"""Figures of the papers that need no training: curves of losses, noises, and nets before training."""

from collections.abc import Callable, Mapping
from itertools import groupby
from typing import Final, cast

import numpy as np
import torch
from matplotlib import rcParams
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pyrite.curves import Curve, expected_margin, initial_margins
from pyrite.data import load
from pyrite.errors import PyriteError
from pyrite.losses import loss
from pyrite.noise import corrupt, noise_model
from pyrite.papers.recipe import Figure as Wanted
from pyrite.report.figures import curves_figure, draw_matrix
from pyrite.report.style import COLOURS, line_style
from pyrite.training import measure_start

_FROM: Final = 0.25  # the probability from which the area of a loss is drawn
_EXAMPLES: Final = (0.05, 0.5, 0.95)  # probabilities of the labels of three samples
_SHOWN: Final = 12  # images


def _curves(wanted: Wanted) -> Figure:
    return curves_figure([loss(spec) for spec in wanted.losses], wanted.classes)


def _panels(wanted: Wanted) -> Figure:
    """Weight curves in groups, which a slash separates, over the margins of normal scores of 10 and 100 classes."""
    groups = [list(group) for is_end, group in groupby(wanted.losses, lambda spec: spec == "/") if not is_end]
    figure = Figure(figsize=(12, 3.8), layout="constrained")
    margin = torch.linspace(-9, 9, 721, dtype=torch.float64)
    for axes, group in zip(figure.subplots(1, len(groups), sharey=True), groups, strict=True):
        for classes, shade in ((10, 0.12), (100, 0.3)):
            _shade(axes, initial_margins(classes), 1 / 3, shade, f"{classes} classes")
        for number, spec in enumerate(group):
            axes.plot(margin, cast(Curve, loss(spec)).weight_at(margin), label=spec, **line_style(number))
        axes.set(xlabel="soft margin of the label", xlim=(-9, 9), ylim=(0, 1.45))
        axes.legend(fontsize=8, frameon=False, loc="upper right")
    figure.axes[0].set_ylabel("weight of the sample")
    return figure


def _shade(axes: Axes, values: np.ndarray, height: float, shade: float, label: str) -> None:
    counts, edges = np.histogram(values, bins=80)
    heights = counts / counts.max() * height
    axes.fill_between(
        (edges[:-1] + edges[1:]) / 2, heights, color=str(rcParams["text.color"]), alpha=shade, lw=0, label=label
    )


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
    "curves": _curves,
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
