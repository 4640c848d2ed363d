"""The plot of a noise matrix: which labels are given to which classes."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, PowerNorm
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from pyrite.errors import PyriteError
from pyrite.report.style import COLOURS, save

# From almost white over the first colour of the palette to a dark shade, so that small fractions are visible and large
# ones differ.
_SHADES = LinearSegmentedColormap.from_list("fractions", ["#F7F8F9", "#CFE3F1", "#7FB4DA", COLOURS[0], "#00304F"])


def draw_matrix(
    matrix: np.ndarray[Any, Any], path: str | Path, names: Sequence[str] | None = None, title: str = ""
) -> Path:
    """Draw T[i, j] = P(given j | true i) as a heat map: with names up to 30 classes, with numbers up to 12."""
    matrix = np.asarray(matrix, dtype=np.float64)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not np.isfinite(matrix).all():
        raise PyriteError(f"matrix has the shape {matrix.shape}, but must be square, of finite numbers")
    classes = len(matrix)
    if names is not None and len(names) != classes:
        raise PyriteError(f"names has {len(names)} names, but there are {classes} classes")
    side = float(np.clip(2.6 + 0.45 * classes, 4.5, 9.5))
    figure = Figure(figsize=(side + 1.3, side), layout="constrained")
    axes = figure.subplots()
    # Square roots, so that half a per cent is visible too.
    shades = axes.imshow(matrix, cmap=_SHADES, norm=PowerNorm(0.5, vmin=0, vmax=1), interpolation="nearest")
    bar = figure.colorbar(shades, ax=axes, shrink=0.8, aspect=30, ticks=[0, 0.01, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1])
    bar.ax.yaxis.set_major_formatter(PercentFormatter(1, decimals=0, symbol=" %"))
    bar.outline.set_visible(False)
    _name_classes(axes, classes, names)
    if classes <= 12:
        _write_fractions(axes, matrix)
    axes.set(xlabel="given label", ylabel="true class")
    if title:
        lines = [_shorten(line, int(12 * side)) for line in title.splitlines()]
        axes.set_title("\n".join(lines), fontsize=10, parse_math=False)
    return save(figure, path)


def _name_classes(axes: Axes, classes: int, names: Sequence[str] | None) -> None:
    axes.tick_params(which="both", length=0)
    axes.spines[:].set_visible(False)
    # Up to 30 classes, white lines separate the cells; with more, thin lines separate numbered tens or hundreds.
    few = classes <= 30
    step = 1 if few else 10 if classes <= 200 else 100
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_ticks(np.arange(0, classes + step, step) - 0.5, minor=True)
        axis.set_ticks(range(0, classes, step))
    axes.grid(which="minor", color="white" if few else "0.8", linewidth=1.5 if few else 0.5)
    axes.set(xlim=(-0.5, classes - 0.5), ylim=(classes - 0.5, -0.5))
    if few:
        shown = [_shorten(str(name), 24) for name in names or range(classes)]
        turned = max(map(len, shown)) > 3
        angle, side = (45, "right") if turned else (0, "center")
        # A dollar sign in a name must not start a formula.
        axes.set_xticks(range(classes), shown, rotation=angle, ha=side, parse_math=False)
        axes.set_yticks(range(classes), shown, parse_math=False)


def _shorten(text: str, length: int) -> str:
    """A text of at most this length: the middle of a longer one is left out."""
    half = (length - 1) // 2
    return text if len(text) <= length else f"{text[:half]}…{text[-half:]}"


def _write_fractions(axes: Axes, matrix: np.ndarray[Any, Any]) -> None:
    """Write per cents into the cells: nothing for 0, and a dot for less than half a per cent."""
    for (row, column), fraction in np.ndenumerate(matrix):
        if fraction > 0:
            text = f"{100 * fraction:.0f}" if fraction >= 0.005 else "·"
            axes.text(
                column, row, text, ha="center", va="center", color="white" if fraction > 0.35 else "0.15", fontsize=9
            )
