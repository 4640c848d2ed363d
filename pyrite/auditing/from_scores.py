"""From scores or margins of every sample to an ``Audit``. Nothing here trains a net."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import getitem
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from scipy.special import expit, log_expit

from pyrite.arrays import Flags, Floats, Ints
from pyrite.auditing.audit import Audit
from pyrite.auditing.column_models import ColumnModels
from pyrite.auditing.noise_fit import LabelGroups, NoiseFit, fit_noise
from pyrite.auditing.noise_rate import NoiseRate, OddsCalibration, estimate_rate
from pyrite.auditing.posterior import (
    CHOICES,
    class_probabilities,
    likely_classes,
    log_odds,
    noise_matrix,
    sums_by_label,
    suspect_threshold,
    values_at_same_ranks,
)
from pyrite.auditing.sample_scores import Evidence, compute_scores
from pyrite.auditing.scores import (
    Kind,
    by_blocks,
    check_labels,
    combine_scores,
    doubts_of,
    gap_of,
    in_blocks,
    preferences,
    to_log_p,
)
from pyrite.auditing.where import with_slices
from pyrite.data import Records
from pyrite.errors import PyriteError

__all__ = ["FEWEST", "audit_margins", "audit_scores", "check_enough"]

FEWEST: Final = 50
"""The fewest samples from which label noise can be estimated."""

_FITTED: Final = 2_000_000  # scores that the noise is fitted to; of a larger table, a random subset of the rows
_CERTAIN: Final = 30.0  # larger margins are clipped: they differ from this by less than 1e-13 in probability

_LogP = Callable[[slice], Floats]


def audit_scores(
    labels: object,
    *,
    scores: object,
    kind: Kind | None,
    embeddings: object | None = None,
    classes: Sequence[str] | None = None,
    columns: Records | None = None,
    tabular: bool = False,
    copies: Ints | None = None,
    seed: int = 0,
) -> Audit:
    """Audit labels by the scores of nets that did not learn them.

    The result does not depend on the scale of the scores, on a number added to a row, or on the order of rows and
    classes. ``pyrite.audit`` describes the arguments; ``seed`` chooses the rows of a large table that are fitted.
    Slices are looked for in ``columns``, which the net may have learned from if they are ``tabular``; ``copies`` of a
    sample, which have the same number, count once there.
    """
    given = check_labels(labels)
    table, kind = combine_scores(scores, embeddings, given, kind)
    names = tuple(map(str, range(table.shape[1]) if classes is None else classes))
    if len(names) != table.shape[1]:
        raise PyriteError(f"classes has {len(names)} names, but scores have {table.shape[1]} columns")
    check_enough(given, names)
    fitted = np.arange(len(given))
    if table.size > _FITTED:
        count = max(_FITTED // table.shape[1], FEWEST)
        fitted = np.sort(np.random.default_rng(seed).choice(fitted, min(count, len(given)), replace=False))
    some = table[:] if len(fitted) == len(table) else table[fitted]
    gap = gap_of(some, kind)
    groups = LabelGroups(to_log_p(some, kind, gap), given[fitted])
    fit, rate = fit_noise(groups), estimate_rate(groups)
    del some, groups

    log_p = partial(_log_p, table, kind, gap)

    def look(rows: slice) -> dict[str, npt.NDArray[Any]]:
        values = log_p(rows)
        found = {"": log_odds(fit.log_joint(values, given[rows]), given[rows])}
        if columns is not None:
            found["preferred"], found["certainty"] = preferences(values)
        return found | compute_scores(Evidence(values, given[rows]))

    parts = by_blocks(look, table.shape)
    evidence = {name: np.concatenate([part.pop(name) for part in parts]) for name in list(parts[0])}
    odds = evidence.pop("")
    preferred, certainty = evidence.pop("preferred", None), evidence.pop("certainty", None)
    notes = (*_absent_classes(given, names), *doubts_of(table, kind), *rate.warnings)
    audit = _conclude(
        fit, rate, log_p, given, OddsCalibration.of(odds, rate.rate, rate.slope)(odds), classes=names,
        index=np.arange(len(given)), evidence=evidence, warnings=notes,
    )  # fmt: skip
    if columns is None or preferred is None or certainty is None:
        return audit
    everywhere = np.ones(len(given), bool)
    models = ColumnModels(columns, given, len(names), copies, seed) if tabular else None
    return with_slices(audit, columns, preferred, certainty, everywhere, models, own=True, copies=copies)


def audit_margins(
    margins: npt.NDArray[Any],
    given: Ints,
    held_out: Flags,
    classes: tuple[str, ...],
    recorded: Mapping[str, npt.NDArray[Any]],
    *,
    warnings: Sequence[str] = (),
    true: Ints | None = None,
    paths: npt.NDArray[Any] | None = None,
    **columns: Any,
) -> Audit:
    """Audit what was recorded of every sample during training, by any training loop.

    The noise is fitted to held-out samples. Those that were trained on are ranked by the same formula, and get the
    probabilities that held-out samples have at the same rank, or their own if those are higher: memorising changes
    margins more than it changes their order.

    Args:
        margins: of all classes, averaged over the epochs, one row per sample; rows with NaN are left out.
        given: the labels.
        held_out: True for samples that were not trained on.
        classes: their names.
        recorded: what else is known of the samples, as ``Record.arrays`` has it.
        warnings, true, paths, columns: passed to ``Audit``.
    """
    index = np.flatnonzero(np.isfinite(margins).all(1))
    labels, unseen = given[index], held_out[index]
    log_p = log_expit(np.clip(margins[index].astype(np.float64), -_CERTAIN, _CERTAIN))
    check_enough(labels, classes)
    warnings = (*_absent_classes(labels, classes), *warnings)
    rate = None
    if unseen.sum() >= FEWEST and len(np.unique(labels[unseen])) > 1:
        groups = LabelGroups(log_p[unseen], labels[unseen])
        fit, rate = fit_noise(groups), estimate_rate(groups)
    else:
        fit = NoiseFit.initial(len(classes))
        warnings = (*warnings, _too_few_held_out(int(unseen.sum()), len(labels)))
    score = log_odds(fit.log_joint(log_p, labels), labels)
    if rate is not None:
        score = OddsCalibration.of(score[unseen], rate.rate, rate.slope)(score)
    if fit.can_tell:
        # Memorising a label lowers its score, so the score of a trained sample can be too low but not too high.
        score[~unseen] = np.maximum(score[~unseen], values_at_same_ranks(score[~unseen], score[unseen]))
    known = {name: values[index] for name, values in recorded.items() if len(values) == len(given)}
    log_p_of: _LogP = partial(getitem, log_p)  # type: ignore[assignment]
    return _conclude(
        fit, rate, log_p_of, labels, score, classes=classes, index=index,
        evidence=compute_scores(Evidence(log_p, labels, known)),
        warnings=warnings, true=None if true is None else true[index],
        paths=() if paths is None else tuple(paths[index].tolist()), **columns,
    )  # fmt: skip


def check_enough(labels: Ints, classes: Sequence[str], used: int | None = None) -> None:
    """Raise ``PyriteError`` if noise cannot be estimated: fewer than ``FEWEST`` labels, or all the same."""
    count = len(labels) if used is None else min(used, len(labels))
    if count < FEWEST:
        raise PyriteError(f"there are {count} samples: fewer than {FEWEST} say too little about label noise")
    present = np.unique(labels)
    if len(present) < 2:
        raise PyriteError(f"all labels are {classes[present[0]]!r}: with one class no label can be wrong")


def _log_p(table: npt.NDArray[Any], kind: Kind, gap: float, rows: slice) -> Floats:
    return to_log_p(table[rows], kind, gap)


def _probabilities(fit: NoiseFit, log_p: _LogP, labels: Ints, score: Floats) -> npt.NDArray[np.float32]:
    """The probability of every true class, one row per sample."""
    result = np.empty((len(labels), len(fit.matrix)), np.float32)

    def fill(rows: slice) -> None:
        joint = fit.log_joint(log_p(rows), labels[rows])
        result[rows] = class_probabilities(joint, labels[rows], score[rows])

    by_blocks(fill, result.shape)
    return result


def _conclude(
    fit: NoiseFit, rate: NoiseRate | None, log_p: _LogP, labels: Ints, score: Floats, **columns: Any
) -> Audit:
    """The audit by this fit; only a ranking if the fit cannot separate wrong labels."""

    counts = np.zeros_like(fit.matrix)
    shape = len(labels), min(CHOICES, len(counts))
    choices, likelihoods = np.empty(shape, np.int32), np.empty(shape, np.float32)

    def choose(rows: slice) -> tuple[Ints, Floats]:
        joint = fit.log_joint(log_p(rows), labels[rows])
        chances = class_probabilities(joint, labels[rows], score[rows])
        choices[rows], likelihoods[rows] = likely_classes(chances, labels[rows])
        return sums_by_label(chances, labels[rows])

    for present, sums in in_blocks(choose, (len(labels), len(counts))):
        counts[:, present] += sums.T
    columns |= {
        "labels": labels,
        "score": score,
        "choices": choices,
        "likelihoods": likelihoods,
        "probabilities": partial(_probabilities, fit, log_p, labels),
    }
    if rate is None or not fit.can_tell:
        unknown = np.full_like(fit.matrix, np.nan)
        columns |= dict.fromkeys(("threshold", "noise_rate", "noise_rate_error"), np.nan)
        return Audit(can_tell=False, matrix=unknown, matrix_error=unknown, **columns)
    wrong = expit(score)
    matrix, matrix_error = noise_matrix(counts)
    noise_rate = float(wrong.mean())
    return Audit(
        threshold=suspect_threshold(wrong),
        noise_rate=noise_rate,
        noise_rate_error=rate.error,
        noise_interval=(min(rate.low, noise_rate), max(rate.high, noise_rate)),
        advice=rate.advice,
        matrix=matrix,
        matrix_error=matrix_error,
        **columns,
    )


def _too_few_held_out(count: int, samples: int) -> str:
    fraction = max(0.2, (FEWEST + 2) / samples)
    cure = f"hold out more (validation={fraction:.2g})" if fraction <= 0.5 else "it takes some hundred samples"
    return f"{count} samples were held out, fewer than {FEWEST}, so there is only a ranking: {cure}"


def _absent_classes(labels: Ints, classes: Sequence[str]) -> tuple[str, ...]:
    counts = np.bincount(labels, minlength=len(classes))
    absent = [name for name, count in zip(classes, counts, strict=True) if not count]
    if not absent:
        return ()
    text = f"no sample has the label {absent[0]!r}"
    return (text if len(absent) == 1 else f"{text}, nor those of {len(absent) - 1} other classes",)
