"""Reading of any data: the registry of data sets, ``load``, and ``read_like`` for new samples of a trained model."""

import difflib
import inspect
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from pyrite.arrays import check_below
from pyrite.checks import one_of
from pyrite.data.archives import from_tar, tar
from pyrite.data.dataset import Dataset, Samples, check_names, encode, encode_like
from pyrite.data.folders import TEXTS, files_below, folder, image_files, read_text_file, texts
from pyrite.data.hub import open_images
from pyrite.data.images import SUFFIXES
from pyrite.data.items import check_like, described as described_as
from pyrite.data.official import cifar10, cifar10n, cifar100, cifar100n, fashion_mnist, mnist
from pyrite.data.python_objects import Indexed, find, is_object, load_object, make_plain
from pyrite.data.records import Records, Schema, listed, texts as to_records
from pyrite.data.statistics import check_finite, to_features
from pyrite.data.synthetic import blobs, digits, gratings, reduced
from pyrite.data.table import csv, parquet, read_columns
from pyrite.data.tables import Frame, Table, TextTable, parquet_table
from pyrite.data.web import clothing1m, mars, webvision
from pyrite.errors import PyriteError
from pyrite.files import as_path, shard_paths
from pyrite.npz_files import read_npz
from pyrite.settings import READING
from pyrite.spec import Registry, build, call, nearest

Data = str | os.PathLike[str] | Dataset | Frame | Sequence[Any] | Mapping[str, Any] | npt.NDArray[Any] | Indexed
"""What is trained on: a name, a path, a data set, a frame, a list of texts, an array or tensor, ``(X, y)``, or a data
set or loader of PyTorch or Hugging Face."""


_CHANNELS = (1, 3, 4)  # grey, RGB, RGBA


class FileFormat(NamedTuple):
    """How files of one ending are read: a data set, and new samples by the schema of the training data and the column
    that names a sample."""

    load: Callable[..., Dataset]
    read: Callable[[Path, Schema, str], Samples]


def npz(path: str, channels: str | None = None) -> Dataset:
    """An .npz file with ``x`` (images or features) and ``y``; ``x_test``, ``y_test`` and ``classes`` are optional.

    Images are uint8 from 0 to 255, or other numbers of any scale: (N, H, W) for grey, or (N, C, H, W) or (N, H, W,
    C) with 1, 3 or 4 channels, of which the fourth, the transparency of bytes, is dropped. Features are any
    numbers, (N, F). Labels are whole numbers or texts; the classes are their distinct values in order, unless
    ``classes`` names them, in which case labels are the numbers of these names.

    Args:
        path: the file.
        channels: ``first`` or ``last``, for images whose shape is ambiguous, such as (N, 3, 32, 3) or (N, 9, 32, 32).
    """
    one_of("channels", channels, (None, "first", "last"))
    place = as_path(path)
    arrays = read_npz(place, ("x", "y", "x_test", "y_test", "classes"))
    classes: tuple[str, ...] = ()
    if "classes" in arrays:
        classes = tuple(str(name) for name in _checked_column(arrays["classes"], f"{place}: classes"))
        check_names(classes, f"{place}: classes")

    def part(ending: str, train: Dataset | None) -> Dataset:
        x, y = f"x{ending}", f"y{ending}"
        for name in (x, y):
            if name not in arrays:
                both = f": {x} and {y} belong together" if ending else ""
                raise PyriteError(f"{place}: there is no array {name!r}{both}")
        inputs, values = _to_images(arrays[x], channels, f"{place}: {x}"), _checked_column(arrays[y], f"{place}: {y}")
        if train is not None and inputs.shape[1:] != train.inputs.shape[1:]:
            raise PyriteError(f"{place}: samples of x are {train.inputs.shape[1:]}, those of x_test {inputs.shape[1:]}")
        names = classes or (train.classes if train is not None else ())
        if classes:
            if not np.issubdtype(values.dtype, np.integer):
                raise PyriteError(f"{place}: {y}: with classes given, labels are numbers of them, not {values.dtype}")
            labels = values.astype(np.int64)
            check_below(labels, len(classes), f"{place}: {y}")
        elif train is not None:
            labels = encode_like(values.tolist(), names, f"{place}: {y}")
        else:
            labels, names = encode(values.tolist(), f"{place}: the labels {y}")
        if len(labels) != len(inputs):
            raise PyriteError(f"{place}: {x} has {len(inputs)} samples, {y} has {len(labels)}")
        return Dataset(place.stem + ending.replace("_", " "), inputs, labels, names)

    train = part("", None)
    return replace(train, test=part("_test", train)) if {"x_test", "y_test"} & arrays.keys() else train


def _to_images(x: npt.NDArray[Any], channels: str | None, where: str) -> npt.NDArray[Any]:
    """Images as (N, C, H, W) without transparency, if the shape shows the axis of channels, or features in float64."""
    if x.ndim not in (2, 3, 4) or x.dtype.kind not in "biuf":
        raise PyriteError(f"{where}: {x.dtype} of shape {x.shape}; images are (N, C, H, W), features numbers (N, F)")
    if x.ndim == 2:
        return to_features(x, where)
    is_bytes = x.dtype == np.uint8
    if not is_bytes:
        x = x.astype(np.float32)
        check_finite(x.reshape(len(x), -1), lambda row, column: f"{where}, image {row}, value {column}")
    if x.ndim == 3:
        return np.ascontiguousarray(x[:, None])
    first, last = x.shape[1] in _CHANNELS, x.shape[3] in _CHANNELS
    if channels is None and first == last:
        problem = "may be (N, C, H, W) or (N, H, W, C)" if first else "has neither 1, 3 nor 4 channels"
        raise PyriteError(
            f"{where}: the shape {x.shape} {problem}: specify channels='first' or channels='last', "
            "as in \"npz('file.npz', channels='last')\""
        )
    if channels == "last" or (channels is None and last):
        x = x.transpose(0, 3, 1, 2)
    return np.ascontiguousarray(x[:, :3] if x.shape[1] == 4 and is_bytes else x)


def _checked_column(values: npt.NDArray[Any], where: str) -> npt.NDArray[Any]:
    if values.ndim != 1 or not (np.issubdtype(values.dtype, np.integer) or values.dtype.kind == "U"):
        raise PyriteError(f"{where}: {values.dtype} of shape {values.shape}, not a list of whole numbers or texts")
    return values


def _from_npz(path: Path, schema: Schema, name: str) -> Samples:
    arrays = read_npz(path, ("x",))
    if "x" not in arrays:
        raise PyriteError(f"{path}: there is no array 'x'")
    inputs = _to_images(arrays["x"], None, f"{path}: x")
    check_like(inputs.shape, inputs.dtype, schema, f"{path}: x")
    return Samples(inputs)


def _from_loaded(source: Dataset | Records, schema: Schema) -> Samples:
    """Samples of a data set or of records, whose columns are matched by their names."""
    import pandas

    if isinstance(source, Dataset):
        samples, columns, what = Samples(source.inputs, source.paths, source.unreadable), source.columns, source.name
    else:
        samples, columns, what = Samples(source), (), "data"
    if isinstance(samples.inputs, Records):
        frame = pandas.DataFrame({column.name: column.values for column in samples.inputs.columns}, copy=False)
    elif columns:
        frame = pandas.DataFrame(samples.inputs, columns=list(columns), copy=False)
    else:
        check_like(samples.inputs.shape, samples.inputs.dtype, schema, what)
        return samples
    table, own = Table(what, frame), source.schema if isinstance(source, Dataset) else None
    if own is not None:
        table.formats = dict(own.formats)
        if not own.is_clear and schema.decimal not in ("", own.decimal):
            raise PyriteError(
                f"{what}: numbers such as 5.400 may have decimals or thousands, and decimals came after "
                f"{schema.decimal!r} in training: pass the path of the file, or specify decimal when it is read"
            )
    read = read_columns(table, schema)
    return samples._replace(inputs=read.inputs, notes=read.notes)


def _from_csv(path: Path, schema: Schema, name: str) -> Samples:
    return read_columns(TextTable(path, like=schema.decimal, among=schema.columns), schema, name)


def _from_parquet(path: Path, schema: Schema, name: str) -> Samples:
    images = open_images(str(path))
    if images is not None:
        return find(make_plain(images, None, like=schema), schema, name)
    return read_columns(parquet_table(path), schema, name)


_CSV: Final = FileFormat(csv, _from_csv)

ENDINGS: Final[dict[str, FileFormat]] = {
    ".csv": _CSV,
    ".tsv": _CSV,
    ".parquet": FileFormat(parquet, _from_parquet),
    ".npz": FileFormat(npz, _from_npz),
    ".tar": FileFormat(tar, from_tar),
}
"""Every ending of a file that holds a data set. A new format is its reader and one line here: its ``load`` becomes a
data set that a spec string can name."""

_LOADERS: Final[tuple[Callable[..., Dataset], ...]] = (
    *(digits, blobs, gratings, mnist, fashion_mnist, cifar10, cifar100, cifar10n, cifar100n),
    *(clothing1m, webvision, mars, folder, texts, reduced),
    *(known.load for known in ENDINGS.values()),
)
DATASETS: Registry[Dataset] = Registry("data set", {load.__name__: load for load in _LOADERS}, Dataset, "digits")


def load(data: Any, **options: Any) -> Dataset:
    """The data set that ``data`` names: a registered name, a spec, a folder of images or texts, a table or an .npz.

    It may also be an object: a pandas or polars frame, a list of texts, arrays or tensors, a data set of PyTorch or
    Hugging Face; ``label`` is then the name of the label column, or the labels themselves.

    ``options`` are passed to its loader. A registered name takes precedence over a folder of the same name, which can
    be given as ``./name``.

    >>> load("blobs(classes=5)")
    <blobs: 1000 features of 2, 5 classes, 200 for testing>
    >>> load("blobs", classes=5, samples=50)
    <blobs: 50 features of 2, 5 classes, 10 for testing>
    """
    if isinstance(data, Dataset):
        if options:
            raise PyriteError(f"{data!r} is loaded already: pass {', '.join(options)} when loading it")
        return data
    if is_object(data):
        return load_object(data, **options)
    if not isinstance(data, str | Path):
        raise PyriteError(f"data is a {type(data).__name__}, but must be a name or a path")
    text = str(data).strip()
    if not text:
        raise PyriteError("data is empty, but must be a name or a path")
    # A spec is a name alone or with brackets: texts.csv and digits/ are paths.
    name = re.match(r"([A-Za-z_]\w*)\s*(?=\(|$)", text) if isinstance(data, str) else None
    registered = name is not None and name[1] in DATASETS
    like_path = re.search(r"[/\\]", text) or Path(text).suffix.lower() in ENDINGS
    like_path = like_path and not re.match(r"\w+\s*\(", text)
    if not registered and (like_path or not isinstance(data, str) or os.path.exists(as_path(text))):
        maker = _loader_of(as_path(text))
        text, options = maker.__name__, {"path": str(as_path(text)), **options}
    elif text in DATASETS:
        maker = DATASETS[text]
    elif name is not None and (beside := [text + end for end in ENDINGS if os.path.isfile(as_path(text + end))]):
        raise PyriteError(f"there is no data set {text!r}: did you mean {beside[0]!r}?")
    elif re.fullmatch(r"[\w-]+", text) and "-" in text:  # a name with hyphens, which a spec cannot have
        raise PyriteError(f"there is no data set {text!r}: {nearest(text.replace('-', '_'), DATASETS)}")
    else:  # what is written in the brackets comes before the options
        makers = {name: partial(maker, **options) for name, maker in DATASETS.items()}
        return DATASETS.check(text, build(text, makers, "data set"))
    taken = inspect.signature(maker).parameters
    for option in READING:
        if option in options and option not in taken and not any(p.kind is p.VAR_KEYWORD for p in taken.values()):
            raise PyriteError(f"{option} is {options[option]!r}, but {text} has no columns: leave out {option}")
    made = call(text, maker, **options)
    return made if isinstance(made, Dataset) else DATASETS.check(text, made)


def _loader_of(path: Path) -> Callable[..., Dataset]:
    """What reads a file or folder."""
    ending = path.suffix.lower()
    if os.path.isdir(path):
        # A folder without any files is an error of image folders.
        return texts if files_below(path, TEXTS) and not files_below(path, SUFFIXES) else folder
    if ending in ENDINGS and (os.path.exists(path) or shard_paths(str(path))):  # pathlib raises for a long name
        return ENDINGS[ending].load
    if os.path.exists(path):
        advice = ": save the sheet as CSV first" if ending in (".xlsx", ".xls", ".ods") else ""
        raise PyriteError(
            f"{path}: data must be a folder of images or texts, or a file that ends in {', '.join(ENDINGS)}{advice}"
        )
    try:
        os.stat(path)
    except PermissionError as error:
        raise PyriteError(f"{path}: cannot be read ({error.strerror})") from None
    except (OSError, ValueError):
        pass
    try:
        close = difflib.get_close_matches(path.name, os.listdir(path.parent), n=1, cutoff=0.75)
    except (OSError, ValueError):  # the folder does not exist either, or its name cannot be one
        close = []
    hint = f": did you mean {str(path.with_name(close[0]))!r}?" if close else ""
    raise PyriteError(f"there is no data set, file or folder {str(path)!r}{hint}")


def read_like(source: Any, described: Mapping[str, Any], name: str = "") -> Samples:
    """Samples from a file or folder, a data frame, a list of texts, or an array, with or without labels, for a model
    that was trained on data as ``described``. ``name`` is the column that names a sample."""
    schema = Schema(**described)
    if isinstance(source, Dataset | Records):
        return _from_loaded(source, schema)
    if is_object(source):
        return find(make_plain(source, None, like=schema), schema, name)
    path = as_path(source)
    if not os.path.exists(path) and not shard_paths(str(path)):
        raise PyriteError(f"there is no file or folder {str(path)!r}")
    known = None if path.is_dir() else ENDINGS.get(path.suffix.lower())
    return _from_files(path, schema) if known is None else known.read(path, schema, name)


def _from_files(path: Path, schema: Schema) -> Samples:
    """A file, or all files in a folder and the folders in it, in order."""
    root = path if path.is_dir() else path.parent
    files = files_below(path, TEXTS if schema.kind == "text" else SUFFIXES) if path.is_dir() else [path.name]
    if schema.kind == "text":
        return Samples(to_records([read_text_file(root / file) for file in files], like=schema), tuple(files))
    if schema.kind != "images":
        raise PyriteError(
            f"{path}: the model takes a table with the columns {listed(schema.columns)}, as .csv or .parquet"
        )
    if schema.dtype != "uint8":
        raise PyriteError(f"{path}: the model was trained on {described_as(schema)}: pass an array or a Dataset")
    return image_files(root, files, shape=schema.shape, lazy=False, warp=schema.warp)
