"""Tables with a label column: delimited text, Parquet, and data frames."""

from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from pyrite.data.annotations import annotated_rows, encode_cells, majority_like
from pyrite.data.dataset import Dataset, Labels, encode, encode_like
from pyrite.data.files import as_path
from pyrite.data.records import Column, Records, Schema, kind_of, listed
from pyrite.data.tables import Table, TextTable, parquet_table
from pyrite.errors import PyriteError

_OBVIOUS: Final = ("label", "labels", "target", "class", "y")
_FEW: Final = 20  # the last column is taken for the labels if it has at most so many distinct values
_EACH: Final = 5  # and so many rows of each
_UNNAMED: Final = ("", "Unnamed: 0", "index")  # the row numbers that pandas writes
_CONTINUOUS: Final = 50  # a label column with more distinct numbers, which hardly repeat, is no list of classes


def csv(
    path: str,
    label: str = "",
    test: str | None = None,
    text: str = "",
    ignore: str = "",
    name: str = "",
    sample: str = "",
    annotator: str = "",
    group: str = "",
    delimiter: str | None = None,
    decimal: str | None = None,
    encoding: str | None = None,
) -> Dataset:
    """A delimited table with a header: a column of labels, and numbers, categories, dates or texts.

    Args:
        path: the file.
        label: the label column, or one for each of several annotators, with commas between them and gaps in them. By
            default the one called label, target, class or y, or the last one if it has few distinct values.
        test: another file with the same columns, the test part.
        text: the column of texts to learn from, or several with commas between them; all others are left out.
        ignore: columns to leave out, with commas between them.
        name: the column that names a sample.
        sample: the same; it is needed where ``annotator`` is given.
        annotator: the column that names who gave a label, in a table with one row per label. Of the rows of a sample,
            the first has its columns.
        group: the column of what samples belong to, such as a patient. Where samples are held out, groups stay whole.
        delimiter: between cells; by default a comma, semicolon, tab or bar, whichever parts the header.
        decimal: the decimal mark of numbers; by default what the numbers show.
        encoding: of the file; UTF-8, or UTF-16 with a byte order mark, by default.
    """
    table = TextTable(as_path(path), delimiter, decimal, encoding)
    other = None if test is None else TextTable(as_path(test), delimiter, decimal, encoding, like=table.decimal)
    return read_table(table, label, text, ignore, name, other, sample, annotator, group)


def parquet(
    path: str,
    label: str = "",
    test: str | None = None,
    text: str = "",
    ignore: str = "",
    name: str = "",
    sample: str = "",
    annotator: str = "",
    group: str = "",
) -> Dataset:
    """A Parquet table, with the columns and arguments of ``csv``. Needs the extra ``parquet``."""
    table = parquet_table(as_path(path))
    other = None if test is None else parquet_table(as_path(test))
    return read_table(table, label, text, ignore, name, other, sample, annotator, group)


def read_table(
    table: Table,
    label: str | Sequence[str] = "",
    text: str = "",
    ignore: str = "",
    name: str = "",
    test: Table | None = None,
    sample: str = "",
    annotator: str = "",
    group: str = "",
) -> Dataset:
    """The data set in a table; ``csv`` explains the arguments."""
    wanted, left_out, name = _listed(text, table), _listed(ignore, table), name or sample
    given = _listed(label, table) if isinstance(label, str) else [*label]
    for column in filter(None, (*given, name, annotator, group, *wanted, *left_out)):
        table.check_column(column)
    notes: list[str] = []
    if not given:
        guessed, note = _guess_label(table, {*wanted, *left_out, name, annotator, group})
        given, notes = [guessed], [note] if note else []
    taken = Counter(filter(None, (*given, annotator, name, *wanted, *left_out)))
    for column in (*given, annotator):
        if taken[column] > 1 or (group and column == group):
            raise PyriteError(
                f"{table.path}: the column {column!r} has the labels, so that it cannot be anything else too"
            )
    names = wanted or _inputs(table, {*taken, *filter(None, (group,))}, notes)
    what = f"{table.path}: the labels in the column {', '.join(map(repr, given))}"
    rows, annotations = np.arange(len(table)), None
    if annotator or len(given) > 1:
        rows, cells, by = annotated_rows(table, given, sample, annotator)
        annotations, classes = encode_cells(cells, by, what)
        labels = annotations.majority(len(classes))
    else:
        labels, classes = encode(_labels(table, given[0]), what)
    columns = _some(rows, [table.column(column, "text" if wanted else None) for column in names])
    if all(column.missing.all() for column in columns):
        raise PyriteError(f"{table.path}: the column {names[0]!r} is empty: there is nothing to learn from")
    kinds = {column.name: column.kind for column in columns}
    test_columns, test_rows = columns, np.arange(0 if test is None else len(test))
    if test is not None:
        if annotations is None:
            test_labels = encode_like(_labels(test, given[0]), classes, f"{test.path}: the column {given[0]!r}")
        else:
            test_rows, cells, by = annotated_rows(test, given, sample, annotator)
            test_labels = majority_like(cells, by, classes, f"{test.path}: the column {given[0]!r}")
        test_columns = _some(test_rows, test.columns(kinds, table.formats))
    # Plain numbers if all are numbers and none is missing in any part.
    plain = all(column.kind == "number" and not column.missing.any() for column in (*columns, *test_columns))
    inputs, test_inputs = ((as_array if plain else Records)(part) for part in (columns, test_columns))
    test_part = None
    if test is not None:
        paths = _names(test, name, test_rows)
        test_part = Dataset(f"{Path(test.path).stem} test", test_inputs, test_labels, classes, paths=paths)
    groups = as_groups(table.texts(group)[rows], f"{table.path}: the column {group!r}") if group else None
    decimal = table.decimal if isinstance(table, TextTable) else ""
    text_label = label if isinstance(label, str) and label else ",".join(given)
    return Dataset(
        Path(table.path).stem, inputs, labels, classes, test_part, columns=tuple(names), label=text_label,
        paths=_names(table, name, rows), notes=tuple(notes), annotations=annotations, groups=groups,
        schema=Schema(kind_of(inputs), (len(names),), kinds, text_label, table.formats, decimal),
    )  # fmt: skip


def as_groups(values: npt.ArrayLike, what: str) -> Labels:
    """A number for every group, by what it is called."""
    names = np.asarray(values).astype(str)
    if names.ndim != 1 or len(np.unique(names)) < 2:
        raise PyriteError(f"{what} has the shape {names.shape} and fewer than two groups: there must be one per sample")
    if (empty := np.flatnonzero(names == "")).size:
        raise PyriteError(f"{what} has no group in row {empty[0] + 1}: fill it, or remove the row")
    return np.asarray(np.unique(names, return_inverse=True)[1], np.int64)


def _some(rows: Labels, columns: Sequence[Column]) -> list[Column]:
    return [column._replace(values=column.values[rows]) for column in columns]


def _names(table: Table, name: str, rows: Labels) -> tuple[str, ...]:
    names = table.names_of_rows(name)
    return tuple(names[row] for row in rows.tolist()) if names else ()


def as_array(columns: Sequence[Column]) -> npt.NDArray[np.float64]:
    """Columns of numbers as one array."""
    return np.stack([column.values for column in columns], 1)


def _inputs(table: Table, taken: set[str], notes: list[str]) -> list[str]:
    """The columns that are not taken, without row numbers: in a table sorted by class they would give the class."""
    rest = [column for column in table.names if column not in taken]
    for column in [column for column in rest if column in _UNNAMED and len(rest) > 1]:
        cells, rows = table.texts(column).tolist(), range(len(table))
        if cells in ([str(row) for row in rows], [str(row + 1) for row in rows]):
            rest.remove(column)
            notes.append(f"the column {column!r} counts the rows, and is left out")
            break
    if not rest:
        raise PyriteError(f"{table.path}: there is no column besides the labels")
    return rest


def _guess_label(table: Table, taken: set[str]) -> tuple[str, str]:
    """The label column, and a sentence if it is not the one called so."""
    free = [name for name in table.names if name not in taken]
    if "label" in free:
        return "label", ""
    called = [name for name in free if name.lower() in _OBVIOUS]
    if len(called) == 1:
        return called[0], f"the labels are taken from the column {called[0]!r}; --label names another"
    if free and not called:
        distinct = set(table.texts(free[-1]).tolist())
        if 2 <= len(distinct) <= min(_FEW, len(table) // _EACH) and not (np.nan_to_num(_numbers(distinct)) % 1).any():
            return free[-1], (
                f"the labels are taken from the last column, {free[-1]!r}, which has {len(distinct)} distinct values; "
                "--label names another"
            )
    raise PyriteError(
        f"{table.path}: no column is called 'label'; there are {listed(table.names)}: name the labels with --label"
    )


def _labels(table: Table, label: str) -> list[str]:
    table.check_column(label)
    labels: list[str] = table.texts(label).tolist()
    distinct = set(labels)
    if any(not value.strip() for value in distinct):
        row = next(row for row, value in enumerate(labels) if not value.strip())
        raise PyriteError(f"{table.cell(row, label)}: the label is missing")
    numbers = _numbers(distinct) if len(distinct) > min(_CONTINUOUS, len(table) / 2) else np.zeros(1)
    if np.isfinite(numbers).all() and (numbers % 1).any():
        raise PyriteError(
            f"{table.path}: the column {label!r} holds {len(distinct):,} different numbers, but labels are classes: "
            "put the numbers into ranges first, or name another column with --label"
        )
    return labels


def _numbers(values: Collection[str]) -> npt.NDArray[np.float64]:
    """The numbers in texts; NaN for what is none."""
    import pandas

    texts = [value.replace(",", ".") for value in values]
    return np.asarray(pandas.to_numeric(pandas.Series(texts, dtype=object), errors="coerce"), np.float64)


def _listed(text: str, table: Table) -> list[str]:
    if text and text in table.names:  # a name may have a comma in it
        return [text]
    if not isinstance(text, str):
        raise PyriteError(f"{text!r} is not a list of columns: write their names with commas between them")
    return [name.strip() for name in text.split(",") if name.strip()]
