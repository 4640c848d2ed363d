"""The fit of label noise to scores and labels."""

import tracemalloc
from typing import Any

import numpy as np
import pytest
from scipy.special import log_softmax, softmax

from pyrite.auditing.noise_fit import LabelGroups, LabelNoise, NoiseFit, fit_noise, likeliest_fit
from pyrite.auditing.noise_rate import estimate_rate
from pyrite.auditing.probabilities import class_probabilities, log_odds, noise_matrix, sums_by_label, suspect_threshold

MATRIX = np.array([[0.9, 0.08, 0.02], [0.05, 0.7, 0.25], [0.0, 0.1, 0.9]])


def draw(samples: int, matrix: Any = MATRIX, seed: int = 0) -> tuple[Any, Any, Any]:
    """Logits whose softmax is the distribution of the true class; labels by the matrix; true classes."""
    random = np.random.default_rng(seed)
    logits = 3 * random.normal(size=(samples, len(matrix)))
    true = (softmax(logits, axis=1).cumsum(1) < random.random(samples)[:, None]).sum(1)
    given = (matrix[true].cumsum(1) < random.random(samples)[:, None]).sum(1)
    return logits, given, true


@pytest.mark.parametrize("absent", [False, True])
def test_expectation_maximisation_by_loops(absent: bool) -> None:
    logits, given, _ = draw(60)
    given = np.where(absent & (given == 1), 0, given)  # no sample has the label of the second class
    groups = LabelGroups(log_softmax(logits, 1), given)
    p = softmax(2 * log_softmax(groups.sharpness * logits, axis=1), axis=1)
    matrix = np.where(np.eye(3, dtype=bool), 0.9, 0.05)
    for _ in range(15):
        expected = np.zeros((3, 3))
        likelihood = 0.0
        for row, label in enumerate(given):
            joint = [p[row, true] * matrix[true, label] for true in range(3)]
            likelihood += np.log(sum(joint)) / 60
            for true in range(3):
                expected[true, label] += joint[true] / sum(joint)
        rate = 1 - np.trace(expected) / 60
        even = np.where(np.eye(3, dtype=bool), 1 - rate, rate / 2)
        matrix = (expected + 10 * even) / (expected.sum(1, keepdims=True) + 10)
    found, value, found_rate = groups.fit_matrix(2)
    assert found.matrix == pytest.approx(matrix, abs=1e-6)
    assert (value, found_rate) == pytest.approx((likelihood, rate), abs=1e-6)


def test_the_matrix_that_made_the_labels_is_found() -> None:
    logits, given, true = draw(20_000)
    groups = LabelGroups(log_softmax(logits, 1), given)
    # Noise makes labels less predictable than true classes, so what predicts them best is less sharp.
    assert groups.sharpness < 0.9
    noise, _, rate = groups.fit_matrix(1 / groups.sharpness)
    assert noise.matrix == pytest.approx(MATRIX, abs=0.02)
    assert rate == pytest.approx((given != true).mean(), abs=0.01)


def test_the_sharpness_of_right_labels_is_theirs() -> None:
    logits, _, true = draw(20_000)
    for scale in (0.05, 1.0, 50.0):  # an audit divides scores by their typical gap first
        groups = LabelGroups(log_softmax(logits * scale, 1), true)
        assert groups.sharpness * scale == pytest.approx(1, abs=0.03)


def test_two_classes_have_symmetric_noise() -> None:
    logits, given, _ = draw(500, np.array([[0.9, 0.1], [0.3, 0.7]]))
    groups = LabelGroups(log_softmax(logits, 1), given)
    noise, _, rate = groups.fit_matrix(3)
    assert noise.matrix == pytest.approx(np.array([[1 - rate, rate], [rate, 1 - rate]]))
    assert groups.symmetric_rate(3) == pytest.approx(rate, abs=1e-9)


def test_biases_by_loops() -> None:
    """One step of expectation maximisation moves the biases of each preferred class, and then the matrix."""
    logits, given, _ = draw(60)
    groups = LabelGroups(log_softmax(logits, 1), given)
    z, preferred = 2 * groups.sharpness * logits, logits.argmax(1)
    bias, matrix = np.zeros((3, 3)), np.where(np.eye(3, dtype=bool), 0.9, 0.05)
    for _ in range(15):
        p = softmax(z + bias[preferred], axis=1)
        posterior = p * matrix.T[given]
        posterior /= posterior.sum(1, keepdims=True)
        step = np.zeros((3, 3))
        for row in range(3):
            some = preferred == row
            step[row] = (posterior[some].sum(0) - p[some].sum(0) - bias[row]) / (p[some].sum(0) + 1)
        bias += np.clip(step, -1, 1)
        expected = np.stack([posterior[given == label].sum(0) for label in range(3)], 1)
        rate = 1 - np.trace(expected) / 60
        even = np.where(np.eye(3, dtype=bool), 1 - rate, rate / 2)
        matrix = (expected + 10 * even) / (expected.sum(1, keepdims=True) + 10)
    found = groups.fit_biases(2)
    assert found[0] == pytest.approx(bias, abs=1e-5)
    assert found[1].matrix == pytest.approx(matrix, abs=1e-5)
    assert found[3] == pytest.approx(rate, abs=1e-5)


def test_the_joint_probability_is_bayes_rule() -> None:
    logits, given, _ = draw(50)
    groups = LabelGroups(log_softmax(logits, 1), given)
    fit = fit_noise(groups)
    joint = fit.log_joint(log_softmax(logits, 1), given)
    prior = softmax(2 * groups.sharpness * logits + fit.bias[logits.argmax(1)] / 2, axis=1)
    posterior = prior * np.sqrt(fit.matrix.T[given])  # the pattern counts half
    posterior /= posterior.sum(1, keepdims=True)
    own = posterior[np.arange(50), given]
    assert log_odds(joint, given) == pytest.approx(np.log1p(-own) - np.log(own), abs=1e-4)
    chances = class_probabilities(joint, given, log_odds(joint, given))
    assert chances == pytest.approx(posterior, abs=1e-6)


def test_labels_that_scores_do_not_predict() -> None:
    told = 0
    for seed in range(20):
        random = np.random.default_rng(seed)
        told += LabelGroups(random.normal(size=(300, 5)), random.integers(0, 5, 300)).can_tell
    assert told <= 1
    logits, given, _ = draw(300)
    assert LabelGroups(log_softmax(logits, 1), given).can_tell


def test_the_likeliest_fit_compares_models() -> None:
    """A model that is surer than it may be is made less sharp; its probabilities then make the labels likelier."""
    logits, _, true = draw(2000)
    fit = likeliest_fit(LabelGroups(log_softmax(5 * logits, 1), true))
    assert 5 * fit.sharpness == pytest.approx(1, abs=0.1)
    assert fit.log_prior(log_softmax(5 * logits, 1)) == pytest.approx(
        log_softmax(logits * 5 * fit.sharpness, 1), abs=1e-6
    )


def test_the_matrix_of_an_audit_counts_its_probabilities() -> None:
    chances = np.array([[0.9, 0.1], [0.4, 0.6], [0.2, 0.8]])
    labels = np.array([0, 0, 1])
    present, counts = sums_by_label(chances, labels)
    assert present.tolist() == [0, 1]
    np.testing.assert_allclose(counts.T, [[1.3, 0.2], [0.7, 0.8]])
    matrix, error = noise_matrix(counts.T)
    assert matrix == pytest.approx(np.array([[1.3 / 1.5, 0.2 / 1.5], [0.7 / 1.5, 0.8 / 1.5]]))
    assert error[0, 0] == pytest.approx(np.sqrt(matrix[0, 0] * matrix[0, 1] / 1.5))
    empty, _ = noise_matrix(np.array([[3.0, 0.0], [0.0, 0.0]]))
    assert empty == pytest.approx(np.eye(2))


def test_labels_that_all_fit_are_no_suspects() -> None:
    """Scores that separate clean classes give every label the same small probability."""
    assert not (np.full(600, 1 / 600) >= suspect_threshold(np.full(600, 1 / 600))).any()
    one = np.append(np.full(599, 1 / 600), 0.05)
    assert (one >= suspect_threshold(one)).sum() == 1


def test_there_are_always_suspects() -> None:
    few = np.array([0.05, 0.01, 0.02, 0.01, 0.01] * 40)  # four are expected to be wrong
    assert suspect_threshold(few) == 0.05
    assert not (np.full(10, 1e-4) >= suspect_threshold(np.full(10, 1e-4))).any()  # after a review that found none


def test_suspects_come_and_go_one_by_one() -> None:
    """Where the most suspect label goes from below to above one in ten, the others do not."""
    rest = np.linspace(0.001, 0.09, 500)
    thresholds = [suspect_threshold(np.append(rest, top)) for top in (0.0999, 0.1001, 0.2)]
    assert np.ptp(thresholds) < 0.002


def test_a_few_rows_have_the_values_that_they_have_among_many() -> None:
    random = np.random.default_rng(0)
    matrix = random.dirichlet(np.ones(7), 7)
    fit = NoiseFit(2.0, random.normal(size=(1, 7)), LabelNoise.of(matrix))
    log_p, labels = log_softmax(random.normal(size=(40, 7)), 1), random.integers(0, 7, 40)
    whole = fit.log_joint(log_p, labels)
    np.testing.assert_allclose(np.exp(whole), softmax(2 * log_p + fit.bias, 1) * matrix[:, labels].T, rtol=1e-9)
    np.testing.assert_array_equal(fit.log_joint(log_p[:3], labels[:3]), whole[:3])


def test_the_fit_of_many_classes_takes_the_memory_of_their_scores() -> None:
    """A matrix of 3,000 classes has 50 times as many entries as 60 samples have scores."""
    random = np.random.default_rng(0)
    labels = random.integers(0, 3000, 60)
    log_p = log_softmax(random.normal(size=(60, 3000)) + 9 * np.eye(3000)[labels], 1)
    tracemalloc.start()
    groups = LabelGroups(log_p, labels)
    fit, rate = fit_noise(groups), estimate_rate(groups)
    fit.log_joint(log_p, random.integers(0, 3000, 60))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 12 * log_p.nbytes
    assert 0 <= rate.low <= rate.rate <= rate.high
