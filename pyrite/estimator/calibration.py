"""Models weighed by held-out labels that are partly wrong.

The scores of each model are fitted like those of an audit, which gives its probabilities of the *true* class and the
likelihood of every given label. The mixture under which the labels are most likely is found by expectation
maximisation. The likelihood has no other maximum, and wrong labels do not count against a model that would have
predicted the right one, because the fitted noise explains them.
"""

from dataclasses import dataclass
from typing import Final, final

import numpy as np

from pyrite.auditing.noise_fit import fit_once
from pyrite.auditing.noise_model import Noise
from pyrite.auditing.scores import gap_of, to_margins
from pyrite.diagnostics.arrays import Floats, Ints

__all__ = ["Calibration", "shares_of"]

_STEPS: Final = 200
_SMALLEST: Final = 1e-300  # the smallest probability, which has a logarithm
_PRIOR: Final = 1.0  # rows that are added in favour of each model, so that a few rows do not exclude any


@final
@dataclass(frozen=True, eq=False)
class Calibration:
    """How log-probabilities of a model become probabilities of the true class.

    Attributes:
        fit: the noise model under which the given labels are most likely.
        gap: what the margins are measured by.
    """

    fit: Noise
    gap: float

    @classmethod
    def of(cls, scores: Floats, labels: Ints) -> "Calibration":
        """Fit log-probabilities of rows that the model was not trained on, and their given labels."""
        gap = gap_of(scores, "log-probabilities")
        return cls(fit_once(to_margins(scores, "log-probabilities", gap), labels), gap)

    def log_probabilities(self, scores: Floats) -> Floats:
        """The logarithms of the probabilities of the true class."""
        belief = self.fit.prior(to_margins(scores, "log-probabilities", self.gap))
        return np.asarray(np.log(np.maximum(belief, _SMALLEST)))

    def log_likelihood(self, scores: Floats, labels: Ints) -> Floats:
        """The logarithm of the probability of each given label."""
        return np.asarray(np.log(np.maximum(self.joint(scores, labels).sum(1), _SMALLEST)))

    def joint(self, scores: Floats, labels: Ints) -> Floats:
        """The probability of each true class together with the given label."""
        return np.asarray(np.exp(self.log_probabilities(scores)) * self.fit.matrix.T[labels])


def shares_of(log_likelihood: Floats, weight: Floats) -> Floats:
    """The shares of the models in the mixture that makes the labels most likely.

    Args:
        log_likelihood: of every label, one row per model.
        weight: of the labels.

    >>> shares_of(np.log([[0.9, 0.9, 0.8], [0.1, 0.2, 0.1]]), np.ones(3)).round(2)
    array([0.77, 0.23])
    """
    likelihood = np.exp(log_likelihood - log_likelihood.max(0))
    count = len(likelihood)
    shares = np.full(count, 1 / count)
    for _ in range(_STEPS):
        joint = shares[:, None] * likelihood
        expected = (joint / joint.sum(0)) @ weight
        shares = (expected + _PRIOR) / (weight.sum() + _PRIOR * count)
    return np.asarray(shares)
