"""How many labels are wrong: an estimate between two bounds, and the probabilities that agree with it.

The fit of the noise cannot tell a net that doubts because classes are alike from a net that doubts because labels of
such samples are often wrong. It gives the doubt to the net, so its rate L is a lower bound. The share D of labels that
differ from the class that the net prefers is an upper bound: there the net is right wherever it prefers a class. The
estimate lies between them,

    rate = L + π (D − L),        π = A · B · L / (L + δ)

- δ is the doubt, the mean probability outside the preferred class. Annotators who err with the rate L and a net that
  errs with the rate δ share the doubt by the rates of their errors.
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

- With two classes, a net that has near ties also errs where it is sure, on a share x = 0.4 s of the samples, with s
  the share of near ties. These errors look like wrong labels: L = ρ + x (1 − 2 ρ). So L becomes (L − x) / (1 − 2 x).
- With more classes, L is multiplied by the probability that labels are wrong at all: by the likelihood of the fit
  against that of a fit without noise, and by that of labels that were not fitted. A net errs in more ways than the fit
  knows, so a matrix must gain a little for each of its entries, as far as smoothing leaves them free.

Bayes' rule then applies to a matrix whose odds of an error are all multiplied by one factor, chosen so that the
expected share of wrong labels is the rate. The ranking does not change.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from pyrite.auditing.gaps import OVERLAP, near_ties
from pyrite.auditing.noise_model import NoiseFit, log_odds
from pyrite.auditing.witnesses import Opinions
from pyrite.diagnostics.arrays import Floats, Ints

__all__ = ["NoiseRate", "estimate_rate", "with_error_odds"]

_AGAINST: Final = 3.0  # nats by which a net that misjudges classes must be the better explanation
_PER_ENTRY: Final = 0.15  # nats that noise must gain for each kind of error, as a net errs in ways that are not fitted
_CERTAIN: Final = 10.0  # nats by which it must be the worse one, so that the interval does not contain 0
_REMAINS: Final = 0.6  # the part of the evidence that remains where errors do not depend on the sample
_OWN_ERROR: Final = 2.6, 5  # c and n of a net's own error c tⁿ, as found on CIFAR-10 with all kinds of nets and labels
_MANY_CLASSES: Final = 10  # from which on near ties count in full
_ANYWHERE: Final = 0.3  # the part of the doubt that goes to all classes alike, so that no error is impossible
_PATTERN: Final = 0.2, 0.6  # parts of the pattern that are explained, from which on A is above 0, and 1
_SURE_ERRORS: Final = 0.4  # errors of a net that is sure, per near tie, with two classes; found on twelve sets
_SHARED_ERRORS: Final = 1.3  # errors of two models per sample on which they disagree: they share blind spots
_SMALLEST: Final = 1e-12  # what is divided by is at least this
_SMALL_RATE: Final = 0.01  # a rate that imperfect scores alone may cause
_MISFIT: Final = 0.25, 0.1  # the part of the doubt that may be misjudged, at the lower and upper end of the interval
_ERRORS: Final = 2.0  # standard errors on each side
_WIDE: Final = 0.05  # an interval from which on it is said what would narrow it


class NoiseRate(NamedTuple):
    """The share of wrong labels.

    Attributes:
        rate: the estimate.
        error: its standard error, from sampling alone.
        low, high: the interval, which includes what labels and scores cannot tell.
        shift: what is added to the log-odds of the fit, so that the mean probability is the rate.
        narrows: what would make the interval smaller; empty if it is small.
    """

    rate: float
    error: float
    low: float
    high: float
    shift: float
    narrows: str


def estimate_rate(
    fit: NoiseFit, margins: Floats, labels: Ints, opinions: Opinions | None = None, further: Sequence[str] = ()
) -> NoiseRate:
    """The share of wrong labels among samples whose labels the nets did not learn.

    Args:
        fit: the noise, fitted to these samples.
        margins: one row per sample, one column per class.
        labels: the given ones.
        opinions: what several models prefer, if there are several.
        further: evidence that could be given and is not, for the sentence on what would narrow the interval.
    """
    score = log_odds(fit.evidence(margins, labels), labels)
    belief = fit.best.belief(margins)
    preferred = belief.argmax(1)
    doubt = float(1 - belief.max(1).mean())
    differ = float((preferred != labels).mean())
    by_fit = min(float(_sigmoid(log_odds(fit.best.evidence(margins, labels), labels)).mean()), differ)
    ties = near_ties(margins)
    over_own = _over_own(fit, ties, len(labels))
    noisy = _noisy(fit, ties, over_own)
    low = _without_sure_errors(by_fit, ties) if belief.shape[1] == 2 else noisy * by_fit
    explained = _explained(belief, preferred, fit.best.matrix)
    share = explained * _on_samples(fit) * low / max(low + doubt, _SMALLEST)
    share += (1 - share) * min(2 * explained, 1) * _due_to_labels(fit, ties, doubt) * low / (low + _SMALL_RATE)
    if opinions is not None and doubt > 0:
        own_error = min(_SHARED_ERRORS * opinions.disagreement / doubt, 1.0)
        share = max(share, (1 - own_error) * low / (low + _SMALL_RATE))
    rate = low + share * (differ - low)
    of_count = np.sqrt(differ * (1 - differ) / len(labels))
    error = float(np.hypot((1 - share) * fit.rate_error, share * of_count))
    certain = noisy > 0.95 and over_own > _CERTAIN
    bottom = low - _ERRORS * fit.rate_error - _MISFIT[0] * doubt if certain else 0.0
    top = max(_highest(differ, opinions, len(labels)), rate + _ERRORS * float(of_count)) + _MISFIT[1] * doubt
    ends = max(min(bottom, rate), 0.0), min(top, 1.0)
    return NoiseRate(rate, error, *ends, _shift_to(rate, score), _advice(ends, opinions, further))


def with_error_odds(matrix: Floats, shift: float) -> Floats:
    """The matrix with the odds of every error multiplied by exp(shift).

    >>> with_error_odds(np.array([[0.5, 0.5], [0.0, 1.0]]), np.log(3.0))
    array([[0.25, 0.75],
           [0.  , 1.  ]])
    """
    changed = matrix * np.exp(shift)
    changed[np.diag_indices(len(matrix))] = np.diag(matrix)
    return np.asarray(changed / changed.sum(1, keepdims=True))


def _explained(belief: Floats, preferred: Ints, matrix: Floats) -> float:
    """How far the doubt explains the errors' pattern: their deviance from it, against that from uniform.

    1 if labels of a class err towards other classes as the net doubts between them; 0 if that predicts the errors
    little better than equal shares do.
    """
    classes = len(matrix)
    if classes == 2:
        return 0.0
    order = np.argsort(preferred, kind="stable")
    present, first = np.unique(preferred[order], return_index=True)
    doubts = np.zeros_like(matrix)
    doubts[present] = np.add.reduceat(belief[order], first, axis=0)
    errors = matrix * np.bincount(preferred, minlength=classes)[:, None]
    others = ~np.eye(classes, dtype=bool)
    errors, doubts = errors * others, np.maximum(doubts, _SMALLEST) * others
    rows = errors.sum(1) > 0
    if not rows.any():
        return 0.0
    weight = errors[rows].sum(1) / errors[rows].sum()
    pattern, by_doubt = (each[rows] / each[rows].sum(1, keepdims=True) for each in (errors, doubts))
    by_doubt = np.where(others[rows], (1 - _ANYWHERE) * by_doubt + _ANYWHERE / (classes - 1), 1.0)
    entropy = np.where(pattern > 0, pattern * np.log(np.maximum(pattern, 1e-300)), 0.0).sum(1)
    from_doubt = weight @ (entropy - (pattern * np.log(by_doubt)).sum(1))
    from_uniform = weight @ (entropy + np.log(classes - 1))
    least, most = _PATTERN
    return float(np.clip((1 - from_doubt / max(from_uniform, _SMALLEST) - least) / (most - least), 0, 1))


def _noisy(fit: NoiseFit, ties: float, over_own: float) -> float:
    """The probability that labels are wrong at all; 1 for what differs from a net without near ties."""
    return float(_sigmoid(min(fit.surplus, over_own + _AGAINST))) if ties >= OVERLAP else 1.0


def _without_sure_errors(rate: float, ties: float) -> float:
    """The share of wrong labels of two classes, if errors of a net that is sure were taken for such."""
    errors = _SURE_ERRORS * ties if ties >= OVERLAP else 0.0
    return max(rate - errors, 0.0) / (1 - 2 * errors)


def _over_own(fit: NoiseFit, ties: float, count: int) -> float:
    """By how many nats noise explains labels better than errors of a net, which makes none without near ties.

    Of the entries of a smoothed matrix only a part is free: that of the samples among samples and pseudo-samples.
    """
    classes = len(fit.best.matrix)
    free = count / (count + fit.best.smoothing * classes**2)
    return fit.own_surplus - _PER_ENTRY * free * classes * (classes - 1) if ties >= OVERLAP else np.inf


def _due_to_labels(fit: NoiseFit, ties: float, doubt: float) -> float:
    """The part of the doubt that is not the net's own error, as far as the errors may depend on the sample."""
    factor, power = _OWN_ERROR
    own_error = factor * (4 * ties) ** power
    classes = min((len(fit.best.matrix) - 2) / (_MANY_CLASSES - 2), 1)
    return float(classes * _not_remaining(fit) * max(1 - own_error / max(doubt, _SMALLEST), 0.0))


def _on_samples(fit: NoiseFit) -> float:
    """How far errors depend on the sample, by what remains of the evidence for noise; 1 if that is not known."""
    return min(2 * _not_remaining(fit), 1.0) if np.isfinite(fit.own_surplus) else 1.0


def _not_remaining(fit: NoiseFit) -> float:
    """1 if nothing remains of the evidence, 0 if as much remains as of errors that do not depend on the sample."""
    remains = max(fit.own_surplus / max(fit.surplus, _SMALLEST), 0.0)
    return max(1 - remains / _REMAINS, 0.0)


def _highest(differ: float, opinions: Opinions | None, count: int) -> float:
    """The rate if the net is right wherever it prefers a class, or several are where they agree, if that is lower."""
    alone = _above(differ, count)
    if opinions is None:
        return alone
    return min(alone, _above(opinions.highest_rate, count * (1 - opinions.disagreement)))


def _above(share: float, count: float) -> float:
    """The upper end of the interval of a share that was counted in so many samples."""
    return share + _ERRORS * float(np.sqrt(share * (1 - share) / max(count, 1.0)))


def _shift_to(rate: float, score: Floats) -> float:
    """What to add to these log-odds so that the mean probability is the rate."""
    low, high = -50.0, 50.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _sigmoid(score + middle).mean() < rate else (low, middle)
    return (low + high) / 2


def _sigmoid(values: Floats | float) -> Floats:
    return np.asarray(np.exp(-np.logaddexp(0, -np.asarray(values))))


def _advice(ends: tuple[float, float], opinions: Opinions | None, further: Sequence[str]) -> str:
    if ends[1] - ends[0] <= _WIDE:
        return ""
    right = "the model is always right" if opinions is None else "the models are right where they agree"
    cures = ", ".join(["a better model", *further])
    return f"the high end assumes that {right}; {cures} or a review of 50 random labels would narrow this"
