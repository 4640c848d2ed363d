"""instance(rate): rates of its own for every sample, and labels by what it looks like."""

import json
import math
from pathlib import Path
from statistics import NormalDist

import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_info, threadpool_limits

import pyrite
from pyrite.noise import Instance, instance, noise_model
from tests.noise.examples import labels

GOLDEN = json.loads((Path(__file__).parent / "golden.json").read_text())


def inputs(samples: int = 20_000, features: int = 6) -> np.ndarray:
    """Numbers that are spread evenly, of different size by feature, without a random one."""
    grid = np.arange(samples * features, dtype=np.float64).reshape(samples, features)
    return (grid * 0.6180339887498949 % 1 - 0.5) * 10.0 ** np.arange(features)


def mean_rate(rate: float, spread: float = 0.1) -> float:
    """The mean of a normal distribution that is cut to [0, 1]."""
    normal = NormalDist()
    low, high = -rate / spread, (1 - rate) / spread
    return rate + spread * (normal.pdf(low) - normal.pdf(high)) / (normal.cdf(high) - normal.cdf(low))


@pytest.mark.parametrize("rate", [0.1, 0.2, 0.4, 0.95])
def test_rates_of_the_samples(rate: float) -> None:
    rates = Instance(rate).rates(20_000, seed=1)
    assert rates.min() >= 0
    assert rates.max() <= 1
    assert abs(rates.mean() - mean_rate(rate)) < 4.5 * rates.std() / math.sqrt(20_000)
    normal = NormalDist(rate, 0.1)
    low, high = normal.cdf(0), normal.cdf(1)
    expected = np.array([(normal.cdf(one) - low) / (high - low) for one in np.sort(rates)])
    assert np.abs(expected - np.arange(20_000) / 20_000).max() < 1.95 / math.sqrt(20_000)


def test_what_the_card_says_of_the_mean() -> None:
    assert round(100 * mean_rate(0.1), 1) == 12.9
    assert round(100 * mean_rate(0.2), 1) == 20.6
    assert abs(mean_rate(0.3) - 0.3) < 1e-3


@pytest.mark.parametrize("rate", [0.1, 0.4])
def test_labels_come_by_the_matrix(rate: float) -> None:
    """The matrix is the mean over samples; a sum of unlike draws varies less than one of like draws."""
    true = labels(5, 20_000)
    noisy = pyrite.corrupt(true, f"instance({rate})", 5, seed=2, inputs=inputs())
    np.testing.assert_allclose(noisy.matrix.sum(1), 1, atol=1e-12)
    samples = np.bincount(true, minlength=5)[:, None]
    bound = 4.5 * np.sqrt(samples * noisy.matrix * (1 - noisy.matrix)) + 1
    assert (np.abs(noisy.counts - samples * noisy.matrix) <= bound).all()
    assert abs(noisy.rate - mean_rate(rate)) < 4.5 * math.sqrt(rate / 20_000)


def test_rates_at_their_word() -> None:
    true, x = labels(5, 2000), inputs(2000)
    assert pyrite.corrupt(true, "instance(0)", 5, inputs=x).rate == 0
    assert pyrite.corrupt(true, "instance(1)", 5, inputs=x).rate == 1
    assert abs(pyrite.corrupt(true, "instance(0.1, spread=0)", 5, inputs=x).rate - 0.1) < 4.5 * math.sqrt(0.09 / 2000)


def test_labels_by_a_plain_walk() -> None:
    """Sample by sample, as the paper has it, with features brought to mean 0 and deviation 1."""
    true, x, seed = labels(4, 300), inputs(300), 9
    noisy = pyrite.corrupt(true, "instance(0.4)", 4, seed, x)

    def numbers(count: int, *key: int) -> np.ndarray:
        sequence = np.random.SeedSequence(seed, spawn_key=(0x6E6F6973, *key))
        return np.random.Generator(np.random.PCG64(sequence)).random(count)

    chance, z = numbers(300, 1), (x - x.mean(0)) / x.std(0)
    rates = Instance(0.4).rates(300, seed)
    for place in range(300):
        own = int(true[place])
        first, second = numbers(24, 4, own).reshape(2, 12)
        radius = np.sqrt(-2 * np.log(1 - first))
        weights = np.concatenate([radius * np.cos(2 * np.pi * second), radius * np.sin(2 * np.pi * second)])
        scores = z[place] @ weights.reshape(6, 4)
        scores[own] = -np.inf
        shares = rates[place] * np.exp(scores - scores.max()) / np.exp(scores - scores.max()).sum()
        left, drawn = chance[place], own
        for other in range(4):
            left -= shares[other]
            if left < 0:
                drawn = other
                break
        assert noisy.given[place] == drawn


def test_golden_labels() -> None:
    noisy = pyrite.corrupt(labels(5, 40), "instance(0.4)", 5, seed=7, inputs=inputs(40))
    assert noisy.given.tolist() == GOLDEN["instance(rate=0.4, spread=0.1)"]


def test_like_samples_are_mistaken_alike() -> None:
    """Of one class, samples here go to one class and samples there to another."""
    true = np.zeros(4000, dtype=int)
    x = np.repeat(np.array([[-1.0] * 20, [1.0] * 20]), 2000, axis=0)
    noisy = pyrite.corrupt(true, "instance(0.5)", 4, seed=0, inputs=x)
    here, there = (np.bincount(part[part > 0], minlength=4) for part in (noisy.given[:2000], noisy.given[2000:]))
    assert here.argmax() != there.argmax()
    assert min(here.max() / here.sum(), there.max() / there.sum()) > 0.8


def test_units_and_shapes_and_kinds_do_not_matter() -> None:
    true, x = labels(5, 500), inputs(500)
    expected = pyrite.corrupt(true, "instance(0.4)", 5, inputs=x).given
    for same in (x * 1000 + 7, x.reshape(500, 2, 3), torch.tensor(x), torch.tensor(x, requires_grad=True), x.tolist()):
        assert np.array_equal(pyrite.corrupt(true, "instance(0.4)", 5, inputs=same).given, expected)
    bytes_ = (np.arange(500 * 3) * 37 % 256).astype(np.uint8).reshape(500, 3)
    whole, parts = (pyrite.corrupt(true, "instance(0.4)", 5, inputs=each) for each in (bytes_, bytes_ / 255))
    assert np.array_equal(whole.given, parts.given)
    np.testing.assert_allclose(whole.matrix, parts.matrix, atol=1e-12)


def test_a_feature_that_never_changes() -> None:
    true, x = labels(5, 500), inputs(500)
    x[:, 2] = 3
    noisy = pyrite.corrupt(true, "instance(0.4)", 5, inputs=x)
    assert np.isfinite(noisy.matrix).all()


@pytest.mark.parametrize("chunk", [1, 50, 1000])
def test_the_size_of_a_chunk_does_not_matter(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    true, x = labels(5, 700), inputs(700)
    whole = pyrite.corrupt(true, "instance(0.4)", 5, seed=3, inputs=x)
    monkeypatch.setattr(instance, "_CHUNK", chunk)
    parts = pyrite.corrupt(true, "instance(0.4)", 5, seed=3, inputs=x)
    assert np.array_equal(parts.given, whole.given)
    np.testing.assert_allclose(parts.matrix, whole.matrix, atol=1e-12)


@pytest.mark.parametrize("threads", [1, 2])
def test_the_number_of_threads_does_not_matter(threads: int) -> None:
    with threadpool_limits(threads):
        assert {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"} == {threads}
        noisy = pyrite.corrupt(labels(5, 40), "instance(0.4)", 5, seed=7, inputs=inputs(40))
    assert noisy.given.tolist() == GOLDEN["instance(rate=0.4, spread=0.1)"]


@pytest.mark.parametrize(
    ("x", "complaint"),
    [
        (None, "pass inputs"),
        (np.zeros((9, 2)), "inputs has 9 rows, but there are 10 labels"),
        (np.array(3.0), "rows of numbers"),
        (np.zeros((10, 0)), "rows of numbers"),
        (["a"] * 10, "rows of numbers"),
        ([[1], [1, 2]] * 5, "inputs cannot be read as an array"),
        (np.array([[1.0]] * 6 + [[np.nan]] + [[np.inf]] * 3), "NaN or infinity, first at index 6"),
    ],
)
def test_bad_inputs(x: object, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        pyrite.corrupt([0, 1] * 5, "instance(0.4)", inputs=x)


def test_no_matrix_beforehand() -> None:
    with pytest.raises(ValueError, match=r"instance\(rate=0\.4, spread=0\.1\) has no matrix before its inputs"):
        Instance(0.4).matrix(10)


def test_spec_string() -> None:
    assert str(noise_model("instance(0.4)")) == "instance(rate=0.4, spread=0.1)"
    assert noise_model("instance(0.4)").needs_inputs
    assert not noise_model("symmetric(0.4)").needs_inputs


@pytest.mark.parametrize("power", [-1000, -200, 200, 1000])
def test_units_of_the_inputs_change_nothing(power: int) -> None:
    rows = np.random.default_rng(0).integers(-50, 50, (400, 4)).astype(np.float64)
    true = np.arange(400) % 3
    plain = pyrite.corrupt(true, "instance(0.4)", 3, inputs=rows)
    assert 0.3 < plain.rate < 0.5
    assert pyrite.corrupt(true, "instance(0.4)", 3, inputs=np.ldexp(rows, power)) == plain
