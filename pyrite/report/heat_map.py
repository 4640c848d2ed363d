"""A noise matrix as a table whose cells can be pressed: what is taken for what, and how many suspects are behind it."""

from typing import NamedTuple

import numpy as np

from pyrite.auditing import Audit
from pyrite.diagnostics.arrays import Ints

__all__ = ["Cell", "Line", "Pair", "heat_map", "pairs"]

_CLASSES = 100  # a larger table is neither read nor opened quickly


class Cell(NamedTuple):
    """One entry: its share and error in words, how strong its colour is, and how many in the queue are of its kind."""

    given: int
    share: str
    words: str
    shade: float
    queued: int


class Line(NamedTuple):
    """A class and how its labels are given."""

    true: int
    cells: list[Cell]


class Pair(NamedTuple):
    """Two classes that are confused, and how many in the queue are of that kind."""

    true: int
    given: int
    queued: int


def heat_map(found: Audit, rows: Ints) -> list[Line]:
    """The matrix, a line a true class. Of more than 100 classes those that are confused most often are shown."""
    counts = _counts(found, rows)
    shown = np.arange(len(counts))
    if len(counts) > _CLASSES:
        apart = counts * (1 - np.eye(len(counts), dtype=np.int64))
        often = np.argsort(-(apart.sum(0) + apart.sum(1)), kind="stable")
        shown = np.sort(often[:_CLASSES])
    return [Line(i, [_cell(found, counts, i, j) for j in shown.tolist()]) for i in shown.tolist()]


def pairs(found: Audit, rows: Ints) -> list[Pair]:
    """Confusions in the queue, the most frequent first."""
    counts = _counts(found, rows)
    np.fill_diagonal(counts, 0)
    order = np.argsort(-counts, axis=None, kind="stable")[: np.count_nonzero(counts)]
    size = len(counts)
    return [Pair(place // size, place % size, int(counts.flat[place])) for place in order.tolist()]


def _counts(found: Audit, rows: Ints) -> Ints:
    """How often a label is in the queue, by suggested and by given class."""
    counts = np.zeros((len(found.classes), len(found.classes)), np.int64)
    np.add.at(counts, (found.suggested[rows], found.labels[rows]), 1)
    return counts


def _cell(found: Audit, counts: Ints, true: int, given: int) -> Cell:
    share, error = float(found.matrix[true, given]), float(found.matrix_error[true, given])
    if np.isnan(share):
        return Cell(given, "?", "not known", 0.0, int(counts[true, given]))
    short = f"{100 * share:.0f}" if share >= 0.005 else "·" if share > 0 else ""
    words = f"{100 * share:.1f} %" + ("" if np.isnan(error) else f" ± {100 * error:.1f}")
    # Square roots: half a per cent is still a colour.
    return Cell(given, short, words, round(float(np.sqrt(np.clip(share, 0, 1))), 3), int(counts[true, given]))
