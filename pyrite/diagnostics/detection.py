"""How well a score detects the samples with a wrong label. A higher score means more probably wrong.

No result depends on the order of samples with equal scores.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np

from pyrite.checks import whole_number
from pyrite.diagnostics.arrays import Floats, Ints, check_same_length, to_flags, to_floats
from pyrite.errors import PyriteError

__all__ = ["BestF1", "Detection", "average_precision", "best_f1", "detection", "precision_at", "roc_auc"]


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
        precision_at: for each k, the share of wrong labels among the k highest scores.
    """

    roc_auc: float | None
    average_precision: float | None
    best_f1: BestF1 | None
    precision_at: Mapping[int, float]


def detection(scores: object, is_wrong: object, at: Iterable[int] = ()) -> Detection:
    """All measures, from one sort of the scores.

    >>> result = detection([0.9, 0.8, 0.7, 0.1], [True, False, True, False], at=[1, 2])
    >>> result.roc_auc, round(result.average_precision, 4), result.best_f1, dict(result.precision_at)
    (0.75, 0.8333, BestF1(f1=0.8, threshold=0.7), {1: 1.0, 2: 0.5})
    """
    groups = _groups(scores, is_wrong)
    return Detection(_roc_auc(groups), _average_precision(groups), _best_f1(groups), _precision_at(groups, at))


def roc_auc(scores: object, is_wrong: object) -> float | None:
    """The area under the ROC curve; None unless there are both wrong and true labels."""
    return _roc_auc(_groups(scores, is_wrong))


def average_precision(scores: object, is_wrong: object) -> float | None:
    """Σ (recall gained) · precision over the distinct scores, highest first; None without a wrong label."""
    return _average_precision(_groups(scores, is_wrong))


def best_f1(scores: object, is_wrong: object) -> BestF1 | None:
    """The best F1 over all thresholds; None without a wrong label."""
    return _best_f1(_groups(scores, is_wrong))


def precision_at(scores: object, is_wrong: object, k: int) -> float:
    """The share of wrong labels among the k highest scores.

    Among samples that tie with the k-th, it is the expectation of a random choice.
    """
    return _precision_at(_groups(scores, is_wrong), [k])[k]


class _Groups(NamedTuple):
    """Groups of equal score, highest first: the score, and cumulative numbers of wrong labels and of all samples."""

    score: Floats
    wrong: Ints
    samples: Ints


def _groups(scores: object, is_wrong: object) -> _Groups:
    values, wrong = to_floats(scores, "scores", infinite=True), to_flags(is_wrong, "is_wrong")
    check_same_length(scores=values, is_wrong=wrong)
    order = np.argsort(-values, kind="stable")
    values, wrong = values[order], wrong[order]
    last = np.flatnonzero(np.append(values[1:] != values[:-1], True)[: len(values)])
    return _Groups(values[last], np.cumsum(wrong, dtype=np.int64)[last], last + 1)


def _roc_auc(groups: _Groups) -> float | None:
    wrong, true = groups.wrong, groups.samples - groups.wrong
    if not len(wrong) or not wrong[-1] or not true[-1]:
        return None
    # Twice the number of pairs in the right order, exact in whole numbers.
    in_group, below = np.diff(wrong, prepend=0), true[-1] - true
    twice = np.sum(in_group * (2 * below + np.diff(true, prepend=0)))
    return float(twice / (2 * int(wrong[-1]) * int(true[-1])))


def _average_precision(groups: _Groups) -> float | None:
    if not len(groups.wrong) or not groups.wrong[-1]:
        return None
    gained = np.diff(groups.wrong, prepend=0)
    return float(np.sum(gained * (groups.wrong / groups.samples)) / groups.wrong[-1])


def _best_f1(groups: _Groups) -> BestF1 | None:
    if not len(groups.wrong) or not groups.wrong[-1]:
        return None
    f1 = 2 * groups.wrong / (groups.samples + groups.wrong[-1])
    best = int(f1.argmax())
    return BestF1(float(f1[best]), float(groups.score[best]))


def _precision_at(groups: _Groups, at: Iterable[int]) -> dict[int, float]:
    samples = int(groups.samples[-1]) if len(groups.samples) else 0
    shares = {}
    for k in at:
        if whole_number("k", k, least=1) > samples:
            raise PyriteError(f"k is {k}, but there are {samples} samples")
        group = int(np.searchsorted(groups.samples, k))
        before, wrong_before = (int(groups.samples[group - 1]), int(groups.wrong[group - 1])) if group else (0, 0)
        rate = (groups.wrong[group] - wrong_before) / (groups.samples[group] - before)
        shares[int(k)] = float((wrong_before + (k - before) * rate) / k)
    return shares
