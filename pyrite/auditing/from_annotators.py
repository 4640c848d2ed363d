"""An audit of labels by several annotators: their agreement identifies the noise rate, which a model alone cannot."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import expit, logit

from pyrite.arrays import Floats, Ints
from pyrite.auditing.annotators import fit_annotators
from pyrite.auditing.audit import Annotator, Audit
from pyrite.auditing.from_scores import audit_scores
from pyrite.auditing.scores import Kind, combine_scores
from pyrite.data import Annotations, annotation_numbers
from pyrite.errors import PyriteError

_SMALLEST = 1e-12  # probabilities closer to 0 or 1 are taken as that, so that log-odds are finite

_FARTHEST = (
    1e3  # scores so far below the first class are bounded, so that a log-probability of minus infinity is finite
)


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
