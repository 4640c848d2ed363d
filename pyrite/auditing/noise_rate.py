"""How many labels are wrong: an estimate between two bounds, and the probabilities that agree with it.

The fit of the noise cannot tell a net that doubts because classes are alike from a net that doubts because labels of
such samples are often wrong. It gives the doubt to the net, so its rate L is a lower bound. The fraction D of labels
that differ from the class that the net prefers is an upper bound: there the net is right wherever it prefers a class.
The estimate lies between them,

    rate = L + π (D − L),        π = A · B · L / (L + δ)

- δ is the doubt, the mean probability outside the preferred class. Annotators who err with the rate L and a net that
  errs with the rate δ divide the doubt by the rates of their errors.
- A is how far the doubt explains the errors' pattern. People confuse the classes that a net confuses, and err on
  samples where it doubts (A near 1). Errors that go to all classes alike, or to classes that the net does not confuse,
  do not depend on the sample (A near 0), and then L is the rate. With two classes the pattern is unknown, and A is 0.
- B = min(1, 2 (1 − R / 0.6)) is how far errors depend on the sample by another sign: R is the part of the evidence for
  noise that remains for labels that were not fitted, against a net that misjudges how alike classes are. Errors that do
  not depend on the sample leave about 0.6 of it, errors of people a fifth.
- The doubt beyond a net's own error ε is due to the labels: of the rest of the way to D, another part

      min(1, 2 A) · (1 − R / 0.6) · (1 − ε / δ),        ε = 2.6 t⁵

  is gone. t is the density of near ties, in units of the typical gap between the first and the second class. Classes
  that a net separates leave few ties, however much label noise has lowered its confidence. Few classes have another
  distribution of gaps, so this counts in full from ten classes on, and not at all for two.
- With scores of several models, what they disagree about is an estimate of their own error. Models are right more often
  where they agree, so labels that differ there bound the rate from above, more closely than D does.

Small or overlapping sets may look noisy by chance. Where the net has near ties, L is therefore corrected first:

- With two classes, a net that has near ties also errs where it is sure, on a fraction x = 0.4 s of the samples, with
  s that of near ties. These errors look like wrong labels: L = ρ + x (1 − 2 ρ). So L becomes (L − x) / (1 − 2 x).
- With more classes, L is multiplied by the probability that labels are wrong at all: by the likelihood of the fit
  against that of a fit without noise, and by that of labels that were not fitted. A net errs in more ways than are
  fitted, so a matrix must gain a little for each of its entries, as far as smoothing leaves them free.

Bayes' rule then applies to a matrix whose odds of an error are all multiplied by one factor, chosen so that the
expected noise rate is this one. The ranking does not change.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, rel_entr

from pyrite.auditing.noise_fit import OVERLAP, near_ties
from pyrite.auditing.noise_model import NoiseFit, log_odds
from pyrite.auditing.scores import ModelAgreement, blocks, top_two
from pyrite.diagnostics.arrays import Floats, Ints

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
    """The fraction of wrong labels.

    Attributes:
        rate: the estimate.
        error: its standard error, from sampling alone.
        low, high: the interval, which includes what labels and scores cannot show.
        shift: what is added to the log-odds of the fit, so that the mean probability is the rate.
        advice: what would make the interval smaller; empty if it is small.
    """

    rate: float
    error: float
    low: float
    high: float
    shift: float
    advice: str


class RateFeatures(NamedTuple):
    """What the estimate rests on: numbers of the labels, the scores and the fit that do not depend on their scale.

    Attributes:
        samples, classes: their numbers.
        fitted: L, the noise rate of the fit, and ``fitted_error`` its standard error.
        differ: D, the fraction of labels that differ from the preferred class.
        doubt: δ, the mean probability outside the preferred class.
        ties: the fraction of near ties.
        explained: A, how far the doubt explains the errors' pattern.
        dependent: 1 − R / 0.6: how far errors depend on the sample, by what remains of the evidence for noise; NaN if
            there are too few samples for this.
        surplus: the nats by which noise explains labels better than a fit in which no label is wrong.
        over_own: the same for labels that were not fitted, beyond what errors of the net explain; without near ties it
            makes none.
    """

    samples: int
    classes: int
    fitted: float
    fitted_error: float
    differ: float
    doubt: float
    ties: float
    explained: float
    dependent: float
    surplus: float
    over_own: float

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
    """The noise rate of samples whose labels the nets did not learn.

    Args:
        features: what the estimate rests on.
        score: the log-odds of a wrong label by the fit.
        agreement: that of several models, if there are several.
        further: evidence that could be given and is not, for the advice.
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

    1 if labels of a class err towards other classes as the net doubts between them; 0 if that predicts the errors
    little better than equal probabilities do.

    Args:
        doubts: the sums of the probabilities of all classes, by preferred class.
        preferred: the numbers of samples by preferred class.
        matrix: of the noise.
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
