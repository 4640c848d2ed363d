"""New samples for a trained model, read in the way in which its training data were read."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pyrite.data.dataset import Dataset, Inputs
from pyrite.data.delimited import Delimited
from pyrite.data.files import as_path
from pyrite.data.folder import read_all
from pyrite.data.given import is_object, to_numbers
from pyrite.data.images import SUFFIXES, LazyImages, Unreadable, look_at
from pyrite.data.npz import to_images
from pyrite.data.records import Records, texts
from pyrite.data.table import Source, read_columns
from pyrite.data.text_folder import read_text_file, text_files
from pyrite.data.typed_table import frame_table, is_frame, parquet_table
from pyrite.errors import PyriteError
from pyrite.npz_files import read_npz

__all__ = ["Samples", "describe", "read_like"]


class Samples(NamedTuple):
    """Samples without labels.

    Attributes:
        inputs: as the training data had them.
        names: the file or the name of each; empty if they have none.
        unreadable: files that cannot be read and are left out.
    """

    inputs: Inputs
    names: tuple[str, ...] = ()
    unreadable: tuple[Unreadable, ...] = ()


def describe(data: Dataset) -> dict[str, Any]:
    """How the samples of a data set look, ready for JSON: what ``read_like`` needs to read others."""
    inputs = data.inputs
    if isinstance(inputs, Records):
        kind = "text" if inputs.is_text else "table"
        columns = [list(pair) for pair in zip(inputs.names, inputs.kinds, strict=True)]
    else:
        kind = "images" if inputs.ndim == 4 else "numbers"
        columns = [[name, "number"] for name in data.columns]
    return {"kind": kind, "shape": list(inputs.shape[1:]), "columns": columns, "label": data.label}


def read_like(source: Any, described: Mapping[str, Any], name: str = "") -> Samples:
    """Samples for a model that was trained on data as ``described``, with or without labels.

    Args:
        source: a file or folder, a data frame, a list of texts, or an array.
        described: what ``describe`` said of the training data: ``run.facts["inputs"]``.
        name: the column that names a sample.
    """
    if isinstance(source, Dataset):
        return Samples(source.inputs, source.paths, source.unreadable)
    if isinstance(source, Records):
        return Samples(source)
    if is_object(source):
        return _from_object(source, described, name)
    path = as_path(source)
    if not os.path.exists(path):
        raise PyriteError(f"there is no file or folder {str(path)!r}")
    readers: dict[str, Callable[[Path], Source]] = {".csv": Delimited, ".tsv": Delimited, ".parquet": parquet_table}
    reader = None if path.is_dir() else readers.get(path.suffix.lower())
    if reader is not None:
        return _from_table(reader(path), described, name)
    if path.suffix.lower() == ".npz":
        return _from_npz(path, described)
    return _from_files(path, described)


def _from_object(source: Any, described: Mapping[str, Any], name: str) -> Samples:
    if is_frame(source):
        return _from_table(frame_table(source), described, name)
    if described["kind"] == "text":
        return Samples(texts(list(source), described["columns"][0][0]))
    if described["kind"] == "table":
        raise PyriteError(
            f"data is a {type(source).__name__}, but the model takes a table with the columns {_names(described)}"
        )
    return Samples(_checked(to_numbers(np.asarray(source), "data"), described, "data"))


def _from_table(table: Source, described: Mapping[str, Any], name: str) -> Samples:
    if described["kind"] == "images":
        raise PyriteError(f"{table.path}: the model takes images, not a table")
    if not described["columns"]:
        raise PyriteError(f"{table.path}: the model was trained on numbers without names: pass an array")
    wanted = [column for column, _ in described["columns"]]
    absent = [column for column in wanted if column not in table.names]
    if absent:
        raise PyriteError(
            f"{table.path}: there is no column {absent[0]!r}; the model was trained on {_names(described)}"
        )
    names = tuple(table.texts([name])[name].tolist()) if name else ()
    columns = read_columns(table, wanted, dict(described["columns"]))
    if described["kind"] != "numbers":
        return Samples(Records(columns), names)
    for column in columns:
        if column.missing.any():
            row = int(column.missing.argmax())
            raise PyriteError(
                f"{table.cell(row, column.name)}: the number is missing, and none was missing in training"
            )
    return Samples(np.stack([column.values for column in columns], 1), names)


def _from_npz(path: Path, described: Mapping[str, Any]) -> Samples:
    arrays = read_npz(path, ("x",))
    if "x" not in arrays:
        raise PyriteError(f"{path}: there is no array 'x'")
    return Samples(_checked(to_images(arrays["x"], None, f"{path}: x"), described, f"{path}: x"))


def _from_files(path: Path, described: Mapping[str, Any]) -> Samples:
    """A file, or all files in a folder and the folders in it, in order."""
    if described["kind"] == "text":
        files = text_files(path) if path.is_dir() else [path.name]
        root = path if path.is_dir() else path.parent
        return Samples(texts([read_text_file(root / file) for file in files], described["columns"][0][0]), tuple(files))
    if described["kind"] != "images":
        raise PyriteError(f"{path}: the model takes a table with the columns {_names(described)}, as .csv or .parquet")
    root = path if path.is_dir() else path.parent
    files = sorted(str(file.relative_to(root)) for file in root.rglob("*") if file.suffix.lower() in SUFFIXES)
    good, _, bad = look_at(root, files if path.is_dir() else [path.name])
    files = files if path.is_dir() else [path.name]
    if not good:
        raise PyriteError(f"{path}: no image can be read" + (f"; the first: {bad[0].reason}" if bad else ""))
    channels, height, width = described["shape"]
    images = LazyImages(root, [files[index] for index in good], (height, width), channels)
    pixels, kept, undecodable = read_all(images)
    return Samples(pixels, tuple(images.names[index] for index in kept), (*bad, *undecodable))


def _checked(inputs: Any, described: Mapping[str, Any], what: str) -> Any:
    if list(inputs.shape[1:]) != list(described["shape"]):
        raise PyriteError(
            f"{what} has samples of shape {inputs.shape[1:]}, but the model takes {tuple(described['shape'])}"
        )
    return inputs


def _names(described: Mapping[str, Any]) -> str:
    names = [repr(name) for name, _ in described["columns"]]
    return ", ".join(names[:20]) + (", ..." if len(names) > 20 else "")
