"""The likelihood of labels of which none is wrong, if a net misjudges how alike some classes are.

Where a net prefers class a, the true class k has the probability p(k) ∝ exp(β_a d_k + B[a, k]), with d_k ≤ 0 how far
the margin of k is below that of a. A net that is too sure of one class, or that takes two classes for more different
than they are, differs from its labels in a pattern. A noise matrix describes that pattern, too, though every label is
right. So noise is believed in only if it predicts labels that were not fitted better than this does.

β has the same prior as in the fit of the noise, and each entry of B a standard normal one.
"""

from typing import Final

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize

from pyrite.diagnostics.arrays import Floats, Ints

__all__ = ["log_likelihood_of_unseen"]

_STEPS: Final = 60  # further steps change the log-likelihood of a thousand labels by less than 0.1


def log_likelihood_of_unseen(
    margins: npt.NDArray[np.float32], labels: Ints, folds: Ints, usual_sharpness: float
) -> Floats:
    """The log-likelihood of each label, by a fit to the other folds.

    Args:
        margins: one column per sample, 0 at its largest, in units of their typical gap.
        labels: the given ones.
        folds: the number of the fold of each sample.
        usual_sharpness: the mean and standard deviation of the prior of β.
    """
    distances, first = margins.T.astype(np.float64), margins.argmax(0)
    order = np.argsort(first, kind="stable")  # samples with the same preferred class stand together
    likely = np.empty(len(labels))
    for fold in np.unique(folds):
        fitted, unseen = (order[chosen] for chosen in (folds[order] != fold, folds[order] == fold))
        sharpness, offsets = _fit(distances[fitted], first[fitted], labels[fitted], usual_sharpness)
        logits = _logits(distances[unseen], first[unseen], sharpness, offsets)
        likely[unseen] = logits[np.arange(len(unseen)), labels[unseen]] - np.log(np.exp(logits).sum(1))
    return likely


def _logits(distances: Floats, first: Ints, sharpness: Floats, offsets: Floats) -> Floats:
    logits = sharpness[first, None] * distances + offsets[first]
    return np.asarray(logits - logits.max(1, keepdims=True))


def _fit(distances: Floats, first: Ints, labels: Ints, usual: float) -> tuple[Floats, Floats]:
    """The sharpness and the offsets of every preferred class; samples are sorted by it."""
    samples, classes = distances.shape
    rows, (present, starts) = np.arange(samples), np.unique(first, return_index=True)
    seen = np.zeros((classes, classes))
    np.add.at(seen, (first, labels), 1.0)
    own = np.bincount(first, distances[rows, labels], minlength=classes)

    def objective(parameters: Floats) -> tuple[float, Floats]:
        """Minus the log-likelihood and the logarithm of the prior, and its derivatives."""
        sharpness, offsets = usual * (1 + parameters[:classes]), parameters[classes:].reshape(classes, classes)
        logits = _logits(distances, first, sharpness, offsets)
        shares = np.exp(logits)
        total = shares.sum(1)
        likely = logits[rows, labels].sum() - np.log(total).sum()
        shares /= total[:, None]
        slope = own - np.bincount(first, np.einsum("sk,sk->s", shares, distances), minlength=classes)
        surplus = seen.copy()
        surplus[present] -= np.add.reduceat(shares, starts, axis=0)
        slopes = np.concatenate([usual * slope, surplus.ravel()])
        return 0.5 * parameters @ parameters - likely, parameters - slopes

    start = np.zeros(classes + classes**2)
    found = minimize(objective, start, jac=True, method="L-BFGS-B", options={"maxiter": _STEPS})
    return usual * (1 + found.x[:classes]), found.x[classes:].reshape(classes, classes)
