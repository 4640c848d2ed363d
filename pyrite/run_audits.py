"""Audits of a run that exists, or of one that is trained for the audit."""

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Unpack, cast

import numpy as np
from scipy.special import log_expit

from pyrite.auditing import (
    FEWEST,
    Audit,
    Kind,
    audit_annotated,
    audit_margins,
    audit_scores,
    check_enough,
    data_issues,
    with_annotators,
)
from pyrite.checks import is_whole, whole_number
from pyrite.curves import expected_margin
from pyrite.data import Data, Dataset, Part, are_several, has_labels, is_frame, is_object, load, with_labels
from pyrite.errors import PyriteError
from pyrite.losses import loss as read_loss
from pyrite.methods import ERM, CrossFit, method as read_method
from pyrite.settings import Settings
from pyrite.training import (
    DataChanged,
    Observer,
    Run,
    Stopped,
    Watching,
    given_settings,
    reading,
    resolve,
    train_job,
    train_once,
)

# What an audit of tables and texts cross-fits. Their classes may overlap, and absolute error hides where they do.
_OVERLAPPING: Final = "erm(gce(q=0.4))"
_FEW: Final = 4000  # samples below which there are four folds: half of them would be too few to learn from


def audit(
    what: object,
    labels: object | None = None,
    *,
    scores: object | None = None,
    kind: Kind | None = None,
    embeddings: object | None = None,
    classes: Sequence[str] | None = None,
    out: str | os.PathLike[str] | None = None,
    progress: bool | None = None,
    observers: Sequence[Observer] = (),
    stop: Callable[[], bool] = lambda: False,
    **options: Unpack[Settings],
) -> Audit:
    """Find wrong labels: which they are, how many, and what they should be.

    Args:
        what: data, as ``train`` takes them, which are trained on first; a run or its folder; or, with ``scores``, the
            given labels as class numbers. Labels of several annotators are a table, one row per sample, one column per
            annotator, with −1, None or NaN for gaps.
        labels: the labels of the samples, if ``what`` is samples: ``audit(X, y)`` is ``audit((X, y))``.
        scores: the scores of a model, one row per sample, one column per class. The model must not have
            been trained on that sample's label: memorised labels look right. Their scale does not matter. A list of
            such tables, of models that differ, shows how many errors are the models' own.
        kind: what the scores are: ``"logits"``, ``"probabilities"`` or ``"log-probabilities"``. It is never guessed.
        embeddings: with ``scores``: one row per sample, for which neighbours are further evidence.
        classes: the names of the classes.
        out: the folder of the run that is trained; what it holds already is not trained again.
        progress: show the progress; by default if standard error is a terminal.
        observers, stop: of the training, as ``train`` takes them.
        options: for training, as ``train`` takes them. By default nets are cross-fitted (``cross_fit``), with ``loss``
            if it is given. A ``method`` trains as it is, with a fifth held out, or more if samples are few. Where
            nothing is trained, ``seed`` alone can be given.

    >>> true = np.arange(600) % 3
    >>> scores = 6 * np.eye(3)[true] + np.random.default_rng(0).normal(size=(600, 3))
    >>> labels = np.where(np.arange(600) < 60, (true + 1) % 3, true)
    >>> audit(labels, scores=scores, kind="logits", classes=["cat", "dog", "emu"])
    <audit: about 8.7 % (4 to 13 %) of 600 labels look wrong; most often emu labelled as cat>
    """
    beside = scores is None and is_object(what) and not is_frame(what)
    if labels is None and beside and not isinstance(options.get("label", ""), str):
        labels = options.pop("label")
    what = what if labels is None else with_labels(what, labels)
    if isinstance(what, Run | Dataset | str | Path) or (scores is None and has_labels(what)):
        if any(part is not None for part in (scores, kind, embeddings, classes)):
            raise PyriteError(
                "data and runs have their own scores and classes: leave out scores, kind, embeddings and classes"
            )
        if isinstance(what, str | Path) and os.path.isfile(os.path.join(what, "recipe.toml")):
            what = Run.load(what)
        if isinstance(what, Run):
            return audit_run(what, _only_seed(options, out, f"{what.path} is trained already"))
        return _train_and_audit(
            cast(Data, what), out, {"progress": progress, "observers": observers, "stop": stop}, options
        )
    seed = _only_seed(options, out, "with given scores nothing is trained")
    if scores is None:
        raise PyriteError("scores are missing: pass the scores of a model, or a run in place of the labels")
    if are_several(what):
        return audit_annotated(what, scores=scores, kind=kind, embeddings=embeddings, classes=classes, seed=seed)
    return audit_scores(what, scores=scores, kind=kind, embeddings=embeddings, classes=classes, seed=seed)


def _only_seed(options: Settings, out: object, reason: str) -> int:
    """The seed, if nothing else is given that is for training."""
    rest = [name for name, value in {**options, "out": out}.items() if value is not None and name != "seed"]
    if rest:
        raise PyriteError(f"{rest[0]} is for training, and {reason}")
    return whole_number("seed", options.get("seed") or 0, least=0)


def _train_and_audit(what: Data, out: str | os.PathLike[str] | None, watching: Watching, options: Settings) -> Audit:
    given = given_settings(options)
    given.pop("data", None)  # of a recipe
    data = load(what, **reading(given)) if not isinstance(what, Dataset) else what
    check_enough(data.labels, data.classes, _used(given, data))
    if data.annotations is not None:
        data.annotations.check_agreement()  # before training
    chosen = default_options(given, data)
    defaults = {name: value for name, value in chosen.items() if name not in given or name == "method"}
    if "method" in defaults:  # which has the loss in it
        given.pop("loss", None)
    job = resolve(what, loaded=data, **given | defaults)
    try:
        run = train_job(job, **watching) if out is None else train_once(job, out, **watching)
    except Stopped as stopped:
        then = f"pyrite audit {stopped.folder}"
        resume = f"stopped and saved; continue the audit with: pyrite train --resume {stopped.folder} && {then}"
        raise KeyboardInterrupt(f"training is finished; audit it with: {then}" if stopped.done else resume) from None
    return audit_run(Run(run.path, run.config, run.history, data), run.config.seed)


def default_method(classes: int) -> str:
    """What an audit of images cross-fits: absolute error, scaled where it would underfit many classes.

    docs/auditing.md gives the reasons.

    >>> default_method(3), default_method(10)
    ('erm(unit(mae))', 'erm(unit(scale(mae, tau=1, classes=10)))')
    """
    low = -expected_margin(classes, exact=True) > 1  # the margins of an untrained net are far below 0
    return f"erm(unit(scale(mae, tau=1, classes={classes})))" if low else "erm(unit(mae))"


def default_options(given: dict[str, Any], data: Dataset) -> dict[str, Any]:
    """The default options of an audit's training. Nets are cross-fitted, so that every label is judged by one that did
    not learn it. A given method trains as it is: a fifth is held out, or more, so that the noise is fitted to some 250.
    """
    samples = _used(given, data)
    has_length = not given.keys().isdisjoint(("iterations", "minutes"))
    values = {} if has_length else {"epochs": min(max(round(40_000 / samples), 10), 30)}
    if "method" in given and "loss" not in given:
        fraction = min(max(250 / samples, 0.2), max(0.4, min(0.5, (FEWEST + 2) / samples)))
        return {**values, "validation": fraction}
    default = default_method(len(data.classes)) if data.inputs.ndim == 4 else _OVERLAPPING
    inner = ERM(read_loss(given["loss"])) if "loss" in given else read_method(default)
    return {**values, "validation": 0.0, "method": CrossFit(inner, folds=4 if samples < _FEW else 2)}


def _used(given: dict[str, Any], data: Dataset) -> int:
    """How many samples will be used. What cannot be a number of samples is refused when the recipe is made."""
    wanted = given.get("samples")
    return wanted if is_whole(wanted) and wanted > 0 else len(data)


def audit_run(run: Run, seed: int) -> Audit:
    """Audit what a run recorded, and find problems of its data if they can still be read."""
    if not run.history or not (run.path / "samples.npz").exists():
        raise PyriteError(f"{run.path} has not finished an epoch: pyrite train --resume {run.path}")
    labels, samples = run.labels, run.samples
    if "class_margins" not in samples:
        raise PyriteError(
            f"{run.path} keeps no margins of classes: samples times classes are too many, or it is too old"
        )
    part, given = labels["part"], labels["given"]
    notes = [*map(str, run.facts.get("notes", ()))]
    if not run.finished:
        done = f"{len(run.history)} of {run.config.epochs} epochs are done"
        notes.append(f"{run.path} is unfinished, {done}: continue with pyrite train --resume {run.path}")
    issues = None
    try:
        issues = data_issues(replace(run.dataset(), labels=given))
        notes += issues.sentences()
    except DataChanged:  # suspects would be named by their places among other samples
        raise
    except ValueError:  # the data are missing; the run has the evidence, only copies cannot be found
        pass
    unseen = samples["unseen"] > 0 if "unseen" in samples else part == Part.VALIDATION
    result = audit_margins(
        np.where(np.isin(part, (Part.TRAIN, Part.VALIDATION))[:, None], samples["class_margins"], np.nan),
        given,
        unseen,
        run.classes,
        samples,
        warnings=notes,
        data_issues=issues,
        run=run,
        true=labels.get("true"),
        paths=labels.get("path"),
    )
    if run.annotations is None:
        return result
    log_p = np.where(unseen[:, None], log_expit(samples["class_margins"].astype(np.float64)), np.nan)
    return with_annotators(result, run.annotations, log_p, seed=seed)
