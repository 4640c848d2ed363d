"""The label noise under which the given labels are most likely, given the scores of a net that did not learn them.

The true class k of a sample whose preferred class is a has the probability p(k) ∝ exp(β m_k + b[a, k]), with m_k its
margins, and the label is drawn from row k of a matrix T. Sharpness β, bias b and matrix T are fitted by expectation
maximisation. The probability that a label is wrong, the likely true class and the noise rate then follow by Bayes'
rule.

- A net that learned from labels of which many of class a are called c finds c too likely wherever it prefers a, and a
  net may misjudge how alike two classes are. So each preferred class has a bias of its own. The fit begins with one
  bias for all, from which the others differ as far as the labels demand. A net without near ties misjudges nothing, and
  all its samples have the same bias.
- The better the net's own uncertainty explains the labels, the lower is the estimated noise. On true labels p is
  calibrated and T is near the identity.
- Only samples whose labels the net did not learn can be fitted: memorised labels look right.
- Labels alone do not tell whether annotators err where the net is uncertain, or are right there. The fit assumes the
  latter, so its rate is a lower bound; ``noise_rate`` estimates what is above it.
- The scale of the margins does not matter: they are measured in units of their own typical gap between the first and
  the second class, and the prior of β is in that unit.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Final, TypeVar, final

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
_TEMPERATURE: Final = 2.0  # nats of labels that were not fitted, by which weights differ by a factor of e
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
    classes, count = table.margins.shape
    random = np.random.default_rng(seed)
    folds = random.permutation(count) % _FOLDS
    rows = np.arange(count)
    own_biases = classes <= _MOST_BIASES and count >= _PER_BIAS * classes**2
    # If the weakest smoothing already adds ten times the samples of a class to its row, all give the same result.
    smoothings = _SMOOTHINGS if count / classes > classes / 10 else _SMOOTHINGS[:1]
    none = replace(Noise.initial(classes), matrix=_smoothed(np.eye(classes), 1.0), smoothing=np.inf)
    starts = [replace(none, matrix=Noise.initial(classes).matrix, smoothing=smoothing) for smoothing in smoothings]
    jobs = _Jobs(progress, 3 * len(starts) + 2 + _RESAMPLES)
    likely = np.stack(list(jobs.run(lambda begin: table.validate(begin, folds, own_biases=own_biases), starts)))
    chosen, shares = _shares(likely.sum(1))
    starts, unseen = [starts[place] for place in chosen], shares @ likely[chosen]
    *parts, without = jobs.run(lambda begin: table.fit(rows, begin, _TOLERANCE), [*starts, none])
    fit = NoiseFit(tuple(parts), shares, surplus=count * float(shares @ [part.gain - without.gain for part in parts]))
    if own_biases:
        by_net = table.validate(none, folds, own_biases=True)
        fit = replace(fit, own_surplus=float((unseen - by_net).sum()))
        if near_ties(margins) >= OVERLAP:
            fit = replace(fit, parts=tuple(jobs.run(lambda part: table.fit_biases(rows, part, _TOLERANCE), parts)))
    unseen_gain, gain_error = table.gain_of_unseen(unseen)
    fit = replace(fit, unseen_gain=unseen_gain, gain_error=gain_error)
    if fit.can_tell:
        # Small sets may have several maxima, so they are fitted again from the start.
        begins = parts if table.margins.size >= _LARGE_TABLE else starts
        places = np.searchsorted(shares.cumsum(), (np.arange(_RESAMPLES) + 0.5) / _RESAMPLES)
        draws = [
            (begins[place], *np.unique(random.integers(count, size=count), return_counts=True)) for place in places
        ]
        rate_error, matrix_error = _spread(jobs.run(lambda drawn: table.refit(*drawn, fit.parts[0]), draws))
        fit = replace(fit, rate_error=rate_error, matrix_error=matrix_error)
    return replace(fit, parts=tuple(part.in_unit(unit) for part in fit.parts))


def fit_once(margins: Floats, labels: Ints) -> Noise:
    """Fit the noise model without standard errors and with the weakest smoothing: a twentieth of the time."""
    table, unit = _table(margins, labels)
    classes, count = table.margins.shape
    return table.fit(np.arange(count), Noise.initial(classes)).in_unit(unit)


def _shares(likely: Floats) -> tuple[Ints, Floats]:
    """The models that are averaged, the best first, and their weights, by the log-likelihood of unseen labels."""
    order = np.argsort(-likely, kind="stable")
    shares = np.exp((likely[order] - likely.max()) / _TEMPERATURE)
    shares /= shares.sum()
    kept = shares >= _SMALLEST_SHARE
    return order[kept], shares[kept] / shares[kept].sum()


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

    def refit(self, start: Noise, rows: Ints, times: Ints, like: Noise) -> Noise:
        """Fit other samples from this start, with as many biases as this fit has."""
        found = self.fit(rows, start, times=times)
        return self.fit_biases(rows, found, times=times) if len(like.bias) > 1 else found

    def validate(self, start: Noise, folds: Ints, *, own_biases: bool = False) -> Floats:
        """The log-likelihood of every label by a fit to the other folds."""
        likely = np.empty(len(self.labels))
        for fold in range(_FOLDS):
            kept, rows = (np.flatnonzero(chosen) for chosen in (folds != fold, folds == fold))
            fit = self.fit(kept, start)
            fit = self.fit_biases(kept, fit) if own_biases else fit
            samples = self.part(rows, own_biases=own_biases)
            likely[rows[samples.order]] = np.log(samples.likelihoods(fit.sharpness, fit.bias, fit.matrix))
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
