"""The margin of every class, not of the label alone, averaged over the epochs: who else a sample could be."""

from collections.abc import Iterable, Mapping
from typing import Any, Final, final

import numpy as np
import numpy.typing as npt

from pyrite.checks import whole_number
from pyrite.diagnostics.arrays import Flags, Floats, Ints, to_floats, to_ints
from pyrite.diagnostics.evidence import needed

__all__ = ["ClassMargins", "epoch_weight"]

_LARGEST: Final = 1 << 28
"""Of samples times classes, two gigabytes in all: beyond it nothing is kept."""


def epoch_weight(followed: float | None, held_out: float | None) -> float:
    """How much an epoch says about which labels are wrong, by given labels alone.

    Args:
        followed: the share of training labels that were predicted.
        held_out: the share of held-out labels that were.

    It says much if the net knows something, and little once labels are learned by heart: a net that follows training
    labels as seldom as labels it never saw has learned none by heart. The first is the square of ``held_out``, the
    second the share of disagreements that is left, ``(1 - followed) / (1 - held_out)``. Without held-out labels all
    epochs say the same.

    >>> epoch_weight(0.5, 0.5), epoch_weight(0.75, 0.5), epoch_weight(1.0, 0.5), epoch_weight(None, None)
    (0.25, 0.125, 1e-06, 1.0)
    """
    if followed is None or held_out is None:
        return 1.0
    left = 1.0 if held_out >= 1 else min(1.0, (1 - followed) / (1 - held_out))
    return max(held_out**2 * left, 1e-6)  # if no epoch says anything, all of them say the same


@final
class ClassMargins:
    """A weighted mean over epochs of the margins of all classes, in float32 because it has the size of all scores.

    As in ``Visits``, the first visit in an epoch counts, and an epoch is folded in at its end.

    Attributes:
        mean: a row a sample, a column a class; NaN if never seen, or if seen only in epochs that counted nothing.
    """

    def __init__(self, samples: int, classes: int) -> None:
        self.shape = whole_number("samples", samples, least=1), whole_number("classes", classes, least=1)
        self.kept = samples * classes <= _LARGEST
        size = self.shape if self.kept else (0, classes)
        self._sum: npt.NDArray[np.float32] = np.zeros(size, np.float32)
        self._now: npt.NDArray[np.float32] = np.zeros(size, np.float32)
        self._share: Floats = np.zeros(size[0])
        self._seen: Flags = np.zeros(size[0], bool)

    @property
    def mean(self) -> npt.NDArray[np.float32]:
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(self._sum / self._share[:, None], np.float32)

    def record(self, index: object, margins: object) -> None:
        """Write a batch down: a row of margins for each sample. A row that is not finite says nothing."""
        if not self.kept:
            return
        rows, values = to_ints(index, "index", least=0), to_floats(margins, "margins", ndim=2, nan=True)
        if values.shape != (len(rows), self.shape[1]):
            raise ValueError(
                f"margins have the shape {values.shape}, for {len(rows)} samples of {self.shape[1]} classes"
            )
        self._write(rows, values.astype(np.float32))

    def _write(self, rows: Ints, values: npt.NDArray[np.float32]) -> None:
        # Backwards, so that of two visits in a batch the first stays.
        new = np.flatnonzero(~self._seen[rows] & np.isfinite(values).all(1))[::-1]
        self._now[rows[new]] = values[new]
        self._seen[rows[new]] = True

    def end_epoch(self, weight: float = 1.0) -> None:
        """Fold the epoch in with a weight, and begin the next."""
        rows = np.flatnonzero(self._seen)
        self._sum[rows] += np.float32(weight) * self._now[rows]
        self._share[rows] += weight
        self._seen[:] = False

    def epoch_state(self) -> dict[str, Any]:
        """The epoch under way: only the samples seen, so that little travels between processes."""
        index = np.flatnonzero(self._seen)
        return {"index": index, "now": self._now[index]}

    def merge(self, states: Iterable[Mapping[str, Any]]) -> None:
        """Become what all processes wrote down in this epoch, by rank; of those that saw a sample the first counts."""
        self._seen[:] = False
        for state in states:
            self._write(np.asarray(state["index"], np.int64), np.asarray(state["now"], np.float32))

    def state_dict(self) -> dict[str, Any]:
        """Plain arrays, from which training goes on bit for bit, also in the middle of an epoch."""
        return {"sum": self._sum.copy(), "share": self._share.copy()} | self.epoch_state()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where another left off. A state that does not fit is refused and changes nothing."""
        total, share = np.asarray(needed(state, "sum"), np.float32), np.asarray(needed(state, "share"), np.float64)
        if total.shape != self._sum.shape or share.shape != self._share.shape:
            raise ValueError(f"the state has the shape {total.shape}, this is {self._sum.shape}")
        self._sum[:], self._share[:] = total, share
        self.merge([state])
