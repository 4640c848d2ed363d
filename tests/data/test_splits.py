import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from pyrite.data import split
from pyrite.draws import Stream, order, uniforms

PARTS = ("meta", "validation", "test")


@st.composite
def cases(draw):
    labels = draw(st.lists(st.integers(0, 5), min_size=4, max_size=300))
    left = len(labels) - 1
    sizes = {}
    for name in PARTS:
        sizes[name] = draw(st.integers(0, left))
        left -= sizes[name]
    return np.array(labels), sizes, draw(st.integers(0, 2**40))


@given(cases())
@settings(max_examples=200, deadline=None)
def test_parts_are_disjoint_exact_and_have_every_class_in_its_share(case):
    labels, sizes, seed = case
    parts = split(labels, seed=seed, **sizes)
    indices = [parts.train, *(getattr(parts, name) for name in PARTS)]
    np.testing.assert_array_equal(np.sort(np.concatenate(indices)), np.arange(len(labels)))
    left = np.bincount(labels, minlength=6)
    for name in PARTS:
        part = getattr(parts, name)
        assert len(part) == sizes[name]
        assert (np.diff(part) > 0).all()
        counts = np.bincount(labels[part], minlength=6)
        # Of what the parts before left over, each class gives its share, to less than one sample.
        assert (np.abs(counts - left * sizes[name] / left.sum()) < 1).all()
        left = left - counts


def test_a_thousand_by_default():
    labels = np.arange(5000) % 10
    parts = split(labels, seed=0)
    assert (len(parts.train), len(parts.meta), len(parts.validation), len(parts.test)) == (4000, 1000, 0, 0)
    assert np.bincount(labels[parts.meta]).tolist() == [100] * 10


def test_fractions():
    parts = split(np.arange(1000) % 4, meta=0.1, test=0.25, seed=1)
    assert (len(parts.meta), len(parts.test), len(parts.train)) == (100, 250, 650)


def test_seeds_differ_and_repeat():
    labels = np.arange(3000) % 3
    first, again, other = (split(labels, meta=300, seed=seed) for seed in (7, 7, 8))
    np.testing.assert_array_equal(first.meta, again.meta)
    # Two independent draws of a tenth share a tenth of it: 30 of 300, with a deviation below 5.
    assert abs(len(np.intersect1d(first.meta, other.meta)) - 30) < 25


def test_every_sample_is_as_likely():
    labels = np.repeat([0, 1], [6, 14])
    drawn = np.zeros(20)
    for seed in range(2000):
        drawn[split(labels, meta=10, seed=seed).meta] += 1
    # A count of 2,000 draws of 1/2 has the deviation 22.4.
    assert np.abs(drawn - 1000).max() < 4.5 * 22.4


def test_equal_remainders_do_not_favour_low_classes():
    """Four classes, one to be given: each gives it in a quarter of the draws, 500 of 2,000 with a deviation of 19."""
    labels = np.arange(40) % 4
    gave = np.bincount([labels[split(labels, meta=1, seed=seed).meta[0]] for seed in range(2000)])
    assert np.abs(gave - 500).max() < 4.5 * 19.4


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "too few samples: 10, meta 1000: none are left"),
        ({"meta": 5, "test": 5}, "meta 5, test 5"),
        ({"meta": -1}, "meta is -1"),
        ({"test": 1.0}, "test is 1.0"),
        ({"validation": float("nan")}, "validation is nan"),
        ({"meta": True}, "meta is True"),
        ({"meta": "all"}, "meta is 'all'"),
        ({"meta": 1, "seed": -1}, "seed is -1"),
        ({"meta": 1, "seed": 0.5}, "seed is 0.5"),
    ],
)
def test_what_is_refused(refused, options, said):
    assert said in refused(split, np.arange(10) % 2, **({"seed": 0} | options))


def test_labels_that_are_none(refused):
    for labels in ([[1, 2]], [0.5, 1.5], ["a", "b"]):
        assert "labels" in refused(split, labels, meta=1, seed=0)
    for meta in (0, 1):
        assert "too few samples: 0" in refused(split, [], meta=meta, seed=0)


def test_the_same_on_every_machine():
    """Golden values: the bits of the generator, not of numpy's shuffle, decide."""
    parts = split(np.arange(24) % 3, meta=6, test=3, seed=2026)
    assert parts.meta.tolist() == [1, 6, 8, 16, 18, 23]
    assert parts.test.tolist() == [12, 14, 19]
    assert order(2, Stream.SPLIT, 8, 3).tolist() == [0, 6, 4, 5, 2, 3, 7, 1]


def test_draws_are_uniform_and_their_keys_independent():
    drawn = uniforms(0, Stream.SPLIT, 100_000)
    assert 0 <= drawn.min() <= drawn.max() < 1
    # Each tenth holds 10,000 with a deviation of 95.
    assert np.abs(np.bincount((drawn * 10).astype(int)) - 10_000).max() < 4.5 * 95
    others = [uniforms(0, Stream.SPLIT, 100_000, 0), uniforms(0, Stream.SPLIT, 100_000, 0, 0)]
    others += [uniforms(1, Stream.SPLIT, 100_000), uniforms(2**32, Stream.SPLIT, 100_000)]
    others += [uniforms(0, stream, 100_000) for stream in Stream if stream is not Stream.SPLIT]
    assert all(abs(np.corrcoef(drawn, other)[0, 1]) < 0.02 for other in others)
