"""Rows that are not numbers yet: data frames with gaps, categories, dates or texts, and lists of texts."""

import warnings
from typing import Any, final

import numpy as np
import numpy.typing as npt

from pyrite.data import Dataset, Records, Schema, describe, is_collection, read_like, texts
from pyrite.data.items import to_array
from pyrite.data.python_objects import find, label_values, make_plain
from pyrite.data.tables import frame_table, is_frame
from pyrite.errors import PyriteError
from pyrite.estimator.rows import Floats
from pyrite.features import Features, default_features


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
