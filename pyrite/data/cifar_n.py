"""CIFAR-10N and CIFAR-100N: labels that crowd workers gave to the training images of CIFAR.

The ``.pt`` and plain ``.npy`` files hold the columns in the order of the images. The ``..._ordered.npy`` files hold
them in the order of another library's copy of CIFAR; ``image_order_....npy`` holds the position of each. In
every case the column of clean labels is compared with the labels of the images one by one: a file in another order has
the same counts, so counts alone would not show it.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from pyrite.data.cifar import CIFAR10, CIFAR100, cifar10, cifar100, coarsened
from pyrite.data.dataset import Dataset, Labels, check_range
from pyrite.data.files import as_path, data_folder, find, missing
from pyrite.errors import PyriteError
from pyrite.pickles import read_npy, read_torch

__all__ = ["cifar10n", "cifar100n"]

_SOURCE = "https://github.com/UCSC-REAL/cifar-10-100n"


def cifar10n(column: str = "worse_label", path: str | None = None, labels: str | None = None) -> Dataset:
    """CIFAR-10 with human labels: worse_label, aggre_label, random_label1, random_label2 or random_label3.

    Args:
        column: which human labels are ``.labels``; all are in ``.human``, the labels of CIFAR-10 in ``.true``.
        path: where CIFAR-10 is, as for ``cifar10``.
        labels: the file of human labels, if it is not beside CIFAR-10.
    """
    images = cifar10(path)
    file = _locate("cifar10n", labels, path, CIFAR10.home, "CIFAR-10_human")
    human = _read_columns(file, "image_order_c10.npy", len(images))
    _check_aligned(file, human, "clean_label", images.labels)
    del human["clean_label"]
    chosen = _chosen(file, human, column, 10)
    return replace(images, name="cifar10n", labels=chosen, true=images.labels, human=human)


def cifar100n(column: str = "noisy_label", path: str | None = None, labels: str | None = None) -> Dataset:
    """CIFAR-100 with human labels: noisy_label, or noisy_coarse_label for the 20 superclasses.

    Args:
        column: which human labels are ``.labels``; all are in ``.human``, the labels of CIFAR-100 in ``.true``.
        path: where CIFAR-100 is, as for ``cifar100``.
        labels: the file of human labels, if it is not beside CIFAR-100.
    """
    coarse = column == "noisy_coarse_label"
    images = cifar100("fine", path)
    file = _locate("cifar100n", labels, path, CIFAR100.home, "CIFAR-100_human")
    human = _read_columns(file, "image_order_c100.npy", len(images))
    assert images.coarse is not None
    for clean, expected in (("clean_label", images.labels), ("clean_coarse_label", images.coarse)):
        if clean == "clean_label" or clean in human:
            _check_aligned(file, human, clean, expected)
            del human[clean]
    chosen = _chosen(file, human, column, 20 if coarse else 100)
    images = coarsened(images) if coarse else images
    return replace(images, name="cifar100n", labels=chosen, true=images.labels, human=human)


def _locate(dataset: str, labels: str | None, path: str | None, home: str, stem: str) -> Path:
    if labels is not None:
        return as_path(labels)
    names = [stem + ending for ending in (".pt", ".npy", "_ordered.npy")]
    root = data_folder()
    folders = [root / home, root]
    if path is not None:
        given = as_path(path)
        folders = [given, given.parent, *folders]
    for folder in folders:
        file = find(folder, names)
        if file is not None:
            return file
    raise missing(dataset, names[0], folders[0], _SOURCE)


def _read_columns(file: Path, order_name: str, count: int) -> dict[str, Labels]:
    """The columns by name, in the order of the images."""
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
        place = _order(file.parent / order_name, count)
        columns = {name: _reorder(column, place) for name, column in columns.items()}
    return columns


def _order(file: Path, count: int) -> Labels:
    place = read_npy(file)
    if not (isinstance(place, np.ndarray) and np.issubdtype(place.dtype, np.integer) and place.shape == (count,)):
        raise PyriteError(f"{file}: not a list of {count} positions")
    if not np.array_equal(np.sort(place), np.arange(count)):
        raise PyriteError(f"{file}: some positions are missing or come twice")
    return place.astype(np.int64)


def _reorder(column: Labels, place: Labels) -> Labels:
    reordered = np.empty_like(column)
    reordered[place] = column
    return reordered


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
