"""The E-step: expected counts and derivatives of the log-likelihood, summed over samples.

Arrays of samples times classes are float32 and worked on in blocks that fit into a core's cache. Sums over samples are
float64.
"""

from dataclasses import dataclass
from typing import Any, Final, NamedTuple, final

import numpy as np
import numpy.typing as npt

from pyrite.diagnostics.arrays import Floats, Ints

__all__ = ["Samples", "Statistics"]

_BLOCK: Final = 1 << 17  # scores worked on at once: half a MiB in float32
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
        size = max(_BLOCK // len(margins), 1)
        _, starts = np.unique(groups[self.order], return_index=True)
        self._blocks = [
            _Block(margins.take(rows, 1), labels[rows], times[rows], int(groups[rows[0]]))
            for group in np.split(self.order, starts[1:])
            for rows in (group[start : start + size] for start in range(0, len(group), size))
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


@final
class _Block:
    def __init__(self, margins: npt.NDArray[Any], labels: Ints, times: Ints, group: int) -> None:
        self.margins: Singles = np.ascontiguousarray(margins, np.float32)
        self.labels, self.times, self.group = labels, times, group
        self.present, self.first = np.unique(labels, return_index=True)

    def joint(self, sharpness: float, bias: Floats, transposed: Singles) -> _Joint:
        # The largest exponent of a column is near 0, so no exponential overflows.
        prior = self.margins * np.float32(sharpness)
        own = bias[self.group]
        prior += (own - own.max())[:, None].astype(np.float32)
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
        sums.counts[self.present] += counts
        times = self.times.astype(np.float32)
        # numpy adds pairwise, so float32 is exact enough within a block.
        weighted = prior * self.margins
        mean = weighted.sum(0)
        sums.slope += float((np.einsum("ks,ks->s", joint, self.margins) - times * mean).sum(dtype=np.float64))
        square = np.einsum("ks,ks->s", weighted, self.margins)
        sums.curvature += float((times * (square - mean**2)).sum(dtype=np.float64))
        expected = prior @ times
        sums.bias_slope[self.group] += counts.sum(0) - expected
        sums.cross[self.group] += weighted @ times - prior @ (times * mean)
        sums.log_likelihood += float((self.times * np.log(likelihood / evidence)).sum())
        if sums.bias_curvature.ndim == 3:
            sums.bias_curvature[self.group] += np.diag(expected) - (prior * times) @ prior.T
        else:
            prior *= prior
            sums.bias_curvature[self.group] += expected - prior @ times
