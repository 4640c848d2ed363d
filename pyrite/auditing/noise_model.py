"""What a fit of label noise is, and the posterior of every label by Bayes' rule.

The true class k of a sample whose preferred class is a has the probability p(k) ∝ exp(β m_k + b[a, k]), with m_k its
margins, and the label is drawn from row k of a matrix T. The probability that a label is wrong, the likely true class
and the noise rate follow by Bayes' rule. How far T is smoothed towards symmetric noise is never certain, so a fit has
several parts that differ in it, and posterior probabilities are averaged over them.
"""

from dataclasses import dataclass, field, replace
from typing import Final, final

import numpy as np
from scipy.special import expit, logsumexp, softmax

from pyrite.arrays import Floats, Ints

__all__ = [
    "FARTHEST",
    "USUAL_SHARPNESS",
    "Noise",
    "NoiseFit",
    "best_threshold",
    "class_probabilities",
    "likely_classes",
    "log_odds",
    "values_at_same_ranks",
    "with_error_odds",
]

_SURE_GAIN: Final = 6.0  # nats
_LOWEST_THRESHOLD: Final = 0.1  # with fewer wrong labels than one in ten, the page advises to stop a review
_CHOICES: Final = 5  # likely classes that are kept per sample

FARTHEST: Final = 5000.0
"""Margins are bounded at so many typical gaps below the first class, for float32."""

USUAL_SHARPNESS: Final = 6.0
"""In units of the typical gap the prior of β is normal, with this mean and this standard deviation.

It decides in favour of the net if all gaps are equal, and keeps β finite if a few samples are separated without an
error. On noisy digits 4 to 12 differ by less than 0.001 in average precision and Brier score.
"""


@final
@dataclass(frozen=True, eq=False)
class Noise:
    """One set of parameters."""

    sharpness: float  # β, for margins in the unit they were passed in
    bias: Floats  # b, one number per class; one row for each class that a net may prefer, or one row for all
    matrix: Floats  # T[i, j] = P(given j | true i)
    smoothing: float  # pseudo-samples per class that were added to its rows
    rate: float  # the noise rate
    gain: float  # the mean log-likelihood of a label over that of guessing by frequency
    reach: float  # margins are clipped at this distance below the largest of their row

    @classmethod
    def initial(cls, classes: int, unit: float = 1.0) -> "Noise":
        """The starting point of the fit: symmetric noise of 30 %. ``unit`` is the typical gap of the margins."""
        matrix = np.full((classes, classes), 0.3 / (classes - 1))
        np.fill_diagonal(matrix, 0.7)
        bias = np.zeros((1, classes))
        return cls(USUAL_SHARPNESS / unit, bias, matrix, smoothing=1.0, rate=0.3, gain=0.0, reach=FARTHEST * unit)

    def in_unit(self, unit: float) -> "Noise":
        """The same for margins that were divided by ``unit`` when it was fitted."""
        return replace(self, sharpness=self.sharpness / unit, reach=self.reach * unit)

    def prior(self, margins: Floats) -> Floats:
        """p(k), the probability of each class before the label is known."""
        return np.asarray(softmax(self._logits(margins), axis=1))

    def log_joint(self, margins: Floats, labels: Ints) -> Floats:
        """log p(k) T[k, label], up to a constant per sample."""
        with np.errstate(divide="ignore"):
            return np.asarray(self._logits(margins) + np.log(self.matrix).T[labels])

    def _logits(self, margins: Floats) -> Floats:
        bounded = np.maximum(margins - margins.max(1, keepdims=True), -self.reach)
        rows = margins.argmax(1) if len(self.bias) > 1 else 0
        return np.asarray(self.sharpness * bounded + self.bias[rows])


@final
@dataclass(frozen=True, eq=False)
class NoiseFit:
    """What was fitted, and how certain it is. A surplus is a log-likelihood over that of a fit without noise."""

    best: Noise  # the parameters that estimates of the rate rest on
    parts: tuple[Noise, ...]  # parameters with other smoothings, over which posterior probabilities are averaged
    weights: Floats  # of the parts; they add up to 1
    unseen_gain: float = 0.0  # log-likelihood over that of guessing by frequency, each label by a fit to other samples
    gain_error: float = np.inf  # its standard error
    surplus: float = 0.0  # of labels that were fitted
    own_surplus: float = np.inf  # of labels by a fit to other samples; infinite if there are too few for this
    rate_error: float = np.inf  # standard errors
    matrix_error: Floats = field(default_factory=lambda: np.array(np.inf))

    @classmethod
    def initial(cls, classes: int, unit: float) -> "NoiseFit":
        """What is used where nothing can be fitted."""
        start = Noise.initial(classes, unit)
        return cls(start, (start,), np.ones(1))

    @property
    def can_tell(self) -> bool:
        """Whether the net predicts labels that were not fitted.

        Their gain must be above three standard errors, or, as with a rare class few labels decide and the error is
        large, above what random scores do not reach: in simulations with 2 to 100 classes these gained up to 4.
        """
        return self.unseen_gain > min(3 * self.gain_error, _SURE_GAIN) and self.best.sharpness > 0

    @property
    def matrix(self) -> Floats:
        """P(given j | true i), averaged over the parts."""
        return np.asarray(sum(weight * part.matrix for weight, part in self._used))

    def log_joint(self, margins: Floats, labels: Ints) -> Floats:
        """The logarithm of the probability of each true class, up to a constant per sample, averaged over the parts."""
        if len(self._used) == 1:
            return self._used[0][1].log_joint(margins, labels)
        logs = np.stack([part.log_joint(margins, labels) for _, part in self._used])
        logs -= logsumexp(logs, axis=2, keepdims=True)
        return np.asarray(logsumexp(logs, axis=0, b=np.array([weight for weight, _ in self._used])[:, None, None]))

    @property
    def _used(self) -> list[tuple[float, Noise]]:
        return [(weight, part) for weight, part in zip(self.weights.tolist(), self.parts, strict=True) if weight > 0]


def log_odds(log_joint: Floats, labels: Ints) -> Floats:
    """The log-odds that the label is wrong: all other classes together against it."""
    own, others = _split(log_joint, labels)
    return np.asarray(logsumexp(others, axis=1) - own)


def class_probabilities(log_joint: Floats, labels: Ints, score: Floats) -> Floats:
    """The probability of every true class, if these are the log-odds of a wrong label."""
    _, others = _split(log_joint, labels)
    chances = softmax(others, axis=1) * expit(score)[:, None]
    chances[np.arange(len(labels)), labels] = expit(-score)
    return np.asarray(chances)


def _split(log_joint: Floats, labels: Ints) -> tuple[Floats, Floats]:
    """The value of the label, and those of the other classes, with minus infinity in its place."""
    rows, others = np.arange(len(labels)), log_joint.copy()
    others[rows, labels] = -np.inf
    return log_joint[rows, labels], others


def likely_classes(chances: Floats, labels: Ints) -> tuple[Ints, Floats]:
    """The likeliest true classes, and their probabilities. Of equal ones the given label comes first."""
    rows, left = np.arange(len(labels)), chances.copy()
    classes, likelihoods = np.empty((2, min(_CHOICES, chances.shape[1]), len(labels)))
    for place in range(len(classes)):
        top = left.argmax(1)
        top = np.where(left[rows, labels] == left[rows, top], labels, top)
        classes[place], likelihoods[place] = top, left[rows, top]
        left[rows, top] = -1
    return classes.T.astype(np.int64), likelihoods.T


def best_threshold(wrong: Floats) -> float:
    """The probability above which the expected F1 of finding wrong labels is best.

    If hardly any label is wrong that could be any probability, so there is a lowest threshold.
    """
    ordered = np.sort(wrong)[::-1]
    expected = 2 * np.cumsum(ordered) / (np.arange(1, len(ordered) + 1) + wrong.sum())
    return max(float(ordered[expected.argmax()]), _LOWEST_THRESHOLD)


def values_at_same_ranks(own: Floats, other: Floats) -> Floats:
    """The values of ``other`` at the ranks of ``own``, as fractions of the length; ties keep the order of ``own``."""
    rank = np.empty(len(own))
    rank[np.argsort(own, kind="stable")] = (np.arange(len(own)) + 0.5) / len(own)
    return np.interp(rank, (np.arange(len(other)) + 0.5) / len(other), np.sort(other)) + 1e-6 * rank


def with_error_odds(matrix: Floats, shift: float) -> Floats:
    """The matrix with the odds of every error multiplied by exp(shift).

    >>> with_error_odds(np.array([[0.5, 0.5], [0.0, 1.0]]), np.log(3.0))
    array([[0.25, 0.75],
           [0.  , 1.  ]])
    """
    changed = matrix * np.exp(shift)
    changed[np.diag_indices(len(matrix))] = np.diag(matrix)
    return np.asarray(changed / changed.sum(1, keepdims=True))
