"""Rows of a table or images: which are the same, how they are put in order, and in parts."""

from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = ["Floats", "Ints", "Rows", "Spread", "deal"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


class Rows(NamedTuple):
    """Rows that differ, in an order that depends on what they are and on the seed, not on where they stood.

    Attributes:
        first: where each is found first.
        number: which of them every original row is; -1 if it counts nothing.
        weight: what all that are the same count together.
        group: rows of one group differ in their labels only.
    """

    first: Ints
    number: Ints
    weight: Floats
    group: Ints

    @staticmethod
    def distinct(inputs: npt.NDArray[Any], labels: Ints, weight: Floats, seed: int) -> "Rows":
        """Those of these inputs and labels that count anything."""
        counted = np.flatnonzero(weight > 0)
        key = seed.to_bytes(32, "little")
        plain = np.ascontiguousarray(inputs[counted]) + np.zeros((), inputs.dtype)  # so that -0 is 0
        digests = b"".join(blake2b(row.tobytes(), digest_size=16, key=key).digest() for row in plain)
        halves = np.frombuffer(digests, "<u8").reshape(-1, 2)
        order = np.lexsort((labels[counted], halves[:, 1], halves[:, 0]))
        other = np.ones(len(order), bool)
        other[1:] = (np.diff(halves[order], axis=0) != 0).any(1)
        new = other.copy()
        new[1:] |= np.diff(labels[counted][order]) != 0
        number = np.full(len(labels), -1, np.int64)
        number[counted[order]] = np.cumsum(new) - 1
        summed = np.zeros(int(new.sum()))
        np.add.at(summed, number[counted], weight[counted])
        return Rows(counted[order][new], number, summed, (np.cumsum(other) - 1)[new])


def deal(labels: Ints, group: Ints, parts: int) -> Ints:
    """Which part every row is in: each has its share of every class, and a group is in one of them.

    >>> deal(np.array([0, 0, 1, 0, 1]), np.array([0, 1, 1, 2, 3]), 2)
    array([0, 1, 1, 0, 1])
    """
    first = np.ones(len(group), bool)
    first[1:] = np.diff(group) != 0
    by_class = np.argsort(labels[first], kind="stable")
    part = np.empty(len(by_class), np.int64)
    part[by_class] = np.arange(len(by_class)) % parts
    return part[group]


class Spread(NamedTuple):
    """Where features lie, in double precision: of a time in seconds, float32 alone would keep two minutes."""

    mean: Floats
    std: Floats

    @staticmethod
    def of(features: Floats) -> "Spread":
        """That of these rows."""
        mean, std = features.mean(0), features.std(0)
        return Spread(mean, np.where(std > 0, std, 1.0))

    def apply(self, features: Floats) -> npt.NDArray[np.float32]:
        """Features near 0, ready for float32; what is further away than float32 reaches is taken to be at its end."""
        limit = np.finfo(np.float32).max
        return ((features - self.mean) / self.std).clip(-limit, limit).astype(np.float32)
