"""How many labels are wrong: a regression on what labels and scores look like, learned from many data sets.

Labels and scores alone do not identify the noise rate. It lies between two bounds: a fit to which every doubt of the
model is real, and the fraction of labels that differ from the class that the model prefers. What part of the way
follows from how real data sets behave. ``benchmarks/audit_rate.py`` makes labels of many data sets wrong in many ways,
scores them with models from weak to strong, and fits regression trees from the ``features`` below to the part that
gives the true noise rate. What it reports is measured on data sets that were left out.

The interval is conformal: a second regression predicts how far the first errs, and the errors on data sets that were
left out, in that unit, have the ends that cover 90 % of them.
"""

from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq
from scipy.special import expit, logit

from pyrite.arrays import Flags, Floats
from pyrite.auditing.noise_fit import POWERS, LabelGroups

__all__ = [
    "FEATURES",
    "LEAST",
    "NoiseRate",
    "OddsCalibration",
    "between",
    "estimate_rate",
    "features",
    "jittered",
    "shift_to_mean",
]

LEAST: Final = 0.01
"""The lowest estimate. Few real data sets have fewer wrong labels, and models cannot show that one has."""

_FAR: Final = (1, 2, 3, 4)
_SUREST: Final = (0.1, 0.33, 0.66)
_TIES: Final = 0.125, 0.25, 0.5  # of the median gap: noise lowers all gaps, classes that are alike leave small ones
_JITTER: Final = 0.1  # of the standard deviation of a feature
_POINTS: Final = 32
_OF_CLASS: Final = 10  # samples of a preferred class of which a third is looked at
_WIDE: Final = 0.05  # an interval from which on the advice is given what would narrow it
_FARTHEST: Final = 500.0  # log-odds are moved by less
_SUSPICIOUS: Final = 0.001  # the fraction of labels that differ from the preferred class of a model that learned them
_LEARNED: Final = (
    "the scores prefer the given labels of all but one in a thousand of {count:,} samples, so they are hardly those of "
    "samples that the model was not trained on: an audit needs scores out of sample, as cross validation gives them"
)
_ANYWHERE: Final = 0.01  # of the wrong labels, those that may be anywhere
_KEEPS_ORDER: Final = 1e-9  # of the log-odds, where probabilities are equal by rounding

FEATURES: Final = (
    "differ", "doubt",
    *(f"{name} {part}" for part in _SUREST for name in ("differ", "doubt")),
    *(f"fit {power}" for power in POWERS), "symmetric fit 3",
    *(f"far {nats}" for nats in _FAR),
    *(f"ties {part}" for part in _TIES), "confident",
    "largest class", "classes", "samples", "skill", "gain", "gain 3", "gain 8", "pattern",
    "second", "second expected", "spread of classes", "surest class", "squared error", "squared error expected",
)  # fmt: skip
"""The features of the regression. All are free of the scale of the scores; fractions are square roots."""


class NoiseRate(NamedTuple):
    """The fraction of wrong labels.

    Attributes:
        rate: the estimate, and ``error`` its standard error from sampling alone.
        low, high: the interval.
        slope: what log-odds of a wrong label are multiplied by, so that probabilities are right as often as they claim.
        advice: what would narrow the interval; empty if it is narrow.
        warnings: what a user should know of these scores.
    """

    rate: float
    error: float
    low: float
    high: float
    slope: float
    advice: str
    warnings: tuple[str, ...] = ()


class _Trees(NamedTuple):
    """The sum of regression trees, their nodes one after the other; a leaf leads to itself."""

    start: float
    spread: Floats  # the standard deviations of the features among the cells of the benchmark
    roots: npt.NDArray[np.integer[Any]]
    feature: npt.NDArray[np.integer[Any]]
    threshold: Floats
    left: npt.NDArray[np.integer[Any]]
    right: npt.NDArray[np.integer[Any]]
    value: Floats

    def predict(self, features: Floats) -> float:
        x = jittered(features, self.spread)
        rows, at = np.arange(len(x))[:, None], np.tile(self.roots, (len(x), 1))
        before = np.full_like(at, -1)
        while (at != before).any():
            at, before = np.where(x[rows, self.feature[at]] <= self.threshold[at], self.left[at], self.right[at]), at
        return float(self.start + self.value[at].sum(1).mean())


def jittered(features: Floats, spread: Floats) -> Floats:
    """Points around these features, over which predictions of trees are averaged: a tree alone jumps at its thresholds.

    A change of all features by a hundredth of their standard deviations then moves the rate by 0.1 points on average
    and by 2 at most, in place of 9.
    """
    return np.asarray(features + _JITTER * spread * np.random.default_rng(0).normal(size=(_POINTS, len(features))))


@cache
def _learned() -> tuple[dict[str, _Trees], Floats]:
    """The trees, and the ends of the interval in units of the error that is predicted."""
    with np.load(Path(__file__).with_name("noise_rate.npz"), allow_pickle=False) as file:
        names = ("part", "error", "slope")
        trees = {name: _Trees(*(file[f"{name}_{field}"] for field in _Trees._fields)) for name in names}
        return trees, file["ends"]


def features(groups: LabelGroups) -> Floats:
    """The numbers that ``FEATURES`` names."""
    p, labels, count, classes = np.exp(groups.log_p), groups.labels, len(groups.labels), groups.classes
    preferred, top = p.argmax(1), p.max(1)
    second, first = np.partition(groups.log_p, -2, axis=1)[:, -2:].T
    gaps, differ = first - second, preferred != labels
    fits = {power: groups.fit_matrix(power)[1:] for power in POWERS}  # matrices of many classes are large
    prior = groups.counts / count
    entropy = -float((prior[prior > 0] * np.log(prior[prior > 0])).sum())
    loss, best = -float(groups.own.mean()), max(likelihood for likelihood, _ in fits.values())
    fractions = [differ.mean(), 1 - top.mean()]
    for part in _SUREST:
        rows = gaps >= np.quantile(gaps, 1 - part)  # and all that are equal
        fractions += [differ[rows].mean(), 1 - top[rows].mean()]
    fractions += [rate for _, rate in fits.values()]
    fractions.append(groups.symmetric_rate(3))
    fractions += [(groups.own - first < -nats).mean() for nats in _FAR]
    fractions += [(gaps < part * np.median(gaps)).mean() for part in _TIES]
    fractions.append(_confident(groups, p))
    gains = [max(best + loss, 0.0) ** 0.5, fits[3][0] - fits[1][0], fits[8][0] - fits[1][0]]
    rest = [prior.max(), 1 / classes, np.log(count), 1 - loss / entropy, *gains, _pattern(p, preferred, labels)]
    rest += [*_second(groups, p, differ), *_by_class(groups, differ, gaps)]
    of_label, squares = p[groups.rows, labels], float((p**2).sum(1).mean())
    rest += [(1 + squares - 2 * of_label.mean()) ** 0.5, max(1 - squares, 0.0) ** 0.5]
    return np.array([*np.sqrt(np.maximum(fractions, 0)), *rest])


def _second(groups: LabelGroups, p: Floats, differ: Flags) -> tuple[float, float]:
    """Of labels that differ, the fraction that is the second class, and the same by the probabilities."""
    above = (groups.log_p[differ] > groups.own[differ, None]).sum(1)
    second, first = np.partition(p, -2, axis=1)[:, -2:].T
    expected = float(second.sum() / max((1 - first).sum(), 1e-9))
    return float((above <= 1).mean()) if differ.any() else 1.0, min(expected, 1.0)


def _by_class(groups: LabelGroups, differ: Flags, gaps: Floats) -> tuple[float, float]:
    """How much classes differ in labels that differ; the least that the surest third of a preferred class has."""
    spread = np.std([differ[rows].mean() for _, rows in groups.groups()])
    least = 1.0
    for label in np.flatnonzero(np.bincount(groups.preferred) >= _OF_CLASS):
        rows = groups.preferred == label
        least = min(least, differ[rows & (gaps >= np.quantile(gaps[rows], 1 - _SUREST[1]))].mean())
    return float(spread), float(least**0.5)


def _confident(groups: LabelGroups, p: Floats) -> float:
    """The fraction of labels that differ from a class whose probability is above its mean for labels of that class.

    This is the off-diagonal part of the confident joint (Northcutt et al., 2021).
    """
    means = np.ones(groups.classes)
    for label, rows in groups.groups():
        means[label] = p[rows, label].mean()
    above = np.where(p >= means, p, -1.0)
    counted = above.max(1) >= 0
    return float((above.argmax(1) != groups.labels)[counted].mean()) if counted.any() else 0.0


def _pattern(p: Floats, preferred: npt.NDArray[Any], labels: npt.NDArray[Any]) -> float:
    """The correlation, over pairs of classes, of labels that differ with what the model doubts; 0 for two classes."""
    classes = p.shape[1]
    if classes == 2:
        return 0.0
    order = np.argsort(preferred, kind="stable")
    present, first, place = np.unique(preferred[order], return_index=True, return_inverse=True)
    doubts, errors = np.add.reduceat(p[order], first, axis=0), np.zeros((len(present), classes))
    np.add.at(errors, (place, labels[order]), 1.0)
    doubts[np.arange(len(present)), present] = errors[np.arange(len(present)), present] = 0
    # Pairs whose first class is not preferred are zeros in both, and count.
    one, two, pairs = np.sqrt(errors), np.sqrt(doubts), classes * (classes - 1)
    means = one.sum() / pairs, two.sum() / pairs
    variances = errors.sum() / pairs - means[0] ** 2, doubts.sum() / pairs - means[1] ** 2
    both = float((one * two).sum() / pairs - means[0] * means[1])
    return both / float(np.sqrt(variances[0] * variances[1])) if min(variances) > 1e-12 else 0.0


def between(lower: Any, upper: Any, part: Any, count: Any) -> Any:
    """The rate at this part of the way from the lower to the upper bound; at least ``LEAST`` if the upper allows."""
    return np.minimum(np.maximum(lower + part * (upper - lower), LEAST), upper + 1 / count)


def estimate_rate(groups: LabelGroups) -> NoiseRate:
    """The fraction of wrong labels among samples whose labels the models did not learn."""
    x, count = features(groups), len(groups.labels)
    trees, ends = _learned()
    differ, fitted = (float(x[FEATURES.index(name)] ** 2) for name in ("differ", "fit 1"))
    rate = float(between(min(fitted, differ), differ, trees["part"].predict(x), count))
    with_rate = np.array([*x, np.sqrt(rate)])
    unit, slope = (float(np.exp(trees[name].predict(with_rate))) for name in ("error", "slope"))
    highest = differ + 2 * float(np.sqrt(differ * (1 - differ) / count)) + 0.01
    low, high = max(rate + float(ends[0]) * unit, 0.0), min(rate + float(ends[1]) * unit, highest, 1.0)
    advice = "a better model, or a review of 50 random labels, would narrow this" if high - low > _WIDE else ""
    error = float(np.sqrt(rate * (1 - rate) / count))
    warnings = (_LEARNED.format(count=count),) if differ < _SUSPICIOUS else ()
    return NoiseRate(rate, error, min(low, rate), max(high, rate), slope, advice, warnings)


class OddsCalibration(NamedTuple):
    """From log-odds of a wrong label by the fit to those of the audit, in the same order.

    Probabilities are ``anywhere`` + (1 − 2 ``anywhere``) σ(``slope`` odds + ``shift``): a few wrong labels have nothing
    to do with the scores, so no label is right or wrong for certain.
    """

    slope: float
    shift: float
    anywhere: float

    @classmethod
    def of(cls, odds: Floats, rate: float, slope: float) -> "OddsCalibration":
        """With the shift that makes the mean probability of these log-odds the rate."""
        wanted = min(max(rate, 1e-9), 1 - 1e-9)
        anywhere = _ANYWHERE * min(wanted, 1 - wanted)
        mean = (wanted - anywhere) / (1 - 2 * anywhere)
        return cls(slope, shift_to_mean(slope * odds, mean), anywhere)

    def __call__(self, odds: Floats) -> Floats:
        chances = self.anywhere + (1 - 2 * self.anywhere) * expit(self.slope * odds + self.shift)
        return np.asarray(logit(chances) + _KEEPS_ORDER * odds)


def shift_to_mean(score: Floats, mean: float) -> float:
    """What to add to these log-odds so that the mean probability is ``mean``."""
    return float(brentq(lambda shift: expit(score + shift).mean() - mean, -_FARTHEST, _FARTHEST))
