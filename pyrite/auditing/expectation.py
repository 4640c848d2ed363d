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

Singles = npt.NDArray[np.float32]


@final
@dataclass
class Statistics:
    """Sums over samples.

    Attributes:
        log_likelihood: of the labels.
        counts: the expected number of samples of true class i with the label j.
        slope, curvature: the first and the negative second derivative by the sharpness.
        bias_slope, bias_curvature: the same by the bias of each class.
    """

    log_likelihood: float
    counts: Floats
    slope: float
    curvature: float
    bias_slope: Floats
    bias_curvature: Floats


@final
class Samples:
    """Samples sorted by label, with one column per sample, so that operations on few classes are vectorised too.

    Args:
        margins: one row per class; 0 at the largest of each column.
        labels: the given ones.
        times: the multiplicity of each sample.
    """

    def __init__(self, margins: Singles, labels: Ints, times: Ints) -> None:
        order = np.argsort(labels, kind="stable")
        size = max(_BLOCK // len(margins), 1)
        self._blocks = [
            _Block(margins.take(rows, 1), labels[rows], times[rows])
            for rows in (order[start : start + size] for start in range(0, len(labels), size))
        ]
        self.labels, self.times = labels[order], times[order]
        self.count = int(times.sum())

    def statistics(self, sharpness: float, bias: Floats, matrix: Floats) -> Statistics:
        """The sums under these parameters."""
        classes = len(bias)
        sums = Statistics(0.0, np.zeros((classes, classes)), 0.0, 0.0, np.zeros(classes), np.zeros(classes))
        transposed = np.ascontiguousarray(matrix.T, np.float32)
        for block in self._blocks:
            block.add_to(sums, sharpness, bias, transposed)
        sums.counts = sums.counts.T
        sums.bias_slope += sums.counts.sum(1)
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
    def __init__(self, margins: npt.NDArray[Any], labels: Ints, times: Ints) -> None:
        self.margins: Singles = np.ascontiguousarray(margins, np.float32)
        self.labels, self.times = labels, times
        self.present, self.first = np.unique(labels, return_index=True)

    def joint(self, sharpness: float, bias: Floats, transposed: Singles) -> _Joint:
        # The largest exponent of a column is near 0, so no exponential overflows.
        prior = self.margins * np.float32(sharpness)
        prior += (bias - bias.max())[:, None].astype(np.float32)
        np.exp(prior, out=prior)
        joint = transposed.take(self.labels, 0).T * prior
        evidence, likelihood = (np.maximum(part.sum(0).astype(np.float64), _SMALLEST) for part in (prior, joint))
        return _Joint(prior, evidence, joint, likelihood)

    def add_to(self, sums: Statistics, sharpness: float, bias: Floats, transposed: Singles) -> None:
        """Add this block's part; ``counts`` are transposed, and ``bias_slope`` lacks the counts."""
        prior, evidence, joint, likelihood = self.joint(sharpness, bias, transposed)
        prior /= evidence.astype(np.float32)
        joint *= (self.times / likelihood).astype(np.float32)  # expected counts of true classes
        sums.counts[self.present] += np.add.reduceat(joint, self.first, axis=1).T
        times = self.times.astype(np.float32)
        # numpy adds pairwise, so float32 is exact enough within a block.
        weighted = prior * self.margins
        mean = weighted.sum(0)
        sums.slope += float((np.einsum("ks,ks->s", joint, self.margins) - times * mean).sum(dtype=np.float64))
        square = np.einsum("ks,ks->s", weighted, self.margins)
        sums.curvature += float((times * (square - mean**2)).sum(dtype=np.float64))
        expected = prior @ times
        prior *= prior
        sums.bias_slope -= expected
        sums.bias_curvature += expected - prior @ times
        sums.log_likelihood += float((self.times * np.log(likelihood / evidence)).sum())
