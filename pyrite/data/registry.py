"""The registry of data sets, and ``load``, which reads any of them."""

import difflib
import inspect
import os
import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pyrite.data.cifar import cifar10, cifar10n, cifar100, cifar100n
from pyrite.data.dataset import Dataset, encode
from pyrite.data.files import as_path
from pyrite.data.folders import TEXTS, files_below, folder, texts
from pyrite.data.idx import fashion_mnist, mnist
from pyrite.data.images import SUFFIXES
from pyrite.data.mars import mars
from pyrite.data.reading import ENDINGS, is_object, to_numbers
from pyrite.data.records import texts as to_records
from pyrite.data.synthetic import blobs, digits, gratings, reduced
from pyrite.data.table import read_table
from pyrite.data.tables import Frame, check_length, frame_table, is_frame
from pyrite.data.web import clothing1m, webvision
from pyrite.errors import PyriteError
from pyrite.settings import READING
from pyrite.spec import Registry, build, call, nearest

Data = str | os.PathLike[str] | Dataset | Frame | Sequence[str] | npt.NDArray[Any]
"""What is trained on: a name, a path, a data set, a frame, a list of texts, or an array."""

DATASETS: Registry[Dataset] = Registry(
    "data set",
    {
        "digits": digits,
        "blobs": blobs,
        "gratings": gratings,
        "mnist": mnist,
        "fashion_mnist": fashion_mnist,
        "cifar10": cifar10,
        "cifar100": cifar100,
        "cifar10n": cifar10n,
        "cifar100n": cifar100n,
        "clothing1m": clothing1m,
        "webvision": webvision,
        "mars": mars,
        "folder": folder,
        "texts": texts,
        "reduced": reduced,
        **{known.load.__name__: known.load for known in ENDINGS.values()},
    },
    Dataset,
    "digits",
)


def load(data: Any, **options: Any) -> Dataset:
    """The data set that ``data`` names: a registered name, a spec, a folder of images or texts, a table or an .npz.

    It may also be a pandas or polars frame, a list of texts, or an array; ``label`` is then the name of the label
    column, or the labels themselves.

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
        return _from_object(data, **options)
    if not isinstance(data, str | Path):
        raise PyriteError(f"data is a {type(data).__name__}, but must be a name or a path")
    text = str(data).strip()
    if not text:
        raise PyriteError("data is empty, but must be a name or a path")
    # A spec is a name alone or with brackets: texts.csv and digits/ are paths.
    name = re.match(r"([A-Za-z_]\w*)\s*(?=\(|$)", text) if isinstance(data, str) else None
    known = name is not None and name[1] in DATASETS
    if known and text in DATASETS:
        return DATASETS.check(text, _call(text, DATASETS[text], options))
    if known or (isinstance(data, str) and not _looks_like_path(text)):
        if re.fullmatch(r"[\w-]+", text) and "-" in text:  # a name with hyphens, which a spec cannot have
            raise PyriteError(f"there is no data set {text!r}: {nearest(text.replace('-', '_'), DATASETS)}")
        # What is written in the brackets comes before the options.
        makers = {name: partial(maker, **options) for name, maker in DATASETS.items()}
        return DATASETS.check(text, build(text, makers, "data set"))
    return _from_path(as_path(text), options)


def _looks_like_path(text: str) -> bool:
    exists = os.path.exists(as_path(text))
    if re.match(r"\w+\s*\(", text) and not exists:
        return False
    return "/" in text or "\\" in text or Path(text).suffix.lower() in ENDINGS or exists


def _similar(path: Path) -> str:
    """A hint at a file or folder beside a path that does not exist, whose name is much like it."""
    try:
        close = difflib.get_close_matches(path.name, os.listdir(path.parent), n=1, cutoff=0.75)
    except (OSError, ValueError):  # the folder does not exist either, or its name cannot be one
        return ""
    return f": did you mean {str(path.with_name(close[0]))!r}?" if close else ""


def _from_path(path: Path, options: dict[str, Any]) -> Dataset:
    if os.path.isdir(path):
        # A folder without any files is an error of image folders.
        maker = texts if files_below(path, TEXTS) and not files_below(path, SUFFIXES) else folder
        return _call(maker.__name__, maker, {"path": str(path), **options})
    if not os.path.exists(path):  # unlike pathlib, this returns False for a name that is too long
        raise PyriteError(f"there is no data set, file or folder {str(path)!r}{_similar(path)}")
    known = ENDINGS.get(path.suffix.lower())
    if known is None:
        advice = ": save the sheet as CSV first" if path.suffix.lower() in (".xlsx", ".xls", ".ods") else ""
        raise PyriteError(
            f"{path}: data is a folder of images or texts, or a file that ends in {', '.join(ENDINGS)}{advice}"
        )
    return _call(known.load.__name__, known.load, {"path": str(path), **options})


def _from_object(data: Any, label: Any = "", text: str = "", ignore: str = "", name: str = "") -> Dataset:
    """A data set from a frame, a list of texts or an array, with the labels or the name of their column."""
    if is_frame(data):
        table = frame_table(data)
        if not isinstance(label, str):
            table, label = table.with_labels(label)
        return read_table(table, label, text, ignore, name)
    if isinstance(label, str):
        raise PyriteError("label is missing: pass the labels of the samples, one per sample")
    if text or ignore or name:
        raise PyriteError(f"data is a {type(data).__name__}, which has no columns: leave out text, ignore and name")
    if not isinstance(data, np.ndarray) or data.dtype.kind in "OUT":
        import pandas

        column = to_records(list(data), "data").columns[0].values
        table, label = frame_table(pandas.DataFrame({"text": column}), "texts").with_labels(label)
        return read_table(table, label, text="text")
    check_length(label, len(data))
    return Dataset("arrays", to_numbers(data, "data"), *encode(np.asarray(label).tolist(), "label"))


def _call(name: str, maker: Callable[..., Dataset], options: dict[str, Any]) -> Dataset:
    taken = inspect.signature(maker).parameters
    for option in READING:
        if option in options and option not in taken and not any(p.kind is p.VAR_KEYWORD for p in taken.values()):
            raise PyriteError(f"{option} is {options[option]!r}, but {name} has no columns: leave out {option}")
    return call(name, maker, **options)
