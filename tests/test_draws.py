"""The random numbers: which they are, and that nothing else moves them."""

import math

import numpy as np
import pytest

import pyrite
from pyrite.draws import Stream, normals, uniforms


def test_golden_numbers() -> None:
    assert uniforms(0, Stream.MATRIX, 2).tolist() == GOLDEN["matrix"]
    assert uniforms(0, Stream.LABELS, 2).tolist() == GOLDEN["labels"]
    assert uniforms(2**70 + 1, Stream.PROJECTION, 2, 3).tolist() == GOLDEN["projection"]


def test_they_are_numpys_own_doubles() -> None:
    sequence = np.random.SeedSequence(5, spawn_key=(int.from_bytes(b"nois", "big"), 1))
    theirs = np.random.Generator(np.random.PCG64(sequence)).random(1000)
    assert np.array_equal(uniforms(5, Stream.LABELS, 1000), theirs)


def test_the_first_numbers_do_not_depend_on_how_many_are_asked_for() -> None:
    assert np.array_equal(uniforms(1, Stream.LABELS, 1000)[:10], uniforms(1, Stream.LABELS, 10))


def test_streams_have_the_numbers_they_had() -> None:
    """Two purposes with one number would be one member of the enumeration under two names."""
    numbers = {name: stream.value for name, stream in Stream.__members__.items()}
    noise = int.from_bytes(b"nois", "big")
    names = ["SPLIT", "SHUFFLE", "CROP", "FLIP", "SYNTHETIC", "DROPOUT"]
    assert {name: numbers[name] for name in names} == {name: (place,) for place, name in enumerate(names, 1)}
    names = ["MATRIX", "LABELS", "ROUNDING", "RATES", "PROJECTION"]
    assert {name: numbers[name] for name in names} == {name: (noise, place) for place, name in enumerate(names)}
    assert len(set(numbers.values())) == len(numbers)


def test_streams_are_different() -> None:
    first = [uniforms(seed, stream, 1)[0] for seed in range(20) for stream in Stream]
    first += [uniforms(0, Stream.PROJECTION, 1, key)[0] for key in range(100)]
    assert len(set(first)) == len(first)


def test_normal_numbers_are_normal() -> None:
    drawn = normals(0, Stream.PROJECTION, 100_001)
    assert len(drawn) == 100_001
    ordered = np.sort(drawn)
    expected = np.array([0.5 * math.erfc(-x / math.sqrt(2)) for x in ordered[::50]])
    distance = np.abs(expected - np.arange(0, 100_001, 50) / 100_001).max()
    assert distance < 1.95 / math.sqrt(100_001)  # Kolmogorov & Smirnov, 0.1 %
    # The two halves come from the same radii; they must not be correlated.
    half = len(drawn) // 2
    assert abs(np.corrcoef(drawn[:half], drawn[half + 1 : 2 * half + 1])[0, 1]) < 4.5 / math.sqrt(half)


@pytest.mark.parametrize("seed", [-1, 0.0, 1.5, True, None, "0"])
def test_bad_seeds(seed: object) -> None:
    with pytest.raises(ValueError, match=r"seed is .* whole number"):
        pyrite.corrupt([0, 1], "symmetric(0.4)", classes=2, seed=seed)  # type: ignore[arg-type]


def test_numpys_whole_numbers_are_seeds() -> None:
    seed = pyrite.corrupt([0, 1], "symmetric(0.4)", classes=2, seed=np.int32(3)).seed  # type: ignore[arg-type]
    assert (seed, type(seed)) == (3, int)


GOLDEN = {
    "matrix": [0.3101566015112075, 0.7079128700632332],
    "labels": [0.1911792312562659, 0.21202332676844604],
    "projection": [0.5899568953260313, 0.6905337307564764],
}
