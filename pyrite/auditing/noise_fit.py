"""The label noise under which the given labels are most likely, given the scores of a net that did not learn them.

Sharpness β, bias b and matrix T (``noise_model``) are fitted by expectation maximisation (``noise_steps``), with four
smoothings of T, which the likelihood of labels that were not fitted weighs. docs/auditing.md gives the reasons. The fit
assumes that annotators are right where the net is uncertain, so its rate is a lower bound (``noise_rate``).
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Final, NamedTuple, TypeVar, final

import numpy as np
import numpy.typing as npt

from pyrite.arrays import Floats, Ints
from pyrite.auditing.noise_model import FARTHEST, Noise, NoiseFit
from pyrite.auditing.noise_steps import Counts, Samples, fit_biases, fit_common, smoothed
from pyrite.auditing.scores import by_blocks, top_two, typical_gap

__all__ = ["OVERLAP", "Progress", "Table", "fit_noise", "fit_once", "near_ties"]

Progress = Callable[[float], None]
"""Called with the fraction of the work that is done."""

OVERLAP: Final = 0.05
"""The fraction of near ties from which on classes may overlap; overlapping ones have 0.13 and more."""

_TOLERANCE: Final = 1e-7  # of the mean log-likelihood, from step to step
_LOOSE_TOLERANCE: Final = 1e-5  # the same where only likelihoods or spreads are compared
_RESAMPLES: Final = 20  # with a relative error of the standard errors of about a sixth
_SMOOTHINGS: Final = (1.0, 8.0, 64.0, 4096.0)  # pseudo-samples per class that are added to a row of T
_FOLDS: Final = 4  # of the cross validation that weighs them
_TEMPERATURE: Final = 2.0  # nats of unseen labels that count as one: no fit describes a net as it is
_SMALLEST_WEIGHT: Final = 0.01  # models that weigh less are left out
_MOST_BIASES: Final = 100  # classes up to which each preferred class has a bias of its own
_PER_BIAS: Final = 2  # samples for each of these K² biases that it takes
_LARGE_TABLE: Final = 1_000_000

_Pair = tuple[Samples, Samples]  # those that are fitted, and those that are held out
Argument = TypeVar("Argument")
Result = TypeVar("Result")


def near_ties(first: Floats, second: Floats) -> float:
    """The fraction of samples whose two best classes are closer than a quarter of what is typical.

    >>> near_ties(*top_two(np.array([[0.0, 1.0, 3.0], [2.0, 2.0, 0.0], [5.0, 0.0, 1.0], [0.0, 6.0, -1.0]])))
    0.25
    """
    return float((first - second < typical_gap(first, second) / 4).mean())


def fit_noise(margins: Floats, labels: Ints, seed: int, progress: Progress = lambda done: None) -> NoiseFit:
    """Fit the noise model to margins (one row per sample), and its standard errors by resampling."""
    table = Table.of(margins, labels)
    count = len(labels)
    random = np.random.default_rng(seed)
    jobs = _Jobs(progress, (_FOLDS + 2) * (len(_SMOOTHINGS) + 1) + _RESAMPLES)
    fit, begin = _fit_smoothings(table, random.permutation(count) % _FOLDS, jobs)
    if fit.can_tell:
        draws = [np.bincount(random.integers(count, size=count)).astype(np.uint8) for _ in range(_RESAMPLES)]
        refit = partial(_refit, table, begin, len(fit.best.bias) > 1)
        rate_error, matrix_error = _spread(jobs.run(refit, draws))
        fit = replace(fit, rate_error=rate_error, matrix_error=matrix_error)
    progress(1.0)  # smoothings that were left out were not fitted
    parts = tuple(part.in_unit(table.unit) for part in fit.parts)
    return replace(fit, best=fit.best.in_unit(table.unit), parts=parts)


def fit_once(margins: Floats, labels: Ints) -> Noise:
    """Fit the noise model without standard errors and with the weakest smoothing: a twentieth of the time."""
    table = Table.of(margins, labels)
    start = Noise.initial(len(table.margins))
    return fit_common(table.samples(np.arange(len(labels))), start, _LOOSE_TOLERANCE).in_unit(table.unit)


@final
@dataclass(frozen=True, eq=False)
class Table:
    """All samples that are fitted, with one column per sample, in an order that depends on their content alone."""

    margins: npt.NDArray[np.float32]  # in units of their typical gap, 0 at the largest of each column
    labels: Ints
    unit: float  # the typical gap
    overlap: bool  # whether there are so many near ties that classes may overlap

    @classmethod
    def of(cls, margins: Floats, labels: Ints) -> "Table":
        """The samples in a canonical order, so that the order of samples and classes does not change results."""
        first, second = top_two(margins)
        unit = typical_gap(first, second)
        order = np.lexsort((second, first, margins[np.arange(len(labels)), labels]))
        scaled = np.empty(margins.shape[::-1], np.float32)

        def fill(rows: slice) -> None:
            some = order[rows]
            scaled[:, rows] = np.maximum((margins[some] - first[some, None]).T / unit, -FARTHEST)

        by_blocks(fill, margins.shape)
        return cls(scaled, labels[order], unit, near_ties(first, second) >= OVERLAP)

    @cached_property
    def preferred(self) -> Ints:
        return np.asarray(self.margins.argmax(0))

    def samples(self, rows: Ints, times: Counts | None = None, *, own_biases: bool = False) -> Samples:
        """Some of them, each so many times."""
        groups = self.preferred[rows] if own_biases else np.zeros_like(rows)
        return Samples(self.margins, rows, self.labels[rows], np.ones_like(rows) if times is None else times, groups)


def _fit_smoothings(table: Table, folds: Ints, jobs: "_Jobs") -> tuple[NoiseFit, Noise]:
    """Fit all smoothings that labels of other folds speak for, and where another fit of the best should begin."""
    classes, count = table.margins.shape
    own_biases = classes <= _MOST_BIASES and count >= _PER_BIAS * classes**2
    start = Noise.initial(classes)
    none = replace(start, matrix=smoothed(np.eye(classes), 1.0), smoothing=np.inf)
    # If the weakest smoothing already adds ten times the samples of a class to its row, all give the same result.
    smoothings = _SMOOTHINGS if count / classes > classes / 10 else _SMOOTHINGS[:1]
    starts = [replace(start, smoothing=smoothing) for smoothing in smoothings]
    *likely, without_noise = _validate(table, folds, [*starts, none], own_biases, jobs)
    weights = _weights(np.array([own.sum() for _, own in likely]))
    best = int(np.argmax([common.sum() for common, _ in likely]))
    used = sorted({best, *np.flatnonzero(weights).tolist()})
    starts, weights, unseen, best = [starts[place] for place in used], weights[used], likely[best], used.index(best)
    samples = table.samples(np.arange(count))
    *commons, without = jobs.run(lambda begin: fit_common(samples, begin, _TOLERANCE), [*starts, none])
    del samples
    surplus = count * (commons[best].gain - without.gain)
    own_surplus = float((unseen.own - without_noise.own).sum()) if own_biases else np.inf
    parts, likely_best = tuple(commons), unseen.common
    if own_biases and table.overlap:
        samples = table.samples(np.arange(count), own_biases=True)
        parts = tuple(jobs.run(lambda common: fit_biases(samples, common, _TOLERANCE), commons))
        likely_best = unseen.own
    frequency = np.bincount(table.labels) / count
    gains = likely_best - np.log(frequency[table.labels])
    unseen_gain, gain_error = float(gains.sum()), float(gains.std() * np.sqrt(count))
    # Small sets may have several maxima, so they are fitted again from the start.
    begin = commons[best] if table.margins.size >= _LARGE_TABLE else starts[best]
    return NoiseFit(parts[best], parts, weights, unseen_gain, gain_error, surplus, own_surplus), begin


class _Likely(NamedTuple):
    """Log-likelihoods of labels that were not fitted, with one bias for all and with one for each preferred class."""

    common: Floats
    own: Floats


def _validate(table: Table, folds: Ints, starts: Sequence[Noise], own_biases: bool, jobs: "_Jobs") -> "list[_Likely]":
    """The log-likelihood of every label by a fit to the other folds, for each start."""
    found = [_Likely(np.empty(len(folds)), np.empty(len(folds))) for _ in starts]
    for fold in range(_FOLDS):
        kept, left = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
        common = table.samples(kept), table.samples(left)
        own = (table.samples(kept, own_biases=True), table.samples(left, own_biases=True)) if own_biases else None

        def judge(start: Noise, common: _Pair = common, own: _Pair | None = own) -> list[Floats]:
            fit = fit_common(common[0], start, _LOOSE_TOLERANCE)
            likely = [common[1].log_likelihoods(fit)]
            if own is not None:
                likely.append(own[1].log_likelihoods(fit_biases(own[0], fit, _LOOSE_TOLERANCE)))
            return likely

        for result, likely in zip(found, jobs.run(judge, starts), strict=True):
            result.common[left], result.own[left] = likely[0], likely[-1]
    return found


def _weights(likely: Floats) -> Floats:
    """The weights of models, by the log-likelihood of labels that were not fitted."""
    weights = np.exp((likely - likely.max()) / _TEMPERATURE)
    weights[weights < _SMALLEST_WEIGHT * weights.sum()] = 0
    return np.asarray(weights / weights.sum())


def _refit(table: Table, start: Noise, own_biases: bool, times: Counts) -> Noise:
    """Fit with samples drawn so many times."""
    rows = np.flatnonzero(times)
    found = fit_common(table.samples(rows, times[rows]), start, _LOOSE_TOLERANCE)
    if not own_biases:
        return found
    return fit_biases(table.samples(rows, times[rows], own_biases=True), found, _LOOSE_TOLERANCE)


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
class _Jobs:
    """Runs fits in parallel, and reports the progress."""

    def __init__(self, progress: Progress, count: int) -> None:
        self._progress, self._count, self._done = progress, count, 0

    def run(self, fit: Callable[[Argument], Result], arguments: Sequence[Argument]) -> Iterator[Result]:
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            for result in pool.map(fit, arguments):
                self._done += 1
                self._progress(self._done / self._count)
                yield result
