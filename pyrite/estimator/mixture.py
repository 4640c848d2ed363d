"""Models weighed by held-out labels that are partly wrong, and the mixture of those that are trained.

The scores of each model are fitted like those of an audit, which gives its probabilities of the *true* class and the
likelihood of every given label. The mixture under which the labels are most likely is found by expectation
maximisation. The likelihood has no other maximum, and wrong labels do not count against a model that would have
predicted the right one, because the fitted noise explains them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, final

import numpy as np
from scipy.special import logsumexp

from pyrite.auditing.noise_fit import LabelGroups, NoiseFit, likeliest_fit
from pyrite.auditing.scores import gap_of, to_log_p
from pyrite.estimator.candidates import Candidate, Inputs, Predict, likely_right
from pyrite.estimator.rows import Floats, Ints

_STEPS: Final = 200
_SMALLEST: Final = 1e-300  # the smallest probability, which has a logarithm
_PRIOR: Final = 1.0  # rows that are added in favour of each model, so that a few rows do not exclude any
_SMALLEST_WEIGHT: Final = 0.05  # models below it would cost time and change nothing
_FEWEST_PREDICTED: Final = 10  # rows of a class from which a warning names the label that is more frequent among them


@final
@dataclass(frozen=True, repr=False, eq=False)
class Choice:
    """Which models make up the prediction, and why."""

    models: tuple[str, ...]  # those that were tried
    weights: Floats  # in the prediction, which add up to 1; 0 for those that are not used
    accuracy: Floats  # the fraction of held-out given labels that each predicted; NaN if none were held out

    def __repr__(self) -> str:
        order = np.argsort(-self.weights, kind="stable").tolist()
        used = [f"{100 * self.weights[place]:.0f} % {self.models[place]}" for place in order if self.weights[place] > 0]
        if np.isnan(self.accuracy).all():
            return f"<{' + '.join(used)}; no labels were held out>"
        right = ", ".join(f"{self.models[place]} {100 * self.accuracy[place]:.1f} %" for place in order)
        return f"<{' + '.join(used)}; held-out labels predicted: {right}>"


@final
@dataclass(frozen=True, eq=False)
class Calibration:
    """How log-probabilities of a model become probabilities of the true class."""

    fit: NoiseFit  # under which the given labels are most likely
    gap: float  # what the scores are measured by

    @classmethod
    def of(cls, scores: Floats, labels: Ints) -> "Calibration":
        """Fit log-probabilities of rows that the model was not trained on, and their given labels."""
        gap = gap_of(scores, "log-probabilities")
        return cls(likeliest_fit(LabelGroups(to_log_p(scores, "log-probabilities", gap), labels)), gap)

    def log_probabilities(self, scores: Floats) -> Floats:
        """The logarithms of the probabilities of the true class."""
        return self.fit.log_prior(to_log_p(scores, "log-probabilities", self.gap))


class Judged(NamedTuple):
    """The weights of the candidates by held-out labels, and what follows from them."""

    choice: Choice
    calibrations: tuple[Calibration | None, ...]  # None where there is one candidate, whose scores are used as they are
    scores: Floats  # held-out log-probabilities of the mixture
    right: Floats | None = None  # the probability that each label is right; None where there is one candidate


@final
class Mixture(NamedTuple):
    """Trained models, with their calibrations and weights."""

    models: tuple[Predict, ...]
    calibrations: tuple[Calibration | None, ...]
    weights: Floats

    def log_probabilities(self, features: Inputs) -> Floats:
        """The logarithm of the mean of the models' probabilities, one column per class."""
        tables = [model(features) for model in self.models]
        calibrated = [
            table if calibration is None else calibration.log_probabilities(table)
            for table, calibration in zip(tables, self.calibrations, strict=True)
        ]
        return _mixed(np.stack(calibrated), self.weights)


def judge(
    candidates: Sequence[Candidate], features: Inputs, labels: Ints, weight: Floats, fold: Ints | None, seed: int
) -> Judged:
    """Weigh the candidates by the labels of rows that they were not trained on; equally if ``fold`` is None."""
    names, count = tuple(candidate.name for candidate in candidates), len(candidates)
    if fold is None:
        equal = Choice(names, np.full(count, 1 / count), np.full(count, np.nan))
        return Judged(equal, (None,) * count, np.zeros((0, 0)))
    tables = [candidate.held_out(features, labels, weight, fold, seed) for candidate in candidates]
    accuracy = np.array([np.average(table.argmax(1) == labels, weights=weight) for table in tables])
    if count == 1:
        return Judged(Choice(names, np.ones(1), accuracy), (None,), tables[0])
    calibrations = tuple(Calibration.of(table, labels) for table in tables)
    calibrated = np.stack([own.log_probabilities(table) for own, table in zip(calibrations, tables, strict=True)])
    # The probability of each true class together with the given label.
    joint = np.exp(calibrated) * np.stack([own.fit.noise.of_labels(labels) for own in calibrations])
    weights = mixture_weights(np.log(np.maximum(joint.sum(2), _SMALLEST)), weight)
    weights = np.where(weights >= min(_SMALLEST_WEIGHT, weights.max()), weights, 0.0)
    weights /= weights.sum()
    mixed = np.tensordot(weights, joint, 1)
    right = mixed[np.arange(len(labels)), labels] / mixed.sum(1)  # by Bayes' rule
    return Judged(Choice(names, weights, accuracy), calibrations, _mixed(calibrated, weights), right)


def mixture_weights(log_likelihood: Floats, weight: Floats) -> Floats:
    """The weights of models, one per row, in the mixture under which labels of these weights are most likely.

    >>> mixture_weights(np.log([[0.9, 0.9, 0.8], [0.1, 0.2, 0.1]]), np.ones(3)).round(2)
    array([0.77, 0.23])
    """
    likelihood = np.exp(log_likelihood - log_likelihood.max(0))
    count = len(likelihood)
    weights = np.full(count, 1 / count)
    for _ in range(_STEPS):
        joint = weights[:, None] * likelihood
        weights = ((joint / joint.sum(0)) @ weight + _PRIOR) / (weight.sum() + _PRIOR * count)
    return np.asarray(weights)


def train_mixture(
    candidates: Sequence[Candidate],
    judged: Judged,
    features: Inputs,
    labels: Ints,
    weight: Floats,
    right: Floats | None,
    seed: int,
) -> Mixture:
    """Train every candidate that has a weight; ``right`` are the probabilities that labels are right, where known."""
    used = np.flatnonzero(judged.choice.weights).tolist()
    weights = dict.fromkeys(("all", "weighted", "likely"), weight)
    if right is not None:
        weights |= {"weighted": weight * right, "likely": weight * likely_right(labels, right)}
    models = [candidates[place].train(features, labels, weights[candidates[place].use], seed) for place in used]
    return Mixture(tuple(models), tuple(judged.calibrations[place] for place in used), judged.choice.weights[used])


def _mixed(log_probabilities: Floats, weights: Floats) -> Floats:
    with np.errstate(divide="ignore"):
        return np.asarray(logsumexp(log_probabilities + np.log(weights)[:, None, None], 0))


def why_doubtful(scores: Floats, labels: Ints, weight: Floats, classes: Sequence[str]) -> str:
    """Why the held-out scores may take wrong classes for right ones; empty if there is no reason."""
    found = np.zeros((len(classes), len(classes)))
    np.add.at(found, (scores.argmax(1), labels), weight)
    found /= found.sum()
    # They should predict more labels than the most frequent one makes up, by two standard errors.
    right, most = float(found.trace()), float(found.sum(0).max())
    if right < most + 2 * np.sqrt(most * (1 - most) / len(labels)):
        return f"of the held-out labels {100 * right:.0f} % are predicted, and {100 * most:.0f} % are the same"
    predicted = found.sum(1) * len(labels)
    excess = np.where(predicted >= _FEWEST_PREDICTED, found.max(1) - found.diagonal(), 0.0)
    worst = int(excess.argmax())
    if excess[worst] > 0:
        other = classes[int(found[worst].argmax())]
        return f"rows that are predicted to be {classes[worst]!r} have the label {other!r} more often"
    return ""
