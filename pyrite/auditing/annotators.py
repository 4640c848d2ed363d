"""Several labels per sample: the true class of each, and how often each annotator is wrong.

Every annotator has a matrix of confusions, and the scores of a model that did not learn a sample's labels are its prior
distribution over the classes: the model is one more annotator. Given class and difficulty of a sample, annotators are
independent. A sample is easy or hard, each with matrices of its own, if labels of other samples support that: what is
hard for one annotator is hard for others, and two who make the same error are no proof. docs/annotators.md has the
model, and what was measured.
"""

from dataclasses import dataclass, replace
from typing import Final, final

import numpy as np
from scipy.special import expit, logit, logsumexp

from pyrite.arrays import Floats, Ints
from pyrite.auditing.annotator_model import Fit, Parameters, Samples, fit_parameters, from_votes, with_difficulty
from pyrite.checks import check_memory

_RESAMPLES: Final = 20  # for standard errors, with a relative error of about a sixth
_CONFIDENCE: Final = 1.96  # standard errors at each side of an interval of 95 %


@final
@dataclass(frozen=True, eq=False)
class AnnotatorFit:
    """Estimates of the true classes, and of the error rates of several annotators and of a model."""

    posterior: Floats  # the probability of every class, one row per sample
    rates: Floats  # the fraction of each annotator's labels that are wrong
    intervals: Floats  # of 95 %, one row of two ends per annotator
    counts: Ints  # of each annotator's labels
    given_error: float  # the standard error of the fraction of the given labels that are wrong
    given_interval: tuple[float, float]
    model_rate: float  # how often the class that the model prefers is wrong; NaN without a model
    matrices: Floats  # P(label j | class i), one matrix per annotator
    gain: Floats  # by how much one more label would raise the probability that the consensus is right, per sample
    levels: int  # of difficulty: 1 or 2


def votes(labels: Ints, classes: int) -> Floats:
    """The fraction of its labels that every class has, one row per sample. A gap among the labels is −1.

    >>> votes(np.array([[0, 0, 1], [2, -1, -1]]), 3).round(2)
    array([[0.67, 0.33, 0.  ],
           [0.  , 0.  , 1.  ]])
    """
    counts = np.stack([(labels == number).sum(1) for number in range(classes)], 1)
    return np.asarray(counts / np.maximum(counts.sum(1, keepdims=True), 1))


def fit_annotators(
    labels: Ints,
    classes: int,
    log_p: Floats | None = None,
    *,
    given: Ints | None = None,
    seed: int = 0,
    errors: bool = True,
) -> AnnotatorFit:
    """Fit the classes of samples and the matrices of annotators to each other.

    Args:
        labels: class numbers, one row per sample, one column per annotator, −1 for a gap.
        classes: their number.
        log_p: logarithms of class probabilities by a model that did not learn the labels of that sample, up to a
            temperature and a bias of each class, which are fitted; rows with NaN are not known.
        given: one label per sample, of which the fraction that is wrong is estimated too.
        seed: of the resamples.
        errors: whether standard errors are needed; without them the intervals have no width.
    """
    check_memory(8 * labels.shape[1] * 2 * classes**2, f"{labels.shape[1]} annotators with {classes} classes")
    samples = Samples.of(labels, classes, log_p)
    random = np.random.default_rng(seed)
    best = one = fit_parameters(samples, from_votes(samples, votes(labels, classes)))
    if _is_better(samples, one.parameters, random.permutation(len(labels)) % 2):
        best = fit_parameters(samples, with_difficulty(one.parameters))

    def wrong(fit: Fit, some: Samples) -> Floats:
        """The fractions of wrong labels: of each annotator, of all together, of the given ones."""
        own, size = some.wrong_rates(fit.posterior), some.counts
        all_together = np.nan_to_num(own) @ size / size.sum()
        return np.array([*own, all_together, _wrong(fit.posterior, chosen) @ some.weight / some.weight.sum()])

    chosen = votes(labels, classes).argmax(1) if given is None else given
    rates, spread = wrong(best, samples), np.zeros(labels.shape[1] + 2)
    if errors:
        drawn = np.empty((_RESAMPLES, len(rates)))
        for row in drawn:
            times = np.bincount(random.integers(len(labels), size=len(labels)), minlength=len(labels))
            some = replace(samples, weight=times.astype(np.float64))
            row[:] = wrong(fit_parameters(some, best.parameters, renew=False), some)
        # An annotator of few labels may have none in a resample.
        spread = np.where(np.isnan(drawn), rates, drawn).std(0, ddof=1)
    counts = np.array([*samples.counts, samples.counts.sum(), len(labels)])
    shifts = _log_odds(rates, counts) - _log_odds(wrong(one, samples), counts)
    # Of one annotator the shift is uncertain, and of all together it is not.
    shifts[:-1] = shifts[-2]
    intervals = _intervals(rates, spread, counts, shifts)
    levels, known = best.parameters.level_chances(samples).mean(0), samples.known
    typical = np.einsum("lij,l->ij", best.parameters.typical_matrix, levels)
    return AnnotatorFit(
        posterior=best.posterior,
        rates=rates[:-2],
        intervals=intervals[:-2],
        counts=samples.counts.astype(np.int64),
        given_error=float(spread[-1]),
        given_interval=(float(intervals[-1, 0]), float(intervals[-1, 1])),
        model_rate=float(_wrong(best.posterior, samples.log_p.argmax(1))[known].mean()) if known.any() else np.nan,
        matrices=np.einsum("alij,l->aij", best.parameters.matrices, levels),
        gain=_gain(best.posterior, typical),
        levels=len(levels),
    )


def _is_better(samples: Samples, one: Parameters, half: Ints) -> bool:
    """Whether two levels predict labels of samples that were not fitted better than one, clearly."""
    gains = []
    for part in (0, 1):
        fitted = replace(samples, weight=(half == part).astype(np.float64))
        single = fit_parameters(fitted, one).parameters
        double = fit_parameters(fitted, with_difficulty(single)).parameters
        left = half != part
        each = [
            logsumexp(parameters.log_joint(samples, parameters.log_prior(samples)), axis=(1, 2))[left]
            for parameters in (single, double)
        ]
        gains.append(each[1] - each[0])
    gain = np.concatenate(gains)
    return bool(gain.sum() > 2 * gain.std() * np.sqrt(len(gain)))


def _wrong(posterior: Floats, labels: Ints) -> Floats:
    return np.asarray(1 - posterior[np.arange(len(labels)), labels])


def _centre(rates: Floats, counts: Floats) -> Floats:
    """Rates that are neither 0 nor 1: one more label counts, half of it wrong."""
    return np.asarray((np.nan_to_num(rates) * counts + 0.5) / (counts + 1))


def _log_odds(rates: Floats, counts: Floats) -> Floats:
    return np.asarray(logit(_centre(rates, counts)))


def _intervals(rates: Floats, spread: Floats, counts: Floats, shifts: Floats) -> Floats:
    """Intervals of 95 % on the scale of log-odds.

    What is left of the dependence between annotators may be as large as what the second level of difficulty explains,
    so an interval extends by as much in that direction.
    """
    centre = _centre(rates, counts)
    variance = np.maximum(spread**2, centre * (1 - centre) / (counts + 1))
    error = _CONFIDENCE * np.sqrt(variance) / (centre * (1 - centre))
    low, high = logit(centre) - error + np.minimum(shifts, 0), logit(centre) + error + np.maximum(shifts, 0)
    known = np.nan_to_num(rates)
    return np.stack([np.minimum(expit(low), known), np.maximum(expit(high), known)], 1)


def _gain(posterior: Floats, typical: Floats) -> Floats:
    """The expected rise of the consensus' probability by one more label of a typical annotator.

    >>> _gain(np.array([[0.5, 0.5], [1.0, 0.0]]), np.array([[0.9, 0.1], [0.1, 0.9]])).round(2)
    array([0.4, 0. ])
    """
    best = np.zeros(len(posterior))
    for label in range(typical.shape[1]):
        best += (posterior * typical[:, label]).max(1)
    return np.asarray(np.maximum(best - posterior.max(1), 0.0))
