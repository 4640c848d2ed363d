"""The E-step: expected counts and derivatives of the log-likelihood, summed over samples.

Arrays of samples times classes are float32 and worked on in blocks that fit into a core's cache. Sums over samples are
float64.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, final

import numpy as np
import numpy.typing as npt

from pyrite.diagnostics.arrays import Floats, Ints

__all__ = ["Samples", "Statistics"]

_BLOCK: Final = 1 << 17  # scores worked on at once: half a MiB in float32
_MERGED: Final = 1 << 14  # scores up to which groups share a block: of small ones the calls take longer than the work
_SMALLEST: Final = 1e-37  # the smallest likelihood that float32 can hold
_EXACT: Final = 100  # classes up to which all second derivatives are computed, which cost the square of their number

Singles = npt.NDArray[np.float32]


@final
@dataclass
class Statistics:
    """Sums over samples.

    Attributes:
        log_likelihood: of the labels.
        counts: the expected number of samples of true class i with the label j.
        slope, curvature: the first and the negative second derivative by the sharpness.
        bias_slope: the first derivative by each bias, one row per group.
        bias_curvature: the negative second derivatives, one matrix per group; of many classes, its diagonal alone.
        cross: the negative second derivative by the sharpness and each bias.
    """

    log_likelihood: float
    counts: Floats
    slope: float
    curvature: float
    bias_slope: Floats
    bias_curvature: Floats
    cross: Floats

    @classmethod
    def none(cls, groups: int, classes: int) -> "Statistics":
        """The sums over no sample."""
        table = groups, classes
        curvature = (*table, classes) if classes <= _EXACT else table
        return cls(0.0, np.zeros((classes, classes)), 0.0, 0.0, np.zeros(table), np.zeros(curvature), np.zeros(table))


@final
class Samples:
    """Samples sorted by group and label, with one column per sample, so that operations on few classes are vectorised.

    Args:
        margins: one row per class; 0 at the largest of each column.
        labels: the given ones.
        times: the multiplicity of each sample.
        groups: the row of the bias that holds for each sample.

    Attributes:
        order: the position of each sorted sample among those that were passed.
        labels, times: sorted.
        count: the sum of ``times``.
    """

    def __init__(self, margins: Singles, labels: Ints, times: Ints, groups: Ints) -> None:
        self.order = np.lexsort((labels, groups))
        self._blocks = [
            _Block(margins.take(rows, 1), labels[rows], times[rows], groups[rows])
            for rows in _parts(self.order, groups, len(margins))
        ]
        self.labels, self.times = labels[self.order], times[self.order]
        self.count = int(times.sum())

    def statistics(self, sharpness: float, bias: Floats, matrix: Floats) -> Statistics:
        """The sums under these parameters."""
        sums = Statistics.none(*bias.shape)
        transposed = np.ascontiguousarray(matrix.T, np.float32)
        for block in self._blocks:
            block.add_to(sums, sharpness, bias, transposed)
        sums.counts = sums.counts.T
        return sums

    def likelihoods(self, sharpness: float, bias: Floats, matrix: Floats) -> Floats:
        """The likelihood of every label under these parameters, in the order of ``labels``."""
        transposed = np.ascontiguousarray(matrix.T, np.float32)
        joints = [block.joint(sharpness, bias, transposed) for block in self._blocks]
        return np.concatenate([joint.likelihood / joint.evidence for joint in joints])


class _Joint(NamedTuple):
    """p(k) and p(k) T[k, label], not normalised yet, and their sums over k."""

    prior: Singles
    evidence: Floats
    joint: Singles
    likelihood: Floats


def _parts(order: Ints, groups: Ints, classes: int) -> Iterator[Ints]:
    """The sorted samples in blocks: a large group has blocks of its own, small ones share them."""
    size, merged = max(_BLOCK // classes, 1), max(_MERGED // classes, 1)
    _, starts = np.unique(groups[order], return_index=True)
    begin = 0
    for end in [*starts[1:].tolist(), len(order)]:
        if end - begin >= merged or end == len(order):
            yield from (order[start : min(start + size, end)] for start in range(begin, end, size))
            begin = end


@final
class _Block:
    def __init__(self, margins: npt.NDArray[Any], labels: Ints, times: Ints, groups: Ints) -> None:
        self.margins: Singles = np.ascontiguousarray(margins, np.float32)
        self.labels, self.times = labels, times
        # Where the samples of another group begin, or of another label; and which these are.
        self.groups, self.begins, sizes = np.unique(groups, return_index=True, return_counts=True)
        self.member = np.repeat(np.arange(len(sizes)), sizes)
        pairs = groups * len(margins) + labels
        distinct, self.first = np.unique(pairs, return_index=True)
        self.of_group, self.of_label = np.divmod(distinct, len(margins))

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
        np.add.at(sums.counts, self.of_label, counts)
        np.add.at(sums.bias_slope, self.of_group, counts)
        times = self.times.astype(np.float32)
        # numpy adds pairwise, so float32 is exact enough within a block.
        weighted = prior * self.margins
        mean = weighted.sum(0)
        sums.slope += float((np.einsum("ks,ks->s", joint, self.margins) - times * mean).sum(dtype=np.float64))
        square = np.einsum("ks,ks->s", weighted, self.margins)
        sums.curvature += float((times * (square - mean**2)).sum(dtype=np.float64))
        sums.log_likelihood += float((self.times * np.log(likelihood / evidence)).sum())
        ends = [*self.begins[1:].tolist(), len(times)]
        for group, begin, end in zip(self.groups.tolist(), self.begins.tolist(), ends, strict=True):
            own = slice(begin, end)
            self._add_curvature(sums, group, prior[:, own], weighted[:, own], mean[own], times[own])

    @staticmethod
    def _add_curvature(
        sums: Statistics, group: int, prior: Singles, weighted: Singles, mean: Singles, times: Singles
    ) -> None:
        """Add the part of the samples of one group to what depends on its bias."""
        expected = prior @ times
        sums.bias_slope[group] -= expected
        sums.cross[group] += weighted @ times - prior @ (times * mean)
        if sums.bias_curvature.ndim == 3:
            sums.bias_curvature[group] += np.diag(expected) - (prior * times) @ prior.T
        else:
            sums.bias_curvature[group] += expected - prior**2 @ times
