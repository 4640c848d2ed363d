"""An image folder: one folder a class."""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from pyrite.data.dataset import Dataset, Inputs
from pyrite.data.images import SUFFIXES, Header, LazyImages, Pixels, Unreadable, as_size, look_at, read_image

__all__ = ["folder"]

# Beyond this many bytes images stay on the disk until they are asked for.
IN_MEMORY = 2 * 2**30
LARGEST_SIDE = 224


def folder(path: str, size: int | tuple[int, int] | None = None, lazy: bool | None = None) -> Dataset:
    """Images in one folder a class; with folders ``train`` and ``test`` if there is a test part.

    Args:
        path: the folder.
        size: height and width; other images are scaled to cover it and cut in the middle. By default the size that
            all have in common, or else a square as wide as half of them are at least, at most 224.
        lazy: read images only when they are asked for. By default when they take more than 2 GiB.
    """
    root = Path(path).expanduser()
    if not root.is_dir():
        raise ValueError(f"{root} is not a folder")
    parted = (root / "train").is_dir() and any((root / name).is_dir() for name in ("test", "val"))
    if not parted:
        return _part(root.name, root, None, size, lazy, None)
    test_root = root / "test" if (root / "test").is_dir() else root / "val"
    classes = _classes(root / "train")
    train = _part(root.name, root / "train", classes, size, lazy, None)
    extra = sorted(set(_subfolders(test_root)) - set(classes))
    if extra:
        raise ValueError(f"{test_root}: the class {extra[0]!r} is not in {root / 'train'}")
    shape = train.inputs.shape[1:]
    test = _part(f"{root.name} test", test_root, classes, (shape[1], shape[2]), lazy, shape[0])
    return Dataset(train.name, train.inputs, train.labels, classes, test, train.unreadable)


def _part(
    name: str,
    root: Path,
    classes: tuple[str, ...] | None,
    size: int | tuple[int, int] | None,
    lazy: bool | None,
    channels: int | None,
) -> Dataset:
    classes = classes or _classes(root)
    names, labels = [], []
    for number, label in enumerate(classes):
        found = _images(root, label)
        names += found
        labels += [number] * len(found)
    good, headers, bad = look_at(root, names)
    if not good:
        raise ValueError(
            f"{root}: none of {len(names)} files in its {len(classes)} class folders is an image"
            + (f"; the first: {bad[0].reason}" if bad else "")
        )
    chosen = as_size(size) if size is not None else _common_size(headers)
    channels = channels or (1 if all(header.grey for header in headers) else 3)
    images = LazyImages(root, [names[index] for index in good], chosen, channels)
    numbers = np.array(labels, np.int64)[good]
    if lazy or (lazy is None and images.nbytes > IN_MEMORY):
        return _built(name, root, images, numbers, classes, bad)
    pixels, kept, undecodable = read_all(images)
    return _built(name, root, pixels, numbers[kept], classes, bad + undecodable)


def _built(
    name: str,
    root: Path,
    inputs: Inputs,
    labels: np.ndarray[tuple[int], np.dtype[np.int64]],
    classes: tuple[str, ...],
    bad: Sequence[Unreadable],
) -> Dataset:
    present = np.unique(labels)
    if len(present) < 2 and not name.endswith(" test"):
        raise ValueError(
            f"{root}: only {len(present)} of {len(classes)} class folders holds images that can be read"
            + (f"; the first that cannot: {bad[0].reason}" if bad else "")
        )
    return Dataset(name, inputs, labels, classes, unreadable=tuple(bad))


def read_all(images: LazyImages) -> tuple[Pixels, np.ndarray[tuple[int], np.dtype[np.int64]], list[Unreadable]]:
    """Every image that can be decoded, their positions, and those that cannot."""
    pixels = np.empty(images.shape, np.uint8)
    bad: dict[int, Unreadable] = {}

    def read(index: int) -> None:
        try:
            pixels[index] = read_image(images.path(index), images.size, images.channels)
        except ValueError as error:
            bad[index] = Unreadable(str(images.path(index)), str(error))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(read, range(len(images))))
    kept = np.setdiff1d(np.arange(len(images)), np.fromiter(bad, np.int64, len(bad)))
    return pixels if not bad else pixels[kept], kept, [bad[index] for index in sorted(bad)]


def _subfolders(root: Path) -> list[str]:
    return sorted(entry.name for entry in root.iterdir() if entry.is_dir() and not entry.name.startswith("."))


def _classes(root: Path) -> tuple[str, ...]:
    """The folders with something in them, as numbers if they are numbers: class 10 comes after class 9."""
    names = _subfolders(root)
    if len(names) < 2:
        held = f"one class folder, {names[0]!r}" if names else "no class folders"
        raise ValueError(f"{root} holds {held}: images lie in one folder a class, and two classes at least")
    numeric = all(name.isdecimal() for name in names)
    return tuple(sorted(names, key=lambda name: (int(name), name)) if numeric else names)


def _images(root: Path, label: str) -> list[str]:
    """Image files below a class folder, by their endings. Links are followed for files, not for folders."""
    found = []
    for place, _, files in os.walk(root / label):
        found += [
            str((Path(place) / file).relative_to(root))
            for file in files
            if Path(file).suffix.lower() in SUFFIXES and not file.startswith(".")
        ]
    return sorted(found)


def _common_size(headers: Sequence[Header]) -> tuple[int, int]:
    sizes = {(header.height, header.width) for header in headers}
    if len(sizes) == 1 and max(max(sizes)) <= LARGEST_SIDE:
        return sizes.pop()
    side = int(np.median([min(header.width, header.height) for header in headers]))
    return as_size(max(1, min(side, LARGEST_SIDE)))
