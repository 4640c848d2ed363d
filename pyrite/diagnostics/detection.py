"""How well a score detects the samples with a wrong label. A higher score means more probably wrong.

No result depends on the order of samples with equal scores.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np

from pyrite.arrays import Flags, Floats, Ints, check_same_length, to_flags, to_floats
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
    """All measures.

    >>> result = detection([0.9, 0.8, 0.7, 0.1], [True, False, True, False], at=[1, 2])
    >>> result.roc_auc, round(result.average_precision, 4), result.best_f1, dict(result.precision_at)
    (0.75, 0.8333, BestF1(f1=0.8, threshold=0.7), {1: 1.0, 2: 0.5})
    """
    precisions = {int(k): precision_at(scores, is_wrong, k) for k in at}
    return Detection(
        roc_auc(scores, is_wrong), average_precision(scores, is_wrong), best_f1(scores, is_wrong), precisions
    )


def roc_auc(scores: object, is_wrong: object) -> float | None:
    """The area under the ROC curve; None unless there are both wrong and true labels."""
    distinct, rank, wrong = _ranked(scores, is_wrong)
    above, below = (np.bincount(rank[part], minlength=len(distinct)) for part in (wrong, ~wrong))
    # Twice the number of pairs in the right order: in whole numbers, so that the last digit does not depend on the sum.
    twice = int(above @ (2 * below.cumsum() - below))
    return twice / (2 * int(above.sum()) * int(below.sum())) if 0 < wrong.sum() < len(wrong) else None


def average_precision(scores: object, is_wrong: object) -> float | None:
    """Σ (recall gained) · precision over the distinct scores, highest first; None without a wrong label."""
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

    Among samples that tie with the k-th, it is the expectation of a random choice.
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
