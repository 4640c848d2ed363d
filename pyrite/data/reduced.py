"""A smaller version of an image set, for experiments that need not be at full size."""

from dataclasses import replace

import numpy as np

from pyrite.checks import whole_number
from pyrite.data.dataset import Dataset
from pyrite.data.images import LazyImages, Pixels
from pyrite.errors import PyriteError

__all__ = ["reduced"]

_AT_ONCE = 5000  # images whose means are computed at once, in float32


def reduced(data: Dataset, size: int | None = None, test: int | None = None, classes: int | None = None) -> Dataset:
    """Another image set with smaller images, fewer test samples or fewer classes: ``reduced(cifar10, size=16)``.

    Args:
        data: an image set in memory.
        size: height and width of the new images, which divide the old ones; a new pixel is the mean of a square.
        test: how many samples of the test part are kept: the first ones of every class, as many of each.
        classes: only the first so many classes are kept.
    """
    if not isinstance(data, Dataset):
        raise PyriteError(f"data is {data!r}, but must be a data set: reduced(cifar10, size=16)")
    if isinstance(data.inputs, LazyImages) or data.inputs.ndim != 4:
        raise PyriteError(f"{data.name} cannot be reduced: it is not an image set in memory")
    kept = len(data.classes) if classes is None else whole_number("classes", classes, least=2)
    if kept > len(data.classes):
        raise PyriteError(f"classes is {kept}, but {data.name} has {len(data.classes)}")
    small = _part(data, size, kept, None)
    if data.test is None:
        return small
    return replace(small, test=_part(data.test, size, kept, test))


def _part(part: Dataset, size: int | None, kept: int, count: int | None) -> Dataset:
    true = part.labels if part.true is None else part.true
    rows = np.flatnonzero((true < kept) & (part.labels < kept))
    if count is not None:
        rows = rows[_first_of_each(part.labels[rows], whole_number("test", count, least=kept) // kept)]
    return replace(
        part,
        inputs=_shrunk(part.numeric[rows], size),
        labels=part.labels[rows],
        classes=part.classes[:kept],
        true=None if part.true is None else part.true[rows],
        coarse=None if part.coarse is None else part.coarse[rows],
        human={name: column[rows] for name, column in part.human.items()},
        paths=tuple(part.paths[row] for row in rows) if part.paths else (),
    )


def _first_of_each(labels: np.ndarray, count: int) -> np.ndarray:
    """The places of the first ``count`` samples of every class, in order."""
    order = np.argsort(labels, kind="stable")
    ranks = np.arange(len(labels)) - np.searchsorted(labels[order], labels[order])
    return np.sort(order[ranks < count])


def _shrunk(images: Pixels, size: int | None) -> Pixels:
    if size is None:
        return images
    whole_number("size", size, least=1)
    height, width = images.shape[2:]
    if height % size or width % size:
        raise PyriteError(f"size is {size}, but must divide the images' {height} x {width}")
    shape = (-1, images.shape[1], size, height // size, size, width // size)
    parts = [images[start : start + _AT_ONCE] for start in range(0, len(images), _AT_ONCE)]
    return np.concatenate([np.rint(p.reshape(shape).mean((3, 5), np.float32)).astype(np.uint8) for p in parts])
