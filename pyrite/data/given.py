"""Data that are Python objects already: data frames, lists of texts, and arrays, with their labels."""

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from pyrite.data.cells import to_objects
from pyrite.data.dataset import Dataset, Numeric, check_inputs, encode
from pyrite.data.records import texts
from pyrite.data.statistics import check_spread, to_float64
from pyrite.data.table import read_table
from pyrite.data.typed_table import Frame, TypedTable, column_of, frame_table, is_frame
from pyrite.errors import PyriteError

__all__ = ["Data", "from_objects", "is_object", "to_numbers"]


Data = str | os.PathLike[str] | Dataset | Frame | Sequence[str] | npt.NDArray[Any]
"""What is trained on: a name, a path, a data set, a frame, a list of texts, or an array."""


def is_object(data: object) -> bool:
    """Whether ``load`` takes it for samples: a frame, an array, or a list of texts."""
    return is_frame(data) or isinstance(data, list | tuple | np.ndarray)


def from_objects(data: Any, label: Any = "", text: str = "", ignore: str = "", name: str = "") -> Dataset:
    """A data set from objects.

    Args:
        data: a pandas or polars frame, a list of texts, or an array of images or features.
        label: the name of a frame's label column, or the labels themselves, one per sample.
        text, ignore, name: columns of a frame, as for ``csv``.
    """
    if is_frame(data):
        table = frame_table(data)
        if isinstance(label, str):
            return read_table(table, label, text, ignore, name)
        return read_table(*_with_labels(table, label), text, ignore, name)
    if isinstance(label, str):
        raise PyriteError("label is missing: pass the labels of the samples, one per sample")
    if text or ignore or name:
        raise PyriteError(f"data is a {type(data).__name__}, which has no columns: leave out text, ignore and name")
    if not isinstance(data, np.ndarray) or data.dtype.kind in "OUT":
        words = to_objects(texts(list(data), "data").texts())
        return read_table(*_with_labels(TypedTable("texts", {"text": words}), label), text="text")
    inputs = to_numbers(data, "data")
    _check_length(label, len(inputs))
    return Dataset("arrays", inputs, *encode(np.asarray(label).tolist(), "label"))


def to_numbers(values: npt.NDArray[Any], what: str) -> Numeric:
    """Images unchanged, and numbers of any type in float64."""
    if values.ndim != 2:
        check_inputs(values, what)
        return values
    if values.dtype.kind not in "biuf":
        raise PyriteError(f"{what} is an array of {values.dtype}, but must hold numbers")

    def cell(row: int, column: int) -> str:
        return f"{what}, row {row}, column {column}"

    features = to_float64(values, cell)
    check_spread(features, cell)
    return features


def _with_labels(table: TypedTable, labels: Any) -> tuple[TypedTable, str]:
    """The table with one more column, and its name."""
    _check_length(labels, table.rows)
    name = "label"
    while name in table.names:
        name += "_"
    column = column_of(labels.to_numpy() if hasattr(labels, "to_numpy") else np.array(labels), "label")
    return table.with_column(name, column), name


def _check_length(labels: Any, rows: int) -> None:
    if len(labels) != rows:
        raise PyriteError(f"label has {len(labels)} labels, but there are {rows} samples")
