"""Kernel regression for small tables: smooth functions of all features, cross-validated in closed form."""

from functools import partial
from typing import Any, Final

import numpy as np
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.utils import gen_batches

from pyrite.estimator.candidates import Candidate, Inputs, Predict, log_probabilities, without_outliers
from pyrite.estimator.rows import Floats, Ints

_WIDTHS: Final = (0.1, 0.3, 1.0, 3.0)  # of the kernel, in units of the mean squared distance between two rows
_NOISES: Final = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0)  # variance of the labels over that of the function
_FLOOR: Final = 1e-3  # the smallest probability of a class; regression may give less than 0
_FAR: Final = 3.0  # standard deviations beyond which a row would have no neighbours
_BLOCK: Final = 4096  # rows whose distances are computed at once


class KernelCandidate(Candidate):
    """Ridge regression of the classes with a Gaussian kernel, which is the mean of a Gaussian process.

    The noise of the labels is a parameter of the model, chosen by held-out labels, so that wrong labels are averaged
    over as many neighbours as it takes. The scores of held-out rows follow from one decomposition of the kernel matrix:
    with G = (K + noise W⁻¹)⁻¹ the residuals of a fold b are (G_bb)⁻¹ (G y)_b, for weights W. So five folds and all
    settings take less time than training one net, as long as the rows are few: the time grows with their cube.

    Rasmussen & Williams, Gaussian Processes for Machine Learning, 2006, sections 2.2 and 5.4.2.
    """

    name = "kernel"
    use = "all"

    def __init__(self, classes: int, verbose: bool) -> None:
        self._classes, self._verbose = classes, verbose
        self._width, self._noise = 0.0, 0.0

    def held_out(self, features: Inputs, labels: Ints, weight: Floats, fold: Ints, seed: int) -> Floats:
        """Log-probabilities of every row, in the setting with the smallest squared error, which ``train`` uses too."""
        rows = without_outliers(features.scaled, _FAR)
        targets, mean = _targets(labels, weight, self._classes)
        distance, unit = euclidean_distances(rows, squared=True), _unit(rows)
        best, lowest = np.zeros_like(targets), np.inf
        for width in _WIDTHS:
            kernel = np.exp(-distance / (width * unit))
            for noise, found in zip(_NOISES, _predictions(kernel, targets, weight, fold), strict=True):
                error = float(np.average(((found - targets) ** 2).sum(1), weights=weight))
                if error < lowest:
                    best, lowest, self._width, self._noise = found, error, width, noise
        if self._verbose:
            print(f"{self.name}, {len(labels)} rows, width {self._width}, noise {self._noise}")
        return log_probabilities(best + mean, _FLOOR)

    def train(self, features: Inputs, labels: Ints, weight: Floats, seed: int) -> Predict:
        assert self._width, "held_out has not been called"
        used = weight > 0
        rows, weight = without_outliers(features.scaled, _FAR)[used], weight[used]
        targets, mean = _targets(labels[used], weight, self._classes)
        model = KernelRidge(alpha=self._noise, kernel="rbf", gamma=1 / (self._width * _unit(rows)))
        return partial(_predict, model.fit(rows, targets, sample_weight=weight), mean)


def _predict(model: Any, mean: Floats, features: Inputs) -> Floats:
    rows = without_outliers(features.scaled, _FAR)
    parts = [model.predict(rows[some]) for some in gen_batches(len(rows), _BLOCK)]
    return log_probabilities(np.concatenate(parts) + mean, _FLOOR)


def _predictions(kernel: Floats, targets: Floats, weight: Floats, fold: Ints) -> list[Floats]:
    """For each noise the predictions of all rows, each by a fit to the other folds."""
    root = np.sqrt(weight)[:, None]
    values, vectors = np.linalg.eigh(root * kernel * root.T)
    values = values.clip(0)
    inner, vectors = vectors.T @ (root * targets), root * vectors  # of W^½ K W^½, so that G = vectors (…)⁻¹ vectorsᵀ
    parts = [np.flatnonzero(fold == number) for number in np.unique(fold)]
    results = []
    for noise in _NOISES:
        scale = 1 / (values + noise)
        whole = vectors @ (scale[:, None] * inner)
        found = np.empty_like(targets)
        for part in parts:
            own = vectors[part]
            found[part] = targets[part] - np.linalg.solve((own * scale) @ own.T, whole[part])
        results.append(found)
    return results


def _targets(labels: Ints, weight: Floats, classes: int) -> tuple[Floats, Floats]:
    """One column per class, centred, and the means."""
    one_hot = np.eye(classes)[labels]
    mean = np.average(one_hot, axis=0, weights=weight)
    return one_hot - mean, np.asarray(mean)


def _unit(rows: Floats) -> float:
    """The mean squared distance between two rows, which is twice the sum of the variances; 1 if all are equal."""
    unit = 2 * float(rows.var(0).sum())
    return unit if unit > 0 else 1.0
