"""Why a choice may go by noisy labels, by which criteria, and when it may not."""

import numpy as np
import numpy.typing as npt
import pytest
import torch

import pyrite
from pyrite.tuning.result import CRITERIA, Trial, best_of

CLASSES, SAMPLES, DRAWS = 5, 400, 400
Floats = npt.NDArray[np.float64]


def models(true: npt.NDArray[np.int64]) -> list[torch.Tensor]:
    """Scores of six models, more and less accurate, more and less sure of themselves."""
    draws = np.random.default_rng(1)
    found = []
    for right, size in ((0.95, 6.0), (0.88, 9.0), (0.8, 3.0), (0.65, 1.5), (0.5, 0.5), (0.3, 5.0)):
        guess = np.where(
            draws.random(len(true)) < right, true, (true + draws.integers(1, CLASSES, len(true))) % CLASSES
        )
        scores = draws.normal(size=(len(true), CLASSES)) * 0.1 * size
        scores[np.arange(len(true)), guess] += size
        found.append(torch.tensor(scores))
    return found


def measured(scores: torch.Tensor, labels: npt.NDArray[np.int64]) -> Floats:
    """Accuracy, MAE and cross entropy, by torch's softmax."""
    chance = scores.softmax(1)[torch.arange(len(labels)), torch.tensor(labels)]
    right = (scores.argmax(1) == torch.tensor(labels)).double()
    return np.array([right.mean(), (2 - 2 * chance).mean(), -chance.log().mean()])


@pytest.fixture(scope="module")
def simulated() -> tuple[Floats, Floats, Floats]:
    """Of each model and criterion: on clean labels; on noisy ones the mean over many draws, and its standard error."""
    true = np.random.default_rng(0).integers(0, CLASSES, SAMPLES)
    scores = models(true)
    clean = np.array([measured(one, true) for one in scores])
    drawn = [pyrite.corrupt(true, "symmetric(0.4)", CLASSES, seed).given for seed in range(DRAWS)]
    noisy = np.array([[measured(one, given) for one in scores] for given in drawn])
    return clean, noisy.mean(0), noisy.std(0, ddof=1) / np.sqrt(DRAWS)


def test_symmetric_noise_shrinks_and_moves_accuracy_and_mae(simulated: tuple[Floats, Floats, Floats]) -> None:
    """With rate r: a(1 − r) + (1 − a) r/(K − 1) and m(1 − rK/(K − 1)) + 2r, whatever the model; to four deviations."""
    clean, noisy, error = simulated
    r = 0.4
    expected = clean[:, 0] * (1 - r) + (1 - clean[:, 0]) * r / (CLASSES - 1)
    assert (np.abs(noisy[:, 0] - expected) < 4 * error[:, 0]).all()
    expected = clean[:, 1] * (1 - r * CLASSES / (CLASSES - 1)) + 2 * r
    assert (np.abs(noisy[:, 1] - expected) < 4 * error[:, 1]).all()
    assert error[:, :2].max() < 0.005  # so that the lines above say something


def test_so_the_order_of_models_is_kept(simulated: tuple[Floats, Floats, Floats]) -> None:
    clean, noisy, _ = simulated
    for number, name in enumerate(("accuracy", "mae")):
        assert CRITERIA[name].symmetric
        assert len(set(clean[:, number].round(3))) == len(clean)
        assert np.argsort(noisy[:, number]).tolist() == np.argsort(clean[:, number]).tolist()


def test_that_of_cross_entropy_is_not(simulated: tuple[Floats, Floats, Floats]) -> None:
    """The most accurate model, which is sure of itself, is the best of all on clean labels and not on noisy ones."""
    clean, noisy, error = simulated
    assert clean[:, 2].argmin() == clean[:, 0].argmax() == 0
    best = int(noisy[:, 2].argmin())
    assert clean[best, 0] < clean[0, 0] - 0.2  # the one that is chosen is far less accurate
    assert noisy[0, 2] - noisy[best, 2] > 20 * error[0, 2]
    assert not CRITERIA["ce"].symmetric


def test_class_dependent_noise_may_misrank() -> None:
    """Where half of one class is called by another's name, a model that follows the habit looks as good as a true one.

    60 % of class 0 are called class 1: who says 1 there is right on 60 % of the given labels, the truth on 40 %.
    """
    true = np.repeat([0, 1], 1000)
    given = pyrite.corrupt(true, "matrix([[0.4, 0.6], [0.0, 1.0]])", 2, seed=0).given
    truthful, habitual = true, np.ones_like(true)
    assert np.mean(truthful == true) > np.mean(habitual == true)
    assert np.mean(truthful == given) < np.mean(habitual == given)


def test_values_for_people() -> None:
    assert CRITERIA["accuracy"].formatted(0.5, 100) == "50.00 ± 5.00 %"
    assert CRITERIA["accuracy"].formatted(0.5) == "50.00 %"
    assert CRITERIA["mae"].formatted(0.91234, 100) == "0.9123"
    trials = [Trial(number, "erm(ce)", 0.1, {}, "complete", (end,)) for number, end in enumerate((0.2, 0.9, 0.9), 1)]
    trials.append(Trial(4, "erm(ce)", 0.1, {}, "pruned", (1.0,)))
    assert [best_of(trials, CRITERIA[by]).number for by in ("accuracy", "mae")] == [2, 1]
