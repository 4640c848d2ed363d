"""Noise that depends on what a sample looks like."""

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import NormalDist
from typing import Final, NamedTuple, final

import numpy as np

from pyrite.draws import Array, Stream, normals, uniforms
from pyrite.noise.arrays import to_array
from pyrite.noise.model import Drawn, Noise, by_class, check_rate, measured

__all__ = ["Instance"]

# Numbers of inputs that are worked on at a time: 32 MB in float64.
_CHUNK: Final = 2**22


@final
@dataclass(frozen=True, repr=False)
class Instance(Noise):
    """Every sample has its own rate, around ``rate``, and is mistaken for the class it looks like. Needs the inputs.

    The rate of a sample is drawn from a normal distribution around ``rate`` with deviation ``spread``, cut to
    [0, 1]. Every class has a random projection of the features to one score a class; a softmax of the scores,
    without the true class, says what a sample is mistaken for. Features are brought to mean 0 and deviation 1 first,
    so that the units they are measured in do not matter. Rates 0 and 1 are taken at their word.

    Cutting moves the mean: rate 0.1 makes 12.9 % wrong, 0.2 makes 20.6 %, from 0.3 on it is as stated to a thousandth.

    Xia et al., 2020, algorithm 2.
    """

    rate: float
    spread: float = 0.1

    def __post_init__(self) -> None:
        check_rate(self.rate)
        check_rate(self.spread, "spread")

    @property
    def needs_inputs(self) -> bool:
        return True

    def matrix(self, classes: int, seed: int = 0) -> Array:
        raise ValueError(
            f"{self} has no matrix before its inputs are known: pyrite.corrupt gives the mean over the samples "
            "of each class"
        )

    def draw(self, true: Array, classes: int, seed: int, inputs: object = None) -> Drawn:
        """Labels, and as the matrix the mean of the distributions that the samples of each class were drawn from."""
        rows = _rows(inputs, len(true), self)
        standard = _Standard.of(rows)
        rates = self.rates(len(true), seed)
        chance, given = uniforms(seed, Stream.LABELS, len(true)), true.copy()
        total = np.zeros((classes, classes))
        for own, index in by_class(true, classes):
            others, features = np.delete(np.arange(classes), own), rows.shape[1]
            # One projection per class, made when it is needed: together they may not fit in memory.
            projection = normals(seed, Stream.PROJECTION, features * classes, own).reshape(features, classes)[:, others]
            for part in _parts(index, features):
                looks, rate = _softmax(standard.apply(rows[part]) @ projection), rates[part]
                wrong = chance[part] < rate
                # Where a label is wrong, its chance divided by its rate is uniform once more.
                given[part[wrong]] = others[_choose(looks[wrong], chance[part[wrong]] / rate[wrong])]
                total[own, others] += (looks * rate[:, None]).sum(0)
                total[own, own] += (1 - rate).sum()
        return Drawn(given, measured(total))

    def rates(self, samples: int, seed: int) -> Array:
        """The probability of each sample to be mistaken."""
        if self.rate in (0, 1) or self.spread == 0:
            return np.full(samples, float(self.rate))
        normal = NormalDist(self.rate, self.spread)
        low, high = normal.cdf(0), normal.cdf(1)
        chance = low + uniforms(seed, Stream.RATES, samples) * (high - low)
        drawn = np.fromiter((normal.inv_cdf(one) for one in chance.tolist()), np.float64, samples)
        return np.clip(drawn, 0, 1)


def _rows(inputs: object, samples: int, noise: Instance) -> Array:
    if inputs is None:
        raise ValueError(f"{noise} depends on what the samples look like: give their inputs")
    array = to_array(inputs, "inputs")
    if array.dtype.kind not in "biuf" or array.ndim == 0 or array[:1].size == 0:
        raise ValueError(f"inputs has the dtype {array.dtype} and shape {array.shape}, but must be rows of numbers")
    if len(array) != samples:
        raise ValueError(f"inputs has {len(array)} rows, but there are {samples} labels")
    return array.reshape(samples, -1)


def _parts(index: Array, features: int) -> Iterator[Array]:
    step = max(1, _CHUNK // features)
    for start in range(0, len(index), step):
        yield index[start : start + step]


class _Standard(NamedTuple):
    """What brings features to mean 0 and deviation 1. Powers of two are taken out first, so that nothing overflows."""

    power: Array
    mean: Array
    scale: Array

    @staticmethod
    def of(rows: Array) -> "_Standard":
        """That of these rows; a feature that never changes is left as it is."""
        samples, features = rows.shape
        largest, total, square = np.zeros(features), np.zeros(features), np.zeros(features)
        for part in _parts(np.arange(samples), features):
            bad = ~np.isfinite(rows[part]).all(1)
            if bad.any():
                raise ValueError(f"inputs holds NaN or infinity, first at index {int(part[bad][0])}")
            largest = np.maximum(largest, np.abs(rows[part].astype(np.float64)).max(0))
        power = np.frexp(largest)[1]
        for part in _parts(np.arange(samples), features):
            total += np.ldexp(rows[part].astype(np.float64), -power).sum(0)
        mean = total / samples
        for part in _parts(np.arange(samples), features):
            square += ((np.ldexp(rows[part].astype(np.float64), -power) - mean) ** 2).sum(0)
        scale = np.sqrt(square / samples)
        return _Standard(power, mean, np.where(scale > 0, scale, 1.0))

    def apply(self, rows: Array) -> Array:
        return np.asarray((np.ldexp(rows.astype(np.float64), -self.power) - self.mean) / self.scale)


def _choose(shares: Array, chance: Array) -> Array:
    """For each row a column, by the distribution that the row is."""
    return np.asarray(np.minimum((np.cumsum(shares, axis=1) <= chance[:, None]).sum(1), shares.shape[1] - 1))


def _softmax(scores: Array) -> Array:
    powers = np.exp(scores - scores.max(1, keepdims=True))
    return np.asarray(powers / powers.sum(1, keepdims=True))
