"""From scores and labels, or from what a run left, to what is wrong with the labels."""

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from pyrite.auditing.found import Audit
from pyrite.auditing.noise_fit import NoiseFit, fit_noise, log_odds
from pyrite.auditing.scores import Kind, check_scores, chunks, to_margins
from pyrite.auditing.troubles import troubles
from pyrite.curves import expected_margin
from pyrite.data import Dataset, load
from pyrite.diagnostics.arrays import Flags, Floats, Ints, to_ints
from pyrite.training import Recipe, Run, train, train_once

__all__ = ["FEWEST", "audit", "audit_margins", "default_method"]

FEWEST: Final = 50
"""Samples, at least, to say something of the noise."""

_FITTED: Final = 5_000_000  # scores that the noise is fitted to; of more rows than that a random part
_LEAST: Final = 0.2  # the probability of being wrong that makes a suspect, at least
_SHOWN: Final = 5  # choices kept of every sample


def default_method(classes: int) -> str:
    """What an audit trains with if nobody says otherwise: absolute error, scaled where classes are so many that it
    would underfit. Why, docs/auditing.md says.

    >>> default_method(3), default_method(10)
    ('erm(unit(mae))', 'erm(unit(scale(mae, tau=1, classes=10)))')
    """
    low = -expected_margin(classes, exact=True) > 1  # where the untrained net's margins are
    return f"erm(unit(scale(mae, tau=1, classes={classes})))" if low else "erm(unit(mae))"


def audit(
    what: object,
    *,
    scores: object | None = None,
    kind: Kind | None = None,
    classes: Sequence[str] | None = None,
    seed: int | None = None,
    **options: Any,
) -> Audit:
    """Say which labels are wrong, how many, and what they should be.

    Args:
        what: data, as ``train`` takes them, which are trained on first; a run or its folder; or, with ``scores``, the
            given labels as class numbers.
        scores: what a model makes of every sample, a row a sample, a column a class. The model must not have been
            trained on that sample's label: labels that were learned look right.
        kind: what the scores are: ``"logits"``, ``"probabilities"`` or ``"log-probabilities"``. It is never guessed.
        classes: the names of the classes.
        seed: everything random comes from it; 0 if nothing says otherwise.
        options: for training, as ``train`` takes them. Without them a fifth is held out, or more of few samples.

    >>> true = np.arange(600) % 3
    >>> scores = 6 * np.eye(3)[true] + np.random.default_rng(0).normal(size=(600, 3))
    >>> labels = np.where(np.arange(600) < 60, (true + 1) % 3, true)
    >>> audit(labels, scores=scores, kind="logits", classes=["cat", "dog", "emu"])
    <audit: about 10.0 % ± 1.5 of 600 labels look wrong; most often cat labelled as dog>
    """
    if isinstance(what, Run | Dataset | str | Path):
        if scores is not None or kind is not None or classes is not None:
            raise ValueError("data and runs have their own scores and classes: leave out scores, kind and classes")
        return _audit_data(what, seed, options)
    if options:
        raise ValueError(f"{next(iter(options))} is for training, and with given scores nothing is trained")
    if scores is None:
        raise ValueError("scores are missing: pass what a model makes of every sample, or a run in place of the labels")
    return _audit_scores(to_ints(what, "labels", least=0), scores, kind, classes, seed or 0)


def _audit_scores(given: Ints, scores: object, kind: Kind | None, classes: Sequence[str] | None, seed: int) -> Audit:
    table = check_scores(scores, given, kind)
    assert kind is not None
    names = tuple(map(str, range(table.shape[1]) if classes is None else classes))
    if len(names) != table.shape[1]:
        raise ValueError(f"classes has {len(names)} names, but scores have {table.shape[1]} columns")
    _enough(given, names)
    few = np.arange(len(given))
    if table.size > _FITTED:
        few = np.sort(np.random.default_rng(seed).choice(few, max(_FITTED // table.shape[1], FEWEST), replace=False))
    fit = fit_noise(to_margins(table[few], kind), given[few], seed)
    score, choices, likelihoods = _posteriors(fit, table, kind, given)
    return _found(
        fit,
        labels=given,
        classes=names,
        index=np.arange(len(given)),
        score=score,
        choices=choices,
        likelihoods=likelihoods,
        warnings=_warnings(given, names),
    )


class _Posterior(NamedTuple):
    """Of every sample: the log-odds of a wrong label, the likeliest classes, and their probabilities."""

    score: Floats
    choices: Ints
    likelihoods: Floats


def _posteriors(fit: NoiseFit, table: npt.NDArray[Any], kind: Kind, labels: Ints) -> _Posterior:
    """In chunks, each written to its place: what is kept is a few numbers a sample."""
    shape = len(labels), min(_SHOWN, table.shape[1])
    found = _Posterior(np.empty(len(labels)), np.empty(shape, np.int64), np.empty(shape))

    def look(rows: slice) -> None:
        evidence = fit.evidence(to_margins(table[rows], kind), labels[rows])
        found.score[rows] = log_odds(evidence, labels[rows])
        found.choices[rows], found.likelihoods[rows] = _choices(evidence, labels[rows], found.score[rows])

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(look, chunks(table.shape)))
    return found


def _choices(evidence: Floats, labels: Ints, score: Floats) -> tuple[Ints, Floats]:
    """The likeliest true classes: the label by its odds, the others share the rest by their evidence."""
    rows = np.arange(len(labels))
    others = evidence.copy()
    others[rows, labels] = -np.inf
    others = np.exp(others - others.max(1, keepdims=True))
    wrong = np.exp(-np.logaddexp(0, -score))
    shares = others / others.sum(1, keepdims=True) * wrong[:, None]
    shares[rows, labels] = np.exp(-np.logaddexp(0, score))
    best, likelihoods = np.empty((2, min(_SHOWN, shares.shape[1]), len(labels)))
    for place in range(len(best)):
        # Of equals the given label comes first, then the lower number.
        top = shares.argmax(1)
        top = np.where(shares[rows, labels] == shares[rows, top], labels, top)
        best[place], likelihoods[place] = top, shares[rows, top]
        shares[rows, top] = -1
    return best.T.astype(np.int64), likelihoods.T


def _found(fit: NoiseFit, **columns: Any) -> Audit:
    """An audit by this fit; if it says nothing, only the ranking stays."""
    wrong = np.exp(-np.logaddexp(0, -columns["score"]))
    nothing = np.full_like(fit.matrix, np.nan)
    return Audit(
        can_tell=fit.can_tell,
        threshold=_threshold(wrong) if fit.can_tell else np.nan,
        noise_rate=float(wrong.mean()) if fit.can_tell else np.nan,
        noise_rate_error=fit.rate_error if fit.can_tell else np.nan,
        matrix=fit.matrix if fit.can_tell else nothing,
        matrix_error=fit.matrix_error if fit.can_tell else nothing,
        **columns,
    )


def _threshold(wrong: Floats) -> float:
    """The probability above which the F1 of finding wrong labels is best, as far as the probabilities are right.

    Where hardly any label is wrong that would be any probability at all: below a fifth nothing is a suspect.
    """
    ordered = np.sort(wrong)[::-1]
    expected = 2 * np.cumsum(ordered) / (np.arange(1, len(ordered) + 1) + wrong.sum())
    return max(float(ordered[expected.argmax()]), _LEAST)


def _audit_data(what: Run | Dataset | str | Path, seed: int | None, options: dict[str, Any]) -> Audit:
    """Train if it is not a run yet; then look at the evidence, and at the samples themselves if they are at hand."""
    if isinstance(what, str | Path) and os.path.isfile(os.path.join(what, "recipe.toml")):
        what = Run.load(what)
    if isinstance(what, Run):
        if options:
            raise ValueError(f"{next(iter(options))} is for training, and {what.path} is trained already")
        try:
            data = what.dataset()
        except ValueError:  # gone, or changed since. The evidence is in the run; only copies cannot be looked for
            data = None
        return _audit_run(what, seed or 0, data)
    options = {name: value for name, value in options.items() if value is not None}
    if seed is not None:
        options["seed"] = seed
    said = options if "config" not in options else Recipe.read(Path(options["config"])) | options
    data = load(what)
    options = {name: value for name, value in usual(said, data).items() if name not in said} | options
    run = train_once(what, **options) if "out" in options else train(what, **options)
    return _audit_run(run, run.recipe.seed, data)


def usual(said: dict[str, Any], data: Dataset) -> dict[str, Any]:
    """How an audit trains where nobody says: a fifth is held out, more of few samples so that some 250 tell the noise,
    and few samples are gone over more often.
    """
    samples = said.get("samples") or len(data)
    share = min(max(250 / samples, 0.2), max(0.4, min(0.5, (FEWEST + 2) / samples)))
    values = {"validation": share, "epochs": min(max(round(40_000 / samples), 10), 30)}
    return values if {"method", "loss"} & said.keys() else values | {"method": default_method(len(data.classes))}


def _audit_run(run: Run, seed: int, data: Dataset | None) -> Audit:
    if not (run.path / "samples.npz").exists() or not (run.path / "labels.npz").exists():
        raise ValueError(f"{run.path} has not finished an epoch: pyrite train --resume {run.path}")
    held = run.samples
    if "class_margins" not in held:
        raise ValueError(
            f"{run.path} keeps no margins of classes: samples times classes are too many, or it is too old"
        )
    part, given = run.labels["part"], run.labels["given"]
    used = np.isin(part, (0, 1))
    seen = None if data is None else troubles(replace(data, labels=given))
    return audit_margins(
        np.where(used[:, None], held["class_margins"], np.nan),
        given,
        part == 1,
        run.classes,
        held,
        seed,
        warnings=() if seen is None else seen.sentences(),
        troubles=seen,
        run=run,
        true=run.labels.get("true"),
        paths=run.labels.get("path"),
    )


def audit_margins(
    margins: npt.NDArray[Any],
    given: Ints,
    held_out: Flags,
    classes: tuple[str, ...],
    shown: Mapping[str, npt.NDArray[Any]],
    seed: int = 0,
    *,
    warnings: Sequence[str] = (),
    true: Ints | None = None,
    paths: npt.NDArray[Any] | None = None,
    **found: Any,
) -> Audit:
    """Audit what training showed of every sample, whoever trained.

    Held-out samples tell the noise. Those that were trained on are ranked by it, and have the probabilities that
    held-out samples have at the same place in their ranking, or their own if those are higher: learning by heart shifts
    margins more than their order.

    Args:
        margins: of all classes, averaged over the epochs, a row a sample; what was not seen is NaN, and left out.
        given: the labels.
        held_out: of which samples the labels were not trained on.
        classes: their names.
        shown: what else is known of the samples, as ``SampleEvidence.arrays`` has it.
        seed: for the standard errors.
        warnings, true, paths, found: what is known besides; the last as ``Audit`` has it.
    """
    index = np.flatnonzero(np.isfinite(margins).all(1))
    margins, labels, out = margins[index].astype(np.float64), given[index], held_out[index]
    _enough(labels, classes)
    warnings = (*_warnings(labels, classes), *warnings)
    fit = fit_noise(margins[out], labels[out], seed) if out.sum() >= FEWEST else NoiseFit.none(len(classes))
    if out.sum() < FEWEST:
        few = f"{int(out.sum())} samples were held out, fewer than {FEWEST}"
        share = max(0.2, (FEWEST + 2) / len(labels))
        cure = f"hold out more (validation={share:.2g})" if share <= 0.5 else "it takes some hundred samples"
        warnings = (*warnings, f"{few}, so there is only a ranking: {cure}")
    evidence = fit.evidence(margins, labels)
    score = log_odds(evidence, labels)
    if fit.can_tell:
        # What was learned looks righter than it is: by itself a score can be too low, never too high.
        score[~out] = np.maximum(score[~out], _at_the_same_place(score[~out], score[out]))
    choices, likelihoods = _choices(evidence, labels, score)
    return _found(
        fit,
        labels=labels,
        classes=classes,
        index=index,
        score=score,
        choices=choices,
        likelihoods=likelihoods,
        evidence=_evidence(shown, margins, labels, index),
        warnings=warnings,
        true=None if true is None else true[index],
        paths=() if paths is None else tuple(paths[index].tolist()),
        **found,
    )


def _at_the_same_place(own: Floats, other: Floats) -> Floats:
    """The values of ``other`` at the places that ``own`` has in its order; where they are the same, own order stays."""
    place = np.empty(len(own))
    place[np.argsort(own, kind="stable")] = (np.arange(len(own)) + 0.5) / len(own)
    return np.interp(place, (np.arange(len(other)) + 0.5) / len(other), np.sort(other)) + 1e-6 * place


def _evidence(held: Mapping[str, npt.NDArray[Any]], margins: Floats, labels: Ints, index: Ints) -> dict[str, Floats]:
    """What people may want to see of a sample: NaN where it was not trained on."""
    visits = held["visits"][index]
    columns = {
        "margin": margins[np.arange(len(labels)), labels],
        "last_margin": held["last_margin"][index],
        "agreement": np.divide(held["agreements"][index], visits, out=np.full(len(index), np.nan), where=visits > 0),
    }
    trust = held["last_trust"][index]
    return columns if np.isnan(trust).all() else columns | {"weight": trust}


def _enough(labels: Ints, classes: Sequence[str]) -> None:
    if len(labels) < FEWEST:
        raise ValueError(f"there are {len(labels)} samples: fewer than {FEWEST} say too little about label noise")
    held = np.unique(labels)
    if len(held) < 2:
        raise ValueError(f"all labels are {classes[held[0]]!r}: with one class no label can be told from another")


def _warnings(labels: Ints, classes: Sequence[str]) -> tuple[str, ...]:
    missing = [
        name for name, count in zip(classes, np.bincount(labels, minlength=len(classes)), strict=True) if not count
    ]
    if not missing:
        return ()
    said = f"no sample has the label {missing[0]!r}"
    return (said if len(missing) == 1 else f"{said}, nor those of {len(missing) - 1} other classes",)
