"""An image folder: one folder per class."""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import numpy as np

from pyrite.data.dataset import Dataset, Labels, check_names
from pyrite.data.files import as_path
from pyrite.data.images import SUFFIXES, Header, LazyImages, Pixels, Unreadable, as_size, look_at, read_image
from pyrite.errors import PyriteError
from pyrite.memory import check_memory

__all__ = ["class_folders", "folder", "parts_of"]

# In bytes. Larger image sets are read lazily.
IN_MEMORY = 2 * 2**30
LARGEST_SIDE = 224


def folder(path: str, size: int | tuple[int, int] | None = None, lazy: bool | None = None) -> Dataset:
    """Images in one folder per class; with folders ``train`` and ``test`` if there is a test part.

    Args:
        path: the folder.
        size: height and width; other images are scaled to cover it and cropped in the middle. By default the common
            size of all images if it is at most 224, or else a square with the median of their shorter sides, at most
            224.
        lazy: read images only when they are used. By default if they take more than 2 GiB.
    """
    root = as_path(path)
    if not root.is_dir():
        raise PyriteError(f"{root} is not a folder")
    name = root.resolve().name
    home, parts = parts_of(root)
    classes = class_folders(home)
    train = _part(name, home, classes, size, lazy, None)
    if len(np.unique(train.labels)) < 2:
        first = f"; the first that cannot: {train.unreadable[0].reason}" if train.unreadable else ""
        raise PyriteError(f"{home}: only one of {len(classes)} class folders holds images that can be read{first}")

    def other(part: str) -> Dataset | None:
        if part not in parts:
            return None
        extra = sorted(set(_subfolders(root / part)) - set(classes))
        if extra:
            raise PyriteError(f"{root / part}: the class {extra[0]!r} is not in {home}")
        channels, height, width = train.inputs.shape[1:]
        return _part(f"{name} {part}", root / part, classes, (height, width), lazy, channels)

    test, validation = other("test"), other("val")
    # Many data sets have only "val" to test on.
    return replace(train, test=test or validation, validation=validation if test is not None else None)


def parts_of(root: Path) -> tuple[Path, set[str]]:
    """The folder of the training part, and the names of the other parts."""
    parts = set(_subfolders(root))
    # Otherwise "train" is a class, for example one of "bus" and "train".
    has_parts = "train" in parts and parts <= {"train", "test", "val"}
    return (root / "train", parts - {"train"}) if has_parts else (root, set())


def _part(
    name: str,
    root: Path,
    classes: tuple[str, ...],
    size: int | tuple[int, int] | None,
    lazy: bool | None,
    channels: int | None,
) -> Dataset:
    names, labels = [], []
    for number, label in enumerate(classes):
        files = _images(root, label)
        names += files
        labels += [number] * len(files)
    good, headers, bad = look_at(root, names)
    if not good:
        raise PyriteError(
            f"{root}: none of {len(names)} files in its {len(classes)} class folders is an image"
            + (f"; the first: {bad[0].reason}" if bad else "")
        )
    chosen = as_size(size) if size is not None else _common_size(headers)
    channels = channels or (1 if all(header.grey for header in headers) else 3)
    images = LazyImages(root, [names[index] for index in good], chosen, channels)
    numbers = np.array(labels, np.int64)[good]
    if lazy or (lazy is None and images.nbytes > IN_MEMORY):
        return Dataset(name, images, numbers, classes, unreadable=tuple(bad))
    pixels, kept, undecodable = read_all(images)
    paths = tuple(images.names[index] for index in kept)
    return Dataset(name, pixels, numbers[kept], classes, unreadable=(*bad, *undecodable), paths=paths)


def read_all(images: LazyImages) -> tuple[Pixels, Labels, list[Unreadable]]:
    """The images that can be decoded, their positions, and the images that cannot."""
    check_memory(images.nbytes, f"{len(images)} images of {images.size} at once")
    pixels = np.empty(images.shape, np.uint8)
    bad: dict[int, Unreadable] = {}

    def read(index: int) -> None:
        try:
            pixels[index] = read_image(images.path(index), images.size, images.channels, images.warp)
        except ValueError as error:
            bad[index] = Unreadable(str(images.path(index)), str(error))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(read, range(len(images))))
    kept = np.setdiff1d(np.arange(len(images)), np.fromiter(bad, np.int64, len(bad)))
    return pixels if not bad else pixels[kept], kept, [bad[index] for index in sorted(bad)]


def _subfolders(root: Path) -> list[str]:
    try:
        return sorted(entry.name for entry in root.iterdir() if entry.is_dir() and not entry.name.startswith("."))
    except OSError as error:
        _refuse(error)


def _refuse(error: OSError) -> NoReturn:
    raise PyriteError(f"{error.filename}: cannot be read ({error.strerror or error})") from None


def class_folders(root: Path) -> tuple[str, ...]:
    """The names of the class folders, sorted as numbers if all are numbers: class 10 comes after class 9."""
    names = _subfolders(root)
    if len(names) < 2:
        folders = f"one class folder, {names[0]!r}" if names else "no class folders"
        raise PyriteError(f"{root} holds {folders}: it must have one folder of images per class, two or more")
    check_names(names, str(root))
    numeric = all(name.isdecimal() for name in names)
    return tuple(sorted(names, key=lambda name: (int(name), name)) if numeric else names)


def _images(root: Path, label: str) -> list[str]:
    """Image files below a class folder, by their suffixes. Links to files are followed, links to folders are not."""
    names: list[str] = []
    if not (root / label).is_dir():
        return names  # a test part need not have every class
    for place, _, files in os.walk(root / label, onerror=_refuse):
        names += [
            str((Path(place) / file).relative_to(root))
            for file in files
            if Path(file).suffix.lower() in SUFFIXES and not file.startswith(".")
        ]
    return sorted(names)


def _common_size(headers: Sequence[Header]) -> tuple[int, int]:
    sizes = {(header.height, header.width) for header in headers}
    if len(sizes) == 1 and max(max(sizes)) <= LARGEST_SIDE:
        return sizes.pop()
    side = int(np.median([min(header.width, header.height) for header in headers]))
    return as_size(max(1, min(side, LARGEST_SIDE)))
