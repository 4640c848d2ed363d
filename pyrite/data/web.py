"""Large image sets that are read lazily from their official folders: Clothing1M, WebVision 1.0 and MARS.

MARS shows people recorded by six cameras, as tracklets; it is a data set for retrieval, not for classification. Tables
list the runs of frames of one person in one camera. They are MATLAB files of version 5 that count from 1. scipy
reads these files too, but crashes with a segmentation fault on damaged ones. Only a small part of the format is needed
here: a file is a list of elements, each with a type and a length, and a table is an element with flags, dimensions, a
name and numbers, column by column.
"""

import math
import struct
import zlib
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pyrite.arrays import check_below
from pyrite.checks import one_of, whole_number
from pyrite.data.dataset import Dataset, Labels, Tracklets, check_names
from pyrite.data.files import folder_of
from pyrite.data.images import LazyImages, inside
from pyrite.errors import PyriteError
from pyrite.files import read_bytes

# Height and width of the images, of which training then crops a part.
SIZE = 256

# In bytes. Far more than the tables of data sets need: those of MARS have some 50,000 numbers.
MOST = 2**26

_HEADER = 128
_MATRIX, _COMPRESSED = 14, 15
_REAL, _COMPLEX = range(6, 16), 0x800  # the numeric classes, from double to uint64
_NUMBERS = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
_SOURCE = "its authors, see http://www.liangzheng.com.cn/Project/project_mars.html"


def clothing1m(path: str | None = None, size: int = SIZE) -> Dataset:
    """A million images of 14 kinds of clothes from online shops, labelled by the surrounding text; read lazily.

    Images are warped to a square of ``size``, as papers do. ``.labels`` are the noisy ones of the noisy training list.
    ``.clean``, ``.validation`` and ``.test`` have labels checked by hand.
    """
    authors = "its authors, see https://github.com/Cysu/noisy_label"
    root = _root_of("clothing1m", path, ("clothing1m", "Clothing1M", "clothing1M"), "noisy_label_kv.txt", authors)
    source = root / "category_names_eng.txt"
    classes = tuple(line.strip() for line in _read_text(source, "clothing1m"))
    check_names(classes, str(source))
    tables = {kind: dict(_pairs(root / f"{kind}_label_kv.txt", "clothing1m")) for kind in ("noisy", "clean")}

    def dataset(name: str, list_name: str) -> Dataset:
        source, table = root / f"{list_name}_key_list.txt", tables[list_name.split("_")[0]]
        names = _read_names(source, "clothing1m")
        for number, file in enumerate(names, start=1):
            if file not in table:
                raise PyriteError(f"{source}, line {number}: {file!r} has no label")
        labels = np.array([table[file] for file in names], np.int64)
        return Dataset(name, LazyImages(root, names, size, warp=True), labels, classes)

    return replace(
        dataset("clothing1m", "noisy_train"),
        clean=dataset("clothing1m clean", "clean_train"),
        validation=dataset("clothing1m validation", "clean_val"),
        test=dataset("clothing1m test", "clean_test"),
    )


def webvision(classes: int = 50, path: str | None = None, source: str = "google", size: int = SIZE) -> Dataset:
    """WebVision 1.0: images from web searches for the classes of ImageNet; read lazily.

    Args:
        classes: the number of classes, the first of 1,000; papers use 50, 200 or 400.
        path: the folder that contains ``info``.
        source: ``google``, ``flickr`` or ``all``; papers use google.
        size: images are scaled to cover a square of this size, and cropped in the middle.
    """
    one_of("source", source, ("google", "flickr", "all"))
    url = "https://data.vision.ee.ethz.ch/cvl/webvision/"
    root = _root_of("webvision", path, ("webvision", "WebVision"), "info/synsets.txt", url)
    # Each line is a WordNet ID and the words for it.
    words = [line.strip().partition(" ") for line in _read_text(root / "info/synsets.txt", "webvision")]
    classes = whole_number("classes", classes, 2, len(words))
    times = Counter(rest for _, _, rest in words[:classes])
    # Two classes are called "crane": a bird and a machine. The WordNet ID distinguishes them.
    names = tuple(
        rest if times[rest] == 1 and rest else f"{rest} {number}".strip() for number, _, rest in words[:classes]
    )

    def part(name: str, file: str, folder: str = "") -> Dataset:
        pairs = _pairs(root / "info" / file, "webvision")
        labels = np.array([label for _, label in pairs], np.int64)
        check_below(labels, len(words), str(root / "info" / file))
        chosen = [folder + image for image, label in pairs if label < classes]
        return Dataset(name, LazyImages(root, chosen, size), labels[labels < classes], names)

    test = part("webvision test", "val_filelist.txt", "val_images_256/")
    return replace(part("webvision", f"train_filelist_{source}.txt"), test=test)


def _root_of(dataset: str, path: str | None, folders: tuple[str, ...], sign: str, source: str) -> Path:
    """The folder of a data set, recognised by one of its files, ``sign``."""
    root = folder_of(path, folders)
    if not (root / sign).is_file():
        raise PyriteError(f"{dataset}: {sign} is not in {root}; get it from {source} and put it there")
    return root


def _read_text(path: Path, dataset: str) -> list[str]:
    """The lines of a text file, without empty lines at the end."""
    if not path.exists():
        raise PyriteError(f"{dataset}: {path} is missing")
    try:
        lines = read_bytes(path).decode().rstrip().splitlines()
    except UnicodeDecodeError as error:
        raise PyriteError(f"{dataset}: {path} cannot be read as text ({error})") from None
    if not lines:
        raise PyriteError(f"{dataset}: {path} is empty")
    return lines


def _read_names(path: Path, dataset: str) -> list[str]:
    """The file names in a list, one per line."""
    return [inside(line.strip(), path, number) for number, line in enumerate(_read_text(path, dataset), start=1)]


def _pairs(path: Path, dataset: str) -> list[tuple[str, int]]:
    """File names and class numbers; each line of the file has both."""
    pairs = []
    for number, line in enumerate(_read_text(path, dataset), start=1):
        name, _, label = line.strip().rpartition(" ")
        if not name or not label.isascii() or not label.isdecimal() or len(label) > 6:
            raise PyriteError(f"{path}, line {number}: {line[:60]!r} is not a file name and a class number")
        pairs.append((inside(name, path, number), int(label)))
    return pairs


def mars(path: str | None = None, size: int | tuple[int, int] = SIZE) -> Dataset:
    """Tracklets of pedestrians, 625 people for training and 636 others for retrieval; read lazily.

    Frames, which are 256 x 128, are warped to ``size``; papers use 256 x 256. ``.labels`` number the people of the
    training part; ``.tracklets`` lists the frames that belong together, with their person and camera. ``.test``
    shows other people and has other classes; its tracklets include the queries, the identity 0 for distractors and -1
    for junk.
    """
    root = _root_of("mars", path, ("mars", "MARS"), "info/tracks_train_info.mat", _SOURCE)
    query = _matrix(root / "info/query_IDX.mat", "query_IDX").ravel()
    test = _part(root, "test", size, query, None)
    return _part(root, "train", size, np.empty(0, np.int64), test)


def _part(root: Path, part: str, size: int | tuple[int, int], query: Labels, test: Dataset | None) -> Dataset:
    source = root / f"info/{part}_name.txt"
    frames = _read_names(source, "mars")
    for number, frame in enumerate(frames, start=1):
        if "/" in frame or len(frame) < 6:
            raise PyriteError(f"{source}, line {number}: {frame!r} is not the name of a frame")
    tracklets = _tracklets(root / f"info/tracks_{part}_info.mat", f"track_{part}_info", frames, query)
    # The first four characters of a frame's name are the number of the person, and the name of its folder.
    people, labels = np.unique([frame[:4] for frame in frames], return_inverse=True)
    names = [f"bbox_{part}/{frame[:4]}/{frame}" for frame in frames]
    images, name = LazyImages(root, names, size, warp=True), "mars" if part == "train" else "mars test"
    return Dataset(name, images, labels.astype(np.int64), tuple(map(str, people)), test, tracklets=tracklets)


def _tracklets(path: Path, key: str, frames: list[str], query: Labels) -> Tracklets:
    table = _matrix(path, key)
    if table.ndim != 2 or table.shape[1] != 4 or not len(table):
        raise PyriteError(f"{path}: {key!r} has the shape {table.shape}, not one row of four numbers per tracklet")
    first, last, identity, camera = table.T
    wrong = (first < 1) | (last < first) | (last > len(frames))
    if wrong.any():
        row = int(wrong.argmax())
        raise PyriteError(f"{path}: tracklet {row + 1} runs from {first[row]} to {last[row]} of {len(frames)} frames")
    for row, (frame, person) in enumerate(zip(first, identity, strict=True), start=1):
        if (frames[frame - 1][:4].lstrip("0") or "0") != str(person):  # junk is "00-1"
            raise PyriteError(f"{path}: tracklet {row} is of person {person}, its first frame is {frames[frame - 1]!r}")
    outside = (query < 1) | (query > len(table))
    if outside.any():
        raise PyriteError(f"{path}: there is no tracklet {query[int(outside.argmax())]}, which query_IDX.mat names")
    return Tracklets(first - 1, last.copy(), identity.copy(), camera.copy(), query - 1)


def _matrix(path: Path, key: str) -> Labels:
    """A table of whole numbers."""
    values = read_table(path, key)
    if not np.isfinite(values).all() or (values != np.trunc(values)).any() or (np.abs(values) > 2**31).any():
        raise PyriteError(f"{path}: {key!r} is not a table of whole numbers")
    return values.astype(np.int64)


def read_table(path: Path, name: str) -> npt.NDArray[Any]:
    """The table that is called ``name``, as numbers of the type they are stored in."""
    content = read_bytes(path, MOST + 1)
    if len(content) > MOST:
        raise PyriteError(f"{path}: {path.stat().st_size} bytes are too many for a table")
    try:
        order = {b"IM": "<", b"MI": ">"}.get(content[126:_HEADER])
        if order is None:
            raise ValueError("it does not begin like one")
        place = _HEADER
        while place < len(content):
            kind, element, place = _element(content, place, order)
            if kind == _COMPRESSED:
                decompressor = zlib.decompressobj()
                unpacked = decompressor.decompress(element, MOST)
                if not decompressor.eof:
                    raise ValueError("it unpacks to too much, or is cut off")
                kind, element, _ = _element(unpacked, 0, order)
            table = _table(element, name, order) if kind == _MATRIX else None
            if table is not None:
                return table
        raise ValueError("there is no such table")
    except (ValueError, struct.error, zlib.error) as error:
        raise PyriteError(f"{path}: not a complete MATLAB file of version 5 with a table {name!r} ({error})") from None


def _element(content: bytes, place: int, order: str) -> tuple[int, bytes, int]:
    """The type and the bytes of the element at a position, and the position of the next one."""
    kind, size = struct.unpack_from(order + "II", content, place)
    if kind >> 16:  # a small element: length and type in four bytes, followed by four bytes of content
        kind, size = kind & 0xFFFF, kind >> 16
        begin, end = place + 4, place + 8
        if size > 4:
            raise ValueError("a small element claims to be large")
    else:
        begin = place + 8
        # Elements are aligned to eight bytes, except compressed ones.
        end = begin + (size if kind == _COMPRESSED else -(-size // 8) * 8)
    if begin + size > len(content):
        raise ValueError("it is cut off")
    return kind, content[begin : begin + size], end


def _table(content: bytes, name: str, order: str) -> npt.NDArray[Any] | None:
    """The numbers of a table, or None if it has another name."""
    parts: list[tuple[int, bytes]] = []
    place = 0
    while place < len(content) and len(parts) < 4:
        kind, part, place = _element(content, place, order)
        parts.append((kind, part))
    if len(parts) < 4:
        return None
    (_, flags), (sides, dimensions), (_, label), (stored, numbers) = parts
    if label.decode("latin1") != name:
        return None
    (kind,) = struct.unpack_from(order + "I", flags)
    if kind & 0xFF not in _REAL or kind & _COMPLEX or sides != 5 or stored not in _NUMBERS:
        raise ValueError("it is not a table of numbers")
    shape = struct.unpack(f"{order}{len(dimensions) // 4}i", dimensions)
    dtype = np.dtype(order + _NUMBERS[stored])
    if min(shape, default=-1) < 0 or math.prod(shape) * dtype.itemsize != len(numbers):
        raise ValueError(f"a table of {shape} comes with {len(numbers)} bytes")
    values = np.frombuffer(numbers, dtype) if numbers else np.empty(0, dtype)
    return values.reshape(shape, order="F").astype(dtype.newbyteorder("="))
