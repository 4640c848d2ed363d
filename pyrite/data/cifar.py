"""CIFAR-10 and CIFAR-100: the official Python archives, unpacked or as .tar.gz."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from pyrite.checks import one_of
from pyrite.data.dataset import Dataset, Labels, check_range
from pyrite.data.files import Download, as_path, data_folder, find, obtain, read_members
from pyrite.data.images import Pixels
from pyrite.errors import PyriteError
from pyrite.pickles import read_pickle, unpickle

__all__ = ["cifar10", "cifar100"]

_URL = "https://www.cs.toronto.edu/~kriz/"


class Source(NamedTuple):
    """An official archive: its names, its download, and the files in it."""

    name: str
    home: str
    folder: str
    archive: Download
    train: tuple[str, ...]
    test: str
    meta: str


CIFAR10 = Source(
    name="cifar10",
    home="cifar10",
    folder="cifar-10-batches-py",
    archive=Download("cifar-10-python.tar.gz", (_URL + "cifar-10-python.tar.gz",), "c58f30108f718f92721af3b95e74349a"),
    train=tuple(f"data_batch_{number}" for number in range(1, 6)),
    test="test_batch",
    meta="batches.meta",
)
CIFAR100 = Source(
    name="cifar100",
    home="cifar100",
    folder="cifar-100-python",
    archive=Download(
        "cifar-100-python.tar.gz", (_URL + "cifar-100-python.tar.gz",), "eb9058c3a382ffc7106e4002c42a8d85"
    ),
    train=("train",),
    test="test",
    meta="meta",
)


def cifar10(path: str | None = None) -> Dataset:
    """Small photographs of ten kinds of thing, 32 x 32, 50,000 + 10,000."""
    files = _read_files(CIFAR10, path)
    meta = files[CIFAR10.meta]
    classes = _names(meta, "label_names", 10, files.where(CIFAR10.meta))
    expected = _field(meta, "num_cases_per_batch", files.where(CIFAR10.meta))
    parts = [_batch(files[name], ("labels",), files.where(name)) for name in CIFAR10.train]
    for name, (images, _) in zip(CIFAR10.train, parts, strict=True):
        if len(images) != expected:
            raise PyriteError(f"{files.where(name)}: {len(images)} images, but {CIFAR10.meta} says {expected}")
    images = np.concatenate([images for images, _ in parts])
    labels = np.concatenate([columns["labels"] for _, columns in parts])
    test_images, test_columns = _batch(files[CIFAR10.test], ("labels",), files.where(CIFAR10.test))
    test = Dataset("cifar10 test", test_images, test_columns["labels"], classes)
    return Dataset("cifar10", images, labels, classes, test)


def cifar100(labels: Literal["fine", "coarse"] = "fine", path: str | None = None) -> Dataset:
    """Small photographs of 100 kinds of thing in 20 superclasses, 32 x 32, 50,000 + 10,000.

    Both kinds of labels are read; ``labels`` says which are ``.labels``. The superclass of each is ``.coarse``.
    """
    one_of("labels", labels, ("fine", "coarse"))
    files = _read_files(CIFAR100, path)
    names = {
        kind: _names(files[CIFAR100.meta], f"{kind}_label_names", count, files.where(CIFAR100.meta))
        for kind, count in (("fine", 100), ("coarse", 20))
    }

    def part(file: str, name: str, test: Dataset | None) -> Dataset:
        images, columns = _batch(files[file], ("fine_labels", "coarse_labels"), files.where(file))
        coarse = columns["coarse_labels"]
        check_range(coarse, 20, f"{files.where(file)}: coarse labels")
        return Dataset(
            name, images, columns["fine_labels"], names["fine"], test, coarse=coarse, coarse_classes=names["coarse"]
        )

    fine = part("train", "cifar100", part("test", "cifar100 test", None))
    return fine if labels == "fine" else coarsened(fine)


def coarsened(fine: Dataset) -> Dataset:
    """The same images with the labels of their superclasses."""
    assert fine.coarse is not None
    test = None if fine.test is None else coarsened(fine.test)
    return replace(fine, labels=fine.coarse, classes=fine.coarse_classes, test=test)


class _Files(dict[str, Mapping[Any, Any]]):
    """The contents of the files of an archive by name, and ``where`` for error messages."""

    def __init__(self, place: Path) -> None:
        super().__init__()
        self.place = place

    def where(self, name: str) -> str:
        return str(self.place / name) if self.place.is_dir() else f"{name} in {self.place}"


def _read_files(source: Source, path: str | None) -> _Files:
    place = locate(source, path)
    wanted = (*source.train, source.test, source.meta)
    files = _Files(place)
    members = {} if place.is_dir() else read_members(place, [f"{source.folder}/{name}" for name in wanted])
    for name in wanted:
        if place.is_dir():
            content = read_pickle(place / name)
        else:
            content = unpickle(members[f"{source.folder}/{name}"], files.where(name))
        if not isinstance(content, dict):
            raise PyriteError(f"{files.where(name)}: holds a {type(content).__name__}, not a dict")
        files[name] = content
    return files


def locate(source: Source, path: str | None) -> Path:
    """The path of the unpacked folder or the archive: given by the user, in the data folder, or downloaded there."""
    names = (source.folder, source.archive.name)
    if path is not None:
        given = as_path(path)
        if given.is_file() or (given / source.meta).is_file():
            return given
        location = find(given, names)
        if location is None:
            raise PyriteError(f"{source.name}: neither {names[0]} nor {names[1]} is in {given}")
        return location
    root = data_folder()
    location = find(root, [f"{source.home}/{name}" for name in names] + list(names))
    return location or obtain(root / source.home, source.archive, source.name)


def _field(content: Mapping[Any, Any], key: str, where: str) -> Any:
    """A value of a dict. Python 2 wrote the keys as bytes; newer copies of the archive may have strings."""
    for spelling in (key.encode(), key):
        if spelling in content:
            return content[spelling]
    raise PyriteError(f"{where}: there is no {key!r}")


def _names(meta: Mapping[Any, Any], key: str, count: int, where: str) -> tuple[str, ...]:
    names = _field(meta, key, where)
    if not isinstance(names, list) or len(names) != count or not all(isinstance(n, str | bytes) for n in names):
        raise PyriteError(f"{where}: {key!r} is not a list of {count} names")
    return tuple(name.decode("latin1") if isinstance(name, bytes) else name for name in names)


def _batch(content: Mapping[Any, Any], columns: Sequence[str], where: str) -> tuple[Pixels, dict[str, Labels]]:
    data = _field(content, "data", where)
    if not (isinstance(data, np.ndarray) and data.dtype == np.uint8 and data.ndim == 2 and data.shape[1] == 3072):
        actual = f"{data.dtype} of shape {data.shape}" if isinstance(data, np.ndarray) else type(data).__name__
        raise PyriteError(f"{where}: 'data' is {actual}, not uint8 of shape (N, 3072)")
    result = {}
    for column in columns:
        values = _field(content, column, where)
        # bool is a subclass of int, and would pass as classes 0 and 1.
        if not isinstance(values, list) or not all(type(value) is int for value in values):
            raise PyriteError(f"{where}: {column!r} is not a list of whole numbers")
        if len(values) != len(data):
            raise PyriteError(f"{where}: {len(data)} images but {len(values)} {column}")
        if values and not 0 <= min(values) <= max(values) < 256:
            raise PyriteError(f"{where}: {column!r} holds {max(values, key=abs)}, which is not a class number")
        result[column] = np.array(values, np.int64)
    return data.reshape(-1, 3, 32, 32), result
