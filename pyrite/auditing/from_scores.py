"""From scores or margins of every sample to an ``Audit``. Nothing here trains a net."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from scipy.special import expit, log_expit

from pyrite.arrays import Flags, Floats, Ints
from pyrite.auditing.audit import Audit
from pyrite.auditing.columns import ColumnModels, with_slices
from pyrite.auditing.noise_fit import LabelGroups, NoiseFit, fit_noise
from pyrite.auditing.noise_rate import NoiseRate, OddsCalibration, estimate_rate
from pyrite.auditing.probabilities import (
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
from pyrite.auditing.score_tables import over_rows
from pyrite.auditing.scores import (
    Kind,
    check_labels,
    combine_scores,
    doubts_of,
    gap_of,
    preferences,
    to_log_p,
)
from pyrite.data import Records
from pyrite.errors import PyriteError

FEWEST: Final = 50
"""The fewest samples from which label noise can be estimated."""

_FITTED: Final = 2_000_000  # scores that the noise is fitted to; of a larger table, a random subset of the rows
_COMPARED: Final = 1_000_000  # scores, by which a change is noticed
_CERTAIN: Final = 30.0  # larger margins are clipped: they differ from this by less than 1e-13 in probability

_LogP = Callable[[npt.NDArray[Any]], Floats]


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
    some = np.asarray(table[:] if len(fitted) == len(table) else table[fitted])
    gap = gap_of(some, kind)
    groups = LabelGroups(to_log_p(some, kind, gap), given[fitted])
    fit, rate = fit_noise(groups), estimate_rate(groups)
    del some, groups

    scaled = partial(to_log_p, kind=kind, gap=gap)

    with_columns = columns is not None

    def look(rows: npt.NDArray[Any], labels: Ints) -> dict[str, npt.NDArray[Any]]:
        values = scaled(rows)
        found: dict[str, npt.NDArray[Any]] = {"": log_odds(fit.log_joint(values, labels), labels)}
        if with_columns:
            found["preferred"], found["certainty"] = preferences(values)
        return found | compute_scores(Evidence(values, labels))

    def merge(parts: list[dict[str, npt.NDArray[Any]]]) -> dict[str, npt.NDArray[Any]]:
        return {name: np.concatenate([part.pop(name) for part in parts]) for name in list(parts[0])}

    evidence = merge(list(over_rows(look, table, given, merge=merge)))
    odds = evidence.pop("")
    preferred, certainty = evidence.pop("preferred", None), evidence.pop("certainty", None)
    notes = (*_absent_classes(given, names), *doubts_of(table, kind), *rate.warnings)
    audit = _conclude(
        fit, rate, table, scaled, given, OddsCalibration.of(odds, rate.rate, rate.slope)(odds), classes=names,
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
        fraction = max(0.2, (FEWEST + 2) / len(labels))
        cure = f"hold out more (validation={fraction:.2g})" if fraction <= 0.5 else "it takes some hundred samples"
        few = f"{unseen.sum()} samples were held out, fewer than {FEWEST}, so there is only a ranking: {cure}"
        warnings = (*warnings, few)
    score = log_odds(fit.log_joint(log_p, labels), labels)
    if rate is not None:
        score = OddsCalibration.of(score[unseen], rate.rate, rate.slope)(score)
    if fit.can_tell:
        # Memorising a label lowers its score, so the score of a trained sample can be too low but not too high.
        score[~unseen] = np.maximum(score[~unseen], values_at_same_ranks(score[~unseen], score[unseen]))
    known = {name: values[index] for name, values in recorded.items() if len(values) == len(given)}
    return _conclude(
        fit, rate, log_p, np.asarray, labels, score, classes=classes, index=index,
        evidence=compute_scores(Evidence(log_p, labels, known)),
        warnings=warnings, true=None if true is None else true[index],
        paths=() if paths is None else tuple(paths[index].tolist()), **columns,
    )  # fmt: skip


def check_enough(labels: Ints, classes: Sequence[str], used: int | None = None) -> None:
    """Raise ``PyriteError`` if noise cannot be estimated: fewer than ``FEWEST`` labels, or all the same."""
    count = len(labels) if used is None else min(used, len(labels))
    if count < FEWEST:
        raise PyriteError(f"there are {count} samples: at least {FEWEST} are needed to estimate label noise")
    present = np.unique(labels)
    if len(present) < 2:
        raise PyriteError(f"all labels are {classes[present[0]]!r}: with one class no label can be wrong")


def _some(table: object) -> npt.NDArray[Any]:
    """A copy of some rows of an array in memory, which shows whether the user has overwritten it since."""
    if not isinstance(table, np.ndarray):
        return np.empty(0)
    return np.array(table[:: 1 + table.size // _COMPARED])


def _true_classes(fit: NoiseFit, scaled: _LogP, rows: npt.NDArray[Any], labels: Ints, score: Floats) -> Floats:
    """The probability of every true class, one row per sample."""
    return class_probabilities(fit.log_joint(scaled(rows), labels), labels, score)


def _probabilities(
    fit: NoiseFit, scaled: _LogP, table: npt.NDArray[Any], known: npt.NDArray[Any], labels: Ints, score: Floats
) -> npt.NDArray[np.float32]:
    if not np.array_equal(_some(table), known, equal_nan=True):
        raise PyriteError("the scores have changed since they were audited: audit them again, or pass a copy")
    result, start = np.empty((len(labels), fit.classes), np.float32), 0
    for chances in over_rows(partial(_true_classes, fit, scaled), table, labels, score):
        result[start : start + len(chances)] = chances
        start += len(chances)
    return result


def _conclude(
    fit: NoiseFit,
    rate: NoiseRate | None,
    table: npt.NDArray[Any],
    scaled: _LogP,
    labels: Ints,
    score: Floats,
    **columns: Any,
) -> Audit:
    """The audit by this fit of a table whose rows are ``scaled`` to log-probabilities; only a ranking if the fit cannot
    separate wrong labels."""

    def choose(rows: npt.NDArray[Any], labels: Ints, score: Floats) -> tuple[Any, ...]:
        chances = _true_classes(fit, scaled, rows, labels, score)
        return *likely_classes(chances, labels), *sums_by_label(chances, labels)

    def merge(parts: list[tuple[Any, ...]]) -> tuple[Any, ...]:
        likely, chances, present, sums = zip(*parts, strict=True)
        given, places = np.unique(np.concatenate(present), return_inverse=True)
        total = np.zeros((len(given), sums[0].shape[1]))
        np.add.at(total, places, np.concatenate(sums))
        return np.concatenate(likely), np.concatenate(chances), given, total

    counts, start = np.zeros((fit.classes, fit.classes)), 0  # one row per given label
    shape = len(labels), min(CHOICES, len(counts))
    choices, likelihoods = np.empty(shape, np.int32), np.empty(shape, np.float32)
    for likely, chances, present, sums in over_rows(choose, table, labels, score, merge=merge):
        rows = slice(start, start := start + len(likely))
        choices[rows], likelihoods[rows] = likely, chances
        counts[present] += sums
    columns |= {
        "labels": labels,
        "score": score,
        "choices": choices,
        "likelihoods": likelihoods,
        "probabilities": partial(_probabilities, fit, scaled, table, _some(table), labels),
    }
    if rate is None or not fit.can_tell:
        unknown = np.full_like(counts, np.nan)
        columns |= dict.fromkeys(("threshold", "noise_rate", "noise_rate_error"), np.nan)
        return Audit(can_tell=False, matrix=unknown, matrix_error=unknown, **columns)
    wrong = expit(score)
    matrix, matrix_error = noise_matrix(counts.T)
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


def _absent_classes(labels: Ints, classes: Sequence[str]) -> tuple[str, ...]:
    counts = np.bincount(labels, minlength=len(classes))
    absent = [name for name, count in zip(classes, counts, strict=True) if not count]
    if not absent:
        return ()
    text = f"no sample has the label {absent[0]!r}"
    return (text if len(absent) == 1 else f"{text}, nor those of {len(absent) - 1} other classes",)
