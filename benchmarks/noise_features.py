"""What labels and scores look like, in numbers that do not depend on the scale of the scores.

A model gives the classes of a sample the probabilities p. ``LabelGroups`` finds the sharpness at which p predicts the
*given* labels best, and fits noise matrices under the assumption that true classes are some power of p sharper: scores
and labels alone cannot tell how sharp they are. ``benchmarks.audit_rate`` regresses the noise rate on ``features``.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Final, final

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq, minimize_scalar
from scipy.special import expit, log_expit, logsumexp

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_PSEUDO: Final = 10.0  # pseudo-samples per class, which pull a row of the matrix towards symmetric noise
_ROUNDS: Final = 15  # of expectation maximisation; the rate then changes by less than 0.1 points a round
_LEAST: Final = -16.0  # log-probabilities below this count as this: models are not that certain
_SURE_GAIN: Final = 6.0  # nats over class frequencies, for all labels together
POWERS: Final = (1, 2, 3, 5, 8)
"""How much sharper than the given labels true classes may be."""
_FAR: Final = (1, 2, 3, 4)
_SUREST: Final = (0.1, 0.33, 0.66)
_TIES: Final = (
    0.125,
    0.25,
    0.5,
)  # of the median gap: noise lowers all gaps alike, classes that are alike leave small ones

FEATURES: Final = (
    "differ", "doubt",
    *(f"{name} {part}" for part in _SUREST for name in ("differ", "doubt")),
    *(f"fit {power}" for power in POWERS), "symmetric fit 3",
    *(f"far {nats}" for nats in _FAR),
    *(f"ties {part}" for part in _TIES), "confident",
    "largest class", "classes", "samples", "skill", "gain", "gain 3", "gain 8", "pattern",
)  # fmt: skip
"""What the regression sees. All are free of the scale of the scores; fractions are square roots."""


def symmetric(classes: int, rate: float) -> Floats:
    """The matrix of symmetric noise."""
    return np.where(np.eye(classes, dtype=bool), 1 - rate, rate / (classes - 1))


def sharpened(log_p: Floats, sharpness: float) -> Floats:
    """Log-probabilities in proportion to the power ``sharpness`` of these."""
    powers = sharpness * log_p
    powers -= logsumexp(powers, axis=1, keepdims=True)
    return np.asarray(np.maximum(powers, _LEAST, out=powers))


@final
class LabelGroups:
    """Log-probabilities that predict the given labels best, sorted by label, so that a pass is two products per class.

    Args:
        margins: one row per sample, one column per class.
        labels: the given ones.
    """

    def __init__(self, margins: Floats, labels: Ints) -> None:
        order = np.argsort(labels, kind="stable")
        log_p = log_expit(margins[order])
        self.labels, self.classes = labels[order], margins.shape[1]
        self.rows = np.arange(len(labels))
        self.counts = np.bincount(labels, minlength=self.classes)
        ends = self.counts.cumsum()
        self.groups: Sequence[tuple[int, slice]] = [
            (label, slice(int(end - count), int(end)))
            for label, (end, count) in enumerate(zip(ends, self.counts, strict=True))
            if count
        ]
        self.sharpness = self._calibrate(log_p)
        self.log_p = sharpened(log_p, self.sharpness)

    def _calibrate(self, log_p: Floats) -> float:
        """The sharpness at which the likelihood of the given labels is largest."""

        def loss(log_sharpness: float) -> float:
            powers = np.exp(log_sharpness) * log_p
            own = powers[self.rows, self.labels] - logsumexp(powers, axis=1)
            return -float(np.maximum(own, _LEAST).mean())

        return float(np.exp(minimize_scalar(loss, bounds=(-6, 6), method="bounded", options={"xatol": 0.01}).x))

    @cached_property
    def own(self) -> Floats:
        """The log-probability of each label."""
        return np.asarray(self.log_p[self.rows, self.labels])

    @property
    def can_tell(self) -> bool:
        """Whether labels are predicted better than by their frequencies, by more nats than random scores reach."""
        gains = self.own - np.log(np.maximum(self.counts, 1) / len(self.labels))[self.labels]
        return bool(gains.sum() > _SURE_GAIN)

    def fit_matrix(self, sharper: float) -> tuple[Floats, float, float]:
        """By expectation maximisation, for classes so much sharper: matrix, mean log-likelihood, and noise rate.

        Rows are smoothed towards symmetric noise of the same rate; how much that pulls depends on the samples.
        """
        p = np.exp(sharpened(self.log_p, sharper))
        matrix = symmetric(self.classes, 0.1)
        likelihood = 0.0
        for _ in range(_ROUNDS):
            expected = np.zeros_like(matrix)
            likelihood = 0.0
            for label, rows in self.groups:
                of_label = p[rows] @ matrix[:, label]
                likelihood += float(np.log(of_label).sum())
                expected[:, label] = matrix[:, label] * (p[rows].T @ (1 / of_label))
            rate = 1 - float(np.trace(expected)) / len(self.labels)
            even = symmetric(self.classes, rate)
            matrix = even if self.classes == 2 else _smoothed(expected, even)
        return matrix, likelihood / len(self.labels), rate

    def symmetric_rate(self, sharper: float) -> float:
        """The noise rate of symmetric noise, for classes so much sharper."""
        own = np.exp(sharpened(self.log_p, sharper)[self.rows, self.labels])
        rate = 0.1
        for _ in range(_ROUNDS):
            wrong = (1 - own) * rate / (self.classes - 1)
            rate = float((wrong / (wrong + own * (1 - rate))).mean())
        return rate


def _smoothed(expected: Floats, even: Floats) -> Floats:
    return np.asarray((expected + _PSEUDO * even) / (expected.sum(1, keepdims=True) + _PSEUDO))


def features(groups: LabelGroups) -> Floats:
    """The numbers that ``FEATURES`` names."""
    p, labels, count, classes = np.exp(groups.log_p), groups.labels, len(groups.labels), groups.classes
    preferred, top = p.argmax(1), p.max(1)
    second, first = np.partition(groups.log_p, -2, axis=1)[:, -2:].T
    differ = preferred != labels
    surest = np.argsort(second - first, kind="stable")
    fits = {power: groups.fit_matrix(power) for power in POWERS}
    prior = groups.counts / count
    entropy = -float((prior[prior > 0] * np.log(prior[prior > 0])).sum())
    loss, best = -float(groups.own.mean()), max(likelihood for _, likelihood, _ in fits.values())
    fractions = [differ.mean(), 1 - top.mean()]
    for part in _SUREST:
        rows = surest[: max(5, int(part * count))]
        fractions += [differ[rows].mean(), 1 - top[rows].mean()]
    fractions += [rate for _, _, rate in fits.values()]
    fractions.append(groups.symmetric_rate(3))
    fractions += [(groups.own - first < -nats).mean() for nats in _FAR]
    fractions += [(first - second < part * np.median(first - second)).mean() for part in _TIES]
    fractions.append(_confident(groups, p))
    gains = [max(best + loss, 0.0) ** 0.5, fits[3][1] - fits[1][1], fits[8][1] - fits[1][1]]
    rest = [prior.max(), 1 / classes, np.log(count), 1 - loss / entropy, *gains, _pattern(p, preferred, labels)]
    return np.array([*np.sqrt(np.maximum(fractions, 0)), *rest])


def _confident(groups: LabelGroups, p: Floats) -> float:
    """The fraction of labels that differ from a class whose probability is above its mean for labels of that class.

    This is the off-diagonal part of the confident joint (Northcutt et al., 2021).
    """
    means = np.ones(groups.classes)
    for label, rows in groups.groups:
        means[label] = p[rows, label].mean()
    above = np.where(p >= means, p, -1.0)
    counted = above.max(1) >= 0
    return float((above.argmax(1) != groups.labels)[counted].mean()) if counted.any() else 0.0


def _pattern(p: Floats, preferred: npt.NDArray[Any], labels: npt.NDArray[Any]) -> float:
    """The correlation, over pairs of classes, of labels that differ with what the model doubts; 0 for two classes."""
    classes = p.shape[1]
    if classes == 2:
        return 0.0
    doubts, errors = np.zeros((classes, classes)), np.zeros((classes, classes))
    order = np.argsort(preferred, kind="stable")
    present, first = np.unique(preferred[order], return_index=True)
    doubts[present] = np.add.reduceat(p[order], first, axis=0)
    np.add.at(errors, (preferred, labels), 1.0)
    pairs = ~np.eye(classes, dtype=bool)
    one, two = np.sqrt(errors[pairs]), np.sqrt(doubts[pairs])
    return float(np.corrcoef(one, two)[0, 1]) if one.std() > 0 and two.std() > 0 else 0.0


def log_odds(groups: LabelGroups, log_p: Floats, labels: Ints) -> Floats:
    """The log-odds that a label is wrong, by the matrix for classes that are twice as sharp as the labels."""
    matrix, _, _ = groups.fit_matrix(2)
    joint = sharpened(log_p, 2 * groups.sharpness) + np.log(np.maximum(matrix, 1e-9)).T[labels]
    rows = np.arange(len(labels))
    own = joint[rows, labels].copy()
    joint[rows, labels] = -np.inf
    return np.asarray(logsumexp(joint, axis=1) - own)


def calibrated(score: Floats, rate: float, slope: float) -> Floats:
    """Log-odds times the slope, moved to where the mean probability is the rate."""
    wanted = min(max(rate, 1e-9), 1 - 1e-9)
    return np.asarray(slope * score + brentq(lambda shift: expit(slope * score + shift).mean() - wanted, -500, 500))
