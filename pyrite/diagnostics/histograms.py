"""Histograms of margins per epoch, for clean and for noisy samples."""

from collections.abc import Mapping
from typing import Any, Final, final

import numpy as np

from pyrite.diagnostics.arrays import Floats, Ints, check_same_length, to_flags, to_floats
from pyrite.errors import PyriteError

__all__ = ["MARGIN_EDGES", "MarginHistograms"]

# sigmoid(-20) is 2e-9, so finer bins beyond ±20 would show nothing more.
MARGIN_EDGES: Final[tuple[float, ...]] = tuple(i / 2 for i in range(-40, 41))


@final
class MarginHistograms:
    """Counts of margins in fixed bins, one row per epoch (Fig. 3 of the curriculum paper).

    Bins are half open, [edge, next edge), with one more below the first edge and one from the last edge on, so that
    every sample is counted. With true labels, ``all`` is the sum of ``clean`` and ``noisy``.

    >>> histograms = MarginHistograms(edges=[-1, 0, 1])
    >>> histograms.update([-5, -0.5, 0, 1], is_wrong=[True, True, False, False])
    >>> histograms.end_epoch()
    >>> histograms.clean, histograms.noisy
    (array([[0, 0, 1, 1]]), array([[1, 1, 0, 0]]))
    """

    def __init__(self, edges: object = MARGIN_EDGES, *, truth: bool = True) -> None:
        self.edges = to_floats(edges, "edges")
        if len(self.edges) < 2 or (np.diff(self.edges) <= 0).any():
            raise PyriteError(f"edges are {self.edges}, but must be two or more in ascending order")
        self.truth = truth
        self._rows: list[Ints] = []
        self._current = self._empty()

    def _empty(self) -> Ints:
        return np.zeros((2, len(self.edges) + 1), np.int64)

    def update(self, margin: object, is_wrong: object | None = None) -> None:
        """Count samples of the current epoch."""
        values = to_floats(margin, "margin")
        if (is_wrong is not None) != self.truth:
            raise PyriteError(f"is_wrong is {'missing' if self.truth else 'given'}, but truth is {self.truth}")
        place = np.searchsorted(self.edges, values, side="right")
        self._current[0] += np.bincount(place, minlength=self._current.shape[1])
        if is_wrong is not None:
            wrong = to_flags(is_wrong, "is_wrong")
            check_same_length(margin=values, is_wrong=wrong)
            self._current[1] += np.bincount(place[wrong], minlength=self._current.shape[1])

    def end_epoch(self) -> None:
        """Finish the row of this epoch."""
        self._rows.append(self._current)
        self._current = self._empty()

    def merge(self, other: "MarginHistograms") -> None:
        """Add the current epoch of another process."""
        if not np.array_equal(self.edges, other.edges) or self.truth != other.truth:
            raise PyriteError("these histograms have other bins, or only one of them has true labels")
        self._current += other._current

    def _counts(self) -> Ints:
        return np.stack(self._rows) if self._rows else np.zeros((0, *self._current.shape), np.int64)

    @property
    def all(self) -> Ints:
        """Counts, one row per epoch and one column per bin."""
        return self._counts()[:, 0]

    @property
    def noisy(self) -> Ints | None:
        """Counts of samples with a wrong label; None without true labels."""
        return self._counts()[:, 1] if self.truth else None

    @property
    def clean(self) -> Ints | None:
        """Counts of samples with a right label; None without true labels."""
        return self._counts()[:, 0] - self._counts()[:, 1] if self.truth else None

    def density(self, counts: Ints) -> Floats:
        """Counts as probability densities within the edges; a row without samples is all 0.

        Samples outside the edges are included in the number of samples, so that the area is the share inside.
        """
        samples = np.maximum(counts.sum(-1, keepdims=True), 1)
        return np.asarray(counts[..., 1:-1] / samples / np.diff(self.edges))

    def state_dict(self) -> dict[str, Any]:
        return {"edges": self.edges.copy(), "truth": self.truth, "counts": self._counts(), "now": self._current.copy()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        if set(state) != {"edges", "truth", "counts", "now"}:
            raise PyriteError(f"the state holds {sorted(state)}, which is not that of histograms")
        if not np.array_equal(state["edges"], self.edges) or bool(state["truth"]) != self.truth:
            raise PyriteError("the state is of histograms with other bins, or with a different setting of truth")
        self._rows = [np.array(row, np.int64) for row in state["counts"]]
        self._current = np.array(state["now"], np.int64)
