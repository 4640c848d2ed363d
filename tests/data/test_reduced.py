"""Reduced image sets: means of squares, the first of each class, the first classes."""

import numpy as np
import pytest

from pyrite.data import Dataset, load
from pyrite.data.synthetic import reduced


def images(count: int, classes: int, seed: int) -> Dataset:
    draw = np.random.default_rng(seed)
    labels = draw.integers(0, classes, count)
    pixels = draw.integers(0, 256, (count, 3, 8, 8), np.uint8)
    return Dataset("photos", pixels, labels, tuple("abcdef"[:classes]))


def noisy_set() -> Dataset:
    from dataclasses import replace

    whole = images(60, 4, 0)
    return replace(whole, true=(whole.labels + 1) % 4, test=images(40, 4, 1))


def test_a_pixel_is_the_mean_of_a_square() -> None:
    data = noisy_set()
    small = reduced(data, size=2)
    assert small.inputs.shape == (60, 3, 2, 2)
    expected = round(data.inputs[7, 2, 4:, :4].astype(float).mean())
    assert abs(int(small.inputs[7, 2, 1, 0]) - expected) <= 1  # exact halves may be rounded either way
    assert small.test is not None
    assert small.test.inputs.shape == (40, 3, 2, 2)
    assert (small.labels == data.labels).all()


def test_as_many_test_samples_of_each_class_the_first_ones() -> None:
    data = noisy_set()
    small = reduced(data, test=8)
    assert small.test is not None
    assert data.test is not None
    assert np.bincount(small.test.labels).tolist() == [2, 2, 2, 2]
    for label in range(4):
        first = np.flatnonzero(data.test.labels == label)[:2]
        assert (small.test.inputs[small.test.labels == label] == data.test.inputs[first]).all()


def test_the_first_classes_by_true_and_by_given_label() -> None:
    data = noisy_set()
    small = reduced(data, classes=3)
    assert small.classes == ("a", "b", "c")
    assert small.true is not None
    assert data.true is not None
    kept = [i for i in range(60) if data.labels[i] < 3 and data.true[i] < 3]
    assert (small.labels == data.labels[kept]).all()
    assert (small.true == data.true[kept]).all()


def test_it_has_a_spelling() -> None:
    small = load("reduced(gratings(classes=4, size=16), size=8, test=20, classes=2)")
    assert repr(small) == "<gratings: 256 images of 3x8x8, 2 classes, 20 for testing>"


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("reduced(gratings, size=5)", "size is 5, but must divide the images' 16 x 16"),
        ("reduced(gratings, classes=9)", "classes is 9, but gratings has 4"),
        ("reduced(gratings, test=1)", "test is 1"),
        ("reduced(blobs, size=2)", "blobs cannot be reduced"),
        ("reduced(3)", "data is 3"),
    ],
)
def test_bad_arguments(spec: str, message: str) -> None:
    with pytest.raises(ValueError, match=message.replace("(", r"\(")):
        load(spec)
