"""Random numbers that are the same on every machine, now and later.

A run has one seed; every purpose has its own stream of it, so that asking for one thing never moves another:
``flip(0.2)`` and ``flip(0.4)`` mistake a class for the same class and begin with the same samples. numpy promises that
``SeedSequence`` and the raw bits of ``PCG64`` stay as they are; it does not promise that of ``choice``, ``shuffle`` or
``normal``. Hence numbers in [0, 1) are made here from the raw bits, orders by sorting such numbers, and choices by
inverting a distribution. Global random state is neither read nor changed.
"""

from enum import Enum
from threading import RLock
from typing import Any, Final

import numpy as np

from pyrite.checks import whole_number

__all__ = ["TORCH_GENERATOR", "Array", "Stream", "check_seed", "normals", "order", "torch_seed", "uniforms"]

Array = np.ndarray[Any, Any]

TORCH_GENERATOR: Final = RLock()
"""Whoever seeds torch's global generator holds this until it is as it was before: all threads have the same one."""

_NOISE: Final = 0x6E6F6973  # "nois" in ASCII


class Stream(Enum):
    """What a stream is for. The numbers are part of what a seed means: never change one, never use one twice.

    If two purposes shared a stream, which samples are held out would depend on which labels are wrong.
    """

    SPLIT = (1,)  # which samples train, guide, validate and test
    SHUFFLE = (2,)  # in which order samples come
    CROP = (3,)  # where an image is cut
    FLIP = (4,)  # whether it is mirrored
    SYNTHETIC = (5,)  # data that is made up
    DROPOUT = (6,)  # what is random inside a net while it trains
    NETS = (7,)  # the initial weights of further nets of one run
    EPOCH = (8,)  # what a method draws at the beginning and the end of an epoch
    MATRIX = (_NOISE, 0)  # which classes a class is mistaken for
    LABELS = (_NOISE, 1)  # which samples are mistaken, and for which class
    ROUNDING = (_NOISE, 2)  # which classes get the samples left over when counts are exact
    RATES = (_NOISE, 3)  # how readily each sample is mistaken, where samples differ
    PROJECTION = (_NOISE, 4)  # which class a sample looks like, where samples differ


def uniforms(seed: int, stream: Stream, count: int, *key: int) -> Array:
    """The first ``count`` numbers in [0, 1) of a stream; ``key`` names a stream within it.

    >>> uniforms(0, Stream.LABELS, 3).round(4).tolist()
    [0.1912, 0.212, 0.9501]
    """
    bits = np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(*stream.value, *key))).random_raw(count)
    return np.asarray((bits >> np.uint64(11)) * 2.0**-53)


def order(seed: int, stream: Stream, count: int, *key: int) -> Array:
    """A permutation of 0 .. count - 1."""
    return uniforms(seed, stream, count, *key).argsort(kind="stable").astype(np.int64)


def normals(seed: int, stream: Stream, count: int, *key: int) -> Array:
    """Normal numbers made from uniform ones, two from two (Box & Muller, 1958)."""
    first, second = uniforms(seed, stream, 2 * ((count + 1) // 2), *key).reshape(2, -1)
    radius, angle = np.sqrt(-2 * np.log1p(-first)), 2 * np.pi * second
    return np.concatenate([radius * np.cos(angle), radius * np.sin(angle)])[:count]


def torch_seed(seed: int, stream: Stream, *key: int) -> int:
    """A number for ``torch.manual_seed`` that belongs to a purpose, and within it to ``key``."""
    drawn = np.random.SeedSequence(seed, spawn_key=(*stream.value, *key)).generate_state(1, np.uint64)
    return int(drawn[0] >> np.uint64(1))


def check_seed(seed: object) -> int:
    """A seed as a plain number."""
    return whole_number("seed", seed, least=0)
