"""How margins are distributed, epoch by epoch, for clean and for noisy samples."""

from collections.abc import Mapping
from typing import Any, Final, final

import numpy as np

from pyrite.diagnostics.arrays import Floats, Ints, check_same_length, to_flags, to_floats

__all__ = ["MARGIN_EDGES", "MarginHistograms"]

# sigmoid(-20) is 2e-9: beyond these ends nothing about a label is in doubt.
MARGIN_EDGES: Final[tuple[float, ...]] = tuple(i / 2 for i in range(-40, 41))


@final
class MarginHistograms:
    """Counts of margins in fixed bins, one row per epoch (Fig. 3 of the curriculum paper).

    Bins are half open, [edge, next edge), with one more before the first edge and one from the last edge on, so that
    no sample is lost. Samples go to ``all`` and, where truth is known, to ``noisy``; ``clean`` is the difference.

    >>> histograms = MarginHistograms(edges=[-1, 0, 1])
    >>> histograms.update([-5, -0.5, 0, 1], is_wrong=[True, True, False, False])
    >>> histograms.end_epoch()
    >>> histograms.clean, histograms.noisy
    (array([[0, 0, 1, 1]]), array([[1, 1, 0, 0]]))
    """

    def __init__(self, edges: object = MARGIN_EDGES, *, truth: bool = True) -> None:
        self.edges = to_floats(edges, "edges")
        if len(self.edges) < 2 or (np.diff(self.edges) <= 0).any():
            raise ValueError(f"edges are {self.edges}, but must be two or more in ascending order")
        self.truth = truth
        self._rows: list[Ints] = []
        self._now = self._empty()

    def _empty(self) -> Ints:
        return np.zeros((2, len(self.edges) + 1), np.int64)

    def update(self, margin: object, is_wrong: object | None = None) -> None:
        """Count samples of the epoch under way."""
        values = to_floats(margin, "margin")
        if (is_wrong is not None) != self.truth:
            raise ValueError(f"is_wrong is {'missing' if self.truth else 'given'}, but truth is {self.truth}")
        place = np.searchsorted(self.edges, values, side="right")
        self._now[0] += np.bincount(place, minlength=self._now.shape[1])
        if is_wrong is not None:
            wrong = to_flags(is_wrong, "is_wrong")
            check_same_length(margin=values, is_wrong=wrong)
            self._now[1] += np.bincount(place[wrong], minlength=self._now.shape[1])

    def end_epoch(self) -> None:
        """Close the row of this epoch."""
        self._rows.append(self._now)
        self._now = self._empty()

    def merge(self, other: "MarginHistograms") -> None:
        """Add the epoch under way of another process."""
        if not np.array_equal(self.edges, other.edges) or self.truth != other.truth:
            raise ValueError("these histograms have other bins, or know another truth")
        self._now += other._now

    def _counts(self) -> Ints:
        return np.stack(self._rows) if self._rows else np.zeros((0, *self._now.shape), np.int64)

    @property
    def all(self) -> Ints:
        """Epochs by bins."""
        return self._counts()[:, 0]

    @property
    def noisy(self) -> Ints | None:
        """Epochs by bins, for wrong labels; None without truth."""
        return self._counts()[:, 1] if self.truth else None

    @property
    def clean(self) -> Ints | None:
        """Epochs by bins, for true labels; None without truth."""
        return self._counts()[:, 0] - self._counts()[:, 1] if self.truth else None

    def density(self, counts: Ints) -> Floats:
        """Counts as probability densities within the edges; a row without samples is all 0.

        What lies outside the edges counts in the total, so that the area is the share that lies inside.
        """
        total = np.maximum(counts.sum(-1, keepdims=True), 1)
        return np.asarray(counts[..., 1:-1] / total / np.diff(self.edges))

    def state_dict(self) -> dict[str, Any]:
        return {"edges": self.edges.copy(), "truth": self.truth, "counts": self._counts(), "now": self._now.copy()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        if set(state) != {"edges", "truth", "counts", "now"}:
            raise ValueError(f"the state holds {sorted(state)}, which is not that of histograms")
        if not np.array_equal(state["edges"], self.edges) or bool(state["truth"]) != self.truth:
            raise ValueError("the state is of histograms with other bins, or another truth")
        self._rows = [np.array(row, np.int64) for row in state["counts"]]
        self._now = np.array(state["now"], np.int64)
