"""The plot of margins: histograms for right and for wrong labels, over the epochs."""

from pathlib import Path

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pyrite.comparing import Comparison, Row
from pyrite.errors import PyriteError
from pyrite.report.style import COLOURS, save
from pyrite.training import Run

__all__ = ["draw_margins", "margins_figure"]

_Counts = npt.NDArray[np.int64]
_LETTERS = 60  # of a title; more do not fit above a row
_LEAST, _SHARE = 6.0, 0.98  # the axis reaches at least this far, and in most panels covers this share of the samples


def draw_margins(comparison: Comparison | Run, path: str | Path) -> Path:
    """Draw histograms of the margins of right and of wrong labels at a few epochs, one row per loss."""
    return save(margins_figure(comparison), path)


def margins_figure(comparison: Comparison | Run) -> Figure:
    """The figure that ``draw_margins`` saves. Of several seeds the first is drawn; a run alone is one row.

    Every histogram has the same area, so that shapes can be compared. The share of labels beyond an end of the
    axis is written there.
    """
    if isinstance(comparison, Run):
        comparison = Comparison(comparison.path, (Row(comparison.recipe.method, (comparison,)),))
    rows = [(row.name, row.runs[0]) for row in comparison.rows if row.runs[0].history and _recorded(row.runs[0])]
    if not rows:
        raise PyriteError(f"{comparison.path} has nothing to draw: no run has finished an epoch")
    reach = _reach([run for _, run in rows])
    figure = Figure(figsize=(6, 0.9 + 1.45 * len(rows)), layout="constrained")
    columns = max(len(_epochs(_recorded(run))) for _, run in rows)
    grid = figure.subplots(len(rows), columns, sharex=True, squeeze=False)
    for line, (name, run) in zip(grid, rows, strict=True):
        epochs = _epochs(_recorded(run))
        for axes in line[len(epochs) :]:
            axes.set_visible(False)
        for place, (axes, epoch) in enumerate(zip(line, epochs, strict=False)):
            _panel(axes, run, epoch, reach)
            # The name of a loss may be longer than a panel is wide, so the epoch stands inside.
            axes.text(0.03, 0.97, f"epoch {epoch}", transform=axes.transAxes, va="top", fontsize=8.5)
            if place == 0:
                shown = name if len(name) <= _LETTERS else name[: _LETTERS - 1] + "…"
                axes.set_title(" ", fontsize=10)  # reserves space for the title, which may reach over the next panels
                title = axes.text(0, 1.06, shown, transform=axes.transAxes, fontweight="bold", parse_math=False)
                title.set_in_layout(False)
    figure.supxlabel("margin of the given label", fontsize=11)
    handles, names = grid[0, 0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside upper left", ncols=2, frameon=False, fontsize=10.5)
    return figure


def _panel(axes: Axes, run: Run, epoch: int, reach: float) -> None:
    edges = np.asarray(run.samples["margin_edges"], np.float64)
    all_counts = run.samples["margins"][epoch - 1]
    wrong = run.samples["noisy_margins"][epoch - 1] if "noisy_margins" in run.samples else None
    groups = [("all labels", all_counts, COLOURS[0])] if wrong is None else []
    if wrong is not None:
        groups = [("right labels", all_counts - wrong, COLOURS[0]), ("wrong labels", wrong, COLOURS[1])]
    for place, (label, counts, colour) in enumerate(groups):
        kept, inside, below, above = _within(counts, edges, reach)
        label_count = max(1, int(counts.sum()))
        height = inside / label_count / np.diff(kept)
        axes.stairs(height, kept, fill=True, color=colour, alpha=0.35)
        axes.stairs(height, kept, color=colour, linewidth=1.2, label=label)
        for outside, words, x, side in ((below, "◂ {}", 0.03, "left"), (above, "{} ▸", 0.97, "right")):
            if outside >= 0.005 * label_count:
                text, y = words.format(f"{outside / label_count:.0%}"), 0.84 - 0.13 * place
                axes.text(x, y, text, transform=axes.transAxes, color=colour, ha=side, va="top", fontsize=8.5)
    # At 0 a label has a probability of one half.
    axes.axvline(0, color=axes.spines["left"].get_edgecolor(), linewidth=0.7, alpha=0.5)
    # Space above the histograms for the text. The lower bound keeps a few samples from filling the panel.
    top = max((float(patch.get_data().values.max()) for patch in axes.patches), default=0)  # type: ignore[attr-defined]
    axes.set(yticks=[], xlim=(-reach, reach), ylim=(0, 1.8 * max(top, 0.5 / reach)))
    axes.spines["left"].set_visible(False)
    axes.tick_params(labelsize=9)


def _within(
    counts: _Counts, edges: npt.NDArray[np.float64], reach: float
) -> tuple[npt.NDArray[np.float64], _Counts, int, int]:
    """Edges and counts inside ±reach, and the counts below and above."""
    kept = np.flatnonzero((edges >= -reach) & (edges <= reach))
    first, last = kept[0], kept[-1]
    inside = counts[first + 1 : last + 1]
    return edges[kept], inside, int(counts[: first + 1].sum()), int(counts[last + 1 :].sum())


def _reach(runs: list[Run]) -> float:
    """The end of the axis on either side: as far as most of the panels need."""
    needed = []
    for run in runs:
        edges = np.abs(run.samples["margin_edges"])
        for epoch in _epochs(_recorded(run)):
            counts = run.samples["margins"][epoch - 1]
            # A bin reaches as far as the outer one of its edges; the two without an outer one, to the last.
            outer = np.maximum(np.append(edges, edges[-1]), np.insert(edges, 0, edges[0]))
            order = np.argsort(outer, kind="stable")
            share = np.cumsum(counts[order]) / max(1, counts.sum())
            needed.append(float(outer[order][np.searchsorted(share, _SHARE)]))
    return max(_LEAST, float(np.quantile(needed, 0.75)))


def _recorded(run: Run) -> int:
    """Epochs that have a histogram. A run that was killed between two files has one line of its history more."""
    return min(len(run.history), len(run.samples["margins"]))


def _epochs(count: int) -> list[int]:
    """The epochs that are shown: the first, the last, and between them about a sixth and a half of the way.

    >>> _epochs(30), _epochs(2)
    ([1, 5, 15, 30], [1, 2])
    """
    return sorted({1, max(1, round(count / 6)), max(1, round(count / 2)), count})
