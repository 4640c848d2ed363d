"""Kernel regression against scikit-learn's Gaussian process, which is fitted again for every fold and setting."""

from typing import Any

import numpy as np
import pytest
from sklearn.datasets import make_moons
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF

from pyrite import RobustClassifier, corrupt
from pyrite.estimator.candidates import Inputs, KernelCandidate

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(45, 3))
LABELS = np.argmax(ROWS + RNG.normal(scale=0.7, size=(45, 3)), axis=1)
FOLD = np.arange(45) % 5
WEIGHT = RNG.uniform(0.5, 2, 45)
WIDTHS, NOISES = (0.1, 0.3, 1, 3), (0.1, 0.3, 1, 3, 10, 30)


def inputs(rows: Any) -> Inputs:
    return Inputs(rows, rows.astype(np.float32))


def other(rows: Any, labels: Any, weight: Any, unit: float, width: float, noise: float) -> Any:
    mean = np.average(np.eye(3)[LABELS], axis=0, weights=WEIGHT)
    process = GaussianProcessRegressor(RBF(np.sqrt(width * unit / 2)), alpha=noise / weight, optimizer=None)
    process.fit(rows, np.eye(3)[labels] - mean)
    return lambda new: process.predict(new) + mean


def shares(values: Any) -> Any:
    bounded = np.maximum(values, 0.001)
    return bounded / bounded.sum(1, keepdims=True)


def test_every_fold_is_predicted_by_the_others_in_the_best_setting() -> None:
    rows = ROWS.clip(-3, 3).astype(np.float32).astype(float)
    unit = ((rows[:, None] - rows) ** 2).sum(2).mean()
    best, lowest, setting = np.zeros(0), np.inf, (0.0, 0.0)
    for width in WIDTHS:
        for noise in NOISES:
            found = np.zeros((45, 3))
            for number in range(5):
                out = number == FOLD
                found[out] = other(rows[~out], LABELS[~out], WEIGHT[~out], unit, width, noise)(rows[out])
            error = np.average(((found - np.eye(3)[LABELS]) ** 2).sum(1), weights=WEIGHT)
            if error < lowest:
                best, lowest, setting = found, error, (width, noise)
    candidate = KernelCandidate(3, verbose=False)
    scores = candidate.held_out(inputs(ROWS), LABELS, WEIGHT, FOLD, 0)
    np.testing.assert_allclose(np.exp(scores), shares(best), atol=1e-6)
    new = RNG.normal(size=(5000, 3)) * 2  # more than are predicted at once, some of them far away
    expected = shares(other(rows, LABELS, WEIGHT, unit, *setting)(new.clip(-3, 3)))
    found = candidate.train(inputs(ROWS), LABELS, WEIGHT, 0)(inputs(new))
    np.testing.assert_allclose(np.exp(found), expected, atol=1e-5)


def test_rows_that_are_all_the_same() -> None:
    candidate = KernelCandidate(3, verbose=False)
    scores = candidate.held_out(inputs(np.zeros((45, 3))), LABELS, np.ones(45), FOLD, 0)
    assert np.isfinite(scores).all()
    probabilities = np.exp(candidate.train(inputs(np.zeros((45, 3))), LABELS, np.ones(45), 0)(inputs(ROWS)))
    np.testing.assert_allclose(probabilities[0], np.bincount(LABELS) / 45, atol=0.01)


def test_small_tables_get_a_kernel_and_others_nets() -> None:
    rows, true = make_moons(1001, noise=0.1, random_state=2)
    given = corrupt(true, "symmetric(0.2)", classes=2, seed=2).given
    small = RobustClassifier().fit(rows[:300], given[:300])
    assert small.choice_.models == ("kernel", "boosting", "linear", "shrunken linear")
    assert small.choice_.models[small.choice_.weights.argmax()] == "kernel"
    assert small.score(rows[300:], true[300:]) > 0.95
    assert RobustClassifier(epochs=1, folds=2).fit(rows[:300], given[:300]).choice_.models[0] == "nets"
    large = RobustClassifier(folds=2).fit(rows, given)
    assert large.choice_.models == ("nets", "short boosting", "boosting", "linear", "shrunken linear")


@pytest.mark.parametrize("scale", [1e-300, 1e300])
def test_units_and_weights_of_a_small_table(scale: float) -> None:
    rows, labels = make_moons(70, noise=0.2, random_state=0)
    counts, mixed = RNG.integers(0, 3, 70), RNG.permutation(70)
    weighted = RobustClassifier().fit(rows[mixed] * scale, labels[mixed], sample_weight=counts[mixed])
    repeated = RobustClassifier().fit(rows.repeat(counts, 0), labels.repeat(counts))
    assert "kernel" in weighted.choice_.models
    np.testing.assert_array_equal(weighted.predict_proba(rows * scale), repeated.predict_proba(rows))
