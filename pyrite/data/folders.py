"""Folders of images or texts: one folder per class, with folders ``train`` and ``test`` if there is a test part."""

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import compress
from pathlib import Path
from typing import Final, NoReturn

import numpy as np

from pyrite.data.annotations import read_label_file, to_targets
from pyrite.data.dataset import Dataset, Labels, Numeric, Samples, check_names
from pyrite.data.images import SUFFIXES, Header, LazyImages, look_at
from pyrite.data.records import texts as to_records
from pyrite.errors import PyriteError
from pyrite.files import as_path, read_bytes

TEXTS: Final = frozenset((".txt", ".md", ".text"))
IN_MEMORY = 2 * 2**30  # bytes; larger image sets are read lazily
LARGEST_SIDE = 224
_LARGEST_TEXT = 2**20  # bytes of a file that are read: nobody labels a book as a whole

# From the name and folder of a part, its files, their labels, the classes and the training part, if it is another.
_ReadPart = Callable[[str, Path, list[str], Labels, tuple[str, ...], Dataset | None], Dataset]


def folder(
    path: str,
    size: int | tuple[int, int] | None = None,
    lazy: bool | None = None,
    label: str = "",
    sample: str = "",
    annotator: str = "",
) -> Dataset:
    """Images in one folder per class; with folders ``train`` and ``test`` if there is a test part.

    Args:
        path: the folder.
        size: height and width; other images are scaled to cover it and cropped in the middle. By default the common
            size of all images if it is at most 224, or else a square with the median of their shorter sides, at most
            224.
        lazy: read images only when they are used. By default if they take more than 2 GiB.
        label: a table with the labels of the files, in place of class folders: a column of files, and one column of
            labels or one for each annotator.
        sample: the column of files in that table; the first by default.
        annotator: the column that names who gave a label, in a table with one row per label.
    """

    def part(
        name: str, root: Path, files: list[str], labels: Labels, classes: tuple[str, ...], train: Dataset | None
    ) -> Dataset:
        found = image_files(root, files, labels, None if train is None else train.inputs.shape[1:], size, lazy)
        return Dataset(name, found.inputs, found.labels, classes, unreadable=found.unreadable, paths=found.names)

    if label:
        return _read_labelled(path, SUFFIXES, part, label, sample, annotator)
    data = _read_parts(path, SUFFIXES, part)
    if len(np.unique(data.labels)) < 2:
        first = f"; the first that cannot: {data.unreadable[0].reason}" if data.unreadable else ""
        raise PyriteError(f"{path}: only one of {len(data.classes)} class folders holds images that can be read{first}")
    return data


def image_files(
    root: Path,
    files: Sequence[str],
    labels: Labels | None = None,
    shape: Sequence[int] | None = None,
    size: int | tuple[int, int] | None = None,
    lazy: bool | None = None,
) -> Samples:
    """The images in files that can be read, with their labels if there are any, and the others.

    ``shape`` is that of the training data, (C, H, W), if these are others. ``size`` and ``lazy`` are as for ``folder``.
    """
    good, headers, bad = look_at(root, files)
    if not good:
        reason = f"; the first: {bad[0].reason}" if bad else ""
        raise PyriteError(f"{root}: no readable image among {len(files)} files{reason}")
    if shape is not None:
        channels, chosen = shape[0], (shape[1], shape[2])
    else:
        channels = 1 if all(header.grey for header in headers) else 3
        chosen = common_size(headers) if size is None else size  # type: ignore[assignment]
    images = LazyImages(root, [files[index] for index in good], chosen, channels)
    inputs: Numeric = images
    if not lazy and (lazy is False or images.nbytes <= IN_MEMORY):
        inputs, decoded, undecodable = images.read(threads=8)
        good, bad = list(compress(good, decoded)), [*bad, *undecodable]
    names = tuple(files[row] for row in good)
    return Samples(inputs, names, tuple(bad), labels if labels is None else labels[good])


def common_size(headers: Sequence[Header]) -> tuple[int, int]:
    """The size of all images, if it is one, and no larger than 224; or a square of the median of the shorter sides."""
    sizes = {(header.height, header.width) for header in headers}
    side = max(1, min(int(np.median([min(header.width, header.height) for header in headers])), LARGEST_SIDE))
    return sizes.pop() if len(sizes) == 1 and max(max(sizes)) <= LARGEST_SIDE else (side, side)


def texts(path: str, label: str = "", sample: str = "", annotator: str = "") -> Dataset:
    """Texts in one folder per class, as .txt files in UTF-8; with folders ``train`` and ``test`` for a test part.

    Args:
        path: the folder.
        label, sample, annotator: a table of labels in place of class folders, as ``folder`` takes it.
    """

    def part(
        name: str, root: Path, files: list[str], labels: Labels, classes: tuple[str, ...], train: Dataset | None
    ) -> Dataset:
        held = len(np.unique(labels))
        if held < 2:
            raise PyriteError(f"{root}: only {held} of {len(classes)} class folders holds texts")
        content = to_records([read_text_file(root / file) for file in files])
        return Dataset(name, content, labels, classes, paths=tuple(files))

    if label:
        return _read_labelled(path, TEXTS, part, label, sample, annotator)
    return _read_parts(path, TEXTS, part)


def read_text_file(path: Path) -> str:
    """The text in a file, at most its first mebibyte."""
    content = read_bytes(path, _LARGEST_TEXT)
    try:
        # The last character may be cut in two.
        return content.decode("utf-8-sig", "strict" if len(content) < _LARGEST_TEXT else "ignore")
    except UnicodeDecodeError as error:
        raise PyriteError(f"{path}: not a text in UTF-8 ({error.reason} at byte {error.start})") from None


def files_below(root: Path, endings: frozenset[str]) -> list[str]:
    """Files in a folder and the folders in it, relative to it, in order. Links to folders are not followed."""
    return sorted(
        str((Path(place) / file).relative_to(root))
        for place, _, files in os.walk(root, onerror=_refuse)
        for file in files
        if Path(file).suffix.lower() in endings and not file.startswith(".")
    )


def _read_parts(path: str, endings: frozenset[str], read: _ReadPart) -> Dataset:
    """The data set in a folder, each part of which ``read`` returns."""
    root = as_path(path)
    if not root.is_dir():
        raise PyriteError(f"{root} is not a folder")
    parts, name = set(_subfolders(root)), root.resolve().name
    # Otherwise "train" is a class, for example one of "bus" and "train".
    has_parts = "train" in parts and parts <= {"train", "test", "val"}
    home = root / "train" if has_parts else root
    classes = _subfolders(home)
    if len(classes) < 2:
        if (home / "dataset_info.json").exists() or (home / "dataset_dict.json").exists():
            raise PyriteError(
                f"{home} is a data set of Hugging Face: pass datasets.load_from_disk({str(home)!r}) to pyrite in Python"
            )
        folders = f"one class folder, {classes[0]!r}" if classes else "no class folders"
        raise PyriteError(f"{home} holds {folders}: it must have one folder of images per class, two or more")
    check_names(classes, str(home))
    if all(label.isdecimal() for label in classes):  # class 10 comes after class 9
        classes.sort(key=lambda label: (int(label), label))
    found: dict[str, Dataset] = {}
    for part in ["train", *sorted(parts - {"train"})] if has_parts else [""]:
        place = root / part
        extra = sorted(set(_subfolders(place)) - set(classes))
        if extra:
            raise PyriteError(f"{place}: the class {extra[0]!r} is not in {home}")
        # A test part need not have every class.
        files = [files_below(place / label, endings) if (place / label).is_dir() else [] for label in classes]
        names = [f"{label}/{file}" for label, own in zip(classes, files, strict=True) for file in own]
        labels = np.repeat(np.arange(len(classes)), [len(own) for own in files])
        title = f"{name} {part}" if found else name
        found[part] = read(title, place, names, labels, tuple(classes), next(iter(found.values()), None))
    # Many data sets have only "val" to test on.
    validation = found.get("val")
    train, test = next(iter(found.values())), found.get("test", validation)
    return replace(train, test=test, validation=validation if "test" in found else None)


def _read_labelled(
    path: str, endings: frozenset[str], read: _ReadPart, label: str, sample: str, annotator: str
) -> Dataset:
    """The files of a folder that a table labels, each of which it names by its path in the folder or its own name."""
    root = as_path(path)
    if not root.is_dir():
        raise PyriteError(f"{root} is not a folder")
    samples, cells, names = read_label_file(as_path(label), sample, annotator)
    files = files_below(root, endings)
    known = {Path(file).name: file for file in files} | {Path(file).as_posix(): file for file in files}
    absent = [name for name in samples if name not in known]
    if absent:
        raise PyriteError(f"{label}: {absent[0]!r} is not a file in {root}, nor are {len(absent) - 1} others")
    what, order = f"{label}: the labels", sorted(range(len(samples)), key=lambda row: known[samples[row]])
    labels, classes, annotations = to_targets(cells[order] if len(names) > 1 else cells[order, 0], names, what)
    data = read(root.resolve().name, root, [known[samples[row]] for row in order], labels, classes, None)
    if annotations is not None:
        place = {known[samples[row]]: number for number, row in enumerate(order)}
        rows = [place[name] for name in data.paths]  # without what cannot be read
        annotations = replace(annotations, labels=annotations.labels[rows])
    left = len(files) - len(samples)
    notes = (f"{left:,} files in {root} have no row in {label}, and are left out",) if left else ()
    return replace(data, annotations=annotations, label=os.path.abspath(as_path(label)), notes=notes)


def _subfolders(root: Path) -> list[str]:
    try:
        return sorted(entry.name for entry in root.iterdir() if entry.is_dir() and not entry.name.startswith("."))
    except OSError as error:
        _refuse(error)


def _refuse(error: OSError) -> NoReturn:
    raise PyriteError(f"{error.filename}: cannot be read ({error.strerror or error})") from None
