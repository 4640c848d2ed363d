"""Data sets of the package ``datasets`` of Hugging Face: which columns are inputs and labels."""

import os
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from pyrite.data.copies import digest, ends_of
from pyrite.data.items import LABEL_KEYS, Plain
from pyrite.data.records import Schema, listed
from pyrite.data.tables import frame_table
from pyrite.errors import PyriteError
from pyrite.files import as_path, shard_paths

_STREAMING: Final = (
    "data is a streaming data set, whose items have neither number nor index: pass load_dataset(..., streaming=False), "
    "or a part of it, datasets.Dataset.from_list(list(data.take(10_000)), features=data.features)"
)
_LISTS: Final = ("Sequence", "List", "LargeList", "Array2D", "Array3D", "Array4D")
_TEXTS: Final = ("string", "large_string", "string_view")


def is_hub(data: object) -> bool:
    """Whether it is a data set of the package ``datasets``, streaming or not."""
    return type(data).__module__.partition(".")[0] == "datasets" and hasattr(data, "features")


def open_images(path: str) -> Any:
    """Parquet files with a column of images, as Hugging Face writes them, as its data set; None if there is none.

    Its package copies them to its cache as Arrow files, which are mapped into memory.
    """
    paths = shard_paths(path) or [str(as_path(path))]
    try:
        import pyarrow.parquet

        schema = pyarrow.parquet.read_schema(paths[0])
    except (ImportError, OSError, ValueError):  # the reader of tables has a sentence for it
        return None
    structs = [field for field in schema if pyarrow.types.is_struct(field.type)]
    images = [field.name for field in structs if {"bytes", "path"} == {part.name for part in field.type}]
    if not images:
        return None
    try:
        import datasets
    except ImportError:
        raise PyriteError(f"{path}: images in Parquet need datasets: pip install 'pyrite-labels[hf]'") from None
    # Its own key is the path and the time of the file, which archives and copies keep.
    folder = os.path.join(datasets.config.HF_DATASETS_CACHE, "pyrite", digest(map(ends_of, map(Path, paths))))
    data = datasets.Dataset.from_parquet(paths, cache_dir=folder)
    for name in images:  # without the metadata of Hugging Face they are structures
        data = data.cast_column(name, datasets.Image())
    return data


def read_hub(data: Any, label: Any, text: str, like: Schema | None, taken: Collection[str] = ()) -> Plain:
    """The columns that are inputs and labels. ``label`` and ``text`` name them, or are guessed by their features,
    among those that are not ``taken``; ``like`` is given for samples of a model, and ``label`` is None if their labels
    are not wanted."""
    if not hasattr(data, "__len__") or not hasattr(data, "__getitem__"):
        raise PyriteError(_STREAMING)
    name = str(getattr(data.info, "dataset_name", None) or "Dataset")
    if data.format["type"] == "custom":  # set_transform: the user's own items
        key = label if isinstance(label, str) else ""
        classes = _names(data, key or _guess_label(data.features, needed=False)) if isinstance(label, str) else ()
        return Plain(data, label, "", classes, (), name, key)
    data = data.with_format(None)
    kinds = {column: _kind(feature) for column, feature in data.features.items()}
    own = label is None or isinstance(label, str)  # the labels are in a column
    key = _label_column(data, label or "", like) if own else ""
    plain = Plain(data, label if label is None else key if own else label, text, _names(data, key), (), name, key)
    if label is not None and plain.classes:
        plain = plain._replace(label=_checked_numbers(data, key, like))
    inputs = [column for column in kinds if column != key]
    images, arrays = ([column for column in inputs if kinds[column] == kind] for kind in ("image", "array"))
    if len(images) > 1 and not text:
        raise PyriteError(f"data has the images {listed(images)}: remove all but one with data.remove_columns([...])")
    if not text and (images or (len(arrays) == 1 and not any(kinds[column] == "text" for column in inputs))):
        used = (images or arrays)[0]
        values = data.select_columns([used]) if images else _as_array(data, used)
        if images and used in LABEL_KEYS:  # images are decoded one at a time, as items with one key
            values = values.rename_column(used, "image")
        rest = [column for column in inputs if column != used]
        note = f"the {'images' if images else 'numbers'} in the column {used!r} are learned from, and {listed(rest)}"
        if isinstance(plain.label, str) and plain.label:
            plain = plain._replace(label=list(data[key]))
        return plain._replace(data=values, notes=(f"{note} left out",) if rest else ())
    return _as_frame(plain, [column for column in inputs if kinds[column] in ("text", "scalar")], inputs, like, taken)


def _label_column(data: Any, label: str, like: Schema | None) -> str:
    label = label or (like.label if like is not None and like.label in data.features else "")
    label = label or _guess_label(data.features, needed=like is None)
    if label and label not in data.features:
        raise PyriteError(f"data has no column {label!r}; there are {listed(data.features)}")
    return label


def _as_frame(
    plain: Plain, scalars: list[str], inputs: Sequence[str], like: Schema | None, taken: Collection[str]
) -> Plain:
    """The columns of texts, numbers and truth values as a pandas frame, with class names in place of numbers."""
    if not scalars:
        raise PyriteError(
            f"data has the columns {listed(inputs)}, but none holds images, texts or vectors of equal "
            "length: add one with data.map"
        )
    data, key, rest = plain.data, plain.key, [column for column in inputs if column not in scalars]
    notes = [f"the columns {listed(rest)} are left out: they hold neither numbers nor texts"] if rest else []
    frame = data.select_columns([*scalars, *filter(None, [key])]).to_pandas()
    for column in scalars:
        if names := _names(data, column):  # their numbers may be others in another part
            frame[column] = frame[column].map(dict(enumerate(names))).astype("category")
    label = plain.label
    if plain.classes and label is not None:
        frame[key], label = np.array(plain.classes, object)[label], key
    columns = [column for column in scalars if _kind(data.features[column]) == "text" and column not in taken]
    text, one_of_many = plain.text, len(columns) == 1 and len(scalars) > 1
    if one_of_many and like is None and not text and frame_table(frame).column(columns[0]).kind == "text":
        text, others = columns[0], [column for column in scalars if column != columns[0]]
        notes.append(
            f"the texts in the column {text!r} are learned from, and {listed(others)} left out; data.to_pandas() has "
            "all columns"
        )
    return plain._replace(data=frame, label=label, text=text, notes=tuple(notes))


def _guess_label(features: Any, needed: bool) -> str:
    """The only column of classes, or the one that is called so."""
    classes = [column for column, feature in features.items() if type(feature).__name__ == "ClassLabel"]
    called = [column for column in features if column.lower() in LABEL_KEYS]
    for found in (classes, [column for column in classes if column in called], called):
        if len(found) == 1:
            return str(found[0])
    if not needed:
        return ""
    named = "name the label column, as in label='stars', or y='stars' for RobustClassifier"
    raise PyriteError(f"data has the columns {listed(features)}: {named}")


def _names(data: Any, label: str) -> tuple[str, ...]:
    """The names of the classes, if a column has them."""
    feature: Any = data.features.get(label)
    return tuple(map(str, feature.names)) if type(feature).__name__ == "ClassLabel" else ()


def _checked_numbers(data: Any, label: str, like: Schema | None) -> Any:
    """The class numbers; None if all are missing in a part that is not trained on."""
    numbers = np.asarray(data.select_columns([label]).to_pandas()[label].fillna(-1), np.int64)
    if like is not None and (numbers < 0).all():
        return None
    if (numbers < 0).any():
        index = int((numbers < 0).argmax())
        raise PyriteError(
            f"the label at index {index} is missing ({numbers[index]}): pass data.filter(lambda row: "
            f"row[{label!r}] >= 0)"
        )
    return numbers


def _kind(feature: Any) -> str:
    """Whether a column holds images, texts, single numbers, or many of them."""
    name = type(feature).__name__
    if name == "Value":
        return "text" if feature.dtype in _TEXTS else "scalar"
    return {"Image": "image", "ClassLabel": "scalar"}.get(name, "array" if name in _LISTS else "other")


def _as_array(data: Any, column: str) -> Any:
    inner = data.features[column]
    while hasattr(inner, "feature"):
        inner = inner.feature
    try:  # without its type, numbers would become float32
        rows = data.select_columns([column]).with_format("numpy", dtype=np.dtype(inner.dtype))
        array = np.asarray(rows[:][column])
    except (ValueError, TypeError, AttributeError):
        array = np.asarray(None)
    if array.dtype.kind not in "biuf":
        raise PyriteError(f"the lists in the column {column!r} are not numbers of one length: average them first")
    return array
