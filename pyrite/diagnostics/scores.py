"""How good scores and probabilities are: the detection of wrong labels, and the calibration of probabilities.

A higher score means more probably wrong. No measure of a detection depends on the order of samples with equal scores.
The caller states that values are probabilities. They are checked, and never used to guess what they are.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple, final

import numpy as np

from pyrite.arrays import Flags, Floats, Ints, check_same_length, to_flags, to_floats, to_ints
from pyrite.checks import whole_number
from pyrite.errors import PyriteError


class BestF1(NamedTuple):
    """The best F1 over all thresholds, and the highest threshold with it; scores from the threshold on are flagged."""

    f1: float
    threshold: float


@final
@dataclass(frozen=True)
class Detection:
    """Measures of how well a score detects wrong labels; None where one is not defined.

    Attributes:
        roc_auc: the probability that a wrong label has a higher score than a right one; equal scores count half.
        average_precision: the mean of the precision at each wrong label.
        best_f1: with the threshold chosen on the true labels: an upper bound, not what a user would get.
        precision_at: for each k, the fraction of wrong labels among the k highest scores.
    """

    roc_auc: float | None
    average_precision: float | None
    best_f1: BestF1 | None
    precision_at: Mapping[int, float]


def detection(scores: object, is_wrong: object, at: Iterable[int] = ()) -> Detection:
    """All metrics of a ranking of labels, in which higher scores mean more likely wrong.

    >>> result = detection([0.9, 0.8, 0.7, 0.1], [True, False, True, False], at=[1, 2])
    >>> result.roc_auc, round(result.average_precision, 4), result.best_f1, dict(result.precision_at)
    (0.75, 0.8333, BestF1(f1=0.8, threshold=0.7), {1: 1.0, 2: 0.5})
    """
    precisions = {int(k): precision_at(scores, is_wrong, k) for k in at}
    return Detection(
        roc_auc(scores, is_wrong), average_precision(scores, is_wrong), best_f1(scores, is_wrong), precisions
    )


def roc_auc(scores: object, is_wrong: object) -> float | None:
    """The area under the ROC curve; None if all labels are wrong or all are right."""
    distinct, rank, wrong = _ranked(scores, is_wrong)
    above, below = (np.bincount(rank[part], minlength=len(distinct)) for part in (wrong, ~wrong))
    # Twice the number of pairs in the right order: in whole numbers, so that the last digit does not depend on the sum.
    twice = int(above @ (2 * below.cumsum() - below))
    return twice / (2 * int(above.sum()) * int(below.sum())) if 0 < wrong.sum() < len(wrong) else None


def average_precision(scores: object, is_wrong: object) -> float | None:
    """The average precision, Σ (R_n − R_{n−1}) P_n over the distinct scores; None without a wrong label."""
    from sklearn.metrics import average_precision_score

    _, rank, wrong = _ranked(scores, is_wrong)
    return float(average_precision_score(wrong, rank)) if wrong.any() else None


def best_f1(scores: object, is_wrong: object) -> BestF1 | None:
    """The best F1 over all thresholds; None without a wrong label."""
    distinct, rank, wrong = _ranked(scores, is_wrong)
    if not wrong.any():
        return None
    flagged, hits = (np.bincount(part, minlength=len(distinct))[::-1].cumsum() for part in (rank, rank[wrong]))
    f1 = 2 * hits / (flagged + wrong.sum())
    best = int(f1.argmax())
    return BestF1(float(f1[best]), float(distinct[::-1][best]))


def precision_at(scores: object, is_wrong: object, k: int) -> float:
    """The fraction of wrong labels among the k highest scores.

    For ties at the k-th score, the result is the expectation over a random choice.
    """
    _, rank, wrong = _ranked(scores, is_wrong)
    if whole_number("k", k, least=1) > len(rank):
        raise PyriteError(f"k is {k}, but there are {len(rank)} samples")
    cut = np.partition(rank, -k)[-k]
    above = wrong[rank > cut]
    return float((above.sum() + (k - len(above)) * wrong[rank == cut].mean()) / k)


def _ranked(scores: object, is_wrong: object) -> tuple[Floats, Ints, Flags]:
    """Distinct scores, ascending; the rank of each sample among them, because scikit-learn refuses infinite scores."""
    values, wrong = to_floats(scores, "scores", infinite=True), to_flags(is_wrong, "is_wrong")
    check_same_length(scores=values, is_wrong=wrong)
    distinct, rank = np.unique(values, return_inverse=True)
    return distinct, rank, wrong


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
        return float(np.nansum(self._gaps * self.count) / self.count.sum()) if self.count.any() else None

    @property
    def maximum_calibration_error(self) -> float | None:
        """The largest gap between confidence and accuracy in any bin; None without samples."""
        return float(np.nanmax(self._gaps)) if self.count.any() else None

    @property
    def _gaps(self) -> Floats:
        return np.abs(self.confidence - self.accuracy)


def reliability(confidence: object, correct: object, bins: int = 15) -> Reliability:
    """The reliability curve of the probabilities of an event, such as a right prediction or a wrong label.

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
    """The probability of the predicted class of each sample, and whether it is the label, as input of
    ``reliability``.
    """
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
