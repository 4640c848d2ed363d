"""New samples for a trained model, read in the way in which its training data were read; and the file endings."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from pyrite.data.dataset import Dataset, Inputs, Numeric, check_inputs
from pyrite.data.files import as_path
from pyrite.data.folders import TEXTS, files_below, read_all, read_text_file
from pyrite.data.images import SUFFIXES, LazyImages, Unreadable, look_at
from pyrite.data.npz import npz, to_images
from pyrite.data.records import Kind, Records, Schema, kind_of, listed, texts
from pyrite.data.statistics import to_features
from pyrite.data.table import as_array, csv, parquet
from pyrite.data.tables import Table, TextTable, frame_table, is_frame, parquet_table
from pyrite.errors import PyriteError
from pyrite.npz_files import read_npz


class Samples(NamedTuple):
    """Samples without labels, the file or the name of each if they have one, and files that are left out."""

    inputs: Inputs
    names: tuple[str, ...] = ()
    unreadable: tuple[Unreadable, ...] = ()


class FileFormat(NamedTuple):
    """How files of one ending are read: a data set, and new samples by the schema of the training data and the column
    that names a sample."""

    load: Callable[..., Dataset]
    read: Callable[[Path, Schema, str], Samples]


def describe(data: Dataset) -> dict[str, Any]:
    """How the samples of a data set look, ready for JSON: what ``read_like`` needs to read others."""
    if data.schema is not None:
        return data.schema.to_json()
    inputs = data.inputs
    columns: dict[str, Kind] = dict.fromkeys(data.columns, "number")
    if isinstance(inputs, Records):
        columns = {column.name: column.kind for column in inputs.columns}
    dtype = "" if isinstance(inputs, Records) or inputs.ndim != 4 else str(inputs.dtype)
    return Schema(kind_of(inputs), tuple(inputs.shape[1:]), columns, data.label, dtype=dtype).to_json()


def is_object(data: object) -> bool:
    """Whether ``load`` takes it for samples: a frame, an array, or a list of texts."""
    return is_frame(data) or isinstance(data, list | tuple | np.ndarray)


def read_like(source: Any, described: Mapping[str, Any], name: str = "") -> Samples:
    """Samples from a file or folder, a data frame, a list of texts, or an array, with or without labels, for a model
    that was trained on data as ``described``. ``name`` is the column that names a sample."""
    schema = Schema(**described)
    if isinstance(source, Dataset):
        return Samples(source.inputs, source.paths, source.unreadable)
    if isinstance(source, Records):
        return Samples(source)
    if is_frame(source):
        return _from_table(frame_table(source), schema, name)
    if is_object(source):
        return _from_object(source, schema)
    path = as_path(source)
    if not os.path.exists(path):
        raise PyriteError(f"there is no file or folder {str(path)!r}")
    known = None if path.is_dir() else ENDINGS.get(path.suffix.lower())
    return _from_files(path, schema) if known is None else known.read(path, schema, name)


def to_numbers(values: npt.NDArray[Any], what: str) -> Numeric:
    """Images unchanged, and numbers of any type in float64."""
    if values.ndim != 2:
        check_inputs(values, what)
        return values
    if values.dtype.kind not in "biuf":
        raise PyriteError(f"{what} is an array of {values.dtype}, but must hold numbers")
    return to_features(values, what)


def _from_object(source: Any, schema: Schema) -> Samples:
    if schema.kind == "text":
        return Samples(texts(list(source), next(iter(schema.columns))))
    if schema.kind == "table":
        raise PyriteError(
            f"data is a {type(source).__name__}, but the model takes a table with the columns {listed(schema.columns)}"
        )
    return Samples(_checked(to_numbers(np.asarray(source), "data"), schema, "data"))


def _from_table(table: Table, schema: Schema, name: str) -> Samples:
    if schema.kind == "images":
        raise PyriteError(f"{table.path}: the model takes images, not a table")
    if not schema.columns:
        raise PyriteError(f"{table.path}: the model was trained on numbers without names: pass an array")
    absent = [column for column in schema.columns if column not in table.names]
    if absent:
        raise PyriteError(
            f"{table.path}: there is no column {absent[0]!r}; the model was trained on {listed(schema.columns)}"
        )
    names = table.names_of_rows(name)
    columns = table.columns(schema.columns, schema.formats)
    if schema.kind != "numbers":
        return Samples(Records(columns), names)
    for column in columns:
        if column.missing.any():
            cell = table.cell(int(column.missing.argmax()), column.name)
            raise PyriteError(f"{cell}: the number is missing, and none was missing in training")
    return Samples(as_array(columns), names)


def _from_npz(path: Path, schema: Schema, name: str) -> Samples:
    arrays = read_npz(path, ("x",))
    if "x" not in arrays:
        raise PyriteError(f"{path}: there is no array 'x'")
    return Samples(_checked(to_images(arrays["x"], None, f"{path}: x"), schema, f"{path}: x"))


_CSV: Final = FileFormat(csv, lambda path, like, name: _from_table(TextTable(path, like=like.decimal), like, name))

ENDINGS: Final[dict[str, FileFormat]] = {
    ".csv": _CSV,
    ".tsv": _CSV,
    ".parquet": FileFormat(parquet, lambda path, like, name: _from_table(parquet_table(path), like, name)),
    ".npz": FileFormat(npz, _from_npz),
}
"""Every ending of a file that holds a data set. A new format is its reader and one line here: its ``load`` becomes a
data set that a spec string can name."""


def _from_files(path: Path, schema: Schema) -> Samples:
    """A file, or all files in a folder and the folders in it, in order."""
    root = path if path.is_dir() else path.parent
    files = files_below(path, TEXTS if schema.kind == "text" else SUFFIXES) if path.is_dir() else [path.name]
    if schema.kind == "text":
        return Samples(texts([read_text_file(root / file) for file in files], next(iter(schema.columns))), tuple(files))
    if schema.kind != "images":
        raise PyriteError(
            f"{path}: the model takes a table with the columns {listed(schema.columns)}, as .csv or .parquet"
        )
    good, _, bad = look_at(root, files)
    if not good:
        raise PyriteError(f"{path}: no image can be read" + (f"; the first: {bad[0].reason}" if bad else ""))
    channels, height, width = schema.shape
    images = LazyImages(root, [files[index] for index in good], (height, width), channels)
    pixels, kept, undecodable = read_all(images)
    return Samples(pixels, tuple(images.names[index] for index in kept), (*bad, *undecodable))


def _checked(inputs: Any, schema: Schema, what: str) -> Any:
    if tuple(inputs.shape[1:]) != tuple(schema.shape):
        raise PyriteError(f"{what} has samples of shape {inputs.shape[1:]}, but the model takes {tuple(schema.shape)}")
    return inputs
