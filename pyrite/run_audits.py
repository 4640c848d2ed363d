"""Audits of a run that exists, or of one that is trained for the audit."""

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any, Final, Unpack, cast

import numpy as np
from rich.console import Console
from scipy.special import log_expit

from pyrite.arrays import Flags, Floats, Ints
from pyrite.auditing import (
    FEWEST,
    Audit,
    ColumnModels,
    Kind,
    Leak,
    audit_annotated,
    audit_margins,
    audit_scores,
    check_enough,
    check_labels,
    columns_of,
    data_issues,
    find_leaks,
    named_scores,
    numbered,
    preferences,
    with_annotators,
    with_metadata,
    with_slices,
)
from pyrite.checks import is_whole, number, whole_number
from pyrite.curves import expected_margin
from pyrite.data import (
    Data,
    Dataset,
    Part,
    Records,
    annotation_numbers,
    are_several,
    check_order,
    has_labels,
    is_frame,
    is_object,
    load,
    read_records,
    table_of,
    with_labels,
)
from pyrite.errors import PyriteError
from pyrite.losses import loss as read_loss
from pyrite.methods import ERM, CrossFit, method as read_method
from pyrite.settings import Settings
from pyrite.training import (
    LEAST_TRAINED,
    DataChanged,
    Observer,
    Run,
    Stopped,
    Watching,
    given_settings,
    is_shown,
    load_data,
    resolve,
    train_job,
    train_once,
)

Leaks = tuple[Leak, ...]

# What an audit of tables and texts cross-fits. Their classes may overlap, and absolute error hides where they do.
_OVERLAPPING: Final = "erm(gce(q=0.4))"
_SEARCHED: Final = 0.15  # of the time, to find where labels of a table are wrong
_AGREEMENT: Final = 0.1  # beyond chance; 80 % symmetric noise has 0.2
_FEW: Final = 4000  # samples below which there are four folds: half of them would be too few to learn from


def audit(
    what: object,
    labels: object | None = None,
    *,
    scores: object | None = None,
    kind: Kind | None = None,
    embeddings: object | None = None,
    classes: Sequence[str] | None = None,
    data: object | None = None,
    metadata: object | None = None,
    out: str | os.PathLike[str] | None = None,
    progress: bool | None = None,
    observers: Sequence[Observer] = (),
    stop: Callable[[], bool] = lambda: False,
    **options: Unpack[Settings],
) -> Audit:
    """Find wrong labels, estimate the noise rate and suggest corrections.

    Args:
        what: data in any format that ``train`` accepts, on which nets are trained first; a run or its folder; or, with
            ``scores``, the given labels, as class indices or as names of ``classes``. Labels of several annotators are
            a table with one row per sample and one column per annotator, with −1, None or NaN for missing labels.
        labels: the labels, if ``what`` contains only samples: ``audit(X, y)`` is ``audit((X, y))``.
        scores: the scores of a model, with one row per sample and one column per class; the columns of a data frame are
            the class names. Scores must be out of sample: the model that scores a sample must not have been trained on
            its label, because memorised labels look right. The result does not depend on the scale of the scores. Pass
            a list for several models; their disagreement separates model errors from label errors.
        kind: the kind of ``scores``: ``"logits"``, ``"probabilities"`` or ``"log-probabilities"``. It is never
            inferred.
        embeddings: with ``scores``, one row per sample; they add a nearest-neighbour model.
        classes: the names of the classes in the order of the columns of ``scores``, or the columns of a frame to use.
        data: with ``scores``, the samples to show on the page, in any format that ``train`` accepts. The columns of a
            table are searched for slices with many wrong labels.
        metadata: further columns of the samples to search for slices: a frame or a file. If the samples are files, the
            first column contains their names; otherwise rows must have the order of the samples.
        out: the run directory. A finished run in it is not repeated.
        progress: show the progress; by default if standard error is a terminal.
        observers, stop: as for ``train``.
        options: those of ``train``. By default, nets are cross-fitted (``cross_fit``) with ``loss``, if it is given. A
            ``method`` trains one run and holds out a fifth of the samples, or more of a small data set. If nothing is
            trained, only ``seed`` is accepted.

    Returns:
        The ranking of all labels, their probabilities of being wrong, suggested labels, and the estimated noise.

    >>> true = np.arange(600) % 3
    >>> scores = 6 * np.eye(3)[true] + np.random.default_rng(0).normal(size=(600, 3))
    >>> labels = np.where(np.arange(600) < 60, (true + 1) % 3, true)
    >>> audit(labels, scores=scores, kind="logits", classes=["cat", "dog", "emu"])
    <audit: about 8.2 % (3 to 13 %) of 600 labels look wrong; most often emu labelled as cat>
    """
    beside = scores is None and is_object(what) and not is_frame(what)
    if labels is None and beside and not isinstance(options.get("label", ""), str):
        labels = options.pop("label")
    what = what if labels is None else with_labels(what, labels)
    for name, other in (("metadata", metadata), ("embeddings", embeddings), ("data", data)):
        check_order(what, other, name)
    columns = None if metadata is None else read_records(metadata, "metadata")
    if isinstance(what, Run | Dataset | str | Path) or (scores is None and has_labels(what)):
        if any(part is not None for part in (scores, kind, embeddings, classes, data)):
            raise PyriteError(
                "data and runs have their own scores and classes: leave out scores, kind, embeddings, classes and data"
            )
        if isinstance(what, str | Path) and os.path.isfile(os.path.join(what, "recipe.toml")):
            what = Run.load(what)
        if isinstance(what, Run):
            return audit_run(what, _only_seed(options, out, f"{what.path} is trained already"), columns)
        return _train_and_audit(
            cast(Data, what), out, {"progress": progress, "observers": observers, "stop": stop}, options, columns
        )
    if scores is None:
        raise PyriteError(
            "labels or scores are missing: pass samples with labels, audit(X, y), or labels with scores of a model"
        )
    seed = _only_seed(options, out, "with given scores nothing is trained")
    for one in scores if isinstance(scores, list | tuple) else (scores,):
        check_order(what, one, "scores")
    scores, names = named_scores(scores, classes)
    what = numbered(what, names, ordered=classes is not None)
    samples = None if data is None else _samples_beside(data, what, names)
    columns = columns if samples is None else with_metadata(columns_of(samples), columns, samples)
    of_scores = audit_annotated if are_several(what) else audit_scores
    result = of_scores(
        what, scores=scores, kind=kind, embeddings=embeddings, classes=names, seed=seed, columns=columns,
        tabular=samples is not None and samples.inputs.ndim == 2,
        copies=None if samples is None or columns is None else samples.copies,
    )  # fmt: skip
    return result if samples is None else replace(result, data=samples, paths=samples.paths)


def _check_rows(data: Dataset, given: Ints, classes: Sequence[str]) -> None:
    """Raise PyriteError if samples that have labels of the same classes are in another order than the given labels."""
    if len(data) != len(given) or {*data.classes} != {*classes}:
        return
    own, known = np.array(data.classes, object)[data.labels], np.array(classes, object)[given]
    agree, names = float((own == known).mean()), list(classes)
    chance = sum(float((own == name).mean() * (known == name).mean()) for name in names)
    if len(data) >= FEWEST and agree - chance < _AGREEMENT * (1 - chance):
        raise PyriteError(
            f"data has {100 * agree:.0f} % of the given labels, as many as in any order: pass the samples in the order "
            "of the scores, or without labels"
        )


def _only_seed(options: Settings, out: object, reason: str) -> int:
    """The seed, if nothing else is given that is for training."""
    rest = [name for name, value in {**options, "out": out}.items() if value is not None and name != "seed"]
    if rest:
        raise PyriteError(f"{rest[0]} is a training setting, but {reason}")
    return whole_number("seed", options.get("seed") or 0, least=0)


def _train_and_audit(
    what: Data,
    out: str | os.PathLike[str] | None,
    watching: Watching,
    options: Settings,
    metadata: Records | None,
) -> Audit:
    given, begun, deadline = given_settings(options), perf_counter(), math.inf
    given.pop("data", None)  # of a recipe
    data = load_data(what, given) if not isinstance(what, Dataset) else what
    if data.annotations is not None:
        data.annotations.check_agreement()  # first, because opposite labels may have a consensus of one class
    check_enough(data.labels, data.classes, _used(given, data))
    models = _column_models(data, data.labels, with_metadata(columns_of(data), metadata, data))
    leaks = () if models is None else find_leaks(models)
    if watching["progress"] is not False:
        for leak in leaks:
            Console(stderr=True).print(f"{leak.sentence[0].upper()}{leak.sentence[1:]}.", soft_wrap=True)
    chosen = default_options(given, data)
    defaults = {name: value for name, value in chosen.items() if name not in given or name == "method"}
    if "method" in defaults:  # which has the loss in it
        given.pop("loss", None)
    if minutes := given.get("minutes"):
        deadline = begun + 60 * number("minutes", minutes, above=0)
        searched = _SEARCHED * minutes if models is not None else 0.0
        given["minutes"] = max(LEAST_TRAINED * minutes, (deadline - perf_counter()) / 60 - searched)
    job = resolve(what, loaded=data, shown=is_shown(watching["progress"]), **given | defaults)
    try:
        run = train_job(job, **watching) if out is None else train_once(job, out, **watching)
    except Stopped as stopped:
        then = f"pyrite audit {stopped.folder}"
        resume = f"stopped and saved; continue the audit with: pyrite train --resume {stopped.folder} && {then}"
        raise KeyboardInterrupt(f"training is finished; audit it with: {then}" if stopped.done else resume) from None
    return audit_run(Run(run.path, run.config, run.history, data), run.config.seed, metadata, leaks, deadline)


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


def audit_run(
    run: Run,
    seed: int,
    metadata: Records | None = None,
    leaks: Leaks | None = None,
    deadline: float = math.inf,
) -> Audit:
    """Audit what a run recorded, and find problems of its data if they can still be read: copies, and with further
    ``metadata`` where labels are wrong, until ``deadline``, and leaks, if they are not known yet."""
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
    issues, data = None, None
    try:
        data = run.dataset()
        issues = data_issues(data, given)
        notes += [*issues.sentences(), *_large_groups(data, run.config.method)]
    except DataChanged:  # suspects would be named by their places among other samples
        raise
    except ValueError as error:  # the run has the evidence
        notes.append(f"copies and groups with many wrong labels are not looked for, because data are missing: {error}")
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
    if data is not None:
        result = _with_columns(result, data, metadata, samples["class_margins"], unseen, leaks, deadline)
    if run.annotations is None:
        return result
    log_p = np.where(unseen[:, None], log_expit(samples["class_margins"].astype(np.float64)), np.nan)
    return with_annotators(result, run.annotations, log_p, seed=seed)


def _large_groups(data: Dataset, method: object) -> list[str]:
    """A sentence if a group is larger than a fold."""
    if data.groups is None or not isinstance(method, CrossFit):
        return []
    largest = int(np.unique(data.groups, return_counts=True)[1].max())
    if largest * method.folds <= len(data):
        return []
    size = f"a group has {largest:,} of {len(data):,} samples, more than one of {method.folds} folds"
    return [f"{size}: its labels are judged by a net that learned from few others"]


def _with_columns(
    audit: Audit,
    data: Dataset,
    metadata: Records | None,
    margins: Floats,
    unseen: Flags,
    leaks: Leaks | None,
    deadline: float,
) -> Audit:
    """The audit with leaks and slices, if its samples have columns."""
    columns, rows = with_metadata(columns_of(data), metadata, data), audit.index
    if columns is None:
        return audit
    columns = columns[rows]
    models = _column_models(data, audit.labels, columns, rows)
    leaks = find_leaks(models) if leaks is None and models is not None else leaks or ()
    audit = replace(audit, leaks=leaks, warnings=(*(leak.sentence for leak in leaks), *audit.warnings))
    if leaks and len(columns.columns) > len(leaks):  # which agree with every label, and explain none
        columns = columns.select([name for name in columns.names if name not in {leak.column for leak in leaks}])
        models = _column_models(data, audit.labels, columns, rows)
    preferred, certainty = preferences(margins[rows].astype(np.float64))
    return with_slices(
        audit, columns, preferred, certainty, unseen[rows], models, copies=data.copies[rows], deadline=deadline
    )


def _column_models(
    data: Dataset, labels: Ints, columns: Records | None, rows: Ints | None = None
) -> ColumnModels | None:
    """Models by the columns of a table; None of other data, whose columns the net has not seen, and if most samples are
    one group, because models that few samples were learned by contradict its labels."""
    if columns is None or data.inputs.ndim != 2 or (isinstance(data.inputs, Records) and data.inputs.is_text):
        return None
    groups = data.kept_together if rows is None else data.kept_together[rows]
    if 2 * np.unique(groups, return_counts=True)[1].max() > len(groups):
        return None
    return ColumnModels(columns, labels, len(data.classes), groups)


def _samples_beside(data: object, labels: Any, classes: Sequence[str] | None) -> Dataset:
    """The samples that scores are of, with the given labels."""
    table = table_of(data)
    several = are_several(labels)
    given = annotation_numbers(labels).labels.max(1) if several else check_labels(labels)
    classes = [*map(str, range(given.max() + 1))] if classes is None else classes
    if table is None:
        made = load(data)
        _check_rows(made, given, classes)
    else:
        names = np.array(classes, object)[given]
        columns = [name for name in table.names if len(table) != len(names) or (table.texts(name) != names).any()]
        records = Records(map(table.column, columns))
        made = Dataset("data", records, np.zeros(len(records), np.int64), tuple(classes))
    if len(made) != len(given):
        raise PyriteError(f"data has {len(made)} samples, but there are {len(given)} labels")
    return replace(made, labels=given, classes=tuple(classes), annotations=None)
