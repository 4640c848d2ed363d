"""Data that needs no download: scikit-learn's digits, synthetic data sets, and smaller versions of image sets."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from pyrite.checks import check_memory, number, whole_number
from pyrite.data.dataset import Dataset, Labels
from pyrite.data.images import LazyImages, Pixels
from pyrite.data.splits import split
from pyrite.draws import Stream, normals, order, uniforms
from pyrite.errors import PyriteError

_AT_ONCE = 5000  # images whose means are computed at once, in float32
_BYTES = 48  # per number while normal numbers are drawn: six arrays of float64


def digits() -> Dataset:
    """Handwritten digits, 8 x 8, that come with scikit-learn: 1,437 + 360, no download.

    Pixels from 0 to 16 are scaled to 0 to 255. scikit-learn has no test part, so a fifth of every class is set aside,
    always the same samples.
    """
    from sklearn.datasets import load_digits

    bunch = load_digits()
    images = np.rint(bunch.images * (255 / 16)).astype(np.uint8)[:, None]
    labels = bunch.target.astype(np.int64)
    parts = split(labels, meta=0, test=360, seed=0)
    classes = tuple(map(str, range(10)))
    test = Dataset("digits test", images[parts.test], labels[parts.test], classes)
    return Dataset("digits", images[parts.train], labels[parts.train], classes, test)


def blobs(classes: int = 3, features: int = 2, samples: int = 1000, spread: float = 0.25, seed: int = 0) -> Dataset:
    """Points around one centre per class, as features.

    The centres are one unit from the origin, ``spread`` is the standard deviation around a centre. The test part
    is a fifth as large as the training part.
    """
    _check(spread, classes=classes, features=features, samples=samples)
    check_memory(_BYTES * (samples + classes) * (features + 1), f"blobs of {samples} samples of {features} features")
    seed = whole_number("seed", seed, least=0)
    centres = normals(seed, Stream.SYNTHETIC, classes * features, 0).reshape(classes, features)
    if features == 2:
        angle = 2 * np.pi * np.arange(classes) / classes
        centres = np.stack([np.cos(angle), np.sin(angle)], 1)
    centres /= np.linalg.norm(centres, axis=1, keepdims=True)

    def points(labels: Labels, number: int) -> npt.NDArray[np.float32]:
        noise = normals(seed, Stream.SYNTHETIC, len(labels) * features, 10 + number).reshape(-1, features)
        return np.asarray(centres[labels] + spread * noise, np.float32)

    return _with_test("blobs", samples, classes, seed, points)


def gratings(classes: int = 4, size: int = 16, samples: int = 512, spread: float = 0.2, seed: int = 0) -> Dataset:
    """Small colour images of stripes, whose direction is the class; phase and noise are random."""
    _check(spread, classes=classes, size=size, samples=samples)
    check_memory(_BYTES * (samples + classes) * 3 * size**2, f"gratings of {samples} images of {size} x {size}")
    seed = whole_number("seed", seed, least=0)
    row, column = np.mgrid[:size, :size] * (2 * np.pi * 2 / size)

    def images(labels: Labels, number: int) -> Pixels:
        angle = (np.pi * labels / classes)[:, None, None, None]
        phase = 2 * np.pi * uniforms(seed, Stream.SYNTHETIC, len(labels) * 3, 20 + number).reshape(-1, 3, 1, 1)
        waves = np.sin(np.cos(angle) * column + np.sin(angle) * row + phase)
        waves = waves + spread * normals(seed, Stream.SYNTHETIC, waves.size, 30 + number).reshape(waves.shape)
        return np.asarray(np.rint(127.5 + 100 * waves).clip(0, 255), np.uint8)

    return _with_test("gratings", samples, classes, seed, images)


def reduced(data: Dataset, size: int | None = None, test: int | None = None, classes: int | None = None) -> Dataset:
    """An image set with smaller images, fewer test samples or fewer classes: ``reduced(cifar10, size=16)``.

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
    small = _reduced_part(data, size, kept, None)
    if data.test is None:
        return small
    return replace(small, test=_reduced_part(data.test, size, kept, test))


def _reduced_part(part: Dataset, size: int | None, kept: int, count: int | None) -> Dataset:
    import pandas

    true = part.labels if part.true is None else part.true
    rows = np.flatnonzero((true < kept) & (part.labels < kept))
    if count is not None:
        place = pandas.Series(part.labels[rows]).groupby(part.labels[rows]).cumcount()  # within its class
        rows = rows[place < whole_number("test", count, least=kept) // kept]
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


def _with_test(
    name: str, samples: int, classes: int, seed: int, draw: Callable[[Labels, int], npt.NDArray[Any]]
) -> Dataset:
    """A data set with as many samples of every class, and a test part of a fifth; ``draw`` makes inputs of labels."""

    def part(name: str, count: int, number: int, test: Dataset | None) -> Dataset:
        labels = (np.arange(count) % classes)[order(seed, Stream.SYNTHETIC, count, number)]
        return Dataset(name, draw(labels, number), labels, tuple(map(str, range(classes))), test)

    return part(name, samples, 1, part(f"{name} test", max(samples // 5, classes), 2, None))


def _check(spread: object, **sizes: int) -> None:
    number("spread", spread, least=0)
    for name, value in sizes.items():
        whole_number(name, value, least=1 if name == "features" else 2)
    if sizes["samples"] < sizes["classes"]:
        raise PyriteError(f"samples is {sizes['samples']}: that is fewer than {sizes['classes']} classes")
