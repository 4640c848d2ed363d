"""How many labels are wrong: an estimate between two bounds, and the probabilities that agree with it.

The fit cannot separate a net that doubts because classes are alike from one that doubts because labels of such samples
are often wrong. It gives the doubt to the net, so its rate L is a lower bound. The fraction D of labels other than
the preferred class is an upper bound. The estimate L + π (D − L) lies between them; docs/auditing.md has the formulas
of step 3, "How many", which are computed here. The odds of all errors are then multiplied by one factor, so that the
mean probability of a wrong label is the estimate. The ranking does not change.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, rel_entr

from pyrite.arrays import Floats, Ints
from pyrite.auditing.noise_fit import OVERLAP, near_ties
from pyrite.auditing.noise_model import NoiseFit, log_odds
from pyrite.auditing.scores import ModelAgreement, blocks, top_two

__all__ = ["NoiseRate", "RateFeatures", "estimate_rate"]

_AGAINST: Final = 3.0  # nats by which a net that misjudges classes must be the better explanation
_PER_ENTRY: Final = 0.15  # nats that noise must gain for each kind of error, as a net errs in ways that are not fitted
_CERTAIN: Final = 10.0  # nats by which it must be the worse one, so that the interval does not contain 0
_REMAINS: Final = 0.6  # the part of the evidence that remains where errors do not depend on the sample
_OWN_ERROR: Final = 2.6, 5  # c and n of a net's own error c tⁿ, as found on CIFAR-10 with all kinds of nets and labels
_MANY_CLASSES: Final = 10  # from which on near ties count in full
_ANYWHERE: Final = 0.3  # the part of the doubt that goes to all classes alike, so that no error is impossible
_PATTERN: Final = 0.2, 0.6  # parts of the pattern that are explained, from which on A is above 0, and 1
_SURE_ERRORS: Final = 0.4  # errors of a net that is sure, per near tie, with two classes; found on twelve sets
_COMMON_ERRORS: Final = 1.3  # errors of two models per sample on which they disagree: they have common blind spots
_SMALLEST: Final = 1e-12  # what is divided by is at least this
_SMALL_RATE: Final = 0.01  # a rate that imperfect scores alone may cause
_MISFIT: Final = 0.25, 0.1  # the part of the doubt that may be misjudged, at the lower and upper end of the interval
_ERRORS: Final = 2.0  # standard errors on each side
_WIDE: Final = 0.05  # an interval from which on there is advice how to narrow it
_LARGEST_SHIFT: Final = 50.0


class NoiseRate(NamedTuple):
    """The noise rate, the ends of its interval, and what follows from it."""

    rate: float
    error: float  # the standard error, from sampling alone
    low: float  # the interval includes what labels and scores cannot show
    high: float
    shift: float  # what is added to the log-odds of the fit, so that the mean probability is the rate
    advice: str  # what would make the interval smaller; empty if it is small


class RateFeatures(NamedTuple):
    """What the estimate rests on: numbers of the labels, the scores and the fit that do not depend on their scale."""

    samples: int
    classes: int
    fitted: float  # L, the noise rate of the fit
    fitted_error: float  # its standard error
    differ: float  # D, the fraction of labels that differ from the preferred class
    doubt: float  # δ, the mean probability outside the preferred class
    ties: float  # the fraction of near ties
    explained: float  # A, how far the doubt explains the errors' pattern
    dependent: float  # 1 − R / 0.6, how far errors depend on the sample; NaN if there are too few samples for this
    surplus: float  # nats by which noise explains labels better than a fit in which no label is wrong
    over_own: float  # the same for labels that were not fitted, beyond errors of the net; infinite without near ties

    @classmethod
    def of(cls, fit: NoiseFit, margins: Floats, labels: Ints) -> "RateFeatures":
        """Of the samples that the noise was fitted to."""
        count, classes = margins.shape
        wrong, preferred, sure = np.empty(count), np.empty(count, np.int64), np.empty(count)
        doubts = np.zeros((classes, classes))
        for rows in blocks(margins.shape):
            prior = fit.best.prior(margins[rows])
            wrong[rows] = expit(log_odds(fit.best.log_joint(margins[rows], labels[rows]), labels[rows]))
            preferred[rows], sure[rows] = prior.argmax(1), prior.max(1)
            np.add.at(doubts, preferred[rows], prior)
        differ = float((preferred != labels).mean())
        ties = near_ties(*top_two(margins))
        # Of the entries of a smoothed matrix only a part is free: that of the samples among samples and pseudo-samples.
        free = count / (count + fit.best.smoothing * classes**2)
        over_own = fit.own_surplus - _PER_ENTRY * free * classes * (classes - 1) if ties >= OVERLAP else np.inf
        remains = max(fit.own_surplus / max(fit.surplus, _SMALLEST), 0.0)
        return cls(
            samples=count,
            classes=classes,
            fitted=min(float(wrong.mean()), differ),
            fitted_error=fit.rate_error,
            differ=differ,
            doubt=float(1 - sure.mean()),
            ties=ties,
            explained=_explained(doubts, np.bincount(preferred, minlength=classes), fit.best.matrix),
            dependent=max(1 - remains / _REMAINS, 0.0) if np.isfinite(fit.own_surplus) else np.nan,
            surplus=fit.surplus,
            over_own=over_own,
        )


def estimate_rate(
    features: RateFeatures, score: Floats, agreement: ModelAgreement | None = None, further: Sequence[str] = ()
) -> NoiseRate:
    """The noise rate, by features and log-odds of samples whose labels the nets did not learn.

    ``further`` is evidence that could be given and is not, for the advice.
    """
    doubt, differ, count = features.doubt, features.differ, features.samples
    low, noisy = _lower_bound(features)
    step = _part_of_the_way(features, low, agreement)
    rate = low + step * (differ - low)
    of_count = float(np.sqrt(differ * (1 - differ) / count))
    error = float(np.hypot((1 - step) * features.fitted_error, step * of_count))
    certain = noisy > 0.95 and features.over_own > _CERTAIN
    bottom = low - _ERRORS * features.fitted_error - _MISFIT[0] * doubt if certain else 0.0
    top = differ + _ERRORS * of_count
    if agreement is not None:  # several models are right where they agree, which may be a lower bound
        highest, agreed = agreement.highest_rate, max(count * (1 - agreement.disagreement), 1.0)
        top = min(top, highest + _ERRORS * float(np.sqrt(highest * (1 - highest) / agreed)))
    top = max(top, rate + _ERRORS * of_count) + _MISFIT[1] * doubt
    ends = max(min(bottom, rate), 0.0), min(top, 1.0)
    return NoiseRate(rate, error, *ends, _shift_to(rate, score), _advice(ends, agreement, further))


def _lower_bound(features: RateFeatures) -> tuple[float, float]:
    """L as corrected, and the probability that labels are wrong at all; 1 for what differs from a net without ties."""
    overlap = features.ties >= OVERLAP
    noisy = float(expit(min(features.surplus, features.over_own + _AGAINST))) if overlap else 1.0
    if features.classes > 2:
        return noisy * features.fitted, noisy
    errors = _SURE_ERRORS * features.ties if overlap else 0.0
    return max(features.fitted - errors, 0.0) / (1 - 2 * errors), noisy


def _part_of_the_way(features: RateFeatures, low: float, agreement: ModelAgreement | None) -> float:
    """π, the part of the way from L to D."""
    known = not np.isnan(features.dependent)
    on_samples, dependent = (min(2 * features.dependent, 1.0), features.dependent) if known else (1.0, 0.0)
    step = features.explained * on_samples * low / max(low + features.doubt, _SMALLEST)
    factor, power = _OWN_ERROR
    own_error = factor * (4 * features.ties) ** power
    many = min((features.classes - 2) / (_MANY_CLASSES - 2), 1)
    due_to_labels = many * dependent * max(1 - own_error / max(features.doubt, _SMALLEST), 0.0)
    step += (1 - step) * min(2 * features.explained, 1) * due_to_labels * low / (low + _SMALL_RATE)
    if agreement is not None and features.doubt > 0:
        own_error = min(_COMMON_ERRORS * agreement.disagreement / features.doubt, 1.0)
        step = max(step, (1 - own_error) * low / (low + _SMALL_RATE))
    return step


def _explained(doubts: Floats, preferred: Ints, matrix: Floats) -> float:
    """How far the doubt explains the errors' pattern: their deviance from it, against that from uniform.

    ``doubts`` are sums of the probabilities of all classes, ``preferred`` numbers of samples, by preferred class.
    """
    classes = len(matrix)
    if classes == 2:
        return 0.0
    others = ~np.eye(classes, dtype=bool)
    errors, doubts = matrix * preferred[:, None] * others, np.maximum(doubts, _SMALLEST) * others
    rows = errors.sum(1) > 0
    if not rows.any():
        return 0.0
    weight = errors[rows].sum(1) / errors[rows].sum()
    pattern, by_doubt = (each[rows] / each[rows].sum(1, keepdims=True) for each in (errors, doubts))
    by_doubt = (1 - _ANYWHERE) * by_doubt + _ANYWHERE / (classes - 1)
    from_doubt, from_uniform = (weight @ rel_entr(pattern, each).sum(1) for each in (by_doubt, 1 / (classes - 1)))
    least, most = _PATTERN
    return float(np.clip((1 - from_doubt / max(from_uniform, _SMALLEST) - least) / (most - least), 0, 1))


def _shift_to(rate: float, score: Floats) -> float:
    """What to add to these log-odds so that the mean probability is the rate."""

    def excess(shift: float) -> float:
        return float(expit(score + shift).mean()) - rate

    if excess(-_LARGEST_SHIFT) >= 0:
        return -_LARGEST_SHIFT
    if excess(_LARGEST_SHIFT) <= 0:
        return _LARGEST_SHIFT
    return float(brentq(excess, -_LARGEST_SHIFT, _LARGEST_SHIFT, xtol=1e-13, rtol=1e-15))


def _advice(ends: tuple[float, float], agreement: ModelAgreement | None, further: Sequence[str]) -> str:
    if ends[1] - ends[0] <= _WIDE:
        return ""
    right = "the model is always right" if agreement is None else "the models are right where they agree"
    cures = ", ".join(["a better model", *further])
    return f"the high end assumes that {right}; {cures} or a review of 50 random labels would narrow this"
