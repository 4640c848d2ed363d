"""Scores of models as a user passes them: checks, log-probabilities in one scale, several models as one table."""

import re
from collections.abc import Sequence
from functools import partial
from typing import Any, Final, Literal, get_args

import numpy as np
import numpy.typing as npt
from pandas import DataFrame
from scipy.special import softmax

from pyrite.arrays import Floats, Ints, to_array, to_floats, to_ints
from pyrite.auditing.score_tables import Shards, blocks, is_dask, over_rows, with_whole_rows
from pyrite.data import annotation_cells, are_several, frame_table, is_frame, is_missing, listed
from pyrite.errors import PyriteError

Kind = Literal["logits", "probabilities", "log-probabilities"]

# The tolerance for sums of probabilities. In float16 the logarithm of a small one has errors of some thousandths.
_TOLERANCE: Final = 1e-3
_HALF_TOLERANCE: Final = 1e-2
_CERTAIN: Final = 16.0  # probabilities below 1e-7 of the largest, including 0, are taken as that
_GAP: Final = 2.0  # scores are scaled to this typical gap; on noisy digits 1 to 4 differ by 0.002 in average precision
_FARTHEST: Final = 5000.0  # scaled scores so far below the first class are bounded, so that none overflows
_NEIGHBOURS: Final = 20
_COMPARED: Final = 50_000  # samples among which neighbours are looked for
_UNNAMED: Final = ("", "Unnamed: 0", "index")  # the row numbers that pandas writes
_LOOKED_AT: Final = 1000  # rows by which scores are doubted
_SHARPNESS: Final = 4.0  # of the probabilities that are averaged: a sample with the typical gap has odds of e⁴


# --- scale ----------------------------------------------------------------------------------------------------------


def typical_gap(first: Floats, second: Floats) -> float:
    """The median difference of the two best classes, over rows where they differ; 1 if there are none.

    >>> typical_gap(np.array([3.0, 2.0, 5.0, 6.0]), np.array([1.0, 2.0, 1.0, 0.0]))
    4.0
    """
    gaps = (first - second)[first > second]
    return float(np.median(gaps)) if len(gaps) else 1.0


def gap_of(scores: npt.NDArray[Any], kind: Kind) -> float:
    """The unit in which scores are measured, so that the result of an audit does not depend on their scale.

    The temperature of a net is arbitrary, in the logits as in the probabilities it gives: only the order of the classes
    and the ratios of the differences are evidence, and the fit of the noise finds the sharpness.
    """
    # The copy of the two largest frees the rest.
    parts = over_rows(lambda some: np.partition(_to_logits(some, kind), -2, axis=1)[:, -2:].copy(), scores)
    second, first = np.concatenate(list(parts)).T
    return typical_gap(first, second)


def to_log_p(scores: npt.NDArray[Any], kind: Kind, gap: float) -> Floats:
    """The log-probabilities of every class, with scores in units of this gap."""
    values = _to_logits(scores, kind)
    with np.errstate(over="ignore"):  # what overflows is bounded like all that is far below the first class
        values *= _GAP / gap
    np.maximum(values, -_FARTHEST, out=values)
    values -= np.log(np.exp(values).sum(1, keepdims=True))  # 0 is the largest, so none overflows
    return values


def preferences(scores: Floats) -> tuple[Ints, Floats]:
    """The class with the highest score of each row, and by how much it is higher than the next one."""
    two = np.partition(scores, -2, axis=1)[:, -2:]
    return scores.argmax(1), two[:, 1] - two[:, 0]


def _to_logits(scores: npt.NDArray[Any], kind: Kind) -> Floats:
    """Logits in half of their unit, 0 at the largest of each row.

    Halves, because the difference of two large numbers overflows. Probabilities have a natural scale, so there is a
    smallest one that means anything; logits have none.
    """
    values = np.ascontiguousarray(scores, np.float64)
    if kind == "probabilities":
        with np.errstate(divide="ignore"):
            values = np.log(values)
    values = 0.5 * values
    values -= values.max(1, keepdims=True)
    return values if kind == "logits" else np.maximum(values, -0.5 * _CERTAIN)


# --- several models --------------------------------------------------------------------------------------------------


def combine_scores(
    scores: object, embeddings: object | None, labels: Ints, kind: Kind | None
) -> tuple[npt.NDArray[Any], Kind]:
    """The scores of all models, and of neighbours by embeddings, as one table, and its kind.

    Of several models the scores are divided by their typical gap, so that none counts more because of its scale, and
    their probabilities are averaged. Logits would give a model that is certain by mistake the last word.
    """
    is_several = isinstance(scores, list | tuple) and any(getattr(each, "ndim", 0) == 2 for each in scores)
    several: Sequence[object] = scores if is_several else [scores]  # type: ignore[assignment]
    tables: list[tuple[npt.NDArray[Any], Kind]] = [_check_scores(each, labels, kind) for each in several]
    if embeddings is not None:
        tables.append((neighbour_scores(embeddings, labels, tables[0][0].shape[1]), "logits"))
    if len(tables) == 1:
        return tables[0]
    if any(is_dask(table) for table, _ in tables):
        raise PyriteError(
            "scores is a Dask array, which cannot be combined with other scores or embeddings: average the models first"
        )
    if len({table.shape for table, _ in tables}) > 1:
        raise PyriteError(
            f"scores have the shapes {', '.join(str(table.shape) for table, _ in tables)}, but must have the same shape"
        )
    mean = np.zeros(tables[0][0].shape, np.float32)
    for table, own_kind in tables:
        gap = gap_of(table, own_kind)
        for rows in blocks(table.shape):
            with np.errstate(over="ignore"):  # a class that is infinitely far below the first has the probability 0
                sharp = _SHARPNESS * (_to_logits(table[rows], own_kind) / gap)
            mean[rows] += softmax(sharp, axis=1) / len(tables)
    return mean, "probabilities"


def neighbour_scores(embeddings: object, labels: Ints, classes: int) -> npt.NDArray[np.float32]:
    """Logarithms of the frequencies of labels among a sample's nearest neighbours, without its own label.

    Distances are angles. The frequencies of all labels count as one more neighbour, so that none is 0. The neighbours
    of many samples are looked for in a random subset, so that time is proportional to the samples, and rows are read
    when they are used, so that a memory-mapped file stays on the disk.
    """
    from sklearn.neighbors import NearestNeighbors

    points = to_array(embeddings, "embeddings", 2)
    if len(points) != len(labels):
        raise PyriteError(f"there are {len(points)} embeddings but {len(labels)} labels")
    dtype = np.float32 if points.dtype.kind == "f" and points.dtype.itemsize <= 4 else np.float64
    among, count = np.arange(len(points)), min(_NEIGHBOURS, len(labels) - 1)
    if len(points) > _COMPARED:
        among = np.sort(np.random.default_rng(0).choice(among, _COMPARED, replace=False))
    search = NearestNeighbors(n_neighbors=count + 1, metric="cosine").fit(
        to_floats(points[among], "embeddings", ndim=2).astype(dtype)
    )
    votes = np.tile((np.bincount(labels, minlength=classes) / len(labels)).astype(np.float32), (len(labels), 1))
    for start in range(0, len(points), _COMPARED):
        rows = np.arange(start, min(start + _COMPARED, len(points)))
        some = to_floats(points[rows], "embeddings", ndim=2).astype(dtype)
        found = among[search.kneighbors(some, return_distance=False)]
        itself = found == rows[:, None]
        itself[~itself.any(1), -1] = True  # a sample that is not in the subset, or has many copies: without the last
        np.add.at(votes, (rows[:, None], labels[found[~itself].reshape(len(rows), count)]), 1.0)
    with np.errstate(divide="ignore"):
        return np.maximum(np.log(votes / (count + 1)), np.float32(np.log(1e-6)))


# --- checks ----------------------------------------------------------------------------------------------------------


def named_scores(scores: object, classes: Sequence[str] | None) -> tuple[object, Sequence[str] | None]:
    """Scores and the names of their classes, which are the columns of frames; ``classes`` chooses among those.

    The columns of several models are matched by their names.
    """
    if isinstance(scores, list | tuple) and (each := [own for one in scores if (own := _class_columns(one))]):
        odd = min((name for own in each for name in {*own} ^ {*each[0]}), default=None)
        if classes is None and odd is not None:
            raise PyriteError(f"not all models have scores of the class {odd!r}: pass the common classes as classes")
        names = each[0] if classes is None else classes
        return [named_scores(one, names)[0] for one in scores], names
    known = _class_columns(scores)
    if not known:
        return scores, classes
    wanted = known if classes is None else [*map(str, classes)]
    absent = [name for name in wanted if name not in known]
    if absent:
        raise PyriteError(f"scores have no column of the class {absent[0]!r}: they have {listed(known)}")
    if isinstance(scores, Shards):
        return scores.select(wanted), wanted
    table = frame_table(scores, "scores")
    rows = ([*range(len(table))], [*range(1, len(table) + 1)])
    for name in wanted:
        if classes is None and table.frame[name].tolist() in rows:
            raise PyriteError(f"the column {name!r} of the scores numbers the rows: pass the others as classes")
        if table.frame[name].dtype.kind not in "biuf":
            raise PyriteError(
                f"the column {name!r} of the scores is not numeric: pass the columns of the classes as classes"
            )
    for name in {*_UNNAMED} & {*table.names}:
        if table.frame[name].tolist() not in rows:
            raise PyriteError(f"the column {name!r} of the scores does not number the rows: sort it as the labels")
    return table.frame[wanted].to_numpy(np.float64), wanted


def _class_columns(scores: object) -> list[str]:
    """The names of the columns of scores, without that of row numbers; none if they have no names."""
    names = scores.names if isinstance(scores, Shards) else map(str, scores.columns) if is_frame(scores) else None
    return [name for name in names or () if name not in _UNNAMED]


def numbered(labels: Any, classes: Sequence[str] | None, *, ordered: bool = True) -> Any:
    """Labels that are texts as numbers of the classes; others as they are, also those of several annotators.

    Where the names of classes are whole numbers or truth values, labels that are some of them are names too. Other
    numbers need classes that are ``ordered`` by the caller, or alphabetically.
    """
    number = {re.sub(r"^(\d+)\.0$", r"\1", str(name)): place for place, name in enumerate(classes or ())}
    of_numbers, several = bool(number) and all(map(str.isdecimal, number)), are_several(labels)
    if not several and (of_numbers or number.keys() == {"True", "False"}):
        values = to_array(labels, "labels")
        if values.dtype.kind == "f" and of_numbers and (values % 1 == 0).all():
            values = values.astype(np.int64)
        labels = values.astype(str) if values.dtype.kind in ("iu" if of_numbers else "b") else labels
    if isinstance(labels, np.ndarray) and labels.dtype.kind in "biuf" and not (of_numbers and several):
        return labels if ordered else _alphabetical(labels, classes)
    cells = annotation_cells(labels)[0] if several else labels
    texts = np.asarray(cells, object)
    known = {value for value in texts.ravel().tolist() if isinstance(value, str) and value != ""}
    if not known or (several and classes is None):
        return labels if ordered else _alphabetical(labels, classes)
    for row, text in enumerate(() if several else map(str, texts)):
        if is_missing(text) and text not in number:
            raise PyriteError(f"the label at index {row} is missing: leave out samples without a label")
    if not number or not known <= number.keys():
        positions = not (of_numbers and known & number.keys())
        if positions and all(text.isascii() and text.isdecimal() for text in known):
            found = labels if several else np.array([int(text) for text in texts.tolist()], np.int64)
            return found if ordered else _alphabetical(found, classes)
        strange = min(known - number.keys())
        if classes is None:
            raise PyriteError(
                f"labels are texts, such as {strange!r}: pass the class names in the order of the columns as classes"
            )
        raise PyriteError(f"the label {strange!r} is not one of the classes of the scores, {listed(number)}")
    if several:
        names = annotation_cells(labels)[1]
        rows = [[number.get(cell, -1) for cell in row] for row in cells.tolist()]
        return DataFrame(rows, columns=list(names))
    return np.array([number[str(value)] for value in texts.tolist()], np.int64)


def _alphabetical(labels: Any, classes: Sequence[str] | None) -> Any:
    """Labels that are numbers, if the classes are in an order in which encoders number them; else a PyriteError."""
    names = [*map(str, classes or ())]
    if names not in (
        sorted(names),
        sorted(names, key=lambda name: [f"{one:0>20}" for one in re.split(r"(\d+)", name)]),
    ):
        raise PyriteError(
            f"labels are numbers, but the columns of the scores are not in alphabetical order, {listed(names)}: pass "
            "the class names in the order of the numbers as classes"
        )
    return labels


def check_labels(labels: object) -> Ints:
    """The labels as class numbers; an error names the index of the first that is not one."""
    missing = np.ma.getmaskarray(labels) if isinstance(labels, np.ma.MaskedArray) else np.zeros(0, bool)
    if missing.any():
        raise PyriteError(f"labels is masked at index {int(missing.argmax())}: leave out samples without a label")
    if isinstance(labels, np.ndarray) and labels.ndim == 1 and labels.dtype.kind == "f":
        unknown = ~np.isfinite(labels)
        if unknown.any():
            first = int(unknown.argmax())
            raise PyriteError(f"labels is {labels[first]} at index {first}: leave out samples without a label")
    return to_ints(labels, "labels", least=0).copy()  # the array of the caller may be corrected in place


def _check_scores(scores: object, labels: Ints, kind: Kind | None) -> tuple[npt.NDArray[Any], Kind]:
    """A table of scores that fit the labels and the kind; an error names the first row that does not."""
    if kind not in get_args(Kind):
        known = ", ".join(get_args(Kind))
        raise PyriteError(f"kind is {kind!r}, but must be one of {known}: it is never inferred")
    assert kind is not None
    table = _to_table(scores)
    if table.ndim != 2 or table.dtype.kind not in "fiu":
        raise PyriteError(
            f"scores are {table.dtype} of shape {table.shape}, but must be numbers: one row per sample, one column per "
            "class"
        )
    if len(table) != len(labels):
        raise PyriteError(f"there are {len(table)} rows of scores but {len(labels)} labels")
    if table.shape[1] < 2:
        raise PyriteError("scores have one column: with one class no label can be wrong")
    if labels.size and labels.max() >= table.shape[1]:
        first = int((labels >= table.shape[1]).argmax())
        raise PyriteError(
            f"label {labels[first]} at index {first} has no column in the scores, which have {table.shape[1]}"
        )
    for _ in over_rows(partial(_check_rows, kind), table, range(len(table))):
        pass
    return table, kind


def doubts_of(table: npt.NDArray[Any], kind: Kind) -> tuple[str, ...]:
    """A sentence if scores do not look like what they are said to be."""
    first = np.asarray(table[:_LOOKED_AT], np.float64)
    if kind == "logits" and first.min() >= 0 and (abs(first.sum(1) - 1) < _TOLERANCE).all():
        return ("scores look like probabilities, as every row adds up to 1, but kind is 'logits'",)
    return ()


def _to_table(scores: object) -> npt.NDArray[Any]:
    """The scores as an array, without a copy, so that a memory-mapped .npy file stays on disk."""
    if is_dask(scores):
        return with_whole_rows(scores)  # type: ignore[no-any-return]
    if isinstance(scores, Shards):
        return scores  # type: ignore[return-value]  # shards are read by rows too
    if isinstance(scores, np.ma.MaskedArray):
        _check_mask(scores, range(len(scores)))
    return to_array(scores, "scores")


def _check_mask(rows: npt.NDArray[Any], numbers: range) -> None:
    if np.ma.is_masked(rows):
        row = numbers[int(np.argwhere(np.ma.getmaskarray(rows))[0][0])]
        raise PyriteError(f"scores are masked in row {row}: every class needs a score")


def _check_rows(kind: Kind, rows: npt.NDArray[Any], numbers: range) -> None:
    _check_mask(rows, numbers)  # of a chunk of Dask
    bad = ~np.isfinite(rows) if kind != "log-probabilities" else np.isnan(rows) | (rows == np.inf)
    if bad.any():
        first = int(bad.any(1).argmax())
        raise PyriteError(f"scores are {rows[first][bad[first]][0]} in row {numbers[first]}")
    if kind == "logits":
        return
    with np.errstate(over="ignore"):
        chances = rows.astype(np.float64) if kind == "probabilities" else np.exp(rows.astype(np.float64))
    tolerance = _HALF_TOLERANCE if rows.dtype == np.float16 else _TOLERANCE
    off = (chances < 0).any(1) | (abs(chances.sum(1) - 1) > tolerance)
    if off.any():
        first = int(off.argmax())
        raise PyriteError(
            f"row {numbers[first]} of the scores does not contain {kind}: the sum of its probabilities is "
            f"{chances[first].sum():.6g}, its smallest value {rows[first].min():.6g}; pass another kind"
        )
