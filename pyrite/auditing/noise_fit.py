"""The label noise under which the given labels are most likely, given the scores of a net that did not learn them.

Sharpness β, bias b and matrix T (``noise_model``) are fitted by expectation maximisation.

- A net that learned from labels of which many of class a are called c finds c too likely wherever it prefers a, and a
  net may misjudge how alike two classes are. So each preferred class has a bias of its own. The fit begins with one
  bias for all, from which the others differ as far as the labels demand. A net without near ties misjudges nothing, and
  all its samples have the same bias.
- The better the net's own uncertainty explains the labels, the lower is the estimated noise. On true labels p is
  calibrated and T is near the identity.
- Only samples whose labels the net did not learn can be fitted: memorised labels look right.
- Labels alone do not tell whether annotators err where the net is uncertain, or are right there. The fit assumes the
  latter, so its rate is a lower bound; ``noise_rate`` estimates what is above it.
- Rows of T are smoothed towards symmetric noise, by four strengths. With few samples no strength is safe: a free matrix
  takes the net's own confusions for noise, a symmetric one misses noise in one direction. So posterior probabilities
  are averaged over all of them, by the likelihood of labels that were not fitted.
- The scale of the margins does not matter: they are measured in units of their own typical gap between the first and
  the second class, and the prior of β is in that unit.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, NamedTuple, TypeVar, final

import numpy as np
import numpy.typing as npt

from pyrite.auditing.expectation import Samples, Statistics
from pyrite.auditing.gaps import OVERLAP, near_ties, typical_gap
from pyrite.auditing.noise_model import FARTHEST, USUAL_SHARPNESS, Noise, NoiseFit
from pyrite.diagnostics.arrays import Floats, Ints

__all__ = ["fit_noise", "fit_once"]

_MAX_STEPS: Final = 500
_TOLERANCE: Final = 1e-7  # of the mean log-likelihood, from step to step
_LOOSE_TOLERANCE: Final = 1e-5  # the same where only likelihoods or spreads are compared
_RESAMPLES: Final = 20  # with a relative error of the standard errors of about a sixth
_SMOOTHINGS: Final = (1.0, 8.0, 64.0, 4096.0)  # pseudo-samples per class that are added to a row of T
_FOLDS: Final = 4  # of the cross validation that weighs them
_TEMPERATURE: Final = 2.0  # nats of unseen labels that count as one: no fit describes a net as it is
_SMALLEST_SHARE: Final = 0.01  # models that weigh less are left out
_MOST_BIASES: Final = 100  # classes up to which each preferred class has a bias of its own
_PER_BIAS: Final = 2  # samples for each of these K² biases that it takes
_LARGE_TABLE: Final = 1_000_000
_LOWEST_RATE: Final = 1e-6  # with a noise rate of 0 the log-odds would be infinite

Argument = TypeVar("Argument")
Result = TypeVar("Result")


def fit_noise(
    margins: Floats, labels: Ints, seed: int, progress: Callable[[float], None] = lambda share: None
) -> NoiseFit:
    """Fit the noise model, and its standard errors by resampling.

    Args:
        margins: one row per sample, one column per class; of nets that did not learn the labels.
        labels: the given ones.
        seed: samples are drawn again, with replacement, for the standard errors.
        progress: called with the share of the work that is done.
    """
    table, unit = _table(margins, labels)
    count = len(labels)
    random = np.random.default_rng(seed)
    jobs = _Jobs(progress, 3 * len(_SMOOTHINGS) + 1 + _RESAMPLES)
    fit, begin = _fit_smoothings(table, random.permutation(count) % _FOLDS, near_ties(margins) >= OVERLAP, jobs)
    if fit.can_tell:
        draws = [np.unique(random.integers(count, size=count), return_counts=True) for _ in range(_RESAMPLES)]
        rate_error, matrix_error = _spread(jobs.run(lambda drawn: table.refit(*drawn, begin, fit.best), draws))
        fit = replace(fit, rate_error=rate_error, matrix_error=matrix_error)
    progress(1.0)  # smoothings that were left out were not fitted
    return fit.in_unit(unit)


def _fit_smoothings(table: "_Table", folds: Ints, overlap: bool, jobs: "_Jobs") -> tuple[NoiseFit, Noise]:
    """Fit all smoothings that labels of other folds speak for, and where another fit of the best should begin."""
    classes, count = table.margins.shape
    own_biases = classes <= _MOST_BIASES and count >= _PER_BIAS * classes**2
    start = Noise.initial(classes)
    none = replace(start, matrix=_smoothed(np.eye(classes), 1.0), smoothing=np.inf)
    # If the weakest smoothing already adds ten times the samples of a class to its row, all give the same result.
    smoothings = _SMOOTHINGS if count / classes > classes / 10 else _SMOOTHINGS[:1]
    starts = [replace(start, smoothing=smoothing) for smoothing in smoothings]
    validate = partial(table.validate, folds=folds, own_biases=own_biases)
    likely = list(jobs.run(validate, starts))
    shares = _shares(np.array([own.sum() for _, own in likely]))
    best = int(np.argmax([common.sum() for common, _ in likely]))
    used = sorted({best, *np.flatnonzero(shares).tolist()})
    starts, shares, unseen, best = [starts[place] for place in used], shares[used], likely[best], used.index(best)
    rows = np.arange(count)
    *commons, without = jobs.run(lambda begin: table.fit(rows, begin, _TOLERANCE), [*starts, none])
    surplus = count * (commons[best].gain - without.gain)
    own_surplus = float((unseen.own - validate(none).own).sum()) if own_biases else np.inf
    biased = own_biases and overlap
    fit_biases = partial(table.fit_biases, rows, tolerance=_TOLERANCE)
    parts = tuple(jobs.run(fit_biases, commons) if biased else commons)
    gain = table.gain_of_unseen(unseen.own if biased else unseen.common)
    # Small sets may have several maxima, so they are fitted again from the start.
    begin = commons[best] if table.margins.size >= _LARGE_TABLE else starts[best]
    return NoiseFit(parts[best], parts, shares, *gain, surplus, own_surplus), begin


def fit_once(margins: Floats, labels: Ints) -> Noise:
    """Fit the noise model without standard errors and with the weakest smoothing: a twentieth of the time."""
    table, unit = _table(margins, labels)
    classes, count = table.margins.shape
    return table.fit(np.arange(count), Noise.initial(classes)).in_unit(unit)


def _shares(likely: Floats) -> Floats:
    """The weights of models, by the log-likelihood of labels that were not fitted."""
    shares = np.exp((likely - likely.max()) / _TEMPERATURE)
    shares[shares < _SMALLEST_SHARE * shares.sum()] = 0
    return np.asarray(shares / shares.sum())


def _table(margins: Floats, labels: Ints) -> "tuple[_Table, float]":
    """The samples in a canonical order, with margins in units of their typical gap, and that unit."""
    unit = typical_gap(margins)
    order = _canonical_order(margins, labels)
    scaled = (margins - margins.max(1, keepdims=True))[order].T / unit
    return _Table(np.maximum(scaled, -FARTHEST).astype(np.float32, order="C"), labels[order]), unit


def _canonical_order(margins: Floats, labels: Ints) -> Ints:
    """An order of the samples that makes results independent of the order of samples and classes."""
    own = margins[np.arange(len(labels)), labels]
    return np.lexsort((*np.partition(margins, -2, axis=1)[:, -2:].T, own))


@final
class _Jobs:
    """Runs fits in parallel, and reports the progress."""

    def __init__(self, progress: Callable[[float], None], count: int) -> None:
        self._progress, self._count, self._done = progress, count, 0

    def run(self, fit: Callable[[Argument], Result], arguments: Sequence[Argument]) -> Iterator[Result]:
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            for result in pool.map(fit, arguments):
                self._done += 1
                self._progress(self._done / self._count)
                yield result


def _spread(fits: Iterable[Noise]) -> tuple[float, Floats]:
    """The standard deviations of the rate and of the matrix, computed online: 5,000 classes make a matrix of 200 MB.

    Welford, 1962.
    """
    rates: list[float] = []
    mean: Floats = np.zeros(())
    squares: Floats = np.zeros(())
    for fit in fits:
        rates.append(fit.rate)
        step = fit.matrix - mean
        mean = mean + step / len(rates)
        squares = squares + step * (fit.matrix - mean)
    return float(np.std(rates, ddof=1)), np.sqrt(squares / (len(rates) - 1))


class _Likely(NamedTuple):
    """Log-likelihoods of labels that were not fitted, with one bias for all and with one for each preferred class."""

    common: Floats
    own: Floats


@final
@dataclass(frozen=True, eq=False)
class _Table:
    """All samples that are fitted, with one column per sample."""

    margins: npt.NDArray[np.float32]
    labels: Ints

    def part(self, rows: Ints, times: Ints | None = None, *, own_biases: bool = False) -> Samples:
        counts = np.ones(len(rows), np.int64) if times is None else times
        margins = self.margins.take(rows, 1)
        return Samples(margins, self.labels[rows], counts, margins.argmax(0) if own_biases else np.zeros_like(rows))

    def fit(self, rows: Ints, start: Noise, tolerance: float = _LOOSE_TOLERANCE, times: Ints | None = None) -> Noise:
        """Fit with one bias for all samples."""
        return _fit(self.part(rows, times), start, np.zeros_like(start.bias), tolerance)

    def fit_biases(
        self, rows: Ints, start: Noise, tolerance: float = _LOOSE_TOLERANCE, times: Ints | None = None
    ) -> Noise:
        """Fit with one bias for each preferred class, from a fit with one for all."""
        begin = replace(start, bias=np.repeat(start.bias, start.bias.shape[1], axis=0))
        return _fit(self.part(rows, times, own_biases=True), begin, begin.bias, tolerance)

    def refit(self, rows: Ints, times: Ints, start: Noise, like: Noise) -> Noise:
        """Fit other samples from this start, with as many biases as this fit has."""
        found = self.fit(rows, start, times=times)
        return self.fit_biases(rows, found, times=times) if len(like.bias) > 1 else found

    def validate(self, start: Noise, folds: Ints, own_biases: bool) -> "_Likely":
        """The log-likelihood of every label by a fit to the other folds."""
        likely = _Likely(np.empty(len(self.labels)), np.empty(len(self.labels)))
        for fold in range(_FOLDS):
            kept, rows = (np.flatnonzero(chosen) for chosen in (folds != fold, folds == fold))
            fit = self.fit(kept, start)
            for found, own in zip(likely, (False, own_biases), strict=True):
                fit = self.fit_biases(kept, fit) if own else fit
                samples = self.part(rows, own_biases=own)
                found[rows[samples.order]] = np.log(samples.likelihoods(fit.sharpness, fit.bias, fit.matrix))
        return likely

    def gain_of_unseen(self, likely: Floats) -> tuple[float, float]:
        """The gain over guessing by frequency of labels with these log-likelihoods, and its standard error."""
        frequency = np.bincount(self.labels) / len(self.labels)
        gains = likely - np.log(frequency[self.labels])
        return float(gains.sum()), float(gains.std() * np.sqrt(len(gains)))


def _fit(samples: Samples, start: Noise, centre: Floats, tolerance: float) -> Noise:
    """Fit by expectation maximisation, with margins in units of their typical gap.

    Args:
        samples: with one group for each row of the bias.
        start: where the search begins. If its smoothing is infinite, its matrix stays as it is.
        centre: the mean of the prior of the bias.
        tolerance: of the mean log-likelihood, from step to step.
    """
    sharpness, bias, matrix = start.sharpness, start.bias, start.matrix
    before = -np.inf
    for _ in range(_MAX_STEPS):
        parameters = sharpness, bias, matrix
        sums = samples.statistics(*parameters)
        likely = sums.log_likelihood / samples.count
        if np.isfinite(start.smoothing):
            matrix = _smoothed(sums.counts, start.smoothing)
        sharpness, bias = _newton_step(sharpness, bias, centre, sums)
        if abs(likely - before) < tolerance:
            break
        before = likely
    return replace(
        start,
        sharpness=sharpness,
        bias=bias,
        matrix=matrix,
        rate=1 - float(np.trace(sums.counts) / sums.counts.sum()),
        gain=_gain(samples, *parameters),
    )


def _gain(samples: Samples, sharpness: float, bias: Floats, matrix: Floats) -> float:
    """The mean log-likelihood of labels above that of guessing by frequency."""
    labels, times = samples.labels, samples.times
    frequency = np.bincount(labels, times, minlength=len(matrix)) / times.sum()
    gains = np.log(samples.likelihoods(sharpness, bias, matrix)) - np.log(frequency[labels])
    return float(np.average(gains, weights=times))


def _smoothed(counts: Floats, smoothing: float) -> Floats:
    """The matrix of these counts. To each row ``smoothing`` samples per class are added, spread as symmetric noise of
    the same rate would be, so that a class with few samples has the noise of the whole set.
    """
    classes = len(counts)
    rate = max(1 - np.trace(counts) / counts.sum(), _LOWEST_RATE)
    matrix = counts + smoothing * classes * rate / (classes - 1)
    matrix[np.diag_indices(classes)] += smoothing * classes * (1 - rate - rate / (classes - 1))
    matrix /= matrix.sum(1, keepdims=True)
    return np.asarray(matrix)


def _newton_step(sharpness: float, bias: Floats, centre: Floats, sums: Statistics) -> tuple[float, Floats]:
    """One Newton step for β and b together, bounded.

    The prior of each bias is normal with standard deviation 1, which counts as about one sample. Without it the biases
    of classes with few samples drift for hundreds of steps; with it small sets are ranked better, too.
    """
    slope = sums.slope + (USUAL_SHARPNESS - sharpness) / USUAL_SHARPNESS**2
    curvature = sums.curvature + 1 / USUAL_SHARPNESS**2
    bias_slope = sums.bias_slope + centre - bias
    if sums.bias_curvature.ndim == 3:
        # β is tied to every bias, but biases of different groups are not tied to each other.
        both = np.stack([bias_slope, sums.cross], axis=2)
        alone, tied = np.moveaxis(np.linalg.solve(sums.bias_curvature + np.eye(bias.shape[1]), both), 2, 0)
        slope -= float((sums.cross * alone).sum())
        curvature -= float((sums.cross * tied).sum())
    else:
        # Twice the diagonal bounds the matrix of second derivatives, whose rows add up to 0, so no step is too long.
        alone, tied = bias_slope / (2 * sums.bias_curvature + 1), np.zeros_like(bias)
    step = max(float(np.clip(slope / curvature, -1, 1)), -sharpness)
    return sharpness + step, bias + np.clip(alone - step * tied, -1, 1)
