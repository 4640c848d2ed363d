"""Images in tar archives, as WebDataset writes them: names of the files of a sample are alike up to the first dot."""

import json
import tarfile
from pathlib import Path, PurePosixPath
from typing import Any

from pyrite.data.dataset import Dataset, Samples, encode
from pyrite.data.folders import image_files
from pyrite.data.images import SUFFIXES, Member, Members
from pyrite.data.records import Schema
from pyrite.errors import PyriteError
from pyrite.files import as_path, shard_paths

_LABEL = "cls"  # the ending of the file with the number of the class
_MOST = 2**20  # bytes of a file with a label


def tar(path: str, label: str = _LABEL, size: int | tuple[int, int] | None = None, lazy: bool | None = None) -> Dataset:
    """Images in the tar archives of WebDataset: ``photos.tar``, ``photos-{000..009}.tar`` or ``photos-*.tar``.

    Archives are not unpacked: the place of every file is found once, and images are read from there.

    Args:
        path: an archive, or a pattern of several.
        label: the ending of the files with the labels, which are numbers or names, or a key in ``.json`` files.
        size, lazy: as for ``folder``.
    """
    members, keys, texts = _look_into(path, label)
    images = [key for key in keys if key in texts]
    if not images:
        raise PyriteError(f"{path}: no image has a label, a file that ends in .{label} or a .json file with {label!r}")
    labels, classes = encode([texts[key] for key in images], f"{path}: the labels")
    found = image_files(members, [keys[key] for key in images], labels, None, size, lazy)
    left = len(keys) - len(images)
    return Dataset(
        Path(path).stem, found.inputs, found.labels, classes, unreadable=found.unreadable, paths=found.names,
        notes=(f"{left:,} images without a label are left out",) if left else (),
    )  # fmt: skip


def from_tar(path: Path, schema: Schema, name: str) -> Samples:
    """The images of archives, with or without labels, for a model that was trained on others."""
    members, keys, _ = _look_into(str(path), "")
    return image_files(members, list(keys.values()), shape=schema.shape, lazy=False, warp=schema.warp)


def _look_into(path: str, label: str) -> tuple[Members, dict[str, str], dict[str, str]]:
    """All images, the name of the image of every sample, and the text of its label."""
    members = Members()
    keys: dict[str, str] = {}
    texts: dict[str, str] = {}
    several = shard_paths(path)
    for place in map(as_path, [path] if several is None else several):
        try:
            with tarfile.open(place, "r:") as archive:
                for member in archive:
                    file = PurePosixPath(member.name)
                    stem, _, ending = file.name.partition(".")
                    if not member.isfile() or not stem or not ending:
                        continue
                    name = f"{place.name}/{member.name}"
                    key = name.removesuffix(f".{ending}")
                    if file.suffix.lower() in SUFFIXES:
                        if key in keys:
                            raise PyriteError(f"{place}: the sample {key!r} has two images, {keys[key]} and {name}")
                        members[name], keys[key] = Member(place, name, member.offset_data, member.size), name
                    elif ending in (label, "json") and member.size < _MOST:
                        texts.update(_label(key, ending, label, archive.extractfile(member).read()))  # type: ignore[union-attr]
        except (tarfile.TarError, OSError, EOFError) as error:
            raise PyriteError(f"{place}: not a complete tar archive that is not compressed ({error})") from None
    if not members:
        raise PyriteError(f"{path}: there is no image in the archive")
    return members, keys, texts


def _label(key: str, ending: str, label: str, content: bytes) -> dict[str, str]:
    """The label in a file by its key; nothing if there is none."""
    try:
        value: Any = content.decode().strip()
        if ending == "json" and label != "json":
            value = json.loads(value)
            value = value.get(label) if isinstance(value, dict) else None
    except ValueError as error:
        raise PyriteError(f"{key}.{ending}: not a text in UTF-8, or not JSON ({error})") from None
    return {} if value is None or value == "" else {key: str(value)}
