"""MNIST, Fashion-MNIST, CIFAR-10 and CIFAR-100 in their official files; and the labels of crowd workers, CIFAR-N.

An IDX file (MNIST) consists of two zero bytes, a byte for the type of the numbers, a byte for the number of dimensions,
the dimensions as four bytes each, high byte first, and then the numbers.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from pyrite.arrays import check_below
from pyrite.checks import one_of
from pyrite.data.dataset import Dataset, Labels
from pyrite.data.files import Download, data_folder, find, folder_of, obtain, read_members, read_unpacked
from pyrite.data.images import Pixels
from pyrite.errors import PyriteError
from pyrite.files import as_path
from pyrite.pickles import check_samples, read_label_columns, read_pickle, unpickle

_MNIST = "https://ossci-datasets.s3.amazonaws.com/mnist/", "https://storage.googleapis.com/cvdf-datasets/mnist/"
_FASHION = (
    "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
    "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
)
_MNIST_MD5 = {
    "train-images-idx3-ubyte": "f68b3c2dcbeaaa9fbdd348bbdeb94873",
    "train-labels-idx1-ubyte": "d53e105ee54ea40749a09fcbcd1e9432",
    "t10k-images-idx3-ubyte": "9fb629c4189551a2d022fa330f9573f3",
    "t10k-labels-idx1-ubyte": "ec29112dd5afa0611ce80d1b7f02629c",
}
_FASHION_MD5 = {
    "train-images-idx3-ubyte": "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
    "train-labels-idx1-ubyte": "25c81989df183df01b3e8a0aad5dffbe",
    "t10k-images-idx3-ubyte": "bef4ecab320f06d8554ea6380940ec79",
    "t10k-labels-idx1-ubyte": "bb300cfdad3c16e7a12a480ee83cd310",
}
_DIGITS = tuple(str(digit) for digit in range(10))
_GARMENTS = (
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
)  # fmt: skip


def mnist(path: str | None = None) -> Dataset:
    """Handwritten digits, 28 x 28, 60,000 + 10,000."""
    return _mnist("mnist", _DIGITS, path, ("mnist", "MNIST/raw"), _MNIST, _MNIST_MD5)


def fashion_mnist(path: str | None = None) -> Dataset:
    """Images of clothes, 28 x 28, 60,000 + 10,000, in the format of MNIST."""
    folders = ("fashion-mnist", "fashion_mnist", "FashionMNIST/raw")
    return _mnist("fashion_mnist", _GARMENTS, path, folders, _FASHION, _FASHION_MD5)


def _mnist(
    name: str,
    classes: tuple[str, ...],
    path: str | None,
    folders: tuple[str, ...],
    mirrors: tuple[str, ...],
    checksums: dict[str, str],
) -> Dataset:
    folder = folder_of(path, folders)
    if path is not None and not folder.is_dir():
        raise PyriteError(f"{name}: {folder} is not a folder")
    numbers: dict[str, Pixels] = {}
    for stem, md5 in checksums.items():
        variants, packed = (stem, stem.replace("-idx", ".idx")), f"{stem}.gz"
        location = find(folder, [variant + ending for variant in variants for ending in ("", ".gz")])
        if location is None and path is not None:
            raise PyriteError(f"{name}: {packed} is not in {folder}")
        location = location or obtain(folder, Download(packed, tuple(m + packed for m in mirrors), md5), name)
        numbers[stem] = read_idx(location, int(stem[-7]))
    images, labels, test_images, test_labels = numbers.values()
    if images.shape[1:] != test_images.shape[1:]:
        raise PyriteError(f"{name}: training images are {images.shape[1:]}, test images {test_images.shape[1:]}")
    test = Dataset(f"{name} test", test_images[:, None], test_labels.astype(np.int64), classes)
    return Dataset(name, images[:, None], labels.astype(np.int64), classes, test)


def read_idx(path: str | Path, dimensions: int) -> Pixels:
    """The numbers of an IDX file of bytes. Its size is checked before memory is allocated."""
    path, begin = Path(path), bytes((0, 0, 8, dimensions))  # 8 is the type of bytes
    content, header = read_unpacked(path), 4 + 4 * dimensions
    if content[:4] != begin:
        raise PyriteError(
            f"{path}: begins with {content[:4].hex() or 'nothing'}, not with {begin.hex()} as an IDX file of bytes in "
            f"{dimensions} dimension{'s' * (dimensions > 1)} does"
        )
    if len(content) < header:
        raise PyriteError(f"{path}: truncated in its header")
    shape = tuple(map(int, np.frombuffer(content[4:header], ">u4")))
    values = np.frombuffer(bytearray(content[header:]), np.uint8)
    if not 0 < math.prod(shape) == len(values):
        raise PyriteError(f"{path}: claims {' x '.join(map(str, shape))} numbers, but holds {len(values)}")
    return values.reshape(shape)


class Source(NamedTuple):
    """An official archive of CIFAR: its names, its download, the files in it, and its columns of labels, each with
    the key of its class names and their number."""

    name: str
    folder: str
    archive: Download
    train: tuple[str, ...]
    test: str
    meta: str
    columns: tuple[tuple[str, str, int], ...]


_KRIZ = "https://www.cs.toronto.edu/~kriz/"
_FILE10, _FILE100 = "cifar-10-python.tar.gz", "cifar-100-python.tar.gz"
CIFAR10 = Source(
    "cifar10", "cifar-10-batches-py", Download(_FILE10, (_KRIZ + _FILE10,), "c58f30108f718f92721af3b95e74349a"),
    tuple(f"data_batch_{number}" for number in range(1, 6)), "test_batch", "batches.meta",
    (("labels", "label_names", 10),),
)  # fmt: skip
CIFAR100 = Source(
    "cifar100", "cifar-100-python", Download(_FILE100, (_KRIZ + _FILE100,), "eb9058c3a382ffc7106e4002c42a8d85"),
    ("train",), "test", "meta",
    (("fine_labels", "fine_label_names", 100), ("coarse_labels", "coarse_label_names", 20)),
)  # fmt: skip


def cifar10(path: str | None = None) -> Dataset:
    """Photographs of ten classes, 32 x 32, 50,000 + 10,000."""
    return _cifar(CIFAR10, path)


def cifar100(labels: Literal["fine", "coarse"] = "fine", path: str | None = None) -> Dataset:
    """Photographs of 100 classes in 20 superclasses, 32 x 32, 50,000 + 10,000.

    Both kinds of labels are read; ``labels`` selects ``.labels``. The superclass of each is ``.coarse``.
    """
    one_of("labels", labels, ("fine", "coarse"))
    whole = _cifar(CIFAR100, path)
    return whole if labels == "fine" else _coarsened(whole)


def cifar10n(column: str = "worse_label", path: str | None = None, labels: str | None = None) -> Dataset:
    """CIFAR-10 with human labels: worse_label, aggre_label, random_label1, random_label2 or random_label3.

    Args:
        column: which human labels are ``.labels``; all are in ``.human``, the labels of CIFAR-10 in ``.true``.
        path: where CIFAR-10 is, as for ``cifar10``.
        labels: the file of human labels, if it is not beside CIFAR-10.
    """
    return _with_human(CIFAR10, cifar10(path), column, path, labels)


def cifar100n(column: str = "noisy_label", path: str | None = None, labels: str | None = None) -> Dataset:
    """CIFAR-100 with human labels: noisy_label, or noisy_coarse_label for the 20 superclasses (see ``cifar10n``)."""
    return _with_human(CIFAR100, cifar100("fine", path), column, path, labels)


def _coarsened(fine: Dataset) -> Dataset:
    """The same images with the labels of their superclasses."""
    assert fine.coarse is not None
    test = None if fine.test is None else _coarsened(fine.test)
    return replace(fine, labels=fine.coarse, classes=fine.coarse_classes, test=test)


def _cifar(source: Source, path: str | None) -> Dataset:
    place = _locate(source, path)
    wanted = (*source.train, source.test, source.meta)
    members = {} if place.is_dir() else read_members(place, [f"{source.folder}/{name}" for name in wanted])
    files: dict[str, tuple[str, Mapping[Any, Any]]] = {}  # for each its place, for messages, and its content
    for name in wanted:
        where = str(place / name) if place.is_dir() else f"{name} in {place}"
        content = read_pickle(where) if place.is_dir() else unpickle(members[f"{source.folder}/{name}"], where)
        if not isinstance(content, dict):
            raise PyriteError(f"{where}: holds a {type(content).__name__}, not a dict")
        files[name] = where, content
    where, meta = files[source.meta]
    names = [_names(meta, key, count, where) for _, key, count in source.columns]
    expected = _field(meta, "num_cases_per_batch", where) if len(source.train) > 1 else None

    def part(name: str, batches: tuple[str, ...], test: Dataset | None) -> Dataset:
        images, columns = zip(*(_batch(*files[batch], source) for batch in batches), strict=True)
        for batch, some in zip(batches, images, strict=True):
            if expected is not None and test is not None and len(some) != expected:
                raise PyriteError(f"{files[batch][0]}: {len(some)} images, but {source.meta} has {expected}")
        labels, *coarse = np.concatenate(columns, 1)
        superclasses = {"coarse": coarse[0], "coarse_classes": names[1]} if coarse else {}
        return Dataset(name, np.concatenate(images), labels, names[0], test, **superclasses)

    return part(source.name, source.train, part(f"{source.name} test", (source.test,), None))


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


def _batch(where: str, content: Mapping[Any, Any], source: Source) -> tuple[Pixels, Labels]:
    """The images of a file, and one row of labels per column."""
    data, rows = _field(content, "data", where), []
    if not (isinstance(data, np.ndarray) and data.dtype == np.uint8 and data.ndim == 2 and data.shape[1] == 3072):
        actual = f"{data.dtype} of shape {data.shape}" if isinstance(data, np.ndarray) else type(data).__name__
        raise PyriteError(f"{where}: 'data' is {actual}, not uint8 of shape (N, 3072)")
    for column, _, classes in source.columns:
        values = _field(content, column, where)
        # bool is a subclass of int, and would pass as classes 0 and 1.
        if not isinstance(values, list) or not all(type(value) is int for value in values):
            raise PyriteError(f"{where}: {column!r} is not a list of whole numbers")
        if len(values) != len(data):
            raise PyriteError(f"{where}: {len(data)} images but {len(values)} {column}")
        if values and not 0 <= min(values) <= max(values) < 256:
            raise PyriteError(f"{where}: {column!r} holds {max(values, key=abs)}, which is not a class number")
        rows.append(np.array(values, np.int64))
        check_below(rows[-1], classes, f"{where}: {column.replace('_', ' ')}")
    return data.reshape(-1, 3, 32, 32), np.stack(rows)


def _with_human(source: Source, images: Dataset, column: str, path: str | None, labels: str | None) -> Dataset:
    """The images with a column of human labels, which are in the order of the images, as the clean columns show."""
    number, root = source.name.removeprefix("cifar"), data_folder()
    names = [f"CIFAR-{number}_human{ending}" for ending in (".pt", ".npy", "_ordered.npy")]
    folders = [root / source.name, root]
    folders = folders if path is None else [as_path(path), as_path(path).parent, *folders]
    found = next(filter(None, (find(folder, names) for folder in folders)), None) if labels is None else as_path(labels)
    if found is None:
        raise PyriteError(
            f"{source.name}n: {names[0]} is not in {folders[0]}; get it from "
            "https://github.com/UCSC-REAL/cifar-10-100n and put it there"
        )
    human = read_label_columns(found)
    check_samples(found, human, "clean_label", images.labels)
    if images.coarse is not None and "clean_coarse_label" in human:
        check_samples(found, human, "clean_coarse_label", images.coarse)
    human = {name: values for name, values in human.items() if name not in ("clean_label", "clean_coarse_label")}
    if not isinstance(column, str) or column not in human:
        raise PyriteError(f"{found}: there is no column {column!r}; there are {', '.join(human)}")
    images = _coarsened(images) if column == "noisy_coarse_label" and images.coarse is not None else images
    check_below(human[column], len(images.classes), f"{found}: {column}")
    return replace(images, name=f"{source.name}n", labels=human[column], true=images.labels, human=human)
