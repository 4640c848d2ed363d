"""Random numbers that are the same on every machine, now and later.

A run has one seed, and every purpose draws from its own stream of that seed. Drawing more numbers for one purpose
therefore never changes another: ``flip(0.2)`` and ``flip(0.4)`` choose the same target class for each class, and the
samples that are wrong at 0.2 are wrong at 0.4 too. numpy promises that ``SeedSequence`` and the raw bits of ``PCG64``
never change, but not that ``choice``, ``shuffle`` or ``normal`` do not. So this module makes numbers in [0, 1) from the
raw bits, permutations by sorting such numbers, and choices by inverting a distribution function. Global random state is
neither read nor changed.
"""

from enum import Enum
from threading import RLock
from typing import Any, Final

import numpy as np

Array = np.ndarray[Any, Any]

TORCH_GENERATOR: Final = RLock()
"""Lock to hold from seeding torch's global generator until its state is restored: all threads share that generator."""

_NOISE: Final = 0x6E6F6973  # "nois" in ASCII


class Stream(Enum):
    """The purpose of a stream. A seed's results depend on these numbers: never change one, never use one twice.

    If two purposes shared a stream, which samples are held out would depend on which labels are wrong.
    """

    SPLIT = (1,)  # which samples are for training, meta, validation and test
    SHUFFLE = (2,)  # the order of the samples in an epoch
    CROP = (3,)  # where an image is cropped
    FLIP = (4,)  # whether an image is mirrored
    SYNTHETIC = (5,)  # synthetic data
    DROPOUT = (6,)  # dropout and anything else random inside a net during training
    NETS = (7,)  # the initial weights of further nets of one run
    EPOCH = (8,)  # what a method draws at the beginning and the end of an epoch
    COLOUR = (9,)  # how the colours of an image are changed
    FOLDS = (10,)  # which fold of a cross-fitting each sample is in
    HELD_OUT = (11,)  # which held-out samples a method looks at
    MIXUP = (12,)  # which samples are mixed, and in which proportion
    CHECK = (0x72657669,)  # which labels are checked at random in a review: "revi" in ASCII
    MATRIX = (_NOISE, 0)  # which classes each class is mistaken for
    LABELS = (_NOISE, 1)  # which samples get a wrong label, and which
    ROUNDING = (_NOISE, 2)  # which classes get the remaining samples when exact counts are rounded
    RATES = (_NOISE, 3)  # the noise rate of each sample, for instance-dependent noise
    PROJECTION = (_NOISE, 4)  # the class each sample resembles, for instance-dependent noise


def uniforms(seed: int, stream: Stream, count: int, *key: int) -> Array:
    """The first ``count`` numbers in [0, 1) of a stream; ``key`` selects a sub-stream.

    >>> uniforms(0, Stream.LABELS, 3).round(4).tolist()
    [0.1912, 0.212, 0.9501]
    """
    bits = np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(*stream.value, *key))).random_raw(count)
    return np.asarray((bits >> np.uint64(11)) * 2.0**-53)


def order(seed: int, stream: Stream, count: int, *key: int) -> Array:
    """A permutation of 0 .. count - 1."""
    return uniforms(seed, stream, count, *key).argsort(kind="stable").astype(np.int64)


def normals(seed: int, stream: Stream, count: int, *key: int) -> Array:
    """Standard normal numbers, made in pairs from pairs of uniform ones (Box & Muller, 1958)."""
    first, second = uniforms(seed, stream, 2 * ((count + 1) // 2), *key).reshape(2, -1)
    radius, angle = np.sqrt(-2 * np.log1p(-first)), 2 * np.pi * second
    return np.concatenate([radius * np.cos(angle), radius * np.sin(angle)])[:count]


def torch_seed(seed: int, stream: Stream, *key: int) -> int:
    """A seed for ``torch.manual_seed`` that depends on the seed, the purpose and ``key``."""
    drawn = np.random.SeedSequence(seed, spawn_key=(*stream.value, *key)).generate_state(1, np.uint64)
    return int(drawn[0]) >> 1
