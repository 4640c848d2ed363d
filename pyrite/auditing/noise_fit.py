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

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Final, final

import numpy as np

from pyrite.auditing.expectation import MOST, Samples, Sums, exposure
from pyrite.diagnostics.arrays import Floats, Ints

__all__ = ["NoiseFit", "fit_noise", "log_odds"]

_STEPS: Final = 500
_SETTLED: Final = 1e-7  # of the mean log-likelihood, from step to step
_RESAMPLES: Final = 20  # a standard error from so many is good to a sixth
_HARDER: Final = 1.0  # c, chosen on human and made noise: docs/auditing.md
_CLEANEST: Final = 1e-6  # no labels are better than that: with no error at all nothing could be said in odds
_CERTAIN: Final = 30.0  # a margin beyond it is taken for it: of a probability of 1e-13 nobody can be surer
_RAREST: Final = 30.0  # the same of a class's bias


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
        chances = _chances(self.matrix, _factors(bounded, self.sure), labels)
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
    bounded = np.clip(margins, -_CERTAIN, _CERTAIN)
    sure = np.quantile(bounded.max(1), np.linspace(0, 1, 101))
    table, factors, count = bounded.T.astype(np.float32, order="C"), _factors(bounded, sure), len(labels)
    whole = Samples(table, labels, factors, np.ones(count, np.int64))
    fit = replace(_fit(whole, NoiseFit.none(len(table))), sure=sure)
    if not fit.can_tell:  # then nobody asks how sure it is
        return fit

    def again(drawn: Ints) -> NoiseFit:
        rows, times = np.unique(drawn, return_counts=True)
        return _fit(Samples(table.take(rows, 1), labels[rows], factors[rows], times), fit)

    random = np.random.default_rng(seed)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        others = list(pool.map(again, [random.integers(count, size=count) for _ in range(_RESAMPLES)]))
    return replace(
        fit,
        rate_error=float(np.std([other.rate for other in others], ddof=1)),
        average_error=np.std([other.average for other in others], axis=0, ddof=1),
    )


def _fit(samples: Samples, start: NoiseFit) -> NoiseFit:
    """By expectation maximisation."""
    sharpness, bias, matrix = start.sharpness, start.bias, start.matrix
    before = -np.inf
    for _ in range(_STEPS):
        asked = sharpness, bias, matrix
        sums = samples.sums(*asked)
        likely = sums.likely / samples.times.sum()
        matrix = _matrix(sums.counts, sums.exposed)
        sharpness, bias = _sharper(sharpness, bias, sums)
        if abs(likely - before) < _SETTLED:
            break
        before = likely
    gain, gain_error = _gain(samples, *asked)
    return replace(
        start,
        sharpness=sharpness,
        bias=bias,
        matrix=matrix,
        average=_matrix(sums.counts, sums.counts.sum(1)),
        rate=1 - float(np.trace(sums.counts) / sums.counts.sum()),
        gain=gain,
        gain_error=gain_error,
    )


def _gain(samples: Samples, sharpness: float, bias: Floats, matrix: Floats) -> tuple[float, float]:
    """By how much labels are likelier than if they were guessed by frequency, in the mean; and its standard error."""
    labels, times = samples.labels, samples.times
    frequency = np.bincount(labels, times, minlength=len(bias)) / times.sum()
    gains = np.log(samples.likelihoods(sharpness, bias, matrix)) - np.log(frequency[labels])
    mean = float(np.average(gains, weights=times))
    return mean, float(np.sqrt(np.average((gains - mean) ** 2, weights=times) / times.sum()))


def _factors(margins: Floats, sure: Floats) -> Floats:
    """How much likelier an error is than for a sample of middling difficulty."""
    easy = np.interp(margins.max(1), sure, np.linspace(0, 1, len(sure)))
    return np.asarray(np.exp(_HARDER * (0.5 - easy)))


def _chances(matrix: Floats, factors: Floats, labels: Ints) -> Floats:
    """P(label | true class) of every sample and class."""
    errors = 1 - np.diag(matrix)
    chances = matrix.T[labels]
    chances *= exposure(factors, errors).T
    rows = np.arange(len(labels))
    chances[rows, labels] = 1 - np.minimum(factors * errors[labels], MOST)
    return np.asarray(chances)


def _matrix(counts: Floats, exposed: Floats) -> Floats:
    """Rows of chances: errors over what was exposed to them. As many samples as there are classes are added to each
    row, spread as symmetric noise of the same rate would: so a class with few samples has the noise of all, not what
    two of its samples say.
    """
    classes = len(counts)
    wrong = counts - np.diag(np.diag(counts))
    usual = max(wrong.sum() / counts.sum(), _CLEANEST) / (classes - 1)
    matrix = (wrong + classes * usual) / (exposed + classes)[:, None]
    np.fill_diagonal(matrix, 0)
    matrix *= np.minimum(1, MOST / np.maximum(matrix.sum(1, keepdims=True), 1e-12))
    np.fill_diagonal(matrix, 1 - matrix.sum(1))
    return np.asarray(matrix)


def _sharper(sharpness: float, bias: Floats, sums: Sums) -> tuple[float, Floats]:
    """One Newton step of β, and one of b by the diagonal, towards the classes thought true; bounded."""
    # Little is known of β before: 1, give or take 1. Against many samples that is nothing, but where a few are told
    # apart without an error it would grow for ever, and so would the certainty of who is wrong.
    slope, curvature = sums.slope + (1 - sharpness), sums.curvature + 1
    sharpness = max(sharpness + float(np.clip(slope / curvature, -0.5, 0.5)), 0.0)
    # A sample's worth is added to the curvature, so that a class that never occurs does not run away at once, and there
    # is an end to it: no class is rarer than that.
    bias = bias + np.clip(sums.pull / (sums.steepness + 1), -0.5, 0.5)
    return sharpness, np.clip(bias - bias.mean(), -_RAREST, _RAREST)
