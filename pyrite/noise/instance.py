"""Instance-dependent noise: it depends on the inputs of a sample."""

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import NormalDist
from typing import ClassVar, Final, NamedTuple, final

import numpy as np
from scipy.special import softmax

from pyrite.arrays import to_array
from pyrite.checks import Fraction
from pyrite.draws import Array, Stream, normals, uniforms
from pyrite.errors import PyriteError
from pyrite.noise.model import Drawn, Noise, by_class, measured

# The number of input values processed at a time: 32 MB in float64.
_CHUNK: Final = 2**22


@final
@dataclass(frozen=True, repr=False)
class Instance(Noise):
    """Each sample has its own noise rate around ``rate``, and the wrong class depends on the inputs, which are
    required.

    The rate of a sample is drawn from a normal distribution around ``rate`` with deviation ``spread``, truncated
    to [0, 1]. Every class has a random projection of the features to one score per class. A softmax of these scores,
    without the true class, is the distribution of the wrong label. Features are standardised first, so that their units
    do not matter. With rate 0 or 1 every sample has exactly that rate.

    Truncation moves the mean: rate 0.1 makes 12.9 % wrong, 0.2 makes 20.6 %; from 0.3 on it is as stated to 0.001.

    Xia et al., 2020, algorithm 2.
    """

    needs_inputs: ClassVar[bool] = True

    rate: Fraction
    spread: Fraction = 0.1

    def matrix(self, classes: int, seed: int = 0) -> Array:
        raise PyriteError(
            f"{self} has no matrix before its inputs are known: pyrite.corrupt gives the mean over the samples "
            "of each class"
        )

    def draw(self, true: Array, classes: int, seed: int, inputs: object = None) -> Drawn:
        """The labels. The matrix is the mean of the distributions that the labels of each class were drawn from."""
        rows = _rows(inputs, len(true), self)
        standardiser = _Standardiser.of(rows)
        rates = self.rates(len(true), seed)
        chance, given = uniforms(seed, Stream.LABELS, len(true)), true.copy()
        sums = np.zeros((classes, classes))
        for label, index in by_class(true, classes):
            others, features = np.delete(np.arange(classes), label), rows.shape[1]
            # One projection per class, made when it is needed: all at once may not fit in memory.
            projection = normals(seed, Stream.PROJECTION, features * classes, label).reshape(features, classes)
            projection = projection[:, others]
            for part in _parts(index, features):
                likeness, rate = softmax(standardiser.apply(rows[part]) @ projection, axis=1), rates[part]
                wrong = chance[part] < rate
                # Given that a label is wrong, its random number divided by its rate is uniform in [0, 1).
                chosen = (likeness[wrong].cumsum(1) <= (chance[part[wrong]] / rate[wrong])[:, None]).sum(1)
                given[part[wrong]] = others[np.minimum(chosen, classes - 2)]
                sums[label, others] += (likeness * rate[:, None]).sum(0)
                sums[label, label] += (1 - rate).sum()
        return Drawn(given, measured(sums))

    def rates(self, samples: int, seed: int) -> Array:
        """The probability that each sample gets a wrong label."""
        if self.rate in (0, 1) or self.spread == 0:
            return np.full(samples, float(self.rate))
        normal = NormalDist(self.rate, self.spread)
        low, high = normal.cdf(0), normal.cdf(1)
        chance = low + uniforms(seed, Stream.RATES, samples) * (high - low)
        drawn = np.fromiter((normal.inv_cdf(value) for value in chance.tolist()), np.float64, samples)
        return np.clip(drawn, 0, 1)


def _rows(inputs: object, samples: int, noise: Instance) -> Array:
    if inputs is None:
        raise PyriteError(f"{noise} depends on the inputs of the samples: pass inputs")
    array = to_array(inputs, "inputs")
    if array.dtype.kind not in "biuf" or array.ndim == 0 or array[:1].size == 0:
        raise PyriteError(f"inputs has the dtype {array.dtype} and shape {array.shape}, but must be rows of numbers")
    if len(array) != samples:
        raise PyriteError(f"inputs has {len(array)} rows, but there are {samples} labels")
    return array.reshape(samples, -1)


def _parts(index: Array, features: int) -> Iterator[Array]:
    step = max(1, _CHUNK // features)
    for start in range(0, len(index), step):
        yield index[start : start + step]


class _Standardiser(NamedTuple):
    """Brings features to mean 0 and deviation 1. They are divided by powers of two first, so that nothing overflows."""

    power: Array
    mean: Array
    scale: Array

    @staticmethod
    def of(rows: Array) -> "_Standardiser":
        """Fitted to these rows. A constant feature keeps its scale."""
        samples, features = rows.shape
        largest, sums, squares = np.zeros(features), np.zeros(features), np.zeros(features)
        for part in _parts(np.arange(samples), features):
            bad = ~np.isfinite(rows[part]).all(1)
            if bad.any():
                raise PyriteError(f"inputs holds NaN or infinity, first at index {int(part[bad][0])}")
            largest = np.maximum(largest, np.abs(rows[part].astype(np.float64)).max(0))
        power = np.frexp(largest)[1]
        for part in _parts(np.arange(samples), features):
            sums += np.ldexp(rows[part].astype(np.float64), -power).sum(0)
        mean = sums / samples
        for part in _parts(np.arange(samples), features):
            squares += ((np.ldexp(rows[part].astype(np.float64), -power) - mean) ** 2).sum(0)
        scale = np.sqrt(squares / samples)
        return _Standardiser(power, mean, np.where(scale > 0, scale, 1.0))

    def apply(self, rows: Array) -> Array:
        return np.asarray((np.ldexp(rows.astype(np.float64), -self.power) - self.mean) / self.scale)
