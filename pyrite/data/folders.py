"""Folders of images or texts: one folder per class, with folders ``train`` and ``test`` if there is a test part."""

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import compress
from pathlib import Path
from typing import Final, NoReturn

import numpy as np

from pyrite.data.annotations import read_label_file, to_targets
from pyrite.data.dataset import Dataset, Labels, Numeric, Samples, check_names
from pyrite.data.images import SUFFIXES, Header, LazyImages, Members, look_at
from pyrite.data.records import listed, texts as to_records
from pyrite.errors import PyriteError
from pyrite.files import as_path, read_bytes
from pyrite.text_tables import counted

_PARTS: Final = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("test", "testing"), "test"),
    **dict.fromkeys(("val", "valid", "validation", "dev"), "val"),
}
TEXTS: Final = frozenset((".txt", ".md", ".text"))
IN_MEMORY = 2 * 2**30  # bytes; larger image sets are read lazily
LARGEST_SIDE = 224
_LARGEST_TEXT = 2**20  # bytes of a file that are read: nobody labels a book as a whole

# From the folder of a part, its files, their labels, and the shape of the training samples, if it is another part.
_Read = Callable[[Path, list[str], Labels, Sequence[int] | None], Samples]


def folder(
    path: str,
    size: int | tuple[int, int] | None = None,
    lazy: bool | None = None,
    label: str = "",
    sample: str = "",
    annotator: str = "",
) -> Dataset:
    """Images in one folder per class, optionally inside folders ``train`` and ``test``.

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
    read = partial(image_files, size=size, lazy=lazy)
    if label:
        return _read_labelled(path, SUFFIXES, read, label, sample, annotator)
    return _read_parts(path, SUFFIXES, read)


def image_files(
    root: Path | Members,
    files: Sequence[str],
    labels: Labels | None = None,
    shape: Sequence[int] | None = None,
    size: int | tuple[int, int] | None = None,
    lazy: bool | None = None,
    warp: bool = False,
) -> Samples:
    """The images in files that can be read, with their labels if there are any, and the others.

    ``shape`` is that of the training data, (C, H, W), if these are others, and ``warp`` whether those were stretched to
    it. ``size`` and ``lazy`` are as for ``folder``.
    """
    good, headers, bad = look_at(root, files)
    if not good:
        reason = f"none of {counted(len(bad), 'image')} can be read; the first: {bad[0].reason}" if bad else "no images"
        raise PyriteError(f"{root}: {reason}")
    if shape is not None:
        channels, chosen = shape[0], (shape[1], shape[2])
    else:
        channels = 1 if all(header.grey for header in headers) else 3
        chosen = common_size(headers) if size is None else size  # type: ignore[assignment]
    images = LazyImages(root, [files[index] for index in good], chosen, channels, warp)
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
    """Texts in one folder per class, as .txt files in UTF-8, optionally inside folders ``train`` and ``test``.

    Args:
        path: the folder.
        label, sample, annotator: a table of labels in place of class folders, as ``folder`` takes it.
    """
    if label:
        return _read_labelled(path, TEXTS, _text_files, label, sample, annotator)
    return _read_parts(path, TEXTS, _text_files)


def _text_files(root: Path, files: list[str], labels: Labels, shape: Sequence[int] | None) -> Samples:
    return Samples(to_records([read_text_file(root / file) for file in files]), tuple(files), labels=labels)


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


def _read_parts(path: str, endings: frozenset[str], read: _Read) -> Dataset:
    """The data set in a folder of class folders, whose files ``read`` reads."""
    root = as_path(path)
    if not root.is_dir():
        raise PyriteError(f"{root} is not a folder")
    parts, name = _parts(root), root.resolve().name
    home = root / parts["train"] if parts else root
    classes = _subfolders(home)
    if len(classes) < 2:
        if (home / "dataset_info.json").exists() or (home / "dataset_dict.json").exists():
            raise PyriteError(
                f"{home} is a data set of Hugging Face: pass datasets.load_from_disk({str(home)!r}) to pyrite in Python"
            )
        folders = f"one class folder, {classes[0]!r}" if classes else "no class folders"
        raise PyriteError(f"{home} contains {folders}; it must contain two or more, with the images of one class each")
    check_names(classes, str(home))
    if all(label.isdecimal() for label in classes):  # class 10 comes after class 9
        classes.sort(key=lambda label: (int(label), label))
    found: dict[str, Dataset] = {}
    shape: Sequence[int] | None = None
    for part in sorted(parts, key=lambda part: part != "train") or [""]:
        place = root / parts.get(part, "")
        extra = sorted(set(_subfolders(place)) - set(classes))
        if extra:
            raise PyriteError(f"{place}: the class {extra[0]!r} is not in {home}")
        # A test part need not have every class.
        files = [files_below(place / label, endings) if (place / label).is_dir() else [] for label in classes]
        names = [f"{label}/{file}" for label, own in zip(classes, files, strict=True) for file in own]
        labels = np.repeat(np.arange(len(classes)), [len(own) for own in files])
        samples = read(place, names, labels, shape)
        held, bad = len(np.unique(samples.labels)), samples.unreadable
        if held < 2 and not found:
            first = f"; the first that cannot: {bad[0].reason}" if bad else ""
            count = f"{('none', 'only one')[held]} of {len(classes)} class folders"
            raise PyriteError(f"{place}: {count} holds files that can be read{first}")
        title = f"{name} {part}" if found else name
        found[part] = Dataset(
            title, samples.inputs, samples.labels, tuple(classes), unreadable=bad, paths=samples.names
        )
        shape = shape or samples.inputs.shape[1:]
    # Many data sets have only "val" to test on.
    validation = found.get("val")
    train, test = next(iter(found.values())), found.get("test", validation)
    return replace(train, test=test, validation=validation if "test" in found else None)


def named_files(names: Sequence[str], files: Sequence[str], what: object) -> list[str]:
    """The file that each name stands for, its path or its own name; empty if there is none. A name that several files
    have, and a file that several names stand for, are an error."""
    paths, own = {Path(file).as_posix(): file for file in files}, dict[str, str]()
    several = set[str]()
    for path, file in paths.items():
        name = path.rpartition("/")[2]
        several |= {name} & own.keys()
        own.setdefault(name, file)
    seen = dict[str, str]()
    for name in names:
        if name in several and name not in paths:
            raise PyriteError(f"{what}: several files are called {name!r}: write their paths")
        file = paths.get(name) or own.get(name, "")
        if file and seen.setdefault(file, name) != name:
            raise PyriteError(f"{what}: {seen[file]!r} and {name!r} are one file")
    return [paths.get(name) or own.get(name, "") for name in names]


def _read_labelled(path: str, endings: frozenset[str], read: _Read, label: str, sample: str, annotator: str) -> Dataset:
    """The files of a folder that a table labels, each of which it names by its path in the folder or its own name."""
    root = as_path(path)
    if not root.is_dir():
        raise PyriteError(f"{root} is not a folder")
    samples, cells, names = read_label_file(as_path(label), sample, annotator)
    files = files_below(root, endings)
    chosen = named_files(samples, files, label)
    absent = [name for name, file in zip(samples, chosen, strict=True) if not file]
    if absent:
        raise PyriteError(f"{label}: {absent[0]!r} is not a file in {root}, nor are {len(absent) - 1} others")
    what, order = f"{label}: the labels", sorted(range(len(samples)), key=chosen.__getitem__)
    labels, classes, annotations = to_targets(cells[order] if len(names) > 1 else cells[order, 0], names, what)
    found = read(root, [chosen[row] for row in order], labels, None)
    if annotations is not None:
        place = {chosen[row]: number for number, row in enumerate(order)}
        rows = [place[name] for name in found.names]  # without what cannot be read
        annotations = replace(annotations, labels=annotations.labels[rows])
    left = len(files) - len(samples)
    notes = (f"{left:,} files in {root} have no row in {label}, and are left out",) if left else ()
    return Dataset(
        root.resolve().name, found.inputs, found.labels, classes, unreadable=found.unreadable, paths=found.names,
        annotations=annotations, label=os.path.abspath(as_path(label)), notes=notes,
    )  # fmt: skip


def _parts(root: Path) -> dict[str, str]:
    """The folders of the parts of a data set, if it has parts, by what they are for."""
    names = _subfolders(root)
    kinds = {name: _PARTS.get(name.lower(), "") for name in names}
    found = {kind: name for name, kind in kinds.items() if kind}
    if "train" not in found:
        return {}
    if len(found) == len(names):
        return found
    # Otherwise "train" is a class, for example one of "bus" and "train".
    if len(found) > 1 and all(len(_subfolders(root / name)) > 1 for name in found.values()):
        others = [name for name in names if name not in found.values()]
        raise PyriteError(f"{root} has the parts {listed(found.values())}, and {listed(others)}: move those elsewhere")
    return {}


def _subfolders(root: Path) -> list[str]:
    try:
        return sorted(entry.name for entry in root.iterdir() if entry.is_dir() and not entry.name.startswith("."))
    except OSError as error:
        _refuse(error)


def _refuse(error: OSError) -> NoReturn:
    raise PyriteError(f"{error.filename}: cannot be read ({error.strerror or error})") from None
