"""One pass over samples: what they say about the noise if it were as thought, summed up for the next thought.

What has the size of the scores is float32 and worked on in blocks that stay in a core's cache; what is one number a
sample, or a sum over samples, is float64.
"""

from dataclasses import dataclass, fields
from typing import Any, Final, NamedTuple, final

import numpy as np
import numpy.typing as npt

from pyrite.diagnostics.arrays import Floats, Ints

__all__ = ["Samples", "Sums"]

_BLOCK: Final = 1 << 17  # scores worked on at once: half a MiB in float32
_LEAST: Final = 1e-37  # a likelihood that float32 can hold

Singles = npt.NDArray[np.float32]


@final
@dataclass(frozen=True)
class Sums:
    """Sums over samples.

    Attributes:
        likely: of the log-likelihoods.
        counts: how many are of true class i and labelled j.
        slope, curvature: derivatives by the sharpness, the first and the negative second one.
        pull, steepness: the same by each class's bias.
    """

    likely: float
    counts: Floats
    slope: float
    curvature: float
    pull: Floats
    steepness: Floats

    def __add__(self, other: "Sums") -> "Sums":
        return Sums(*(getattr(self, part.name) + getattr(other, part.name) for part in fields(self)))


@final
class Samples:
    """Samples in the order of their labels, a column a sample: so few classes are as quick to work on as many.

    Args:
        margins: of every class; bounded.
        labels: the given ones.
        times: how often each sample counts.
    """

    def __init__(self, margins: npt.NDArray[Any], labels: Ints, times: Ints) -> None:
        order = np.argsort(labels, kind="stable")
        size = max(_BLOCK // len(margins), 1)
        starts = range(0, len(labels), size)
        self._blocks = [
            _Block(margins.take(rows, 1), labels[rows], times[rows])
            for rows in (order[start : start + size] for start in starts)
        ]
        self.labels, self.times = labels[order], times[order]

    def sums(self, sharpness: float, bias: Floats, matrix: Floats) -> Sums:
        """What they say under these parameters."""
        parts = [block.sums(sharpness, bias, matrix) for block in self._blocks]
        return sum(parts[1:], parts[0])

    def likelihoods(self, sharpness: float, bias: Floats, matrix: Floats) -> Floats:
        """Of every label under these parameters, in the order of ``labels``."""
        joints = [block.joint(sharpness, bias, matrix) for block in self._blocks]
        return np.concatenate([joint.likelihood / joint.total for joint in joints])


class _Joint(NamedTuple):
    """p(k) and p(k) T[k, label], and their sums, by which they are yet to be divided."""

    prior: Singles
    total: Floats
    both: Singles
    likelihood: Floats


@final
class _Block:
    def __init__(self, margins: npt.NDArray[Any], labels: Ints, times: Ints) -> None:
        # The probabilities do not change with a number a sample. With the largest at 0 no exponential can overflow.
        self.margins: Singles = (margins - margins.max(0)).astype(np.float32, order="C")
        self.labels, self.times = labels, times
        self.present, self.first = np.unique(labels, return_index=True)

    def joint(self, sharpness: float, bias: Floats, matrix: Floats) -> _Joint:
        prior = self.margins * np.float32(sharpness)
        prior += (bias - bias.max())[:, None].astype(np.float32)
        np.exp(prior, out=prior)
        both = matrix.astype(np.float32).take(self.labels, 1)
        both *= prior
        total, likelihood = (np.maximum(part.sum(0).astype(np.float64), _LEAST) for part in (prior, both))
        return _Joint(prior, total, both, likelihood)

    def sums(self, sharpness: float, bias: Floats, matrix: Floats) -> Sums:
        prior, total, both, likelihood = self.joint(sharpness, bias, matrix)
        prior /= total.astype(np.float32)
        both *= (self.times / likelihood).astype(np.float32)  # how often each class is the true one
        counts = np.zeros_like(matrix)
        counts[:, self.present] = np.add.reduceat(both, self.first, axis=1)
        both *= self.margins
        pulled = prior * self.margins
        mean = pulled.sum(0)
        slope = (both.sum(0) - self.times * mean).sum(dtype=np.float64)
        pulled *= self.margins
        curvature = (self.times * (pulled.sum(0) - mean**2)).sum(dtype=np.float64)
        # Sums in numpy's pairwise way are exact enough in float32, and no slower than threads that wait for each other.
        times = self.times.astype(np.float32)
        usual = np.multiply(prior, times, out=both).sum(1).astype(np.float64)
        both *= prior
        likely = (self.times * np.log(likelihood / total)).sum()
        steepness = usual - both.sum(1)
        return Sums(float(likely), counts, float(slope), float(curvature), counts.sum(1) - usual, steepness)
