"""What a fit of label noise is: the chances of every true class, and of the labels that it is given.

The true class k of a sample whose preferred class is a has the probability p(k) ∝ exp(β m_k + b[a, k]), with m_k its
margins, and the label is drawn from row k of a matrix T. The probability that a label is wrong, the likely true class
and the noise rate follow by Bayes' rule. How far T is smoothed towards symmetric noise is never certain, so a fit has
several parts that differ in it, and posterior probabilities are averaged over them.
"""

from dataclasses import dataclass, field, replace
from typing import Final, final

import numpy as np
from scipy.special import logsumexp

from pyrite.diagnostics.arrays import Floats, Ints

__all__ = ["FARTHEST", "USUAL_SHARPNESS", "Noise", "NoiseFit", "log_odds"]

_SURE_GAIN: Final = 6.0  # nats
FARTHEST: Final = 5000.0
"""Margins are bounded at so many typical gaps below the first class, for float32."""

USUAL_SHARPNESS: Final = 6.0
"""In units of the typical gap the prior of β is normal, with this mean and this standard deviation.

The search begins there. If all gaps are equal, labels do not tell errors of the net from wrong labels, and the prior
decides, in favour of the net. It also keeps β finite if a few samples are separated without an error. On noisy digits 4
to 12 differ by less than 0.001 in average precision and Brier score.
"""


@final
@dataclass(frozen=True, eq=False)
class Noise:
    """One set of parameters.

    Attributes:
        sharpness: β, for margins in the unit they were passed in.
        bias: b, one number per class; one row for each class that a net may prefer, or one row for all.
        matrix: T[i, j] = P(given j | true i).
        smoothing: pseudo-samples per class that were added to its rows.
        rate: the share of wrong labels.
        gain: the mean log-likelihood of a label over that of guessing by frequency.
        reach: margins are clipped at this distance below the largest of their row.
    """

    sharpness: float
    bias: Floats
    matrix: Floats
    smoothing: float
    rate: float
    gain: float
    reach: float

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

    def evidence(self, margins: Floats, labels: Ints) -> Floats:
        """log p(k) T[k, label] up to a constant per sample: the evidence for each class."""
        with np.errstate(divide="ignore"):
            return np.asarray(self._logits(margins) + np.log(self.matrix).T[labels])

    def belief(self, margins: Floats) -> Floats:
        """p(k), the probability of each class before the label is known."""
        logits = self._logits(margins)
        shares = np.exp(logits - logits.max(1, keepdims=True))
        return np.asarray(shares / shares.sum(1, keepdims=True))

    def _logits(self, margins: Floats) -> Floats:
        bounded = np.maximum(margins - margins.max(1, keepdims=True), -self.reach)
        rows = margins.argmax(1) if len(self.bias) > 1 else 0
        return np.asarray(self.sharpness * bounded + self.bias[rows])


@final
@dataclass(frozen=True, eq=False)
class NoiseFit:
    """What was fitted, and what is known about it.

    Attributes:
        best: the parameters that estimates of the rate rest on.
        parts: parameters with other smoothings, over which posterior probabilities are averaged.
        shares: the weight of each part; they add up to 1.
        unseen_gain: the log-likelihood of all labels over that of guessing by frequency, each label by a fit to other
            samples.
        gain_error: its standard error.
        surplus: the log-likelihood of all labels over that of a fit in which no label is wrong.
        own_surplus: the same with each label by a fit to other samples; infinite if classes have too few samples to
            tell.
        rate_error, matrix_error: the standard errors of the rate and of the matrix.
    """

    best: Noise
    parts: tuple[Noise, ...]
    shares: Floats
    unseen_gain: float = 0.0
    gain_error: float = np.inf
    surplus: float = 0.0
    own_surplus: float = np.inf
    rate_error: float = np.inf
    matrix_error: Floats = field(default_factory=lambda: np.array(np.inf))

    @classmethod
    def initial(cls, classes: int, unit: float) -> "NoiseFit":
        """What is used where nothing can be fitted."""
        start = Noise.initial(classes, unit)
        return cls(start, (start,), np.ones(1))

    def in_unit(self, unit: float) -> "NoiseFit":
        """The same for margins that were divided by ``unit`` when it was fitted."""
        return replace(self, best=self.best.in_unit(unit), parts=tuple(part.in_unit(unit) for part in self.parts))

    @property
    def can_tell(self) -> bool:
        """Whether the net knows anything about labels that were not fitted.

        Their gain must be above three standard errors, or, as with a rare class few labels decide and the error is
        large, above what random scores do not reach: in simulations with 2 to 100 classes these gained up to 4.
        """
        return self.unseen_gain > min(3 * self.gain_error, _SURE_GAIN) and self.best.sharpness > 0

    @property
    def matrix(self) -> Floats:
        """P(given j | true i), averaged over the parts."""
        return np.asarray(sum(share * part.matrix for share, part in self._used))

    def evidence(self, margins: Floats, labels: Ints) -> Floats:
        """The logarithm of the probability of each true class, up to a constant per sample, averaged over the parts."""
        if len(self._used) == 1:
            return self._used[0][1].evidence(margins, labels)
        logs = np.stack([part.evidence(margins, labels) for _, part in self._used])
        logs -= logsumexp(logs, axis=2, keepdims=True)
        return np.asarray(logsumexp(logs, axis=0, b=np.array([share for share, _ in self._used])[:, None, None]))

    @property
    def _used(self) -> list[tuple[float, Noise]]:
        return [(share, part) for share, part in zip(self.shares.tolist(), self.parts, strict=True) if share > 0]


def log_odds(evidence: Floats, labels: Ints) -> Floats:
    """The log-odds that the label is wrong: all other classes together against it."""
    rows = np.arange(len(labels))
    own = evidence[rows, labels]
    others = evidence.copy()
    others[rows, labels] = -np.inf
    most = others.max(1)
    return np.asarray(most + np.log(np.exp(others - most[:, None]).sum(1)) - own)
