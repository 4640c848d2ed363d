"""Clothing1M and WebVision 1.0: web images with noisy labels, read from their official folders."""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from pyrite.checks import one_of, whole_number
from pyrite.data.dataset import Dataset, Labels, check_names, check_range
from pyrite.data.files import folder_of, missing, read_text
from pyrite.data.images import LazyImages, Unreadable, inside, look_at
from pyrite.errors import PyriteError

# Height and width of the images, of which training then crops a part.
SIZE = 256


def clothing1m(path: str | None = None, size: int = SIZE, check: bool = False) -> Dataset:
    """A million pictures from shops, 14 kinds of clothes, labels from the text around them; read lazily.

    Images are warped to a square of ``size``, as papers do. ``.labels`` are the noisy ones of the noisy training list.
    ``.clean``, ``.validation`` and ``.test`` have labels checked by hand. With ``check``, every file is opened once,
    and files that are not images are left out.
    """
    authors = "its authors, see https://github.com/Cysu/noisy_label"
    root = root_of("clothing1m", path, ("clothing1m", "Clothing1M", "clothing1M"), "noisy_label_kv.txt", authors)
    source = root / "category_names_eng.txt"
    classes = tuple(line.strip() for line in read_text(source, "clothing1m"))
    check_names(classes, str(source))
    tables = {kind: dict(_pairs(root / f"{kind}_label_kv.txt", "clothing1m")) for kind in ("noisy", "clean")}

    def dataset(name: str, list_name: str) -> Dataset:
        source, table = root / f"{list_name}_key_list.txt", tables[list_name.split("_")[0]]
        names = read_names(source, "clothing1m")
        for number, file in enumerate(names, start=1):
            if file not in table:
                raise PyriteError(f"{source}, line {number}: {file!r} has no label")
        labels = np.array([table[file] for file in names], np.int64)
        return _dataset(name, root, names, labels, classes, check, size=size, warp=True)

    return replace(
        dataset("clothing1m", "noisy_train"),
        clean=dataset("clothing1m clean", "clean_train"),
        validation=dataset("clothing1m validation", "clean_val"),
        test=dataset("clothing1m test", "clean_test"),
    )


def webvision(
    classes: int = 50, path: str | None = None, source: str = "google", size: int = SIZE, check: bool = False
) -> Dataset:
    """Pictures that a web search found for the classes of ImageNet, WebVision 1.0; read lazily.

    Args:
        classes: the number of classes, the first of 1,000; papers use 50, 200 or 400.
        path: the folder that contains ``info``.
        source: ``google``, ``flickr`` or ``all``; papers use google.
        size: images are scaled to cover a square of this size, and cropped in the middle.
        check: open every file once, and leave out files that are not images.
    """
    one_of("source", source, ("google", "flickr", "all"))
    url = "https://data.vision.ee.ethz.ch/cvl/webvision/"
    root = root_of("webvision", path, ("webvision", "WebVision"), "info/synsets.txt", url)
    # Each line is a WordNet ID and the words for it.
    words = [line.strip().partition(" ") for line in read_text(root / "info/synsets.txt", "webvision")]
    classes = whole_number("classes", classes, 2, len(words))
    times = Counter(rest for _, _, rest in words[:classes])
    # Two classes are called "crane": a bird and a machine. The WordNet ID distinguishes them.
    names = tuple(
        rest if times[rest] == 1 and rest else f"{rest} {number}".strip() for number, _, rest in words[:classes]
    )

    def part(name: str, file: str, folder: str = "") -> Dataset:
        pairs = _pairs(root / "info" / file, "webvision")
        labels = np.array([label for _, label in pairs], np.int64)
        check_range(labels, len(words), str(root / "info" / file))
        chosen = [folder + image for image, label in pairs if label < classes]
        return _dataset(name, root, chosen, labels[labels < classes], names, check, size=size)

    test = part("webvision test", "val_filelist.txt", "val_images_256/")
    return replace(part("webvision", f"train_filelist_{source}.txt"), test=test)


def root_of(dataset: str, path: str | None, folders: tuple[str, ...], sign: str, source: str) -> Path:
    """The folder of a data set, recognised by one of its files, ``sign``."""
    root = folder_of(path, folders)
    if not (root / sign).is_file():
        raise missing(dataset, sign, root, source)
    return root


def read_names(path: Path, dataset: str) -> list[str]:
    """The file names in a list, one per line."""
    return [inside(line.strip(), path, number) for number, line in enumerate(read_text(path, dataset), start=1)]


def _pairs(path: Path, dataset: str) -> list[tuple[str, int]]:
    """File names and class numbers; each line of the file has both."""
    pairs = []
    for number, line in enumerate(read_text(path, dataset), start=1):
        name, _, label = line.strip().rpartition(" ")
        if not name or not label.isascii() or not label.isdecimal() or len(label) > 6:
            raise PyriteError(f"{path}, line {number}: {line[:60]!r} is not a file name and a class number")
        pairs.append((inside(name, path, number), int(label)))
    return pairs


def _dataset(
    name: str, root: Path, files: list[str], labels: Labels, classes: tuple[str, ...], check: bool, **how: Any
) -> Dataset:
    bad: list[Unreadable] = []
    if check:
        good, _, bad = look_at(root, files)
        files, labels = [files[index] for index in good], labels[good]
    return Dataset(name, LazyImages(root, files, **how), labels, classes, unreadable=tuple(bad))
