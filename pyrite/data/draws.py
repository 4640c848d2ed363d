"""Random numbers from a key, the same on any machine: only raw uniforms are drawn, and sorted.

``Generator.shuffle`` and ``choice`` may change between versions of numpy; the bits of a generator do not.
"""

import numpy as np
import numpy.typing as npt

__all__ = ["check_seed", "order", "uniforms"]

# The use is part of the key, so that two uses of one seed are independent.
SPLIT, SHUFFLE, CROP, FLIP, SYNTHETIC = range(1, 6)


def check_seed(seed: object) -> int:
    """A seed that may be used."""
    if not isinstance(seed, int | np.integer) or isinstance(seed, bool) or seed < 0:
        raise ValueError(f"seed is {seed!r}: it is a whole number from 0")
    return int(seed)


def uniforms(count: int, use: int, seed: int, *key: int) -> npt.NDArray[np.float64]:
    """Numbers in [0, 1) that depend on what they are for, the seed and the key only."""
    # As a spawn key, because (1, 2) and (1, 2, 0) are the same entropy to numpy.
    raw = np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(use, *key))).random_raw(count)
    return (raw >> np.uint64(11)).astype(np.float64) * 2.0**-53


def order(count: int, use: int, seed: int, *key: int) -> npt.NDArray[np.int64]:
    """A permutation of 0 .. count - 1 that depends on the same."""
    return uniforms(count, use, seed, *key).argsort(kind="stable").astype(np.int64)
