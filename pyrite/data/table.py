"""Tables with a label column: delimited text, Parquet, and data frames."""

import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, final

import numpy as np
import numpy.typing as npt

from pyrite.arrays import coded
from pyrite.data.annotations import Targets, annotated_rows, to_targets
from pyrite.data.column_reading import describe_columns, given_kinds, left_out_notes, nothing_in, unit_notes
from pyrite.data.columns import unit_of
from pyrite.data.dataset import Dataset, Labels, Samples, check_names, is_missing
from pyrite.data.hub import open_images
from pyrite.data.records import Column, Records, Schema, kind_of, listed
from pyrite.data.tables import Table, TextTable, parquet_table
from pyrite.errors import PyriteError
from pyrite.files import as_path

_OBVIOUS: Final = ("label", "labels", "target", "class", "y")
_FEW: Final = 20  # the last column is taken for the labels if it has at most so many distinct values
_EACH: Final = 5  # and so many rows of each
_INDEX: Final = re.compile(r"|Unnamed: 0(\.\d+)?|__index_level_\d+__")  # what pandas calls an index without a name
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
    types: str = "",
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
        types: what columns hold, where it is not what they look like: ``"zip=category,joined=dmy"``. They may be a
            number, boolean, category, date or text; ymd, dmy and mdy are the orders of a date. Columns that are empty,
            constant or identifiers are left out unless they are named here.
        delimiter: between cells; by default a comma, semicolon, tab or bar, whichever parts the header.
        decimal: the decimal mark of numbers; by default what the numbers show.
        encoding: of the file; UTF-8, or UTF-16 with a byte order mark, by default.
    """
    table = TextTable(as_path(path), delimiter, decimal, encoding)
    other = None if test is None else TextTable(as_path(test), delimiter, decimal, encoding, like=table.decimal)
    return read_table(table, Roles(label, text, ignore, name, sample, annotator, group, types), other)


def parquet(
    path: str, label: str = "", test: str | None = None, text: str = "", ignore: str = "", name: str = "",
    sample: str = "", annotator: str = "", group: str = "", types: str = "",
) -> Dataset:  # fmt: skip
    """A Parquet table, with the columns and arguments of ``csv``. Requires the extra ``parquet``.

    Files with images, as Hugging Face writes them, may be several, ``train-*.parquet``. They need the extra ``hf``.
    """
    if (images := open_images(path)) is not None:
        from pyrite.data.python_objects import load_object  # which reads tables as well

        parts = images if test is None else {"train": images, "test": open_images(test)}
        roles = Roles(label, text, ignore, name, sample, annotator, group, types)
        return replace(load_object(parts, **vars(roles)), name=Path(path).stem)
    table, other = (None if file is None else parquet_table(as_path(file)) for file in (path, test))
    assert table is not None
    return read_table(table, Roles(label, text, ignore, name, sample, annotator, group, types), other)


@final
@dataclass(frozen=True)
class Roles:
    """What the columns of a table are for; ``csv`` explains them."""

    label: str | Sequence[str] = ""
    text: str = ""
    ignore: str = ""
    name: str = ""
    sample: str = ""
    annotator: str = ""
    group: str = ""
    types: str = ""


def read_table(
    table: Table,
    roles: Roles,
    test: Table | None = None,
    targets: Targets | None = None,
    classes: tuple[str, ...] = (),
) -> Dataset:
    """The data set in a table, with ``targets`` if its labels are not in a column; their classes may be known."""
    wanted, ignored, name = _listed(roles.text, table), _listed(roles.ignore, table), roles.name or roles.sample
    given = _listed(roles.label, table) if isinstance(roles.label, str) else [*roles.label]
    for column in filter(None, (*given, name, roles.annotator, roles.group, *wanted, *ignored)):
        table.check_column(column)
    notes: list[str] = []
    if not given and targets is None:
        guessed, note = _guess_label(table, {*wanted, *ignored, name, roles.annotator, roles.group})
        given, notes = [guessed], [note] if note else []
    taken = Counter(filter(None, (*given, roles.annotator, name, *wanted, *ignored)))
    for column in (*given, roles.annotator):
        if taken[column] > 1 or (roles.group and column == roles.group):
            raise PyriteError(f"{table.path}: the column {column!r} contains the labels and cannot have another role")
    if both := [column for column in wanted if column in ignored]:
        raise PyriteError(f"{table.path}: text and ignore both name the column {both[0]!r}")
    types = given_kinds(roles.types, table)
    names = wanted or [column for column in table.names if column not in {*taken, *filter(None, (roles.group,))}]
    if not names:
        raise PyriteError(f"{table.path}: there is no column besides the labels")
    rows = np.arange(len(table))
    if targets is None:
        rows, targets = _read_targets(table, given, roles, classes)
    columns = [table.column(one, *(("text",) if wanted else types.get(one, ()))).some(rows) for one in names]
    columns, left_out = _with_content(table, columns, {*wanted, *types})
    notes += [*left_out_notes(left_out), *unit_notes(table, columns)]
    kinds = {column.name: column.kind for column in columns}
    test_columns = columns
    if test is not None:
        test_rows, test_targets = _read_targets(test, given, roles, targets.classes)
        test_columns = [column.some(test_rows) for column in test.columns(kinds, table.formats)]
    # Plain numbers if all are numbers and none is missing in any part.
    plain = all(column.kind == "number" and not column.missing.any() for column in (*columns, *test_columns))
    inputs, test_inputs = ((as_array if plain else Records)(part) for part in (columns, test_columns))
    test_part = None
    if test is not None:
        paths, title = test.names_of_rows(name, test_rows), f"{Path(test.path).stem} test"
        test_part = Dataset(title, test_inputs, test_targets.labels, targets.classes, paths=paths)
    group = roles.group
    groups = as_groups(table.texts(group)[rows], f"{table.path}: the column {group!r}") if group else None
    label = roles.label if isinstance(roles.label, str) and roles.label else ",".join(given)
    decimal, is_clear = (table.decimal, table.is_clear) if isinstance(table, TextTable) else ("", True)
    used = {name: "name", roles.annotator: "annotator", group: "group", **dict.fromkeys(given, "label")}
    out = dict.fromkeys(table.names, "--text names others") | dict.fromkeys(ignored, "--ignore names it") | left_out
    return Dataset(
        Path(table.path).stem, inputs, targets.labels, targets.classes, test_part, columns=tuple(kinds), label=label,
        paths=table.names_of_rows(name, rows), notes=tuple(notes), annotations=targets.annotations, groups=groups,
        schema=Schema(kind_of(inputs), (len(kinds),), kinds, label, table.formats, decimal, is_clear),
        reading=describe_columns(table, columns, used, out),
    )  # fmt: skip


def _read_targets(table: Table, label: Sequence[str], roles: Roles, classes: tuple[str, ...]) -> tuple[Labels, Targets]:
    """The rows of the samples, of which each may have several labels, and the labels."""
    names: Sequence[str] = label
    if roles.annotator or len(label) > 1:
        rows, cells, names = annotated_rows(table, label, roles.sample, roles.annotator)
    else:
        rows, cells = np.arange(len(table)), _labels(table, label[0])
    columns = "columns" if len(label) > 1 else "column"
    return rows, to_targets(cells, names, f"{table.path}: the labels in the {columns} {listed(label)}", classes)


def read_columns(table: Table, schema: Schema, name: str = "", labels: bool = False) -> Samples:
    """Samples for a model that was trained on data of this schema, with their labels if those are wanted; the column
    ``name`` names a sample."""
    if schema.kind == "images":
        raise PyriteError(f"{table.path}: the model takes images, not a table")
    if not schema.columns:
        raise PyriteError(f"{table.path}: the model was trained on numbers without names: pass an array")
    absent = [column for column in schema.columns if column not in table.names]
    if absent:
        raise PyriteError(
            f"{table.path}: there is no column {absent[0]!r}; the model was trained on {listed(schema.columns)}"
        )
    columns, inputs = table.columns(schema.columns, schema.formats), None
    if schema.kind == "numbers":
        for column in columns:
            if column.missing.any():
                cell = table.cell(int(column.missing.argmax()), column.name)
                raise PyriteError(f"{cell}: the number is missing, and none was missing in training")
        inputs = as_array(columns)
    own = table.texts(schema.label).tolist() if labels else None
    units = {column: unit_of(schema.formats.get(column, "")) for column in schema.columns}
    notes = [
        f"the column {column!r} had the unit {unit!r} in training, and has none here: its numbers are read in that unit"
        for column, unit in units.items()
        if unit and not unit_of(table.formats.get(column, ""))
    ]
    found = Records(columns) if inputs is None else inputs
    return Samples(found, table.names_of_rows(name), labels=own, notes=tuple(notes))


def as_groups(values: npt.ArrayLike, what: str) -> Labels:
    """A number for every group, by what it is called."""
    given = np.asarray(values)
    names = np.array(["" if value is None else str(value) for value in given.ravel()], object)
    distinct, numbers = coded(names)
    if given.ndim != 1 or len(distinct) < 2:
        raise PyriteError(f"{what} has the shape {given.shape} and fewer than two groups: there must be one per sample")
    check_names(filter(str.strip, distinct), what, "group")
    if gaps := [place for place, name in enumerate(distinct) if is_missing(name)]:
        row = int(np.isin(numbers, gaps).argmax()) + 1
        raise PyriteError(f"{what} has no group in row {row}: fill it, or remove the row")
    return numbers


def as_array(columns: Sequence[Column]) -> npt.NDArray[np.float64]:
    """Columns of numbers as one array."""
    return np.stack([column.values for column in columns], 1)


def _with_content(table: Table, columns: list[Column], kept: set[str]) -> tuple[list[Column], dict[str, str]]:
    """The columns that hold something to learn from, and the others with the reason; those in ``kept`` hold something.

    In a table sorted by class, row numbers would give the class.
    """
    reasons = {name: reason for name, reason in nothing_in(columns).items() if name not in kept}
    numbers = {one.name: one.values for one in columns if one.kind == "number" and len(columns) > 1}
    for name, values in numbers.items():
        counts = name == "index" and np.array_equal(values - values[0], np.arange(len(values))) and values[0] in (0, 1)
        if counts or (_INDEX.fullmatch(name) and not (values % 1).any()):
            reasons[name] = "it numbers the rows"
    rest = [column for column in columns if column.name not in reasons]
    if not rest or all(column.missing.all() for column in rest):
        why = reasons.get(columns[0].name, "empty")
        raise PyriteError(f"{table.path}: the column {columns[0].name!r} is {why}: there is nothing to learn from")
    return rest, reasons


def _guess_label(table: Table, taken: set[str]) -> tuple[str, str]:
    """The label column, and a sentence if it is not the one called so."""
    free = [name for name in table.names if name not in taken and not _INDEX.fullmatch(name)]
    if "label" in free:
        return "label", ""
    called = [name for name in free if name.lower() in _OBVIOUS]
    if len(called) == 1:
        return called[0], f"the labels are taken from the column {called[0]!r}; use --label to choose another"
    if free and not called:
        distinct = set(table.texts(free[-1]).tolist())
        if 2 <= len(distinct) <= min(_FEW, len(table) // _EACH) and not (np.nan_to_num(_numbers(distinct)) % 1).any():
            return free[-1], (
                f"the labels are taken from the last column, {free[-1]!r}, which has {len(distinct)} distinct values; "
                "use --label to choose another"
            )
    raise PyriteError(
        f"{table.path}: no column is called 'label'; there are {listed(table.names)}; "
        "name the label column with --label"
    )


def _labels(table: Table, label: str) -> npt.NDArray[Any]:
    table.check_column(label)
    labels = table.texts(label)
    distinct = set(labels.tolist())
    if any(not value.strip() for value in distinct):
        row = next(row for row, value in enumerate(labels.tolist()) if not value.strip())
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
