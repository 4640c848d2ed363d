"""A noise matrix as a table of buttons: the share of every confusion, and the number of suspects of that kind."""

from typing import NamedTuple

import numpy as np

from pyrite.auditing import Audit
from pyrite.diagnostics.arrays import Ints

__all__ = ["Cell", "Line", "Pair", "heat_map", "pairs"]

_CLASSES = 100  # a larger table is slow to open and hard to read


class Cell(NamedTuple):
    """One entry: its share and standard error in words, the strength of its colour, and the number of such suspects."""

    given: int
    share: str
    words: str
    shade: float
    queued: int


class Line(NamedTuple):
    """A true class, with one cell per given label."""

    true: int
    cells: list[Cell]


class Pair(NamedTuple):
    """Two classes that are confused, and the number of such labels in the queue."""

    true: int
    given: int
    queued: int


def heat_map(audit: Audit, rows: Ints) -> list[Line]:
    """The matrix, one line per true class. Of more than 100 classes the most often confused ones are shown."""
    counts = _counts(audit, rows)
    shown = np.arange(len(counts))
    if len(counts) > _CLASSES:
        off_diagonal = counts * (1 - np.eye(len(counts), dtype=np.int64))
        most_confused = np.argsort(-(off_diagonal.sum(0) + off_diagonal.sum(1)), kind="stable")
        shown = np.sort(most_confused[:_CLASSES])
    return [Line(i, [_cell(audit, counts, i, j) for j in shown.tolist()]) for i in shown.tolist()]


def pairs(audit: Audit, rows: Ints) -> list[Pair]:
    """Confusions in the queue, the most frequent first."""
    counts = _counts(audit, rows)
    np.fill_diagonal(counts, 0)
    order = np.argsort(-counts, axis=None, kind="stable")[: np.count_nonzero(counts)]
    size = len(counts)
    return [Pair(place // size, place % size, int(counts.flat[place])) for place in order.tolist()]


def _counts(audit: Audit, rows: Ints) -> Ints:
    """The number of labels in the queue, by suggested and by given class."""
    counts = np.zeros((len(audit.classes), len(audit.classes)), np.int64)
    np.add.at(counts, (audit.suggested[rows], audit.labels[rows]), 1)
    return counts


def _cell(audit: Audit, counts: Ints, true: int, given: int) -> Cell:
    share, error = float(audit.matrix[true, given]), float(audit.matrix_error[true, given])
    if np.isnan(share):
        return Cell(given, "?", "not known", 0.0, int(counts[true, given]))
    short = f"{100 * share:.0f}" if share >= 0.005 else "·" if share > 0 else ""
    words = f"{100 * share:.1f} %" + ("" if np.isnan(error) else f" ± {100 * error:.1f}")
    # Square roots, so that half a per cent is visible too.
    return Cell(given, short, words, round(float(np.sqrt(np.clip(share, 0, 1))), 3), int(counts[true, given]))
