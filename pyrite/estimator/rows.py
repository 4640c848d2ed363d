"""Rows of a table or images: as numbers, in an order that depends on their content, in folds, and their statistics."""

import warnings
from hashlib import blake2b
from typing import Any, Final, NamedTuple, final

import numpy as np
import numpy.typing as npt
from scipy.stats import rankdata

from pyrite.data import Dataset, Records, Schema, describe, first_members, is_collection, read_like, texts
from pyrite.data.items import to_array
from pyrite.data.python_objects import find, label_values, make_plain
from pyrite.data.statistics import Statistics, mean_and_std, rescaled
from pyrite.data.tables import frame_table, is_frame
from pyrite.errors import PyriteError
from pyrite.features import Features, default_features

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


def plain_rows(rows: Any, labels: Any = None, like: Schema | None = None) -> tuple[Any, Any]:
    """Rows and labels of tensors, and of data sets of PyTorch or Hugging Face; others as they are.

    Args:
        rows: what ``fit`` or ``predict`` is given.
        labels: those of ``fit``; None if the rows have their own.
        like: what the rows of ``fit`` looked like, for ``predict``.
    """
    if not is_collection(rows):
        return rows, to_array(labels)
    plain = make_plain(rows, ("" if labels is None else labels) if like is None else None, like=like)
    if is_frame(plain.data):
        frame: Any = plain.data
        if like is None and isinstance(plain.label, str):
            labels, frame = frame[plain.label].to_numpy(), frame.drop(columns=plain.label)
        return frame[[plain.text]] if plain.text else frame, labels
    found = find(plain, like)
    for sentence in (*plain.notes, *found.notes):
        warnings.warn(sentence, UserWarning, stacklevel=3)
    inputs = found.inputs.texts() if isinstance(found.inputs, Records) else found.inputs[:]
    if like is not None or found.labels is None:
        return inputs, None
    values = label_values(found.labels, len(found.inputs))
    names = plain.classes if plain.classes and not isinstance(values[0], str) else ()
    return inputs, np.array([names[value] for value in values] if names else values)


@final
class Reader:
    """What turns rows into numbers, fitted to the rows of ``fit``. No label is used for it."""

    def __init__(self, records: Records, named: bool) -> None:
        described = default_features(records)
        assert described is not None
        labels = np.zeros(len(records), np.int64)
        self.described = describe(Dataset("X", records, labels, ("",)))
        self.columns = records.names if named else ()  # of a frame; a list of texts has none
        self.features: Features = described.fit(records, np.arange(len(records)))

    @staticmethod
    def for_rows(rows: Any) -> "Reader | None":
        """None if scikit-learn can check the rows as they are: numbers without gaps, and images."""
        if is_frame(rows):
            if not all(rows.shape):
                return None
            table = frame_table(rows, "X")
            columns = [table.column(name) for name in table.names]
            plain = all(column.kind in ("number", "boolean") and not column.missing.any() for column in columns)
            return None if plain else Reader(Records(columns), named=True)
        listed = _as_texts(rows)
        return None if listed is None else Reader(texts(listed, "X"), named=False)

    def transform(self, rows: Any) -> Floats:
        """Numbers of other rows. A frame has the same columns, in any order; a new category counts as a rare one."""
        listed = _as_texts(rows)
        if self.columns and not is_frame(rows):
            raise PyriteError(f"X is a {type(rows).__name__}, but the classifier was fitted to a frame with columns")
        if not self.columns and listed is None:
            raise PyriteError(f"X is a {type(rows).__name__}, but the classifier was fitted to a list of texts")
        samples = read_like(rows if listed is None else listed, self.described)
        for sentence in self.features.unfamiliar(samples.inputs):
            warnings.warn(f"{sentence}: its rows are predicted by the other columns", UserWarning, stacklevel=4)
        return np.asarray(self.features.transform(samples.inputs), np.float64)


def _as_texts(rows: Any) -> list[str] | None:
    """A list, series or array of texts; None if it is anything else."""
    if is_frame(rows) or isinstance(rows, str | bytes) or getattr(rows, "ndim", 1) != 1 or not hasattr(rows, "__len__"):
        return None
    listed: npt.NDArray[Any] | list[Any] = rows.tolist() if hasattr(rows, "tolist") else list(rows)
    return list(listed) if len(listed) and all(isinstance(row, str) for row in listed) else None
