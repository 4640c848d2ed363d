"""Calibration of probabilities: Brier score, reliability curve, expected calibration error.

The caller states that values are probabilities. They are checked, and never used to guess what they are.
"""

from dataclasses import dataclass
from typing import Final, final

import numpy as np

from pyrite.arrays import Flags, Floats, Ints, check_same_length, to_flags, to_floats, to_ints
from pyrite.checks import whole_number
from pyrite.errors import PyriteError

# bfloat16 has eight bits, so the rows of a softmax sum to 1 only to about this precision.
_SUM_TOLERANCE: Final = 1e-2


@final
@dataclass(frozen=True, eq=False)
class Reliability:
    """The frequency of an event by its predicted probability, one value per bin.

    Bins are of equal width, (edge, next edge], 0 in the first. Empty bins have the count 0, and NaN otherwise.
    """

    edges: Floats
    count: Ints
    confidence: Floats
    accuracy: Floats

    @property
    def expected_calibration_error(self) -> float | None:
        """Mean gap between confidence and accuracy, bins weighted by count (Guo et al., 2017); None without samples."""
        used, gap = self._gaps
        return float(gap @ self.count[used] / self.count.sum()) if used.any() else None

    @property
    def maximum_calibration_error(self) -> float | None:
        """The largest gap between confidence and accuracy in any bin; None without samples."""
        used, gap = self._gaps
        return float(gap.max()) if used.any() else None

    @property
    def _gaps(self) -> tuple[Flags, Floats]:
        used = self.count > 0
        return used, np.abs(self.confidence[used] - self.accuracy[used])


def reliability(confidence: object, correct: object, bins: int = 15) -> Reliability:
    """The reliability curve of probabilities of any event: a prediction being right, or a label being wrong.

    >>> curve = reliability([0.2, 0.2, 0.9], [False, True, True], bins=2)
    >>> curve.count, curve.accuracy, round(curve.expected_calibration_error, 4)
    (array([2, 1]), array([0.5, 1. ]), 0.2333)
    """
    predicted, outcome = _probability(confidence, "confidence"), to_flags(correct, "correct")
    check_same_length(confidence=predicted, correct=outcome)
    edges = np.linspace(0, 1, whole_number("bins", bins, least=1) + 1)
    place = np.searchsorted(edges[1:-1], predicted, side="left")
    count = np.bincount(place, minlength=bins)
    sums = [np.bincount(place, weights=values, minlength=bins) for values in (predicted, outcome)]
    return Reliability(edges, count, *(np.where(count > 0, part / np.maximum(count, 1), np.nan) for part in sums))


def top_label(probabilities: object, labels: object) -> tuple[Floats, Flags]:
    """The probability of the predicted class of each sample, and whether it is the label: for ``reliability``."""
    rows, label = _distributions(probabilities, labels)
    return rows.max(1, initial=0.0), rows.argmax(1) == label if rows.size else np.zeros(len(rows), bool)


def brier_score(probabilities: object, labels: object) -> float | None:
    """The mean of Σ_k (p_k − [k is the label])², from 0 to 2 (Brier, 1950); None without samples.

    >>> brier_score([[0.75, 0.25], [0.5, 0.5]], [0, 0])
    0.3125
    """
    rows, label = _distributions(probabilities, labels)
    distance = np.square(rows - (np.arange(rows.shape[1]) == label[:, None])).sum(1)
    return float(distance.mean()) if len(rows) else None


def brier_score_of_event(probability: object, happened: object) -> float | None:
    """The mean of (p − [it happened])², from 0 to 1; None without samples."""
    predicted, outcome = _probability(probability, "probability"), to_flags(happened, "happened")
    check_same_length(probability=predicted, happened=outcome)
    return float(np.square(predicted - outcome).mean()) if len(predicted) else None


def _probability(value: object, name: str) -> Floats:
    predicted = to_floats(value, name)
    outside = (predicted < 0) | (predicted > 1)
    if outside.any():
        first = int(outside.argmax())
        raise PyriteError(f"{name} is {predicted[first]} at index {first}, but a probability must be from 0 to 1")
    return predicted


def _distributions(probabilities: object, labels: object) -> tuple[Floats, Ints]:
    rows, label = to_floats(probabilities, "probabilities", ndim=2), to_ints(labels, "labels", least=0)
    check_same_length(probabilities=rows, labels=label)
    wrong = (rows < 0).any(1) | (np.abs(rows.sum(1) - 1) > _SUM_TOLERANCE)
    if wrong.any():
        first = int(wrong.argmax())
        raise PyriteError(f"probabilities at index {first} are {rows[first]}, which is not a distribution")
    if label.size and label.max() >= rows.shape[1]:
        first = int((label >= rows.shape[1]).argmax())
        raise PyriteError(f"labels is {label[first]} at index {first}, but there are {rows.shape[1]} classes")
    return rows, label
