"""Which label noise explains the labels best, given what a net that never saw them makes of the samples.

The true class k of a sample has the probability p(k) ∝ exp(β m_k + b_k), with m_k the margins the net gives, and the
label is drawn from row k of a matrix T. Sharpness β, bias b and matrix T are those under which the given labels are
most likely (expectation maximisation); the probability that a label is wrong, the likely true class and the noise rate
are then Bayes' rule. Three things follow:

- The better the net already explains the labels by its own doubt, the less noise is found: on true labels β is such
  that p is calibrated and T is near the identity.
- The label must not have been learned by the net that is asked: what is learned by heart looks right. Held-out samples
  alone can be fitted.
- Whether people err where the net doubts, or the net doubts where people are right, labels alone cannot tell. Doubt is
  given the benefit, so where people err on what is hard the rate found is too low.
"""

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Final, final

import numpy as np

from pyrite.auditing.expectation import Samples, Sums
from pyrite.diagnostics.arrays import Floats, Ints

__all__ = ["NoiseFit", "fit_noise", "log_odds"]

_STEPS: Final = 500
_SETTLED: Final = 1e-7  # of the mean log-likelihood, from step to step
_NEARLY: Final = 1e-5  # the same where only likelihoods are compared, or spreads
_RESAMPLES: Final = 20  # a standard error from so many is good to a sixth
_PULLS: Final = (1.0, 4.0, 16.0, 64.0)  # samples for each class that are added to a row of T
_PARTS: Final = 4  # of cross validation, which chooses among them
_MANY: Final = 1_000_000  # scores
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
        matrix: T[i, j] = P(given j | true i).
        pull: how strongly its rows were pulled towards symmetric noise.
        rate: the share of wrong labels.
        gain: the mean log-likelihood of a label over that of guessing by frequency.
        gain_error, rate_error, matrix_error: their standard errors.
    """

    sharpness: float
    bias: Floats
    matrix: Floats
    pull: float
    rate: float
    gain: float
    gain_error: float
    rate_error: float
    matrix_error: Floats

    @classmethod
    def none(cls, classes: int) -> "NoiseFit":
        """What is thought before a label was seen: symmetric noise of 30 %, which is where a search begins."""
        matrix = np.full((classes, classes), 0.3 / (classes - 1))
        np.fill_diagonal(matrix, 0.7)
        unknown = np.full_like(matrix, np.inf)
        return cls(0.5, np.zeros(classes), matrix, _PULLS[0], 0.3, 0.0, np.inf, np.inf, unknown)

    @property
    def can_tell(self) -> bool:
        """Whether the net knows anything about the labels: its gain is above three standard errors."""
        return self.gain > 3 * self.gain_error and self.sharpness > 0

    def evidence(self, margins: Floats, labels: Ints) -> Floats:
        """log p(k) T[k, label] up to a number a sample: how well each class explains the label."""
        bounded = np.clip(margins, -_CERTAIN, _CERTAIN)
        with np.errstate(divide="ignore"):
            return np.asarray(self.sharpness * bounded + self.bias + np.log(self.matrix).T[labels])


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
    table = np.clip(margins, -_CERTAIN, _CERTAIN).T.astype(np.float32, order="C")
    count, random = len(labels), np.random.default_rng(seed)

    def part(rows: Ints, times: Ints | None = None) -> Samples:
        return Samples(table.take(rows, 1), labels[rows], np.ones(len(rows), np.int64) if times is None else times)

    def again(drawn: Ints) -> NoiseFit:
        # From the beginning: where it ended may be a place it cannot leave. Of very many samples that is not so.
        return _fit(part(*np.unique(drawn, return_counts=True)), best if table.size < _MANY else fit)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        places = random.permutation(count) % _PARTS
        parts = [
            (part(np.flatnonzero(places != place)), part(np.flatnonzero(places == place))) for place in range(_PARTS)
        ]
        unseen = list(pool.map(lambda pull: _unseen(parts, NoiseFit.none(len(table)), pull), _PULLS))
        best = replace(NoiseFit.none(len(table)), pull=_PULLS[int(np.argmax(unseen))])
        fit = _fit(part(np.arange(count)), best, _SETTLED)
        if not fit.can_tell:
            return fit
        others = list(pool.map(again, [random.integers(count, size=count) for _ in range(_RESAMPLES)]))
    return replace(
        fit,
        rate_error=float(np.std([other.rate for other in others], ddof=1)),
        matrix_error=np.std([other.matrix for other in others], axis=0, ddof=1),
    )


def _unseen(parts: list[tuple[Samples, Samples]], start: NoiseFit, pull: float) -> float:
    """The log-likelihood of labels that were not fitted, with this pull."""
    likely = 0.0
    for seen, unseen in parts:
        fit = _fit(seen, replace(start, pull=pull))
        likely += unseen.sums(fit.sharpness, fit.bias, fit.matrix).likely
    return likely


def _fit(samples: Samples, start: NoiseFit, settled: float = _NEARLY) -> NoiseFit:
    """By expectation maximisation."""
    sharpness, bias, matrix = start.sharpness, start.bias, start.matrix
    before = -np.inf
    for _ in range(_STEPS):
        asked = sharpness, bias, matrix
        sums = samples.sums(*asked)
        likely = sums.likely / samples.times.sum()
        matrix = _matrix(sums.counts, start.pull)
        sharpness, bias = _sharper(sharpness, bias, sums)
        if abs(likely - before) < settled:
            break
        before = likely
    gain, gain_error = _gain(samples, *asked)
    return replace(
        start,
        sharpness=sharpness,
        bias=bias,
        matrix=matrix,
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


def _matrix(counts: Floats, pull: float) -> Floats:
    """Rows of shares. To each row ``pull`` samples for every class are added, spread as symmetric noise of the same
    rate would: so a class with few samples has the noise of all, not what two of its samples say.
    """
    classes = len(counts)
    rate = max(1 - np.trace(counts) / counts.sum(), _CLEANEST)
    usual = np.full((classes, classes), rate / (classes - 1))
    np.fill_diagonal(usual, 1 - rate)
    filled = counts + pull * classes * usual
    return np.asarray(filled / filled.sum(1, keepdims=True))


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
