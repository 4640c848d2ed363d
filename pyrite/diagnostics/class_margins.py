"""The margins of all classes, averaged over the epochs: which class a sample may belong to."""

from collections.abc import Iterable, Mapping
from typing import Any, Final, final

import numpy as np
import numpy.typing as npt

from pyrite.checks import whole_number
from pyrite.diagnostics.arrays import Flags, Floats, Ints, to_floats, to_ints
from pyrite.diagnostics.evidence import required
from pyrite.errors import PyriteError

__all__ = ["ClassMargins", "epoch_weight"]

_LARGEST: Final = 1 << 28
"""The largest number of samples times classes, which takes two gigabytes; beyond it nothing is stored."""


def epoch_weight(followed: float | None, held_out: float | None) -> float:
    """The weight of an epoch as evidence of which labels are wrong, from given labels alone.

    Args:
        followed: the accuracy on the given training labels.
        held_out: the accuracy on the given held-out labels.

    An epoch is informative if the net generalises and has not memorised labels. The weight is a product of two factors:
    ``held_out ** 2`` measures generalisation, and ``(1 - followed) / (1 - held_out)``, at most 1, measures the absence
    of memorisation, since a net that memorised nothing is as accurate on training labels as on held-out ones. Without
    held-out labels all epochs have the weight 1.

    >>> epoch_weight(0.5, 0.5), epoch_weight(0.75, 0.5), epoch_weight(1.0, 0.5), epoch_weight(None, None)
    (0.25, 0.125, 1e-06, 1.0)
    """
    if followed is None or held_out is None:
        return 1.0
    left = 1.0 if held_out >= 1 else min(1.0, (1 - followed) / (1 - held_out))
    return max(held_out**2 * left, 1e-6)  # if no epoch is informative, all have the same weight


@final
class ClassMargins:
    """A weighted mean over epochs of the margins of all classes, in float32 because it is as large as all scores.

    As in ``Visits``, the first visit to a sample in an epoch counts. An epoch is added to the mean at its end.

    Attributes:
        mean: one row per sample, one column per class; NaN if the sample was never seen, or only in epochs of weight 0.
        unseen: True for samples whose margins are of nets that were not trained on them.
    """

    def __init__(self, samples: int, classes: int) -> None:
        self.shape = whole_number("samples", samples, least=1), whole_number("classes", classes, least=1)
        self.kept = samples * classes <= _LARGEST
        size = self.shape if self.kept else (0, classes)
        self._sum: npt.NDArray[np.float32] = np.zeros(size, np.float32)
        self._now: npt.NDArray[np.float32] = np.zeros(size, np.float32)
        self._share: Floats = np.zeros(size[0])
        self._seen: Flags = np.zeros(size[0], bool)
        self.unseen: Flags = np.zeros(size[0], bool)

    @property
    def mean(self) -> npt.NDArray[np.float32]:
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(self._sum / self._share[:, None], np.float32)

    def record(self, index: object, margins: object, *, unseen: bool = False) -> None:
        """Record a batch, with one row of margins per sample. Rows that are not finite are skipped.

        ``unseen`` tells that the nets that gave the margins are not trained on these samples.
        """
        if not self.kept:
            return
        rows, values = to_ints(index, "index", least=0), to_floats(margins, "margins", ndim=2, nan=True)
        if values.shape != (len(rows), self.shape[1]):
            raise PyriteError(
                f"margins have the shape {values.shape}, for {len(rows)} samples of {self.shape[1]} classes"
            )
        self._write(rows, values.astype(np.float32), np.full(len(rows), unseen))

    def _write(self, rows: Ints, values: npt.NDArray[np.float32], unseen: Flags) -> None:
        # In reverse order, so that of two visits in a batch the first is kept.
        new = np.flatnonzero(~self._seen[rows] & np.isfinite(values).all(1))[::-1]
        self._now[rows[new]] = values[new]
        self._seen[rows[new]] = True
        self.unseen[rows[new]] = unseen[new]

    def unseen_accuracy(self, labels: Ints) -> float | None:
        """The share of labels that nets predict which are not trained on them, in this epoch; None without such."""
        rows = np.flatnonzero(self._seen & self.unseen)
        return float((self._now[rows].argmax(1) == labels[rows]).mean()) if len(rows) else None

    def end_epoch(self, weight: float = 1.0) -> None:
        """Add the epoch to the mean with a weight, and start the next one."""
        rows = np.flatnonzero(self._seen)
        self._sum[rows] += np.float32(weight) * self._now[rows]
        self._share[rows] += weight
        self._seen[:] = False

    def epoch_state(self) -> dict[str, Any]:
        """The state of the current epoch: only the samples seen, to keep communication between processes small."""
        index = np.flatnonzero(self._seen)
        return {"index": index, "now": self._now[index], "unseen": self.unseen[index]}

    def merge(self, states: Iterable[Mapping[str, Any]]) -> None:
        """Replace the current epoch by the records of all processes, by rank; the first to see a sample counts."""
        self._seen[:] = False
        for state in states:
            index = np.asarray(state["index"], np.int64)
            self._write(index, np.asarray(state["now"], np.float32), np.asarray(state["unseen"], bool))

    def state_dict(self) -> dict[str, Any]:
        """Plain arrays, from which training resumes bit for bit, also in the middle of an epoch."""
        sums = {"sum": self._sum.copy(), "share": self._share.copy(), "all_unseen": self.unseen.copy()}
        return sums | self.epoch_state()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a state. A state that does not fit is a ValueError and changes nothing."""
        sums, share = np.asarray(required(state, "sum"), np.float32), np.asarray(required(state, "share"), np.float64)
        if sums.shape != self._sum.shape or share.shape != self._share.shape:
            raise PyriteError(f"the state has the shape {sums.shape}, this is {self._sum.shape}")
        self._sum[:], self._share[:], self.unseen[:] = sums, share, np.asarray(required(state, "all_unseen"), bool)
        self.merge([state])
