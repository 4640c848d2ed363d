"""What is known of every label by Bayes' rule, once the noise is fitted and the noise rate is estimated."""

from typing import Any, Final

import numpy as np
import numpy.typing as npt
from scipy.special import expit
from scipy.stats import rankdata

from pyrite.arrays import Floats, Ints
from pyrite.auditing.noise_fit import log_sum_exp

_LOWEST_THRESHOLD: Final = 0.1  # with fewer wrong labels than one in ten, the page advises to stop a review
_NOTHING: Final = 0.4  # expected wrong labels; an audit of 50 labels, the fewest, finds 0.5 or more

CHOICES: Final = 5
"""Likely classes that are kept per sample."""


def log_odds(log_joint: Floats, labels: Ints) -> Floats:
    """The log-odds that the label is wrong: all other classes together against it."""
    own, others = _split(log_joint, labels)
    return log_sum_exp(others)[:, 0] - own


def class_probabilities(log_joint: Floats, labels: Ints, score: Floats) -> Floats:
    """The probability of every true class, if these are the log-odds of a wrong label."""
    _, others = _split(log_joint, labels)
    others -= log_sum_exp(others) - np.log(expit(score))[:, None]
    chances = np.exp(others, out=others)
    chances[np.arange(len(labels)), labels] = expit(-score)
    return chances


def _split(log_joint: Floats, labels: Ints) -> tuple[Floats, Floats]:
    """The value of the label, and those of the other classes, with minus infinity in its place."""
    rows, others = np.arange(len(labels)), log_joint.copy()
    others[rows, labels] = -np.inf
    return log_joint[rows, labels], others


def likely_classes(chances: Floats, labels: Ints) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float32]]:
    """The likeliest true classes, and their probabilities. Of equal ones the given label comes first."""
    rows, left = np.arange(len(labels)), chances.copy()
    shape = min(CHOICES, chances.shape[1]), len(labels)
    classes, likelihoods = np.empty(shape, np.int32), np.empty(shape, np.float32)
    for place in range(len(classes)):
        top = left.argmax(1)
        top = np.where(left[rows, labels] == left[rows, top], labels, top)
        classes[place], likelihoods[place] = top, left[rows, top]
        left[rows, top] = -1
    return classes.T, likelihoods.T


def sums_by_label(chances: npt.NDArray[np.floating[Any]], labels: Ints) -> tuple[Ints, Floats]:
    """The labels that occur, and the expected number of samples of each true class that have them."""
    order = np.argsort(labels, kind="stable")
    present, starts = np.unique(labels[order], return_index=True)
    return present, np.add.reduceat(chances[order], starts, axis=0, dtype=np.float64)


def noise_matrix(counts: Floats) -> tuple[Floats, Floats]:
    """T[i, j] = P(given j | true i) by expected counts, and its standard errors; the identity for absent classes."""
    totals = counts.sum(1, keepdims=True)
    matrix, absent = counts / np.maximum(totals, 1e-12), np.flatnonzero(totals[:, 0] <= 0)
    matrix[absent, absent] = 1
    variance = 1 - matrix
    variance *= matrix
    variance /= np.maximum(totals, 1.0)
    return matrix, np.sqrt(variance, out=variance)


def suspect_threshold(wrong: Floats) -> float:
    """The probability above which the expected F1 of finding wrong labels is best.

    Where hardly any label is wrong that could be any probability, so the threshold is at least one in ten, or what the
    label has at whose rank as many come as are expected to be wrong: there is something to begin with. There are no
    suspects if nothing wrong is expected to be left after a review, or if most labels are equally unlikely to be wrong.
    """
    ordered, expected = np.sort(wrong)[::-1], float(wrong.sum())
    f1 = np.cumsum(ordered)
    f1 /= np.arange(1, len(ordered) + 1) + expected
    best = ordered[f1.argmax()]
    at_rank = ordered[min(int(expected), len(ordered) - 1)] if expected > _NOTHING else 1.0
    threshold = float(max(best, min(_LOWEST_THRESHOLD, at_rank)))
    most = threshold < _LOWEST_THRESHOLD and np.mean(wrong >= threshold) > 0.5
    return float(np.nextafter(threshold, 2)) if most else threshold


def values_at_same_ranks(own: Floats, other: Floats) -> Floats:
    """The values of ``other`` at the ranks of ``own``, as fractions of the length; ties keep the order of ``own``."""
    rank = np.asarray((rankdata(own, "ordinal") - 0.5) / len(own))
    values: Floats = np.interp(rank, (np.arange(len(other)) + 0.5) / len(other), np.sort(other))
    return values + 1e-6 * rank
