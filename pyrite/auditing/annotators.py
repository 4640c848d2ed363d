"""Several labels per sample: the true class of each, how often each annotator is wrong, and the audit of the consensus.

The agreement of annotators identifies the noise rate, which a model alone cannot.

Every annotator has a matrix of confusions, and the scores of a model that did not learn a sample's labels are its prior
distribution over the classes: the model is one more annotator. Given class and difficulty of a sample, annotators are
independent. A sample is easy or hard, each with matrices of its own, if labels of other samples support that: what is
hard for one annotator is hard for others, and two who make the same error are no proof. docs/annotators.md has the
model, and what was measured.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, final

import numpy as np
import numpy.typing as npt
from scipy.special import expit, logit, logsumexp

from pyrite.arrays import Floats, Ints
from pyrite.auditing.annotator_model import Fit, Parameters, Samples, fit_parameters, from_votes, with_difficulty
from pyrite.auditing.audit import Annotator, Audit
from pyrite.auditing.from_scores import audit_scores
from pyrite.auditing.scores import Kind, combine_scores
from pyrite.checks import check_memory
from pyrite.data import Annotations, annotation_numbers
from pyrite.errors import PyriteError

_RESAMPLES: Final = 20  # for standard errors, with a relative error of about a sixth
_CONFIDENCE: Final = 1.96  # standard errors at each side of an interval of 95 %
_SMALLEST: Final = 1e-12  # probabilities closer to 0 or 1 are taken as that, so that log-odds are finite
_FARTHEST: Final = 1e3  # scores below the first class by more count as this, so that log(0) is finite


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


def with_annotators(audit: Audit, annotations: Annotations, log_p: Floats, *, seed: int = 0) -> Audit:
    """The audit of a consensus of annotators, by all of their labels and a model as one more annotator.

    Args:
        audit: of the labels that the annotators agree on without the model.
        annotations: their labels, of all samples of the data.
        log_p: logarithms of class probabilities by a model that did not learn the labels of that sample, up to a
            factor and a number for each class, of all samples of the data; NaN where there are none.
        seed: of the standard errors.
    """
    notes = annotations.check_agreement()
    labels, rows = audit.labels, np.arange(len(audit))
    own = replace(annotations, labels=annotations.labels[audit.index])
    fit = fit_annotators(own.labels, len(audit.classes), log_p[audit.index], given=labels, seed=seed)
    wrong = np.clip(1 - fit.posterior[rows, labels], _SMALLEST, 1 - _SMALLEST)
    choices = np.argsort(-fit.posterior, axis=1, kind="stable")[:, : audit.choices.shape[1]]
    matrix, matrix_error = _matrix(fit.posterior, labels)
    annotators = {
        name: Annotator(rate, (low, high), count, matrix)
        for name, rate, (low, high), count, matrix in zip(
            own.names, fit.rates.tolist(), fit.intervals.tolist(), fit.counts.tolist(), fit.matrices, strict=True
        )
    }
    return replace(
        audit,
        score=logit(wrong),
        choices=choices,
        likelihoods=np.take_along_axis(fit.posterior, choices, 1),
        probabilities=partial(_probabilities, fit.posterior, labels),
        threshold=0.5,  # from which on another class is likelier than the given one
        noise_rate=float(wrong.mean()),
        noise_rate_error=fit.given_error,
        noise_interval=fit.given_interval,
        matrix=matrix,
        matrix_error=matrix_error,
        can_tell=True,
        advice="",
        evidence={**audit.evidence, "label_gain": fit.gain},
        warnings=(*notes, *audit.warnings),
        annotators=annotators,
        annotations=own,
        model_rate=fit.model_rate,
    )


def audit_annotated(
    labels: object,
    *,
    scores: object,
    kind: Kind | None,
    embeddings: object | None = None,
    classes: Sequence[str] | None = None,
    seed: int = 0,
    **columns: Any,
) -> Audit:
    """Audit labels of several annotators, one column each, by the scores of models that did not learn them. The
    ``columns`` are passed to ``audit_scores``."""
    annotations = annotation_numbers(labels)
    annotations.check_agreement()
    alone = fit_annotators(annotations.labels, int(annotations.labels.max()) + 1, errors=False)
    given = alone.posterior.argmax(1)
    audit = audit_scores(given, scores=scores, kind=kind, embeddings=embeddings, classes=classes, seed=seed, **columns)
    highest = annotations.labels.max(1)
    if highest.max() >= len(audit.classes):
        first = int((highest >= len(audit.classes)).argmax())
        raise PyriteError(
            f"label {highest[first]} in row {first} has no column in the scores, which have {len(audit.classes)}"
        )
    table, found, *_ = combine_scores(scores, embeddings, given, kind)
    log_p = np.asarray(table, np.float64)
    if found == "probabilities":
        log_p = np.log(np.maximum(log_p, _SMALLEST))
    return with_annotators(audit, annotations, np.maximum(log_p, log_p.max(1, keepdims=True) - _FARTHEST), seed=seed)


def _matrix(posterior: Floats, labels: Ints) -> tuple[Floats, Floats]:
    """P(given j | true i), and its standard errors; a row without samples is that of labels that are always right."""
    counts = posterior.T @ np.eye(posterior.shape[1])[labels]
    size = counts.sum(1, keepdims=True)
    matrix = np.where(size > 0, counts / np.maximum(size, _SMALLEST), np.eye(len(counts)))
    return matrix, np.sqrt(matrix * (1 - matrix) / np.maximum(size, 1))


def _probabilities(posterior: Floats, labels: Ints, score: Floats) -> npt.NDArray[np.float32]:
    """The probability of every class, if these are the log-odds that the label is wrong."""
    rows, others = np.arange(len(labels)), posterior.copy()
    others[rows, labels] = 0
    others *= (expit(score) / np.maximum(others.sum(1), _SMALLEST))[:, None]
    others[rows, labels] = expit(-score)
    return others.astype(np.float32)
