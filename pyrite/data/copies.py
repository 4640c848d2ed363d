"""Checksums of samples, by which changed data are noticed; copies and near copies, which must not be held out from a
net that is trained on their twins."""

import hashlib
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial import KDTree

from pyrite.arrays import coded
from pyrite.data.images import LazyImages, Member
from pyrite.data.records import Records

if TYPE_CHECKING:  # which imports this file
    from pyrite.data.dataset import Dataset

Labels = npt.NDArray[np.int64]
Inputs = npt.NDArray[Any] | LazyImages | Records

COMMON: Final = 20
"""So many samples or more that are alike are a value that occurs often, and not copies of one sample."""

_NEAR: Final = 1 / 20  # of the distance at which the nearest of as many independent samples would be expected
_AXES: Final = 12  # of the space in which near copies are looked for
_WIDE: Final = 1000  # columns up to which these axes are fitted to all rows
_SIDE: Final = 8  # pixels of the side of an image there
_RARE: Final = 50  # texts with a word that is rare
_SIMILAR: Final = 0.8  # the cosine of the words of texts that are near copies
_MOST: Final = 200_000  # samples; among more, only equal ones are found

_REPEATED: Final = 0.01  # of a test part, beyond what is usual in the training part, is worth a warning

_TOGETHER: Final = 1000  # images that are reduced at once
_PIECE: Final = 1 << 14  # bytes of each end of an image file, where all of them would take minutes to read


def digest(parts: Iterable[bytes | npt.NDArray[Any]]) -> str:
    """A checksum of parts, bytes or arrays: no two lists of parts have the same one."""
    hashed = hashlib.blake2b(digest_size=20)
    for given in parts:
        part = given if isinstance(given, bytes) else np.ascontiguousarray(given).reshape(-1).view(np.uint8).data
        hashed.update(len(part).to_bytes(8, "little"))
        hashed.update(part)
    return hashed.hexdigest()


def content(inputs: Inputs, *, whole_files: bool = True) -> Iterator[bytes | npt.NDArray[Any]]:
    """The bytes of samples; of images in files, those of the files, or their names, sizes and both ends."""
    if isinstance(inputs, Records):
        for name, kind, values in inputs.columns:
            yield f"{kind} {name}".encode("utf-8", "surrogatepass")
            if values.dtype == object:
                yield from (text.encode("utf-8", "surrogatepass") for text in values)
            else:
                yield values
    elif isinstance(inputs, LazyImages):
        yield f"files, upright, {inputs.shape[1:]} {inputs.warp}".encode()  # as embeddings in the cache have them
        for index, name in enumerate(inputs.names):
            yield b"" if whole_files else name.encode("utf-8", "surrogatepass")
            yield _file(inputs, index, whole_files)
    else:
        yield f"{inputs.dtype} {inputs.shape[1:]}".encode()
        yield inputs


def checksums(data: "Dataset") -> dict[str, str]:
    """Checksums of the inputs, the labels, the names of the samples and the parts to test and validate on."""
    several = None if data.annotations is None else data.annotations.labels
    labels = [values for values in (data.labels, data.true, several, data.groups) if values is not None]
    texts = (*data.classes, "", *data.paths)
    found = {
        "inputs": digest(content(data.inputs, whole_files=False)),
        "labels": digest([*labels, *(text.encode() for text in texts)]),
    }
    parts = {"test part": data.test, "validation part": data.validation, "clean part": data.clean}
    return found | {name: digest(map(str.encode, checksums(part).values())) for name, part in parts.items() if part}


def copy_groups(inputs: Inputs) -> Labels:
    """A number for every sample, the same for copies and near copies.

    Copies have the same bytes, of images in files those of the files, or the same words. Near copies are samples that
    are much closer to each other than independent samples would be: rows with jitter, images that were saved again,
    texts with a changed word.
    """
    count, pairs = len(inputs), np.empty((0, 2), np.int64)
    if count <= _MOST and isinstance(inputs, Records) and inputs.is_text:
        pairs = _similar(inputs.texts())
    elif count <= _MOST:
        pairs = _near(_points(inputs), tabular=inputs.ndim == 2)
    alike = joined_groups(_keys(inputs), pairs=pairs)
    common = np.bincount(alike)[alike] >= COMMON
    alike = np.where(common, alike.max() + 1 + np.arange(count), alike)
    return np.asarray(np.unique(alike, return_inverse=True)[1], np.int64)


def _keys(inputs: Inputs, *, whole_files: bool = True) -> Labels:
    """A number for every sample, the same for equal ones; ``whole_files`` as for ``content``."""
    if isinstance(inputs, Records):
        rows = map(inputs.cells, range(len(inputs)))
        # Of texts, the words count; emojis are none.
        keys = [hash((inputs.is_text and (*re.findall(r"\w+", " ".join(row).casefold()),)) or row) for row in rows]
    elif isinstance(inputs, LazyImages):
        keys = [hash(_file(inputs, row, whole_files) or str(inputs.path(row))) for row in range(len(inputs))]
    else:
        zero = np.zeros((), inputs.dtype)  # −0.0 + 0.0 is 0.0
        keys = [hash((row + zero).tobytes()) for row in inputs]
    return np.array(keys, np.int64)


def repeats(data: "Dataset") -> list[str]:
    """A sentence for each part to test or validate on that repeats more training samples than those repeat each other,
    as independent samples would."""
    parts = {name: part for name, part in (("test", data.test), ("validation", data.validation)) if part is not None}
    if not parts:
        return []
    keys = _keys(data.inputs, whole_files=False)
    _, places, counts = np.unique(keys, return_inverse=True, return_counts=True)
    usual = float((counts[places] > 1).mean()) + _REPEATED
    found = {name: int(np.isin(_keys(part.inputs, whole_files=False), keys).sum()) for name, part in parts.items()}
    return [
        f"{count:,} of {len(parts[name]):,} samples of the {name} part are training samples too: results on them "
        "are not out of sample"
        for name, count in found.items()
        if count > usual * len(parts[name])
    ]


def joined_groups(*groups: Labels, pairs: npt.NDArray[np.int64] | None = None) -> Labels:
    """A number for every sample, the same for samples that share one in any of ``groups``, or that are a pair."""
    count, found = len(groups[0]), [] if pairs is None else [pairs]
    for numbers in groups:  # pairs that connect all samples with the same number
        order = np.argsort(numbers, kind="stable")
        same = numbers[order][1:] == numbers[order][:-1]
        found.append(np.stack([order[:-1][same], order[1:][same]], 1))
    rows, columns = np.concatenate(found).T.astype(np.int32)  # the graphs of scipy 1.11 cannot have larger numbers
    graph = coo_array((np.ones(len(rows), bool), (rows, columns)), (count, count))
    return np.asarray(connected_components(graph, directed=False)[1], np.int64)


def _file(inputs: LazyImages, row: int, whole: bool) -> bytes:
    """An image file, or both of its ends and its size; nothing if it cannot be read."""
    try:
        path = inputs.path(row)
        return path.read_bytes() if whole else ends_of(path)
    except OSError:
        return b""


def ends_of(path: Path | Member) -> bytes:
    """Both ends of a file, and its size."""
    with path.open("rb") as file:
        start, size = file.read(_PIECE), file.seek(0, 2)
        file.seek(max(_PIECE, size - _PIECE))
        return b"".join((str(size).encode(), b" ", start, file.read()))


def _points(inputs: Inputs) -> npt.NDArray[np.float64]:
    """Samples as points, with near copies next to each other."""
    if isinstance(inputs, Records):
        return _of_table(inputs)
    if isinstance(inputs, LazyImages):
        small = LazyImages(inputs.root, inputs.names, _SIDE, inputs.channels, warp=True)
        images, good, _ = small.read(np.arange(len(small)))
        points = np.full((len(small), images[0].size if len(images) else 1), np.nan)
        points[good] = images.reshape(len(images), -1)
        return points
    if inputs.ndim == 2:
        return np.asarray(inputs, np.float64)
    height, width = (np.linspace(0, side, min(_SIDE, side) + 1).astype(int)[:-1] for side in inputs.shape[2:])
    points = np.empty((len(inputs), inputs.shape[1] * len(height) * len(width)))
    for start in range(0, len(inputs), _TOGETHER):  # reduceat converts all of its input at once
        some = np.add.reduceat(inputs[start : start + _TOGETHER], height, axis=2, dtype=np.float32)
        sums = np.add.reduceat(some, width, axis=3, dtype=np.float32)
        points[start : start + _TOGETHER] = sums.reshape(len(sums), -1)
    return points


def _of_table(records: Records) -> npt.NDArray[np.float64]:
    """Numbers as they are; texts and categories as numbers."""
    columns = []
    for column in records.columns:
        if column.values.dtype == object:
            columns.append(coded(column.values)[1].astype(np.float64))
        else:
            columns.append(column.numbers)
    return np.stack(columns, 1)


def _similar(texts: list[str]) -> npt.NDArray[np.int64]:
    """Pairs of texts that share nearly all of their words, among those that share a rare one."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    try:
        words = TfidfVectorizer(token_pattern=r"(?u)\w+").fit_transform(texts)
    except ValueError:  # there are no words
        return np.empty((0, 2), np.int64)
    frequency = np.bincount(words.indices, minlength=words.shape[1])
    rare = words[:, (frequency > 1) & (frequency <= _RARE)]
    pairs = np.stack((rare @ rare.T).nonzero(), 1)
    pairs = pairs[pairs[:, 0] < pairs[:, 1]]
    blocks = np.array_split(pairs, 1 + len(pairs) // 100_000)
    cosine = [np.asarray(words[block[:, 0]].multiply(words[block[:, 1]]).sum(1)).reshape(-1) for block in blocks]
    return np.asarray(pairs[np.concatenate(cosine) > _SIMILAR], np.int64)


def _near(points: npt.NDArray[np.float64], *, tabular: bool) -> npt.NDArray[np.int64]:
    """Pairs of points that are much closer to each other than the nearest of independent points would be.

    The columns of a table have a scale each, and gaps and values that repeat must be the same; pixels have one scale.
    """
    known = ~np.isnan(points)
    values = np.where(known, points, 0)
    peak = np.maximum(values.max(0), -values.min(0)) if tabular else max(values.max(), -values.min())
    values /= np.maximum(peak, np.finfo(float).tiny)  # squares of 1e300 would overflow
    spread, kinds = values.std(0), np.zeros((len(points), 1), np.int64)
    if tabular:
        repeats = np.array([len(np.unique(column)) < len(column) / 5 for column in values.T])
        exact = zip(values[:, repeats] + 0.0, known, strict=True)
        keys = [hash((row.tobytes(), there.tobytes())) for row, there in exact]
        kinds = np.unique(keys, return_inverse=True)[1].reshape(-1, 1)
        values, spread = values[:, ~repeats], spread[~repeats]
    varied = spread > 0
    if varied.sum() < 2:
        return np.empty((0, 2), np.int64)
    scaled = values[:, varied]
    if tabular:
        scaled /= spread[varied]
    if scaled.shape[1] > _AXES:
        # Along the axes that samples differ most along, one per column: noise has all others. Those of more than a
        # thousand columns are fitted to a thousand rows, because time grows with the third power.
        if scaled.shape[1] <= _WIDE:
            main = np.linalg.eigh(np.cov(scaled, rowvar=False))[1][:, -_AXES:]
        else:
            some = scaled[:: -(-len(scaled) // _WIDE)]
            some = some - some.mean(0)
            main = some.T @ np.linalg.eigh(some @ some.T)[1][:, -_AXES:]
        scaled = scaled @ main
        scaled /= np.maximum(scaled.std(0), 1e-6)
    axes = scaled.shape[1]
    radius = _NEAR * np.sqrt(2 * axes) * len(scaled) ** (-1 / axes)
    found = KDTree(np.hstack([scaled, kinds * (4 * radius)])).query_pairs(radius, output_type="ndarray")
    found = np.asarray(found, np.int64).reshape(-1, 2)
    read = np.asarray(known.any(1))  # images that cannot be read are not copies of each other
    return found[read[found].all(1)]
