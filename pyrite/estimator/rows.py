"""Rows of a table, or images: in an order that is theirs, in parts, and at a scale that nets can work with."""

from hashlib import blake2b
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from pyrite.data.statistics import Statistics, mean_and_std, rescaled

__all__ = ["Floats", "Ints", "Rows", "deal", "inner_statistics"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_SPELLED_OUT: Final = 100_000  # rows, at most, that whole weights are written out as
_COMMON: Final = 10  # rows with the same inputs, from which on they are not copies but values that many rows have


class Rows(NamedTuple):
    """Rows of positive weight, in an order that depends on what they hold and on the seed, not on where they stood.

    Nor does it depend on the units of a column: scaling or shifting it gives the same order.

    Whole weights are written out: a weight of 3 is three rows. So a row twice and a row of weight 2 are the same, to
    the last bit.

    Attributes:
        order: the original row that each of them is.
        weight: what each counts, 1 on average.
        cell: the number of its inputs: rows of one cell differ in their labels at most.
        content: the number of its inputs and label.
    """

    order: Ints
    weight: Floats
    cell: Ints
    content: Ints

    @staticmethod
    def of(inputs: npt.NDArray[Any], labels: Ints, weight: Floats, seed: int) -> "Rows":
        """Those of these inputs and labels that count anything."""
        counted = np.flatnonzero(weight > 0)
        key = seed.to_bytes(32, "little")
        rows = inputs[counted] if inputs.ndim == 4 else _ranks(inputs[counted])
        digests = b"".join(blake2b(row.tobytes(), digest_size=16, key=key).digest() for row in rows)
        halves = np.frombuffer(digests, "<u8").reshape(-1, 2)
        sort = np.lexsort((weight[counted], labels[counted], halves[:, 1], halves[:, 0]))
        order, halves = counted[sort], halves[sort]
        cell = np.cumsum(_changes(halves)) - 1
        content = np.cumsum(_changes(np.stack([cell, labels[order]], 1))) - 1
        counts = weight[order]
        if (counts == np.floor(counts)).all() and counts.sum() <= _SPELLED_OUT:
            times = counts.astype(np.int64)
            return Rows(order.repeat(times), np.ones(times.sum()), cell.repeat(times), content.repeat(times))
        counts = counts / counts.max()
        return Rows(order, counts / counts.mean(), cell, content)


def _ranks(features: Floats) -> npt.NDArray[np.int32]:
    """The place of each value among the distinct ones of its column, which no scale or shift of the column changes."""
    ranks = np.empty(features.shape, np.int32)
    for column in range(features.shape[1]):
        ranks[:, column] = np.unique(features[:, column], return_inverse=True)[1]
    return ranks


def _changes(rows: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Whether each row differs from the one before."""
    changes = np.ones(len(rows), bool)
    changes[1:] = (rows[1:] != rows[:-1]).any(1)
    return changes


def deal(labels: Ints, cell: Ints, parts: int) -> Ints:
    """Which part every row is in: each has its share of every class.

    Rows with the same inputs are in the same part, for copies would be judged by what was learned of each other; but
    not where so many are the same that they are no copies.

    >>> deal(np.array([0, 0, 1, 0, 1]), np.array([0, 1, 1, 2, 3]), 2)
    array([0, 1, 1, 0, 1])
    """
    common = np.bincount(cell)[cell] >= _COMMON
    lead = _changes(cell[:, None]) | common
    group = np.cumsum(lead) - 1
    by_class = np.argsort(labels[lead], kind="stable")
    part = np.empty(len(by_class), np.int64)
    part[by_class] = np.arange(len(by_class)) % parts
    return np.asarray(part[group])


def inner_statistics(features: Floats) -> Statistics:
    """Mean and deviation of features, but for the outermost 2 % on each side, which may be anywhere."""
    scaled, exponent = rescaled(features)
    mean, std = mean_and_std(scaled.clip(*np.quantile(scaled, [0.02, 0.98], axis=0)))
    with np.errstate(under="ignore"):
        _, whole = mean_and_std(features)
        std = np.where(std > 0, np.ldexp(std, exponent), whole)  # all but a few are the same
        mean = np.ldexp(mean, exponent)
    return Statistics(tuple(mean.tolist()), tuple(np.where(std > 0, std, 1.0).tolist()))
