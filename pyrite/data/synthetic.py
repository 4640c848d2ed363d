"""Data that needs no download: scikit-learn's digits, and synthetic data sets."""

import numpy as np

from pyrite.checks import number, whole_number
from pyrite.data.dataset import Dataset, Labels
from pyrite.data.splits import split
from pyrite.draws import Stream, check_seed, normals, order, uniforms
from pyrite.errors import PyriteError
from pyrite.memory import check_memory

__all__ = ["blobs", "digits", "gratings"]

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
    classes = tuple(str(digit) for digit in range(10))
    test = Dataset("digits test", images[parts.test], labels[parts.test], classes)
    return Dataset("digits", images[parts.train], labels[parts.train], classes, test)


def blobs(classes: int = 3, features: int = 2, samples: int = 1000, spread: float = 0.25, seed: int = 0) -> Dataset:
    """Points around one centre per class, as features.

    The centres are one unit from the origin, ``spread`` is the standard deviation around a centre. The test part
    is a fifth as large as the training part.
    """
    _check(classes=classes, features=features, samples=samples)
    check_memory(_BYTES * (samples + classes) * (features + 1), f"blobs of {samples} samples of {features} features")
    _check_spread(spread)
    seed = check_seed(seed)
    centres = normals(seed, Stream.SYNTHETIC, classes * features, 0).reshape(classes, features)
    if features == 2:
        angle = 2 * np.pi * np.arange(classes) / classes
        centres = np.stack([np.cos(angle), np.sin(angle)], 1)
    centres /= np.linalg.norm(centres, axis=1, keepdims=True)

    def part(name: str, count: int, number: int, test: Dataset | None) -> Dataset:
        labels = _evenly(count, classes, seed, number)
        noise = normals(seed, Stream.SYNTHETIC, count * features, 10 + number).reshape(count, features)
        points = centres[labels] + spread * noise
        return Dataset(name, points.astype(np.float32), labels, _names(classes), test)

    return part("blobs", samples, 1, part("blobs test", max(samples // 5, classes), 2, None))


def gratings(classes: int = 4, size: int = 16, samples: int = 512, spread: float = 0.2, seed: int = 0) -> Dataset:
    """Small colour images of stripes, whose direction is the class; phase and noise are random."""
    _check(classes=classes, size=size, samples=samples)
    check_memory(_BYTES * (samples + classes) * 3 * size**2, f"gratings of {samples} images of {size} x {size}")
    _check_spread(spread)
    seed = check_seed(seed)
    row, column = np.mgrid[:size, :size] * (2 * np.pi * 2 / size)

    def part(name: str, count: int, number: int, test: Dataset | None) -> Dataset:
        labels = _evenly(count, classes, seed, number)
        angle = (np.pi * labels / classes)[:, None, None, None]
        phase = 2 * np.pi * uniforms(seed, Stream.SYNTHETIC, count * 3, 20 + number).reshape(count, 3, 1, 1)
        waves = np.sin(np.cos(angle) * column + np.sin(angle) * row + phase)
        waves = waves + spread * normals(seed, Stream.SYNTHETIC, waves.size, 30 + number).reshape(waves.shape)
        images = np.rint(127.5 + 100 * waves).clip(0, 255).astype(np.uint8)
        return Dataset(name, images, labels, _names(classes), test)

    return part("gratings", samples, 1, part("gratings test", max(samples // 5, classes), 2, None))


def _evenly(count: int, classes: int, seed: int, number: int) -> Labels:
    labels = np.arange(count, dtype=np.int64) % classes
    return labels[order(seed, Stream.SYNTHETIC, count, number)]


def _names(classes: int) -> tuple[str, ...]:
    return tuple(str(number) for number in range(classes))


def _check_spread(spread: object) -> None:
    number("spread", spread, least=0)


def _check(**sizes: int) -> None:
    for name, value in sizes.items():
        whole_number(name, value, least=1 if name == "features" else 2)
    if sizes["samples"] < sizes["classes"]:
        raise PyriteError(f"samples is {sizes['samples']}: that is fewer than {sizes['classes']} classes")
