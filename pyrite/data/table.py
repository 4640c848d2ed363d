"""Tables with a label column: delimited text, Parquet, and data frames."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from pyrite.data.dataset import Dataset, encode, encode_like
from pyrite.data.delimited import Delimited
from pyrite.data.files import as_path
from pyrite.data.records import Column, Kind, Records
from pyrite.data.typed_table import parquet_table
from pyrite.errors import PyriteError
from pyrite.spec import nearest

__all__ = ["Source", "csv", "parquet", "read_columns", "read_table"]

_OBVIOUS: Final = ("label", "labels", "target", "class", "y")
_FEW: Final = 20  # the last column is taken for the labels if it has at most so many distinct values
_EACH: Final = 5  # and so many rows of each
_UNNAMED: Final = ("", "Unnamed: 0", "index")  # the row numbers that pandas writes
_CONTINUOUS: Final = 50  # a label column with more distinct numbers, which hardly repeat, is no list of classes


class Source(Protocol):
    """A table that can be read by columns."""

    path: Any
    names: list[str]
    rows: int

    @property
    def distinct(self) -> Any:
        """How many distinct values a column has."""
        ...

    def cell(self, row: int, name: str) -> str:
        """Where a cell is, for error messages."""
        ...

    def is_whole(self, name: str) -> bool:
        """Whether no cell of a column is a number with decimals."""
        ...

    def texts(self, names: Collection[str]) -> dict[str, npt.NDArray[Any]]:
        """Columns as texts, empty where a cell is missing."""
        ...

    def columns(self, names: Collection[str], kinds: Mapping[str, Kind]) -> list[Column]:
        """Columns of the given kinds, or typed by what they hold."""
        ...


def csv(
    path: str,
    label: str = "",
    test: str | None = None,
    text: str = "",
    ignore: str = "",
    name: str = "",
    delimiter: str | None = None,
    decimal: str | None = None,
    encoding: str | None = None,
) -> Dataset:
    """A delimited table with a header: a column of labels, and numbers, categories, dates or texts.

    Args:
        path: the file.
        label: the label column. By default the one called label, target, class or y, or the last one if it has few
            distinct values.
        test: another file with the same columns, the test part.
        text: the column of texts to learn from, or several with commas between them; all others are left out.
        ignore: columns to leave out, with commas between them.
        name: the column that names a sample.
        delimiter: between cells; by default a comma, semicolon, tab or bar, whichever parts the header.
        decimal: the decimal mark of numbers; by default what the numbers show.
        encoding: of the file; UTF-8, or UTF-16 with a byte order mark, by default.
    """

    def open_table(place: Path) -> Delimited:
        return Delimited(place, delimiter, decimal, encoding)

    source = open_table(as_path(path))
    return read_table(source, label, text, ignore, name, None if test is None else open_table(as_path(test)))


def parquet(
    path: str, label: str = "", test: str | None = None, text: str = "", ignore: str = "", name: str = ""
) -> Dataset:
    """A Parquet table, with the columns and arguments of ``csv``. Needs the extra ``parquet``."""
    source = parquet_table(as_path(path))
    return read_table(source, label, text, ignore, name, None if test is None else parquet_table(as_path(test)))


class _Roles(NamedTuple):
    """Which columns are what."""

    label: str
    inputs: list[str]
    kinds: dict[str, Kind]
    name: str
    notes: list[str]


def read_table(
    source: Source, label: str = "", text: str = "", ignore: str = "", name: str = "", test: Source | None = None
) -> Dataset:
    """The data set in a table; ``csv`` explains the arguments."""
    roles = _roles(source, label, _listed(text, source), _listed(ignore, source), name)
    labels, classes = encode(_labels(source, roles.label), f"{source.path}: the labels in the column {roles.label!r}")
    columns = read_columns(source, roles.inputs, roles.kinds)
    empty = [column.name for column in columns if column.missing.all()]
    if len(empty) == len(columns):
        raise PyriteError(f"{source.path}: the column {empty[0]!r} is empty: there is nothing to learn from")
    test_columns, test_part = columns, None
    if test is not None:
        test_columns = read_columns(test, roles.inputs, {column.name: column.kind for column in columns})
    inputs, test_inputs = _joined(columns, test_columns)
    if test is not None:
        test_labels = encode_like(_labels(test, roles.label), classes, f"{test.path}: the column {roles.label!r}")
        test_part = Dataset(f"{_stem(test)} test", test_inputs, test_labels, classes, paths=_names(test, roles.name))
    return Dataset(
        _stem(source), inputs, labels, classes, test_part, columns=tuple(roles.inputs), label=roles.label,
        paths=_names(source, roles.name), notes=tuple(roles.notes),
    )  # fmt: skip


def read_columns(source: Source, names: Sequence[str], kinds: Mapping[str, Kind]) -> list[Column]:
    """Columns of these names, of the given kinds or typed by what they hold."""
    for name in names:
        _check_column(source, name)
    return source.columns(names, kinds)


def _joined(*parts: list[Column]) -> tuple[Any, ...]:
    """Columns of the parts of a data set: as plain numbers if all are numbers and none is missing, or as records."""
    plain = all(column.kind == "number" and not column.missing.any() for columns in parts for column in columns)
    return tuple(np.stack([column.values for column in columns], 1) if plain else Records(columns) for columns in parts)


def _roles(source: Source, label: str, texts: list[str], ignored: list[str], name: str) -> _Roles:
    notes: list[str] = []
    for column in [*filter(None, (label, name)), *texts, *ignored]:
        _check_column(source, column)
    if not label:
        label, note = _guess(source, {*texts, *ignored, name})
        notes += [note] if note else []
    both = {label} & {*texts, *ignored, name}
    if both:
        raise PyriteError(f"{source.path}: the column {label!r} has the labels, so that it cannot be anything else too")
    if texts:
        return _Roles(label, texts, dict.fromkeys(texts, "text"), name, notes)
    taken = {label, *ignored, *([name] if name else [])}
    rest = [column for column in source.names if column not in taken]
    counted = [column for column in rest if column in _UNNAMED and _counts_rows(source, column)]
    if counted and len(rest) > 1:
        rest.remove(counted[0])
        notes.append(f"the column {counted[0]!r} counts the rows, and is left out")
    if not rest:
        raise PyriteError(f"{source.path}: there is no column besides the labels")
    return _Roles(label, rest, {}, name, notes)


def _check_column(source: Source, name: str) -> None:
    if name not in source.names:
        listed = ", ".join(map(repr, source.names[:20])) + (", ..." if len(source.names) > 20 else "")
        close = nearest(name, dict.fromkeys(source.names)) if len(source.names) <= 1000 else ""
        hint = f"; {close}" if close.startswith("did") else f"; there are {listed}"
        raise PyriteError(f"{source.path}: no column is called {name!r}{hint}")


def _guess(source: Source, taken: set[str]) -> tuple[str, str]:
    """The label column, and a sentence if it is not the one called so."""
    free = [name for name in source.names if name not in taken]
    if "label" in free:
        return "label", ""
    called = [name for name in free if name.lower() in _OBVIOUS]
    if len(called) == 1:
        return called[0], f"the labels are taken from the column {called[0]!r}; --label names another"
    last = free[-1] if free else ""
    few = last and 2 <= source.distinct[last] <= min(_FEW, source.rows // _EACH) and source.is_whole(last)
    if few and not called:
        return last, (
            f"the labels are taken from the last column, {last!r}, which has {source.distinct[last]} distinct values; "
            "--label names another"
        )
    listed = ", ".join(map(repr, source.names[:20])) + (", ..." if len(source.names) > 20 else "")
    raise PyriteError(f"{source.path}: no column is called 'label'; there are {listed}: name the labels with --label")


def _labels(source: Source, label: str) -> list[str]:
    _check_column(source, label)
    labels: list[str] = source.texts([label])[label].tolist()
    for row, value in enumerate(labels):
        if not value.strip():
            raise PyriteError(f"{source.cell(row, label)}: the label is missing")
    distinct = source.distinct[label]
    if not source.is_whole(label) and distinct > min(_CONTINUOUS, source.rows / 2) and _are_numbers(labels):
        raise PyriteError(
            f"{source.path}: the column {label!r} holds {'more than ' * (distinct > 1000)}{min(distinct, 1000):,} "
            "different numbers, but labels are classes: put the numbers into ranges first, or name another column with "
            "--label"
        )
    return labels


def _are_numbers(labels: Sequence[str]) -> bool:
    try:
        return all(float(label.replace(",", ".")) == float(label.replace(",", ".")) for label in labels)
    except ValueError:
        return False


def _counts_rows(source: Source, name: str) -> bool:
    """Whether a column holds 0, 1, 2, ... or 1, 2, 3, ...: in a table sorted by class it would tell the class."""
    cells = source.texts([name])[name].tolist()
    return cells in ([str(row) for row in range(len(cells))], [str(row + 1) for row in range(len(cells))])


def _names(source: Source, name: str) -> tuple[str, ...]:
    return tuple(source.texts([name])[name].tolist()) if name else ()


def _listed(text: str, source: Source) -> list[str]:
    if text and text in source.names:  # a name may have a comma in it
        return [text]
    if not isinstance(text, str):
        raise PyriteError(f"{text!r} is not a list of columns: write their names with commas between them")
    return [name.strip() for name in text.split(",") if name.strip()]


def _stem(source: Source) -> str:
    return source.path.stem if isinstance(source.path, Path) else str(source.path)
