"""From scores or margins of every sample to an ``Audit``. Nothing here trains a net."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from pyrite.auditing.gaps import typical_gap
from pyrite.auditing.no_class import no_class_of_margins, no_class_of_scores
from pyrite.auditing.noise_fit import fit_noise
from pyrite.auditing.noise_model import NoiseFit, log_odds
from pyrite.auditing.noise_rate import NoiseRate, estimate_rate, with_error_odds
from pyrite.auditing.posterior import (
    best_threshold,
    class_shares,
    likely_classes,
    posterior_of_scores,
    shares_of_scores,
    values_at_same_ranks,
)
from pyrite.auditing.result import Audit
from pyrite.auditing.scores import Kind, check_labels, gap_of, to_margins
from pyrite.auditing.witnesses import gather
from pyrite.diagnostics.arrays import Flags, Floats, Ints
from pyrite.errors import PyriteError

__all__ = ["FEWEST", "Progress", "audit_margins", "audit_scores", "check_enough"]

FEWEST: Final = 50
"""The fewest samples from which label noise can be estimated."""

Progress = Callable[[float], None]
"""Called with the share of the work that is done."""

_FITTED: Final = 5_000_000  # scores that the noise is fitted to; of a larger table, a random subset of the rows
_CERTAIN: Final = 30.0  # larger margins are clipped: they differ from this by less than 1e-13 in probability


def audit_scores(
    labels: object,
    *,
    scores: object,
    kind: Kind | None,
    embeddings: object | None = None,
    classes: Sequence[str] | None = None,
    seed: int = 0,
    progress: Progress = lambda share: None,
) -> Audit:
    """Audit labels by the scores of nets that did not learn them.

    The result does not depend on the scale of the scores, on a number added to a row, or on the order of rows and
    classes.

    Args:
        labels: the given labels as class numbers.
        scores: one row per sample, one column per class; or a list of such tables, of models that differ.
        kind: what they are: ``"logits"``, ``"probabilities"`` or ``"log-probabilities"``.
        embeddings: one row per sample, by which the labels of its neighbours are a further witness.
        classes: the names of the classes.
        seed: for the standard errors.
        progress: called with the share of the work that is done.
    """
    given = check_labels(labels)
    table, kind, opinions = gather(scores, embeddings, given, kind)
    names = tuple(map(str, range(table.shape[1]) if classes is None else classes))
    if len(names) != table.shape[1]:
        raise PyriteError(f"classes has {len(names)} names, but scores have {table.shape[1]} columns")
    check_enough(given, names)
    fitted = np.arange(len(given))
    if table.size > _FITTED:
        count = max(_FITTED // table.shape[1], FEWEST)
        fitted = np.sort(np.random.default_rng(seed).choice(fitted, min(count, len(given)), replace=False))
    gap = gap_of(table[fitted], kind)
    margins = to_margins(table[fitted], kind, gap)
    fit = fit_noise(margins, given[fitted], seed, progress)
    absent = {"scores of a second model": opinions is None, "embeddings": embeddings is None}
    rate = estimate_rate(fit, margins, given[fitted], opinions, [name for name in absent if absent[name]])
    posterior = posterior_of_scores(fit, table, kind, gap, given, rate.shift)
    return _conclude(
        fit,
        rate,
        labels=given,
        classes=names,
        index=np.arange(len(given)),
        no_class=no_class_of_scores(table, kind, gap),
        shares=partial(shares_of_scores, fit, table, kind, gap, given),
        warnings=_absent_classes(given, names),
        **posterior._asdict(),
    )


def audit_margins(
    margins: npt.NDArray[Any],
    given: Ints,
    held_out: Flags,
    classes: tuple[str, ...],
    recorded: Mapping[str, npt.NDArray[Any]],
    seed: int = 0,
    *,
    warnings: Sequence[str] = (),
    true: Ints | None = None,
    paths: npt.NDArray[Any] | None = None,
    progress: Progress = lambda share: None,
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
        seed: for the standard errors.
        warnings, true, paths, columns: passed to ``Audit``.
        progress: called with the share of the work that is done.
    """
    index = np.flatnonzero(np.isfinite(margins).all(1))
    labels, unseen = given[index], held_out[index]
    recorded_margins = margins[index].astype(np.float64)
    margins = np.clip(recorded_margins, -_CERTAIN, _CERTAIN)
    check_enough(labels, classes)
    warnings = (*_absent_classes(labels, classes), *warnings)
    rate = None
    if unseen.sum() >= FEWEST:
        fit = fit_noise(margins[unseen], labels[unseen], seed, progress)
        rate = estimate_rate(fit, margins[unseen], labels[unseen])
    else:
        fit = NoiseFit.initial(len(classes), typical_gap(margins))
        warnings = (*warnings, _too_few_held_out(int(unseen.sum()), len(labels)))
    evidence = fit.evidence(margins, labels)
    score = log_odds(evidence, labels) + (rate.shift if rate else 0.0)
    if fit.can_tell:
        # Memorising a label lowers its score, so the score of a trained sample can be too low but not too high.
        score[~unseen] = np.maximum(score[~unseen], values_at_same_ranks(score[~unseen], score[unseen]))
    choices, likelihoods = likely_classes(evidence, labels, score)
    return _conclude(
        fit,
        rate,
        labels=labels,
        classes=classes,
        index=index,
        score=score,
        choices=choices,
        likelihoods=likelihoods,
        shares=partial(class_shares, evidence, labels),
        no_class=no_class_of_margins(recorded_margins),
        evidence=_evidence(recorded, recorded_margins, labels, index),
        warnings=warnings,
        true=None if true is None else true[index],
        paths=() if paths is None else tuple(paths[index].tolist()),
        **columns,
    )


def check_enough(labels: Ints, classes: Sequence[str], used: int | None = None) -> None:
    """Raise ``ValueError`` if noise cannot be estimated: fewer than ``FEWEST`` labels, or all the same.

    Args:
        labels: the given ones.
        classes: their names.
        used: the number of labels that are used; all by default.
    """
    count = len(labels) if used is None else min(used, len(labels))
    if count < FEWEST:
        raise PyriteError(f"there are {count} samples: fewer than {FEWEST} say too little about label noise")
    present = np.unique(labels)
    if len(present) < 2:
        raise PyriteError(f"all labels are {classes[present[0]]!r}: with one class no label can be wrong")


def _conclude(fit: NoiseFit, rate: NoiseRate | None, **columns: Any) -> Audit:
    """The audit by this fit; only a ranking if the fit cannot separate wrong labels."""
    unknown = np.full_like(fit.matrix, np.nan)
    if rate is None or not fit.can_tell:
        return Audit(
            can_tell=False,
            threshold=np.nan,
            noise_rate=np.nan,
            noise_rate_error=np.nan,
            matrix=unknown,
            matrix_error=unknown,
            **columns,
        )
    wrong = np.exp(-np.logaddexp(0, -columns["score"]))
    return Audit(
        threshold=best_threshold(wrong),
        noise_rate=float(wrong.mean()),
        noise_rate_error=rate.error,
        noise_interval=(rate.low, rate.high),
        narrows=rate.narrows,
        matrix=with_error_odds(fit.matrix, rate.shift),
        matrix_error=fit.matrix_error,
        **columns,
    )


def _evidence(
    recorded: Mapping[str, npt.NDArray[Any]], margins: Floats, labels: Ints, index: Ints
) -> dict[str, Floats]:
    """Columns about each sample for reports: NaN for samples that were not trained on."""
    visits = recorded["visits"][index]
    agreements = recorded["agreements"][index]
    columns = {
        "margin": margins[np.arange(len(labels)), labels],
        "last_margin": recorded["last_margin"][index],
        "agreement": np.divide(agreements, visits, out=np.full(len(index), np.nan), where=visits > 0),
    }
    trust = recorded["last_trust"][index]
    return columns if np.isnan(trust).all() else columns | {"trust": trust}


def _too_few_held_out(count: int, samples: int) -> str:
    share = max(0.2, (FEWEST + 2) / samples)
    cure = f"hold out more (validation={share:.2g})" if share <= 0.5 else "it takes some hundred samples"
    return f"{count} samples were held out, fewer than {FEWEST}, so there is only a ranking: {cure}"


def _absent_classes(labels: Ints, classes: Sequence[str]) -> tuple[str, ...]:
    counts = np.bincount(labels, minlength=len(classes))
    absent = [name for name, count in zip(classes, counts, strict=True) if not count]
    if not absent:
        return ()
    text = f"no sample has the label {absent[0]!r}"
    return (text if len(absent) == 1 else f"{text}, nor those of {len(absent) - 1} other classes",)
