"""CIFAR-10 and CIFAR-100: the official archives, unpacked or as .tar.gz; and the labels of crowd workers, CIFAR-N.

The ``.pt`` and plain ``.npy`` files of CIFAR-N hold the columns in the order of the images. The ``..._ordered.npy``
files hold them in the order of another library's copy of CIFAR; ``image_order_....npy`` holds the position of each. In
every case the column of clean labels is compared with the labels of the images one by one: a file in another order has
the same counts, so counts alone would not show it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from pyrite.checks import one_of
from pyrite.data.dataset import Dataset, Labels, check_range
from pyrite.data.files import Download, as_path, data_folder, find, missing, obtain, read_members
from pyrite.data.images import Pixels
from pyrite.errors import PyriteError
from pyrite.pickles import read_npy, read_pickle, read_torch, unpickle

_HUMAN = "https://github.com/UCSC-REAL/cifar-10-100n"


class Source(NamedTuple):
    """An official archive: its names, its download, and the files in it."""

    name: str
    folder: str
    archive: Download
    train: tuple[str, ...]
    test: str
    meta: str


def _archive(name: str, md5: str) -> Download:
    return Download(name, (f"https://www.cs.toronto.edu/~kriz/{name}",), md5)


_BATCHES = tuple(f"data_batch_{number}" for number in range(1, 6))
_ARCHIVE10 = _archive("cifar-10-python.tar.gz", "c58f30108f718f92721af3b95e74349a")
_ARCHIVE100 = _archive("cifar-100-python.tar.gz", "eb9058c3a382ffc7106e4002c42a8d85")
CIFAR10 = Source("cifar10", "cifar-10-batches-py", _ARCHIVE10, _BATCHES, "test_batch", "batches.meta")
CIFAR100 = Source("cifar100", "cifar-100-python", _ARCHIVE100, ("train",), "test", "meta")


def cifar10(path: str | None = None) -> Dataset:
    """Small photographs of ten kinds of thing, 32 x 32, 50,000 + 10,000."""
    files = _read_files(CIFAR10, path)
    where, meta = files[CIFAR10.meta]
    classes, expected = _names(meta, "label_names", 10, where), _field(meta, "num_cases_per_batch", where)
    parts = [_batch(*files[name], ("labels",)) for name in CIFAR10.train]
    for name, (images, _) in zip(CIFAR10.train, parts, strict=True):
        if len(images) != expected:
            raise PyriteError(f"{files[name][0]}: {len(images)} images, but {CIFAR10.meta} has {expected}")
    images = np.concatenate([images for images, _ in parts])
    labels = np.concatenate([columns["labels"] for _, columns in parts])
    test_images, test_columns = _batch(*files[CIFAR10.test], ("labels",))
    test = Dataset("cifar10 test", test_images, test_columns["labels"], classes)
    return Dataset("cifar10", images, labels, classes, test)


def cifar100(labels: Literal["fine", "coarse"] = "fine", path: str | None = None) -> Dataset:
    """Small photographs of 100 kinds of thing in 20 superclasses, 32 x 32, 50,000 + 10,000.

    Both kinds of labels are read; ``labels`` selects ``.labels``. The superclass of each is ``.coarse``.
    """
    one_of("labels", labels, ("fine", "coarse"))
    files = _read_files(CIFAR100, path)
    where, meta = files[CIFAR100.meta]
    fine, coarse = (_names(meta, f"{kind}_label_names", n, where) for kind, n in (("fine", 100), ("coarse", 20)))

    def part(file: str, name: str, test: Dataset | None) -> Dataset:
        images, columns = _batch(*files[file], ("fine_labels", "coarse_labels"))
        superclass = columns["coarse_labels"]
        check_range(superclass, 20, f"{files[file][0]}: coarse labels")
        return Dataset(name, images, columns["fine_labels"], fine, test, coarse=superclass, coarse_classes=coarse)

    whole = part("train", "cifar100", part("test", "cifar100 test", None))
    return whole if labels == "fine" else _coarsened(whole)


def cifar10n(column: str = "worse_label", path: str | None = None, labels: str | None = None) -> Dataset:
    """CIFAR-10 with human labels: worse_label, aggre_label, random_label1, random_label2 or random_label3.

    Args:
        column: which human labels are ``.labels``; all are in ``.human``, the labels of CIFAR-10 in ``.true``.
        path: where CIFAR-10 is, as for ``cifar10``.
        labels: the file of human labels, if it is not beside CIFAR-10.
    """
    images = cifar10(path)
    file, human = _human(CIFAR10, path, labels, {"clean_label": images.labels})
    return replace(images, name="cifar10n", labels=_chosen(file, human, column, 10), true=images.labels, human=human)


def cifar100n(column: str = "noisy_label", path: str | None = None, labels: str | None = None) -> Dataset:
    """CIFAR-100 with human labels: noisy_label, or noisy_coarse_label for the 20 superclasses; else as ``cifar10n``."""
    images, coarse = cifar100("fine", path), column == "noisy_coarse_label"
    assert images.coarse is not None
    clean = {"clean_label": images.labels, "clean_coarse_label": images.coarse}
    file, human = _human(CIFAR100, path, labels, clean)
    chosen = _chosen(file, human, column, 20 if coarse else 100)
    images = _coarsened(images) if coarse else images
    return replace(images, name="cifar100n", labels=chosen, true=images.labels, human=human)


def _coarsened(fine: Dataset) -> Dataset:
    """The same images with the labels of their superclasses."""
    assert fine.coarse is not None
    test = None if fine.test is None else _coarsened(fine.test)
    return replace(fine, labels=fine.coarse, classes=fine.coarse_classes, test=test)


def _read_files(source: Source, path: str | None) -> dict[str, tuple[str, Mapping[Any, Any]]]:
    """For every file of an archive its place, for messages, and its content."""
    place = _locate(source, path)
    wanted = (*source.train, source.test, source.meta)
    members = {} if place.is_dir() else read_members(place, [f"{source.folder}/{name}" for name in wanted])
    files: dict[str, tuple[str, Mapping[Any, Any]]] = {}
    for name in wanted:
        where = str(place / name) if place.is_dir() else f"{name} in {place}"
        content = read_pickle(where) if place.is_dir() else unpickle(members[f"{source.folder}/{name}"], where)
        if not isinstance(content, dict):
            raise PyriteError(f"{where}: holds a {type(content).__name__}, not a dict")
        files[name] = where, content
    return files


def _locate(source: Source, path: str | None) -> Path:
    """The path of the unpacked folder or the archive: given by the user, in the data folder, or downloaded there."""
    names = (source.folder, source.archive.name)
    if path is not None:
        given = as_path(path)
        location = given if given.is_file() or (given / source.meta).is_file() else find(given, names)
        if location is None:
            raise PyriteError(f"{source.name}: neither {names[0]} nor {names[1]} is in {given}")
        return location
    root = data_folder()
    location = find(root, [f"{source.name}/{name}" for name in names] + list(names))
    return location or obtain(root / source.name, source.archive, source.name)


def _field(content: Mapping[Any, Any], key: str, where: str) -> Any:
    """A value of a dict. Python 2 wrote the keys as bytes; newer copies of the archive may have strings."""
    for name in (key.encode(), key):
        if name in content:
            return content[name]
    raise PyriteError(f"{where}: there is no {key!r}")


def _names(meta: Mapping[Any, Any], key: str, count: int, where: str) -> tuple[str, ...]:
    names = _field(meta, key, where)
    if not isinstance(names, list) or len(names) != count or not all(isinstance(n, str | bytes) for n in names):
        raise PyriteError(f"{where}: {key!r} is not a list of {count} names")
    return tuple(name.decode("latin1") if isinstance(name, bytes) else name for name in names)


def _batch(where: str, content: Mapping[Any, Any], columns: Sequence[str]) -> tuple[Pixels, dict[str, Labels]]:
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


def _human(
    source: Source, path: str | None, labels: str | None, clean: Mapping[str, Labels]
) -> tuple[Path, dict[str, Labels]]:
    """The file of human labels and its columns, in the order of the images, which the ``clean`` columns show."""
    file = as_path(labels) if labels is not None else None
    number, root = source.name.removeprefix("cifar"), data_folder()
    names = [f"CIFAR-{number}_human{ending}" for ending in (".pt", ".npy", "_ordered.npy")]
    folders = [root / source.name, root]
    folders = folders if path is None else [as_path(path), as_path(path).parent, *folders]
    file = file or next(filter(None, (find(folder, names) for folder in folders)), None)
    if file is None:
        raise missing(f"{source.name}n", names[0], folders[0], _HUMAN)
    columns = _read_columns(file, f"image_order_c{number}.npy", len(clean["clean_label"]))
    for name, expected in clean.items():
        if name == "clean_label" or name in columns:
            _check_aligned(file, columns, name, expected)
            del columns[name]
    return file, columns


def _read_columns(file: Path, order_name: str, count: int) -> dict[str, Labels]:
    content = read_npy(file) if file.suffix == ".npy" else read_torch(file)
    if not isinstance(content, dict) or not all(isinstance(name, str) for name in content):
        raise PyriteError(f"{file}: not a table of human labels by name")
    columns: dict[str, Labels] = {}
    for name, values in content.items():
        try:
            column = np.asarray(values) if isinstance(values, np.ndarray | list) else np.empty(0)
        except ValueError:  # lists of unequal lengths
            column = np.empty(0)
        if column.ndim != 1 or not np.issubdtype(column.dtype, np.integer):
            # The .npy files also contain the time that each answer took; columns that are not labels are skipped.
            continue
        if len(column) != count:
            raise PyriteError(f"{file}: the column {name!r} has {len(column)} labels, the set has {count} images")
        # The .npy of CIFAR-100N has another name for this column than the .pt.
        columns["noisy_label" if name == "noise_label" else name] = column.astype(np.int64)
    if file.stem.endswith("_ordered") and (file.parent / order_name).exists():
        position = np.argsort(_order(file.parent / order_name, count))
        columns = {name: column[position] for name, column in columns.items()}
    return columns


def _order(file: Path, count: int) -> Labels:
    place = read_npy(file)
    if not (isinstance(place, np.ndarray) and np.issubdtype(place.dtype, np.integer) and place.shape == (count,)):
        raise PyriteError(f"{file}: not a list of {count} positions")
    if not np.array_equal(np.sort(place), np.arange(count)):
        raise PyriteError(f"{file}: some positions are missing or come twice")
    return place.astype(np.int64)


def _check_aligned(file: Path, human: Mapping[str, Labels], clean: str, expected: Labels) -> None:
    if clean not in human:
        raise PyriteError(f"{file}: there is no column {clean!r}, so its order cannot be checked")
    differs = human[clean] != expected
    if differs.any():
        first = int(differs.argmax())
        hint = "; an ..._ordered.npy needs its image_order_....npy beside it" if file.suffix == ".npy" else ""
        raise PyriteError(
            f"{file}: {clean!r} disagrees with the images at {int(differs.sum())} of {len(expected)} places, first at "
            f"index {first} ({human[clean][first]} but {expected[first]}): another order, or another data set{hint}"
        )


def _chosen(file: Path, human: Mapping[str, Labels], column: str, classes: int) -> Labels:
    if not isinstance(column, str) or column not in human:
        raise PyriteError(f"{file}: there is no column {column!r}; there are {', '.join(human)}")
    check_range(human[column], classes, f"{file}: {column}")
    return human[column]
