"""Expectation maximisation of the noise model: expected counts and derivatives over samples, and the steps by them.

Arrays of samples times classes are float32 and worked on in blocks that fit into a core's cache. Sums over samples are
float64.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple, final

import numpy as np
import numpy.typing as npt

from pyrite.arrays import Floats, Ints
from pyrite.auditing.noise_model import USUAL_SHARPNESS, Noise

__all__ = ["Counts", "Samples", "Statistics", "fit_biases", "fit_common", "newton_step", "smoothed"]

_MAX_STEPS: Final = 500
_BLOCK: Final = 1 << 17  # scores worked on at once: half a MiB in float32
_MERGED: Final = 1 << 14  # scores up to which groups are put into one block: the calls take longer than the work
_SMALLEST: Final = 1e-37  # the smallest likelihood that float32 can hold
_EXACT: Final = 100  # classes up to which all second derivatives are computed, which cost the square of their number
_LOWEST_RATE: Final = 1e-6  # with a noise rate of 0 the log-odds would be infinite

Singles = npt.NDArray[np.float32]
Counts = npt.NDArray[np.integer[Any]]


def fit_common(samples: "Samples", start: Noise, tolerance: float) -> Noise:
    """Fit with one bias for all samples, until the mean log-likelihood changes less than the tolerance."""
    return _fit(samples, start, np.zeros_like(start.bias), tolerance)


def fit_biases(samples: "Samples", start: Noise, tolerance: float) -> Noise:
    """Fit with one bias for each preferred class, from a fit with one for all."""
    begin = replace(start, bias=np.repeat(start.bias, start.bias.shape[1], axis=0))
    return _fit(samples, begin, begin.bias, tolerance)


def _fit(samples: "Samples", start: Noise, centre: Floats, tolerance: float) -> Noise:
    """Fit from this start; ``centre`` is the mean of the prior of the bias.

    If the smoothing of the start is infinite, its matrix stays as it is.
    """
    sharpness, bias, matrix = start.sharpness, start.bias, start.matrix
    before = -np.inf
    for _ in range(_MAX_STEPS):
        sums = samples.statistics(sharpness, bias, matrix)
        likely = sums.log_likelihood / samples.count
        if np.isfinite(start.smoothing):
            matrix = smoothed(sums.counts, start.smoothing)
        sharpness, bias = newton_step(sharpness, bias, centre, sums)
        if abs(likely - before) < tolerance:
            break
        before = likely
    rate = 1 - float(np.trace(sums.counts) / sums.counts.sum())
    return replace(start, sharpness=sharpness, bias=bias, matrix=matrix, rate=rate, gain=likely - samples.guessing)


def smoothed(counts: Floats, smoothing: float) -> Floats:
    """The matrix of these counts and ``smoothing`` samples per class, spread as symmetric noise of the same rate."""
    classes = len(counts)
    rate = max(1 - np.trace(counts) / counts.sum(), _LOWEST_RATE)
    matrix = counts + smoothing * classes * rate / (classes - 1)
    matrix[np.diag_indices(classes)] += smoothing * classes * (1 - rate - rate / (classes - 1))
    matrix /= matrix.sum(1, keepdims=True)
    return np.asarray(matrix)


def newton_step(sharpness: float, bias: Floats, centre: Floats, sums: "Statistics") -> tuple[float, Floats]:
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


@final
@dataclass
class Statistics:
    """Sums over samples. Curvatures are negative second derivatives of the log-likelihood."""

    log_likelihood: float  # of the labels
    counts: Floats  # the expected number of samples of true class i with the label j
    slope: float  # the first derivative by the sharpness
    curvature: float
    bias_slope: Floats  # the first derivative by each bias, one row per group
    bias_curvature: Floats  # one matrix per group; of many classes, its diagonal alone
    cross: Floats  # by the sharpness and each bias

    @classmethod
    def none(cls, groups: int, classes: int) -> "Statistics":
        """The sums over no sample."""
        table = groups, classes
        curvature = (*table, classes) if classes <= _EXACT else table
        return cls(0.0, np.zeros((classes, classes)), 0.0, 0.0, np.zeros(table), np.zeros(curvature), np.zeros(table))


@final
class Samples:
    """Samples sorted by group and label, with one column per sample, so that operations on few classes are vectorised.

    ``rows`` are the columns of the margins that are used, with their labels, multiplicities and rows of the bias.
    """

    def __init__(self, margins: Singles, rows: Ints, labels: Ints, times: Counts, groups: Ints) -> None:
        self._order = np.lexsort((labels, groups))
        self._blocks = [
            _Block(margins.take(rows[part], 1), labels[part], times[part], groups[part])
            for part in _parts(self._order, groups, len(margins))
        ]
        self.count = int(times.sum())
        counts = np.bincount(labels, times)
        counts = counts[counts > 0]
        self.guessing = float(counts @ np.log(counts / self.count)) / self.count

    def statistics(self, sharpness: float, bias: Floats, matrix: Floats) -> Statistics:
        """The sums under these parameters."""
        sums = Statistics.none(*bias.shape)
        transposed = np.ascontiguousarray(matrix.T, np.float32)
        for block in self._blocks:
            block.add_to(sums, sharpness, bias, transposed)
        sums.counts = sums.counts.T
        return sums

    def log_likelihoods(self, noise: Noise) -> Floats:
        """The log-likelihood of every label, in the order in which they were passed."""
        transposed = np.ascontiguousarray(noise.matrix.T, np.float32)
        joints = (block.joint(noise.sharpness, noise.bias, transposed) for block in self._blocks)
        found = np.empty(len(self._order))
        found[self._order] = np.log(np.concatenate([joint.likelihood / joint.evidence for joint in joints]))
        return found


def _parts(order: Ints, groups: Ints, classes: int) -> Iterator[Ints]:
    """The sorted samples in blocks: a large group has blocks of its own, small ones are put together."""
    size, merged = max(_BLOCK // classes, 1), max(_MERGED // classes, 1)
    _, starts = np.unique(groups[order], return_index=True)
    begin = 0
    for end in [*starts[1:].tolist(), len(order)]:
        if end - begin >= merged or end == len(order):
            yield from (order[start : min(start + size, end)] for start in range(begin, end, size))
            begin = end


class _Joint(NamedTuple):
    """p(k) and p(k) T[k, label], not normalised yet, and their sums over k."""

    prior: Singles
    evidence: Floats
    joint: Singles
    likelihood: Floats


@final
class _Block:
    def __init__(self, margins: Singles, labels: Ints, times: Counts, groups: Ints) -> None:
        self.margins, self.labels, self.times = margins, labels, times
        # Where the samples of another group begin, or of another label; and which these are.
        self.groups, begins, sizes = np.unique(groups, return_index=True, return_counts=True)
        self.begins = [*begins.tolist(), len(labels)]
        self.member = np.repeat(np.arange(len(sizes)), sizes)
        pairs, self.first = np.unique(groups * len(margins) + labels, return_index=True)
        of_group, self.of_label = np.divmod(pairs, len(margins))
        self.pair_begins = [*np.searchsorted(of_group, self.groups).tolist(), len(pairs)]

    def joint(self, sharpness: float, bias: Floats, transposed: Singles) -> _Joint:
        # The largest exponent of a column is near 0, so no exponential overflows.
        prior = self.margins * np.float32(sharpness)
        own = bias[self.groups]
        own = (own - own.max(1, keepdims=True)).astype(np.float32)
        prior += own.T if len(own) == 1 else own.take(self.member, 0).T
        np.exp(prior, out=prior)
        joint = transposed.take(self.labels, 0).T * prior
        evidence, likelihood = (np.maximum(part.sum(0).astype(np.float64), _SMALLEST) for part in (prior, joint))
        return _Joint(prior, evidence, joint, likelihood)

    def add_to(self, sums: Statistics, sharpness: float, bias: Floats, transposed: Singles) -> None:
        """Add this block's part; ``counts`` are transposed."""
        prior, evidence, joint, likelihood = self.joint(sharpness, bias, transposed)
        prior /= evidence.astype(np.float32)
        joint *= (self.times / likelihood).astype(np.float32)  # expected counts of true classes
        counts = np.add.reduceat(joint, self.first, axis=1).T
        times = self.times.astype(np.float32)
        # numpy adds pairwise, so float32 is exact enough within a block.
        weighted = prior * self.margins
        mean = weighted.sum(0)
        sums.slope += float((np.einsum("ks,ks->s", joint, self.margins) - times * mean).sum(dtype=np.float64))
        square = np.einsum("ks,ks->s", weighted, self.margins)
        sums.curvature += float((times * (square - mean**2)).sum(dtype=np.float64))
        sums.log_likelihood += float((self.times * np.log(likelihood / evidence)).sum())
        for place, group in enumerate(self.groups.tolist()):
            pairs = slice(*self.pair_begins[place : place + 2])
            sums.counts[self.of_label[pairs]] += counts[pairs]
            sums.bias_slope[group] += counts[pairs].sum(0, dtype=np.float64)
            own = slice(*self.begins[place : place + 2])
            _add_curvature(sums, group, prior[:, own], weighted[:, own], mean[own], times[own])


def _add_curvature(
    sums: Statistics, group: int, prior: Singles, weighted: Singles, mean: Singles, times: Singles
) -> None:
    """Add the part of the samples of one group to what depends on its bias."""
    expected = prior @ times
    sums.bias_slope[group] -= expected
    sums.cross[group] += weighted @ times - prior @ (times * mean)
    if sums.bias_curvature.ndim == 3:
        curvature = (prior * -times) @ prior.T
        curvature.flat[:: len(curvature) + 1] += expected
        sums.bias_curvature[group] += curvature
    else:
        sums.bias_curvature[group] += expected - prior**2 @ times
