"""Labels of several annotators: read from columns, long tables and arrays, with gaps."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple, final

import numpy as np
import numpy.typing as npt

from pyrite.data.dataset import Labels, check_names, encode, encode_like, is_missing
from pyrite.data.records import listed
from pyrite.data.tables import Table, TextTable, parquet_table
from pyrite.errors import PyriteError

Cells = npt.NDArray[Any]
"""Labels as texts, one row per sample, one column per annotator, empty where there is none."""

_FEW: Final = 10
_MARKS: Final = (("0", "1"), ("0.0", "1.0"), ("False", "True"), ("FALSE", "TRUE"), ("false", "true"))
_COMPARED: Final = 50  # labels of two annotators for the same samples from which on it is odd if they never agree


@final
@dataclass(frozen=True, eq=False)
class Annotations:
    """The labels of several annotators.

    Attributes:
        labels: class numbers, one row per sample, one column per annotator, −1 for a gap.
        names: of the annotators.
    """

    labels: Labels
    names: tuple[str, ...]

    def __post_init__(self) -> None:
        if len(self.names) != self.labels.shape[1]:
            raise PyriteError(f"there are {len(self.names)} names of {self.labels.shape[1]} annotators")
        if len(self.names) < 2:
            raise PyriteError(f"there is one annotator, {self.names[0]!r}: pass its labels as a plain list or column")
        none = (self.labels < 0).all(axis=1)
        if none.any():
            raise PyriteError(f"sample {int(none.argmax())} has no label of any annotator: leave out such samples")
        unused = (self.labels < 0).all(axis=0)
        if unused.any():
            raise PyriteError(f"the annotator {self.names[int(unused.argmax())]!r} has no labels: remove it")

    def majority(self, classes: int) -> Labels:
        """The most frequent label of each sample; of equal ones the class that is more frequent among all labels."""
        counts = np.stack([(self.labels == number).sum(1) for number in range(classes)], 1)
        frequency = np.bincount(self.labels[self.labels >= 0], minlength=classes)
        return np.asarray((counts + frequency / (frequency.sum() + 1)).argmax(1))

    def check_agreement(self) -> tuple[str, ...]:
        """Sentences about annotators who always or never agree; an error if nothing can be learned from comparing."""
        given, same = (self.labels >= 0).astype(np.int64), np.zeros((len(self.names),) * 2, np.int64)
        for number in np.unique(self.labels[self.labels >= 0]).tolist():
            own = (self.labels == number).astype(np.int64)
            same += own.T @ own  # on how many samples two annotators agree, of those that both label
        both = given.T @ given
        compared, pairs = int(np.triu(both, 1).sum()), np.argwhere(np.triu(both, 1) >= _COMPARED)
        if not compared:
            return ("no sample has labels of two annotators, so that their rates rest on the model alone",)
        agreed = int(np.triu(same, 1).sum())
        if compared >= _COMPARED and agreed in (0, compared):
            word = "never agree" if not agreed else "always agree"
            cure = "check that all name the classes alike" if not agreed else "identical labels add nothing; pass one"
            raise PyriteError(f"the annotators {word}, in {compared:,} pairs of labels for the same sample: {cure}")
        sentences = []
        for one, two in pairs.tolist():
            if same[one, two] in (0, both[one, two]):
                word = "always" if same[one, two] else "never"
                sentences.append(
                    f"{self.names[one]} and {self.names[two]} {word} agree, on {both[one, two]:,} samples: "
                    + ("one may be a copy, and counts twice" if same[one, two] else "do they name the classes alike?")
                )
        return tuple(sentences[:5])


def are_several(labels: object) -> bool:
    """Whether these are labels of several annotators: a table or nested lists, not a list of labels."""
    shape = getattr(labels, "shape", None)
    if shape is not None:
        return len(shape) == 2
    return isinstance(labels, list | tuple) and bool(labels) and isinstance(labels[0], list | tuple | np.ndarray)


def annotation_cells(labels: Any) -> tuple[Cells, tuple[str, ...]]:
    """Labels of any type as texts, and the names of the annotators: those of a frame's columns, or numbers from 1.

    None and NaN are gaps, and so is −1 among numbers.

    >>> annotation_cells(np.array([[0.0, np.nan], [2.0, -1.0]]))[0].tolist()
    [['0', ''], ['2', '']]
    """
    names = tuple(map(str, labels.columns)) if hasattr(labels, "columns") else ()
    values = labels.to_numpy() if hasattr(labels, "to_numpy") else labels
    try:
        table = np.array(values, object) if not isinstance(values, np.ndarray) else values
    except ValueError as error:
        raise PyriteError(f"label cannot be read as one row per sample, one column per annotator: {error}") from None
    if table.ndim != 2:
        raise PyriteError(f"label has the shape {table.shape}, but must have one column per annotator")
    if isinstance(values, np.ma.MaskedArray):
        table = np.ma.getdata(values).astype(object)
        table[np.ma.getmaskarray(values)] = None
    cells = np.array([[_cell(value) for value in row] for row in table.tolist()], object).reshape(table.shape)
    return cells, names or tuple(str(number + 1) for number in range(table.shape[1]))


def _cell(value: Any) -> str:
    if value is None or value != value or (not isinstance(value, str | bool) and value == -1):
        return ""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def annotation_numbers(labels: Any) -> Annotations:
    """Class numbers from an array with gaps."""
    cells, names = annotation_cells(labels)
    numbers = np.full(cells.shape, -1, np.int64)
    for place in np.argwhere(cells != ""):
        text = cells[tuple(place)]
        if not (text.isascii() and text.isdecimal()):
            raise PyriteError(f"labels is {text} at index {tuple(place.tolist())}, but must be a class number or a gap")
        numbers[tuple(place)] = int(text)
    return Annotations(numbers, names)


class Targets(NamedTuple):
    """Labels as class numbers, the names of the classes, and the labels of all annotators if there are several."""

    labels: Labels
    classes: tuple[str, ...]
    annotations: Annotations | None = None


def to_targets(cells: Cells, names: Sequence[str], what: str, classes: tuple[str, ...] = ()) -> Targets:
    """Class numbers of labels as texts, one per sample, or one row per sample with a column for each of ``names``.

    ``classes`` are those of the training part, if these are of another part.
    """
    if cells.ndim == 1:
        values = cells.tolist()
        return Targets(encode_like(values, classes, what), classes) if classes else Targets(*encode(values, what))
    _check_one_hot(cells, what)
    known = ~np.vectorize(is_missing, otypes=[bool])(cells)
    none = ~known.any(axis=1)
    if none.any():
        raise PyriteError(f"{what}: no annotator labels sample {int(none.argmax())}: leave out such samples")
    codes, own = encode(cells[known].tolist(), what)
    numbers = np.full(cells.shape, -1, np.int64)
    numbers[known] = codes
    annotations = Annotations(numbers, tuple(names))
    labels = annotations.majority(len(own))
    if classes:
        return Targets(encode_like([own[number] for number in labels], classes, what), classes)
    return Targets(labels, own, annotations)


def _check_one_hot(cells: Cells, what: str) -> None:
    """Raise PyriteError for columns of classes, one of which is marked in each row."""
    if cells.shape[1] == 2 and len(cells) < _FEW:  # they may as well be two annotators
        return
    for no, yes in _MARKS:
        if np.isin(cells, (no, yes)).all() and ((cells == yes).sum(1) == 1).all():
            raise PyriteError(f"{what} look one-hot, but must be one number or text per sample: pass the argmax(1)")


def _check_columns(cells: Cells, names: Sequence[str], what: str) -> None:
    """Raise PyriteError for columns that may be no annotators, and for a −1 that may be a class or a gap."""
    own = [{cell for cell in column if not is_missing(cell)} for column in cells.T.tolist()]
    times = Counter(label for labels in own for label in labels)
    if {"-1", "0"} <= times.keys() and all(re.fullmatch(r"-?\d+", label) for label in times):
        raise PyriteError(
            f"{what}: -1 may be a class or a missing label: leave missing cells empty, or name the classes"
        )
    filled = (cells != "").sum(0) >= _FEW
    alone = [
        name
        for name, labels, many in zip(names, own, filled, strict=True)
        if many and max(map(times.__getitem__, labels), default=2) < 2
    ]
    if alone:
        raise PyriteError(
            f"{what} have no label in common with the others in {listed(alone)}: name only the columns of annotators"
        )


def annotated_rows(
    table: Table, label: Sequence[str], sample: str, annotator: str
) -> tuple[Labels, Cells, tuple[str, ...]]:
    """The first row of every sample, labels by sample and annotator, and the names of the annotators."""
    if not annotator:
        cells = np.stack([table.texts(column) for column in label], 1)
        if len(label) > 1:
            _check_columns(cells, label, f"{table.path}: the columns of labels")
        return np.arange(len(table)), cells, tuple(label)
    if not sample or len(label) != 1:
        missing = "sample names none" if not sample else f"label names {len(label)} columns"
        raise PyriteError(
            f"annotator is {annotator!r}, so that a row is one label: name the columns of samples and of labels with "
            f"sample and label, but {missing}"
        )
    return _long_rows(table, sample, annotator, label[0])


def _long_rows(table: Table, sample: str, annotator: str, label: str) -> tuple[Labels, Cells, tuple[str, ...]]:
    samples, who, given = (table.texts(column).tolist() for column in (sample, annotator, label))
    for column, cells in ((sample, samples), (annotator, who)):
        if "" in cells:
            raise PyriteError(f"{table.cell(cells.index(''), column)}: the cell is empty")
    first: dict[str, int] = {}
    place: dict[str, int] = {}
    for row, (one, by) in enumerate(zip(samples, who, strict=True)):
        first.setdefault(one, row)
        place.setdefault(by, len(place))
    check_names(first, f"{table.path}: the column {sample!r}", "sample")
    check_names(place, f"{table.path}: the column {annotator!r}", "annotator")
    number = {one: index for index, one in enumerate(first)}
    cells = np.full((len(first), len(place)), "", object)
    for row, (one, by, value) in enumerate(zip(samples, who, given, strict=True)):
        old = cells[number[one], place[by]]
        if old and value and old != value:
            raise PyriteError(f"{table.cell(row, label)}: {by!r} labels {one!r} twice, as {old!r} and as {value!r}")
        cells[number[one], place[by]] = value or old
    return np.fromiter(first.values(), np.int64), cells, tuple(place)


def read_label_file(path: Path, sample: str, annotator: str) -> tuple[list[str], Cells, tuple[str, ...]]:
    """Samples, their labels by annotator, and the names of the annotators, from a table beside the samples.

    Its first column names the samples unless ``sample`` names another; every other column is an annotator. With
    ``annotator`` a row is one label, in the column ``label``, or in the only one that is left.
    """
    table = parquet_table(path) if path.suffix.lower() == ".parquet" else TextTable(path)
    sample = sample or table.names[0]
    for column in filter(None, (sample, annotator)):
        table.check_column(column)
    rest = [column for column in table.names if column not in (sample, annotator)]
    if annotator and len(rest) > 1 and "label" in rest:
        rest = ["label"]
    if not rest:
        raise PyriteError(f"{path}: there is no column of labels beside {sample!r}")
    rows, cells, names = annotated_rows(table, rest, sample, annotator)
    samples = table.texts(sample)[rows].tolist()
    twice = [name for name, times in Counter(samples).items() if times > 1]
    if twice:
        raise PyriteError(f"{path}: two rows belong to the sample {twice[0]!r}: with one row per label, pass annotator")
    return samples, cells, names
