"""How many labels are wrong: a regression on what labels and scores look like, learned from many data sets.

Labels and scores alone do not identify the noise rate. It lies between two bounds: a fit to which every doubt of the
model is real, and the fraction of labels that differ from the class that the model prefers. What part of the way
follows from how real data sets behave. ``benchmarks/audit_rate.py`` makes labels of many data sets wrong in many ways,
scores them with models from weak to strong, and fits the part that gives the true noise rate: a median regression on
the ``features`` below and on the nearness to typical ones. What it reports is measured on data sets that were left out.

The interval is conformal: a second regression predicts how far the first errs, and the errors on data sets that were
left out, in that unit, have the ends that cover 90 % of them.
"""

from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, logit

from pyrite.arrays import Flags, Floats
from pyrite.auditing.noise_fit import LabelGroups

__all__ = [
    "FEATURES",
    "LEAST",
    "Basis",
    "NoiseRate",
    "OddsCalibration",
    "between",
    "estimate_rate",
    "features",
    "shift_to_mean",
    "with_rate",
]

LEAST: Final = 0.01
"""The lowest estimate. Few real data sets have fewer wrong labels, and models cannot show that one has."""

_POWERS: Final = (1, 2, 3, 5)  # how much sharper than the given labels true classes may be
_FAR: Final = (1, 2, 3, 4)
_SUREST: Final = 0.33
_OUTER: Final = 5.0  # standard deviations at which features are cut, so that no regression goes far beyond its data
_NARROW: Final = 0.05  # of the bumps around the centres
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
    "differ", "doubt", "differ 0.33", "doubt 0.33", *(f"fit {power}" for power in _POWERS),
    *(f"far {nats}" for nats in _FAR), "classes", "spread of classes", "surest class",
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


class Basis(NamedTuple):
    """What the regressions are linear in: a constant, the standardised features, and a bump around each centre.

    It is smooth, so a small change of scores or labels changes the estimates a little.
    """

    mean: Floats
    spread: Floats
    centres: Floats

    def __call__(self, features: Floats) -> Floats:
        x = np.clip((np.atleast_2d(features) - self.mean) / self.spread, -_OUTER, _OUTER)
        bumps = np.exp(-_NARROW * ((x[:, None] - self.centres) ** 2).sum(2))
        return np.column_stack([np.ones(len(x)), x, bumps])


@cache
def _learned() -> tuple[Basis, Floats, Basis, Floats, Floats]:
    """The basis and coefficients of the part, those of error and slope, and the ends in units of the error."""
    with np.load(Path(__file__).with_name("noise_rate.npz"), allow_pickle=False) as file:
        bases = [Basis(*(file[f"{name}_{field}"] for field in Basis._fields)) for name in ("part", "error")]
        return bases[0], file["part"], bases[1], file["error"], file["ends"]


def features(groups: LabelGroups) -> Floats:
    """The numbers that ``FEATURES`` names."""
    top = np.exp(groups.log_p.max(1))
    second, first = np.partition(groups.log_p, -2, axis=1)[:, -2:].T
    gaps, differ = first - second, groups.preferred != groups.labels
    surest = gaps >= np.quantile(gaps, 1 - _SUREST)  # and all that are equal
    fractions = [differ.mean(), 1 - top.mean(), differ[surest].mean(), 1 - top[surest].mean()]
    fractions += [groups.fit_matrix(power)[2] for power in _POWERS]
    fractions += [(groups.own - first < -nats).mean() for nats in _FAR]
    return np.array([*np.sqrt(np.maximum(fractions, 0)), 1 / groups.classes, *_by_class(groups, differ, gaps)])


def _by_class(groups: LabelGroups, differ: Flags, gaps: Floats) -> tuple[float, float]:
    """How much classes differ in labels that differ; the least that the surest third of a preferred class has."""
    spread = np.std([differ[rows].mean() for _, rows in groups.groups()])
    least = 1.0
    for label in np.flatnonzero(np.bincount(groups.preferred) >= _OF_CLASS):
        rows = groups.preferred == label
        least = min(least, differ[rows & (gaps >= np.quantile(gaps[rows], 1 - _SUREST))].mean())
    return float(spread), float(least**0.5)


def between(lower: Any, upper: Any, part: Any, count: Any) -> Any:
    """The rate at this part of the way from the lower to the upper bound; at least ``LEAST`` if the upper allows."""
    return np.minimum(np.maximum(lower + np.clip(part, 0, 1) * (upper - lower), LEAST), upper + 1 / count)


def with_rate(features: Floats, lower: Any, upper: Any, rate: Any) -> Floats:
    """What error and slope are predicted from: the features, and how far the rate is from the bounds."""
    ways = np.sqrt(np.maximum([rate - lower, upper - rate], 0))
    return np.concatenate([features, np.moveaxis(ways, 0, -1)], axis=-1)


def estimate_rate(groups: LabelGroups) -> NoiseRate:
    """The fraction of wrong labels among samples whose labels the models did not learn."""
    x, count = features(groups), len(groups.labels)
    of_part, part, of_error, error_and_slope, ends = _learned()
    differ, fitted = (float(x[FEATURES.index(name)] ** 2) for name in ("differ", "fit 1"))
    lower = min(fitted, differ)
    rate = float(between(lower, differ, (of_part(x) @ part).item(), count))
    unit, slope = np.exp(of_error(with_rate(x, lower, differ, rate)) @ error_and_slope)[0].tolist()
    low, high = np.clip(rate + unit * ends, 0, 1).tolist()
    advice = "a better model, or a review of 50 random labels, would narrow the interval" if high - low > _WIDE else ""
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
