"""What is known of every label: by Bayes' rule once the noise is fitted and its rate estimated, and after a review.

The page of an audit computes the same numbers while somebody reviews (``report/templates/audit_estimate.js``).
"""

import math
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, final

import numpy as np
import numpy.typing as npt
from scipy.linalg import cho_factor, cho_solve
from scipy.special import betaincinv, expit, logit
from scipy.stats import rankdata
from sklearn.isotonic import isotonic_regression

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
    counts = np.arange(1, len(ordered) + 1, dtype=np.float64)
    counts += expected  # in place: with a million labels, every array counts
    f1 /= counts
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


# --- after a review ---------------------------------------------------------------------------------------------------

_LIMIT: Final = 9.0  # log-odds; audits are not taken at their word beyond one label in 8,000
_WIDTH: Final = 0.5  # of a stratum, in log-odds

# The prior standard deviations of what is added to the log-odds of an audit: the same for all labels, proportional to
# the log-odds (1 at log-odds of 3), and varying with a length scale. docs/concepts/audit-method.md gives the
# reasons.
_SHIFT: Final = 3.0
_SLOPE: Final = 1 / 3
_LOCAL: Final = 1.5
_LENGTH: Final = 2.0

_QUANTILE: Final = 1.959963984540054  # of the normal distribution: intervals of 95 %


class Estimate(NamedTuple):
    """A fraction of wrong labels, and the ends of its interval of 95 %."""

    value: float
    low: float
    high: float


class Strata(NamedTuple):
    """Samples grouped by their log-odds of a wrong label. Strata are in the order of these, and none is empty."""

    of: Ints  # the stratum of every sample
    size: Ints  # the number of samples of every stratum
    centre: Floats  # the log-odds of the mean probability of every stratum

    def counts(self, rows: Ints) -> Floats:
        """How many of these samples are in each stratum."""
        return np.bincount(self.of[rows], minlength=len(self.size)).astype(np.float64)


def stratify(score: Floats) -> Strata:
    """Group samples by their log-odds, into strata of width 0.5."""
    clipped = np.clip(score, -_LIMIT, _LIMIT)
    number = np.minimum((clipped + _LIMIT) // _WIDTH, 2 * _LIMIT / _WIDTH - 1)
    present, of = np.unique(number, return_inverse=True)
    size = np.bincount(of, minlength=len(present))
    return Strata(of, size, logit(np.bincount(of, expit(clipped)) / size))


@final
@dataclass(frozen=True, eq=False)
class Recalibration:
    """The probability of a wrong label in every stratum after some labels were reviewed.

    The log-odds of a stratum are those that the audit gives it plus a correction. Corrections have a Gaussian process
    as their prior: near the reviewed strata they follow the decisions, and far from them they are uncertain. So it does
    not matter how labels were chosen for the review, as long as they were chosen by their log-odds or at random.
    """

    centre: Floats  # the log-odds of every stratum by the audit
    log_odds: Floats  # those after the review, increasing
    covariance: Floats  # of these (Laplace approximation)

    @classmethod
    def fit(cls, strata: Strata, reviewed: Floats, wrong: Floats) -> "Recalibration":
        """Fit the corrections to the number of reviewed and of wrong labels of every stratum."""
        centre = strata.centre
        near = np.exp(-0.5 * ((centre[:, None] - centre) / _LENGTH) ** 2)
        prior = _SHIFT**2 + _SLOPE**2 * np.outer(centre, centre) + _LOCAL**2 * near
        log_odds = centre + _mode(centre, prior, reviewed, wrong)
        root, factor = _curvature(log_odds, prior, reviewed)
        scaled = root[:, None] * prior
        covariance = prior - scaled.T @ cho_solve(factor, scaled)
        return cls(centre, isotonic_regression(log_odds, sample_weight=strata.size.astype(np.float64)), covariance)

    def estimate(self, unreviewed: Floats, wrong: float, total: int) -> Estimate:
        """The fraction of wrong labels of ``total``, of which ``wrong`` are known and so many of each stratum are not.

        The interval is for the labels at hand, so it has no width when all are reviewed. Its ends are whole numbers of
        labels.
        """
        left = float(unreviewed.sum())
        probability = expit(self.log_odds)
        mean = float(unreviewed @ probability)
        spread = unreviewed * probability * (1 - probability)
        # The direction in which the number of wrong labels is most uncertain. Far along it that number is not linear.
        direction = self.covariance @ spread
        direction *= _QUANTILE / max(math.sqrt(float(spread @ direction)), 1e-300)
        ends = [float(unreviewed @ expit(self.log_odds + sign * direction)) for sign in (-1, 1)]
        drawn = _QUANTILE**2 * float(spread.sum())  # the labels at hand are a sample of their strata
        low = math.floor(max(mean - math.sqrt((mean - ends[0]) ** 2 + drawn), 0.0))
        high = math.ceil(min(mean + math.sqrt((ends[1] - mean) ** 2 + drawn), left))
        return Estimate((wrong + mean) / total, (wrong + low) / total, (wrong + high) / total)

    def scores(self, score: Floats) -> Floats:
        """The recalibrated log-odds of samples, in the order of the old ones."""
        log_odds = np.interp(np.clip(score, -_LIMIT, _LIMIT), self.centre, self.log_odds)
        return np.asarray(log_odds + 1e-6 * np.arcsinh(score))  # equal probabilities keep their order


def exact_estimate(wrong: int, checked: int) -> Estimate:
    """The fraction of wrong labels by a uniform random sample, with the interval of Clopper & Pearson (1934).

    >>> [round(number, 4) for number in exact_estimate(1, 10)]
    [0.1, 0.0025, 0.445]
    """
    low = betaincinv(wrong, checked - wrong + 1, 0.025) if wrong else 0.0
    high = betaincinv(wrong + 1, checked - wrong, 0.975) if wrong < checked else 1.0
    return Estimate(wrong / checked, float(low), float(high))


def _mode(centre: Floats, prior: Floats, reviewed: Floats, wrong: Floats) -> Floats:
    """The most likely corrections, by Newton's method with halved steps (Rasmussen & Williams, 2006, algorithm 3.1)."""

    def objective(weights: Floats) -> float:
        log_odds = centre + prior @ weights
        likelihood = wrong @ np.logaddexp(0, -log_odds) + (reviewed - wrong) @ np.logaddexp(0, log_odds)
        return float(-likelihood - 0.5 * weights @ prior @ weights)

    weights = np.zeros(len(centre))  # corrections are ``prior @ weights``: the prior need not be inverted
    for _ in range(200):
        correction = prior @ weights
        root, factor = _curvature(centre + correction, prior, reviewed)
        slope = root**2 * correction + wrong - reviewed * expit(centre + correction)
        step = slope - root * cho_solve(factor, root * (prior @ slope)) - weights
        length, now = 1.0, objective(weights)
        while length > 1e-6 and objective(weights + length * step) < now - 1e-12 * abs(now):
            length /= 2
        weights = weights + length * step
        if np.abs(length * (prior @ step)).max() < 1e-10:
            break
    return prior @ weights


def _curvature(log_odds: Floats, prior: Floats, reviewed: Floats) -> tuple[Floats, tuple[Floats, bool]]:
    """The root of the likelihood's second derivatives W, and the Cholesky factor of 1 + W½ K W½."""
    probability = expit(log_odds)
    root = np.sqrt(reviewed * probability * (1 - probability))
    return root, cho_factor(np.eye(len(root)) + root[:, None] * prior * root, lower=True)
