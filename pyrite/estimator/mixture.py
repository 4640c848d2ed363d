"""Models weighed by held-out labels, the audit that the weights give, and the trained mixture."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, final

import numpy as np
from scipy.special import logsumexp

from pyrite.estimator.calibration import Calibration, shares_of
from pyrite.estimator.candidates import Candidate, Fitted, Inputs, likely_right
from pyrite.estimator.rows import Floats, Ints

__all__ = ["Choice", "Judged", "Mixture", "judge", "train_mixture", "unjudged", "why_doubtful"]

_SMALLEST_SHARE: Final = 0.05  # models below it would cost time and change nothing
_FEWEST_PREDICTED: Final = 10  # rows of a class from which it is said that another label is more frequent among them


@final
@dataclass(frozen=True, repr=False, eq=False)
class Choice:
    """Which models make up the prediction, and why.

    Attributes:
        models: the names of the models that were tried.
        shares: their shares in the prediction; 0 for those that are not used.
        accuracy: the share of held-out given labels that each predicted; NaN if none were held out.
    """

    models: tuple[str, ...]
    shares: Floats
    accuracy: Floats

    def __repr__(self) -> str:
        order = np.argsort(-self.shares, kind="stable")
        parts = [f"{100 * self.shares[place]:.0f} % {self.models[place]}" for place in order if self.shares[place] > 0]
        text = " + ".join(parts)
        if np.isnan(self.accuracy).all():
            return f"<{text}; no labels were held out>"
        right = ", ".join(f"{self.models[place]} {100 * self.accuracy[place]:.1f} %" for place in order)
        return f"<{text}; held-out labels predicted: {right}>"


class Judged(NamedTuple):
    """What held-out labels say of the candidates.

    Attributes:
        choice: the shares, and the accuracies behind them.
        calibrations: of the candidates; None where there is one candidate, whose scores are used as they are.
        scores: held-out log-probabilities of the mixture.
        right: the probability under the mixture that each label is right; None where there is one candidate.
    """

    choice: Choice
    calibrations: tuple[Calibration | None, ...]
    scores: Floats
    right: Floats | None = None


@final
class Mixture(NamedTuple):
    """Trained models, with their calibrations and shares."""

    models: tuple[Fitted, ...]
    calibrations: tuple[Calibration | None, ...]
    shares: Floats

    def log_probabilities(self, features: Inputs) -> Floats:
        """The logarithm of the mean of the models' probabilities, one column per class."""
        return _mixed([model.log_probabilities(features) for model in self.models], self.calibrations, self.shares)


def judge(
    candidates: Sequence[Candidate], features: Inputs, labels: Ints, weight: Floats, fold: Ints, seed: int
) -> Judged:
    """Weigh the candidates by the labels of rows that they were not trained on."""
    names = tuple(candidate.name for candidate in candidates)
    tables = [candidate.held_out(features, labels, weight, fold, seed) for candidate in candidates]
    accuracy = np.array([np.average(table.argmax(1) == labels, weights=weight) for table in tables])
    if len(candidates) == 1:
        return Judged(Choice(names, np.ones(1), accuracy), (None,), tables[0])
    calibrations = tuple(Calibration.of(table, labels) for table in tables)
    likely = [each.log_likelihood(table, labels) for each, table in zip(calibrations, tables, strict=True)]
    shares = shares_of(np.stack(likely), weight)
    shares = np.where(shares >= min(_SMALLEST_SHARE, shares.max()), shares, 0.0)
    shares /= shares.sum()
    scores = _mixed(tables, calibrations, shares)
    return Judged(Choice(names, shares, accuracy), calibrations, scores, _right(tables, calibrations, shares, labels))


def _right(tables: Sequence[Floats], calibrations: Sequence[Calibration], shares: Floats, labels: Ints) -> Floats:
    """By Bayes' rule: the probability of the label's own class, of all that may have been given this label."""
    joint = np.zeros_like(tables[0])
    for table, calibration, share in zip(tables, calibrations, shares, strict=True):
        joint += share * calibration.joint(table, labels)
    return np.asarray(joint[np.arange(len(labels)), labels] / joint.sum(1))


def unjudged(candidates: Sequence[Candidate]) -> Judged:
    """Equal shares, where no labels are held out."""
    count = len(candidates)
    names = tuple(candidate.name for candidate in candidates)
    return Judged(Choice(names, np.full(count, 1 / count), np.full(count, np.nan)), (None,) * count, np.zeros((0, 0)))


def train_mixture(
    candidates: Sequence[Candidate],
    judged: Judged,
    features: Inputs,
    labels: Ints,
    weight: Floats,
    right: Floats | None,
    seed: int,
) -> Mixture:
    """Train every candidate that has a share; ``right`` are the probabilities that labels are right, where known."""
    used = np.flatnonzero(judged.choice.shares).tolist()
    if right is None:
        weights = dict.fromkeys(("all", "weighted", "likely"), weight)
    else:
        likely = likely_right(labels, right)
        weights = {"all": weight, "weighted": weight * right, "likely": weight * likely}
    return Mixture(
        tuple(
            candidate.train(features, labels, weights[candidate.use], seed)
            for candidate in (candidates[place] for place in used)
        ),
        tuple(judged.calibrations[place] for place in used),
        judged.choice.shares[used],
    )


def _mixed(tables: Sequence[Floats], calibrations: Sequence[Calibration | None], shares: Floats) -> Floats:
    calibrated = [
        table if calibration is None else calibration.log_probabilities(table)
        for table, calibration in zip(tables, calibrations, strict=True)
    ]
    with np.errstate(divide="ignore"):
        return np.asarray(logsumexp(np.stack(calibrated) + np.log(shares)[:, None, None], 0))


def why_doubtful(scores: Floats, labels: Ints, weight: Floats, classes: Sequence[str]) -> str:
    """Why the held-out scores may take wrong classes for right ones; empty if nothing says so.

    They are doubted if they do not predict more labels than the most frequent one makes up, by two standard errors, or
    if among the rows that are predicted to be of one class the label of another is more frequent.
    """
    found = np.zeros((len(classes), len(classes)))
    np.add.at(found, (scores.argmax(1), labels), weight)
    found /= found.sum()
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
