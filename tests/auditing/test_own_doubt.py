"""The likelihood under a net that misjudges classes, against the formula and a search without derivatives of ours."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_softmax

from pyrite.auditing.own_doubt import log_likelihood_of_unseen

CLASSES, COUNT, USUAL = 3, 80, 6.0


def test_unseen_labels_are_as_likely_as_by_hand() -> None:
    random = np.random.default_rng(0)
    scores = random.normal(size=(COUNT, CLASSES))
    margins = (scores - scores.max(1, keepdims=True)).T.astype(np.float32)
    labels = np.where(random.random(COUNT) < 0.7, margins.argmax(0), random.integers(0, CLASSES, COUNT))
    folds = np.arange(COUNT) % 2
    found = log_likelihood_of_unseen(margins, labels, folds, USUAL)
    first, distances = margins.argmax(0), margins.T.astype(float)

    def likely(parameters: np.ndarray, rows: np.ndarray) -> np.ndarray:
        sharpness, offsets = parameters[:CLASSES], parameters[CLASSES:].reshape(CLASSES, CLASSES)
        chances = log_softmax(sharpness[first[rows], None] * distances[rows] + offsets[first[rows]], axis=1)
        return np.asarray(chances[np.arange(len(rows)), labels[rows]])

    def cost(parameters: np.ndarray, rows: np.ndarray) -> float:
        prior = ((parameters[:CLASSES] - USUAL) / USUAL) ** 2
        return float(0.5 * prior.sum() + 0.5 * (parameters[CLASSES:] ** 2).sum() - likely(parameters, rows).sum())

    start = np.concatenate([np.full(CLASSES, USUAL), np.zeros(CLASSES**2)])
    for fold in (0, 1):
        fitted, unseen = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
        best = minimize(cost, start, (fitted,), method="BFGS", options={"gtol": 1e-6}).x
        assert found[unseen] == pytest.approx(likely(best, unseen), abs=2e-3)
