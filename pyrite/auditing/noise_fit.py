"""Which label noise explains the labels best, given what a net that never saw them makes of the samples.

The true class k of a sample has the probability p(k) ∝ exp(β m_k + b_k), with m_k the margins the net gives, and the
label is drawn from row k of a matrix T, whose chances of error are larger where the net is less sure: they are
multiplied by exp(c (h - 1/2)), with h from 0 for the surest to 1 for the least sure sample. Sharpness β, bias b and
matrix T are those under which the given labels are most likely (expectation maximisation); the probability that a label
is wrong, the likely true class and the noise rate are then Bayes' rule. Three things follow:

- The better the net already explains the labels by its own doubt, the less noise is found: on true labels β is such
  that p is calibrated and T is near the identity.
- The label must not have been learned by the net that is asked: what is learned by heart looks right. Held-out samples
  alone can be fitted.
- Whether people err where the net doubts, or the net doubts where people are right, the labels alone cannot tell: c is
  an assumption, not fitted. Without it (c = 0) a third of the wrong labels of CIFAR-10N would be taken for doubt.
"""

from dataclasses import dataclass, replace
from typing import Final, final

import numpy as np

from pyrite.diagnostics.arrays import Floats, Ints

__all__ = ["NoiseFit", "fit_noise", "log_odds"]

_STEPS: Final = 500
_SETTLED: Final = 1e-7  # of the mean log-likelihood, from step to step
_RESAMPLES: Final = 20  # a standard error from so many is good to a sixth
_HARDER: Final = 1.0  # c, chosen on human and made noise: docs/auditing.md
_MOST: Final = 0.95  # the largest chance of error that a sample of any class may have
_CERTAIN: Final = 30.0  # a margin beyond it is taken for it: of a probability of 1e-13 nobody can be surer


@final
@dataclass(frozen=True, eq=False)
class NoiseFit:
    """The noise that was found.

    Attributes:
        sharpness: β.
        bias: b, a number a class.
        matrix: T[i, j] = P(given j | true i), for a sample of middling difficulty, and ``average`` over all samples.
        sure: the largest margin of the samples in even steps from the least sure to the surest, by which others are
            said to be easy or hard.
        rate: the share of wrong labels.
        gain: the mean log-likelihood of a label over that of guessing by frequency.
        gain_error, rate_error, average_error: their standard errors.
    """

    sharpness: float
    bias: Floats
    matrix: Floats
    average: Floats
    sure: Floats
    rate: float
    gain: float
    gain_error: float
    rate_error: float
    average_error: Floats

    @classmethod
    def none(cls, classes: int) -> "NoiseFit":
        """What is thought before a label was seen: symmetric noise of 30 %, which is where a search begins."""
        matrix = np.full((classes, classes), 0.3 / (classes - 1))
        np.fill_diagonal(matrix, 0.7)
        unknown = np.full_like(matrix, np.inf)
        return cls(0.5, np.zeros(classes), matrix, matrix, np.zeros(2), 0.3, 0.0, np.inf, np.inf, unknown)

    @property
    def can_tell(self) -> bool:
        """Whether the net knows anything about the labels: its gain is above three standard errors."""
        return self.gain > 3 * self.gain_error and self.sharpness > 0

    def evidence(self, margins: Floats, labels: Ints) -> Floats:
        """log p(k) T[k, label] up to a number a sample: how well each class explains the label."""
        bounded = np.clip(margins, -_CERTAIN, _CERTAIN)
        chances, _ = _chances(self.matrix, _factors(bounded, self.sure), labels)
        with np.errstate(divide="ignore"):
            return np.asarray(self.sharpness * bounded + self.bias + np.log(chances))


def log_odds(evidence: Floats, labels: Ints) -> Floats:
    """The log-odds that the label is wrong: all other classes together against it."""
    rows = np.arange(len(labels))
    own = evidence[rows, labels]
    others = evidence.copy()
    others[rows, labels] = -np.inf
    most = others.max(1)
    return np.asarray(most + np.log(np.exp(others - most[:, None]).sum(1)) - own)


def fit_noise(margins: Floats, labels: Ints, seed: int) -> NoiseFit:
    """The likeliest noise.

    Args:
        margins: of every class, of nets that did not learn the labels; a row a sample.
        labels: the given ones.
        seed: samples are drawn again, with replacement, for the standard errors.
    """
    fit = _fit(margins, labels, NoiseFit.none(margins.shape[1]))
    random = np.random.default_rng(seed)
    drawn = (random.integers(len(labels), size=len(labels)) for _ in range(_RESAMPLES))
    again = [_fit(margins[rows], labels[rows], fit) for rows in drawn]
    return replace(
        fit,
        rate_error=float(np.std([other.rate for other in again], ddof=1)),
        average_error=np.std([other.average for other in again], axis=0, ddof=1),
    )


def _fit(margins: Floats, labels: Ints, start: NoiseFit) -> NoiseFit:
    order = np.argsort(labels, kind="stable")
    labels, margins = labels[order], np.clip(margins[order], -_CERTAIN, _CERTAIN)
    present, first = np.unique(labels, return_index=True)
    sure = np.quantile(margins.max(1), np.linspace(0, 1, 101))
    factors = _factors(margins, sure)
    sharpness, bias, matrix = start.sharpness, start.bias, start.matrix
    before = -np.inf
    for _ in range(_STEPS):
        prior = _softmax(sharpness * margins + bias)
        chances, exposed = _chances(matrix, factors, labels)
        joint = prior * chances
        likelihood = joint.sum(1)
        likely = float(np.log(likelihood).mean())
        truth = joint / likelihood[:, None]
        counts = np.zeros_like(matrix)
        counts[:, present] = np.add.reduceat(truth, first).T
        matrix = _matrix(counts, (truth * exposed).sum(0))
        sharpness, bias = _sharper(sharpness, bias, margins, truth, prior)
        if abs(likely - before) < _SETTLED:
            break
        before = likely
    frequency = np.bincount(labels, minlength=len(bias)) / len(labels)
    gains = np.log(likelihood) - np.log(frequency[labels])
    rate = 1 - float(np.trace(counts)) / len(labels)
    error = float(gains.std() / np.sqrt(len(gains)))
    return replace(
        start,
        sharpness=sharpness,
        bias=bias,
        matrix=matrix,
        average=_matrix(counts, counts.sum(1)),
        sure=sure,
        rate=rate,
        gain=float(gains.mean()),
        gain_error=error,
    )


def _factors(margins: Floats, sure: Floats) -> Floats:
    """How much likelier an error is than for a sample of middling difficulty."""
    easy = np.interp(margins.max(1), sure, np.linspace(0, 1, len(sure)))
    return np.asarray(np.exp(_HARDER * (0.5 - easy)))


def _chances(matrix: Floats, factors: Floats, labels: Ints) -> tuple[Floats, Floats]:
    """P(label | true class) of every sample and class, and the factor that the errors of that class have there."""
    errors = 1 - np.diag(matrix)
    exposed = np.minimum(factors[:, None], _MOST / np.maximum(errors, 1e-12))
    chances = matrix.T[labels] * exposed
    rows = np.arange(len(labels))
    chances[rows, labels] = 1 - exposed[rows, labels] * errors[labels]
    return chances, exposed


def _matrix(counts: Floats, exposed: Floats) -> Floats:
    """Rows of chances: errors over what was exposed to them. As many samples as there are classes are added to each
    row, spread as symmetric noise of the same rate would: so a class with few samples has the noise of all, not what
    two of its samples say.
    """
    classes = len(counts)
    wrong = counts - np.diag(np.diag(counts))
    usual = wrong.sum() / counts.sum() / (classes - 1)
    matrix = (wrong + classes * usual) / (exposed + classes)[:, None]
    np.fill_diagonal(matrix, 0)
    matrix *= np.minimum(1, _MOST / np.maximum(matrix.sum(1, keepdims=True), 1e-12))
    np.fill_diagonal(matrix, 1 - matrix.sum(1))
    return np.asarray(matrix)


def _sharper(sharpness: float, bias: Floats, margins: Floats, truth: Floats, prior: Floats) -> tuple[float, Floats]:
    """One Newton step of β, and one of b by the diagonal, towards the classes thought true; bounded."""
    away = truth - prior
    mean = (prior * margins).sum(1)
    curvature = float(((prior * margins**2).sum(1) - mean**2).sum())
    if curvature > 0:
        sharpness = max(sharpness + float(np.clip((away * margins).sum() / curvature, -0.5, 0.5)), 0.0)
    # A sample's worth is added to the curvature, so that a class that never occurs does not run away.
    bias = bias + np.clip(away.sum(0) / ((prior * (1 - prior)).sum(0) + 1), -0.5, 0.5)
    return sharpness, bias - bias.mean()


def _softmax(values: Floats) -> Floats:
    values = np.exp(values - values.max(1, keepdims=True))
    return np.asarray(values / values.sum(1, keepdims=True))
