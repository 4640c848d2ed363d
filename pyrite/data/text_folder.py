"""A folder of texts: one folder per class, one file per text."""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np

from pyrite.data.dataset import Dataset
from pyrite.data.files import as_path, is_regular
from pyrite.data.folder import class_folders, parts_of
from pyrite.data.records import texts as to_records
from pyrite.errors import PyriteError

__all__ = ["read_text_file", "text_files", "texts"]

ENDINGS = (".txt", ".md", ".text")
_LARGEST = 2**20  # bytes of a file that are read: nobody labels a book as a whole


def texts(path: str) -> Dataset:
    """Texts in one folder per class, as .txt files in UTF-8; with folders ``train`` and ``test`` for a test part.

    Args:
        path: the folder.
    """
    root = as_path(path)
    if not root.is_dir():
        raise PyriteError(f"{root} is not a folder")
    name = root.resolve().name
    home, others = parts_of(root)
    classes = class_folders(home)
    train = _part(name, home, classes)
    other = next((part for part in ("test", "val") if part in others), None)
    return train if other is None else replace(train, test=_part(f"{name} {other}", root / other, classes))


def _part(name: str, root: Path, classes: tuple[str, ...]) -> Dataset:
    extra = sorted(set(class_folders(root)) - set(classes))
    if extra:
        raise PyriteError(f"{root}: the class {extra[0]!r} is not among those that are trained on")
    files, labels = [], []
    for number, folder in enumerate(classes):
        found = [f"{folder}/{file}" for file in text_files(root / folder)] if (root / folder).is_dir() else []
        files += found
        labels += [number] * len(found)
    if len(set(labels)) < 2:
        raise PyriteError(f"{root}: only {len(set(labels))} of {len(classes)} class folders holds texts")
    content = to_records([read_text_file(root / file) for file in files])
    return Dataset(name, content, np.array(labels, np.int64), classes, paths=tuple(files))


def text_files(root: Path) -> list[str]:
    """The text files in a folder and the folders in it, relative to it, in order."""
    found = []
    for folder, _, names in os.walk(root):
        here = Path(folder).relative_to(root)
        found += [str(here / name) for name in names if name.lower().endswith(ENDINGS) and not name.startswith(".")]
    return sorted(found)


def read_text_file(path: Path) -> str:
    """The text in a file, at most its first mebibyte."""
    if not is_regular(path):
        raise PyriteError(f"{path}: no such file")
    try:
        with path.open("rb") as file:
            content = file.read(_LARGEST)
        # The last character may be cut in two.
        return content.decode("utf-8-sig", "strict" if len(content) < _LARGEST else "ignore")
    except OSError as error:
        raise PyriteError(f"{path}: cannot be read ({error.strerror or error})") from None
    except UnicodeDecodeError as error:
        raise PyriteError(f"{path}: not a text in UTF-8 ({error.reason} at byte {error.start})") from None
