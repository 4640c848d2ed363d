"""Rows of a table or images: an order that depends on their content, folds, and robust statistics."""

from hashlib import blake2b
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.stats import rankdata

from pyrite.data import first_members
from pyrite.data.statistics import Statistics, mean_and_std, rescaled

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_LARGEST_REPEATED: Final = 100_000  # the largest number of rows when whole weights are replaced by repeated rows


class Rows(NamedTuple):
    """Rows of positive weight, in an order that depends only on their content and the seed: neither on their position
    nor on the units of a column.

    Whole weights are replaced by repeated rows: a weight of 3 becomes three rows. So a row that comes twice and a row
    of weight 2 give the same result, to the last bit.
    """

    order: Ints  # the original position of each row
    weight: Floats  # with mean 1
    content: Ints  # equal for rows with equal inputs and label

    @staticmethod
    def of(inputs: npt.NDArray[Any], labels: Ints, weight: Floats, seed: int) -> "Rows":
        """The rows of these inputs and labels that have a positive weight."""
        used = np.flatnonzero(weight > 0)
        key = seed.to_bytes(32, "little")
        rows = inputs[used] if inputs.ndim == 4 else _ranks(inputs[used])
        digests = b"".join(blake2b(row.tobytes(), digest_size=16, key=key).digest() for row in rows)
        halves = np.frombuffer(digests, "<u8").reshape(-1, 2)
        sort = np.lexsort((weight[used], labels[used], halves[:, 1], halves[:, 0]))
        order, halves = used[sort], halves[sort]
        cell = np.cumsum(_differs_from_previous(halves)) - 1
        content = np.cumsum(_differs_from_previous(np.stack([cell, labels[order]], 1))) - 1
        counts = weight[order]
        if (counts == np.floor(counts)).all() and counts.sum() <= _LARGEST_REPEATED:
            times = counts.astype(np.int64)
            return Rows(order.repeat(times), np.ones(times.sum()), content.repeat(times))
        counts = counts / counts.max()
        return Rows(order, counts / counts.mean(), content)


def _ranks(features: Floats) -> npt.NDArray[np.int32]:
    """The rank of each value among the distinct values of its column, which scaling or shifting does not change."""
    return np.asarray(rankdata(features, "dense", axis=0) - 1, np.int32)


def _differs_from_previous(rows: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Whether each row differs from the previous one; True for the first."""
    differs = np.ones(len(rows), bool)
    differs[1:] = (rows[1:] != rows[:-1]).any(1)
    return differs


def assign_folds(labels: Ints, group: Ints, folds: int) -> Ints:
    """The fold of every row, stratified by class. Groups are in one fold: no net judges what it was trained on.

    >>> assign_folds(np.array([0, 0, 1, 0, 1]), np.array([0, 1, 1, 2, 3]), 2)
    array([0, 1, 1, 0, 1])
    """
    member = first_members(group)
    lead = np.unique(member)
    fold = np.empty(len(lead), np.int64)
    fold[np.argsort(labels[lead], kind="stable")] = np.arange(len(lead)) % folds
    return np.asarray(fold[np.searchsorted(lead, member)])


def inner_statistics(features: Floats) -> Statistics:
    """Mean and standard deviation of features, after the outermost 2 % on each side are clipped."""
    scaled, exponent = rescaled(features)
    mean, std = mean_and_std(scaled.clip(*np.quantile(scaled, [0.02, 0.98], axis=0)))
    with np.errstate(under="ignore"):
        _, whole = mean_and_std(features)
        std = np.where(std > 0, np.ldexp(std, exponent), whole)  # where all but a few values are equal
        mean = np.ldexp(mean, exponent)
    return Statistics(tuple(mean.tolist()), tuple(np.where(std > 0, std, 1.0).tolist()))
