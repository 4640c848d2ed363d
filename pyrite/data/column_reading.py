"""How each column of a table was read, for people to check; and which columns hold nothing to learn from."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, cast

import numpy as np

from pyrite.data.columns import DATE_FORMATS, MISSING, date_formats, unit_of, without_unit
from pyrite.data.records import KINDS, Column, Kind, shown
from pyrite.data.tables import Table, TextTable
from pyrite.errors import PyriteError
from pyrite.text_tables import Table as Cells, counted

_ENOUGH: Final = 20  # rows from which distinct values say something
_DISTINCT: Final = 0.95  # of the rows: so many distinct values are those of an identifier
_ID: Final = re.compile(r"(?i)(^|[_\s.-])(id|uuid|guid|key|index|nr|no|number)$|(?-i:[a-z](Id|ID|Key|Nr|No|Number)$)")
_WIDE: Final = 32  # characters of the values that are shown
_PLURALS: Final = {"category": "categories"}
_OTHER: Final = {"number": "category", "boolean": "category", "category": "text", "date": "text", "text": "category"}

_IDENTIFIER: Final = "identifier: values hardly repeat"


class ColumnReading(NamedTuple):
    """How a column was read: ``kind``, or ``left out``; its gaps; the unit, the format of dates or the reason; some of
    what it holds; and the flag that changes it."""

    name: str
    kind: str
    gaps: int = 0
    detail: str = ""
    values: str = ""
    change: str = ""


def given_kinds(types: str, table: Table) -> dict[str, tuple[Kind, str]]:
    """The kinds and formats in ``"zip=category,joined=dmy"``, by column."""
    kinds: dict[str, tuple[Kind, str]] = {}
    for part in filter(None, map(str.strip, types.split(","))):
        name, _, word = (piece.strip() for piece in part.rpartition("="))
        form = word if word in DATE_FORMATS else ""
        kind = "date" if form else word
        if not name or kind not in KINDS:
            raise PyriteError(
                f"types is {types!r}, but must be such as 'zip=category,joined=dmy', with {', '.join(KINDS)} or "
                f"the order of a date, {', '.join(DATE_FORMATS)}"
            )
        table.check_column(name)
        kinds[name] = cast(Kind, kind), form
    return kinds


def nothing_in(columns: Sequence[Column]) -> dict[str, str]:
    """The columns that hold nothing to learn from, and the reason: empty, constant, or an identifier.

    Identifiers are kept if there is nothing else.
    """
    reasons = {
        column.name: reason for column in columns if (reason := _nothing(column) or _IDENTIFIER * is_identifier(column))
    }
    if len(reasons) == len(columns):
        return {name: reason for name, reason in reasons.items() if reason != _IDENTIFIER}
    return reasons


def _nothing(column: Column) -> str:
    missing = column.missing
    if missing.all():
        return "empty"
    same = not missing.any() and len(missing) > 1 and (column.values == column.values[0]).all()
    return f"constant: {_quoted(shown(column, 0))} in every row" if same else ""


def is_identifier(column: Column) -> bool:
    """Whether nearly every row has another value, and those are written as identifiers are.

    >>> codes = np.array([f"C-{number:05}" for number in range(500)], object)
    >>> is_identifier(Column("customer", "text", codes))
    True
    """
    values, count = column.values, len(column.values)
    if count < _ENOUGH or column.kind in ("boolean", "date") or column.missing.any():
        return False
    distinct = len(np.unique(values))
    if distinct < _DISTINCT * count:
        return False
    if column.kind == "number":
        if (values % 1).any():
            return False
        counts_rows = distinct == count and values.min() in (0, 1) and values.max() - values.min() == count - 1
        return bool(counts_rows or _ID.search(column.name))
    texts = values.tolist()
    phrases = any(len(text.split()) > 1 and re.search(r"[^\W\d_]", text) for text in texts)  # not +49 30 1234567
    return not (phrases or any(without_unit(text)[1] for text in texts)) and (
        _ID.search(column.name) is not None or sum(any(map(str.isdigit, text)) for text in texts) >= _DISTINCT * count
    )


def describe_columns(
    table: Table, read: Sequence[Column], roles: Mapping[str, str], left_out: Mapping[str, str]
) -> tuple[ColumnReading, ...]:
    """How the columns of a table were read, in their order, what they are for, and why others are left out."""
    known = {column.name: column for column in read}
    found = []
    for name in table.names:
        if (column := known.get(name)) is not None:
            detail, change = _detail(table, column, table.formats.get(name, ""))
            found.append(ColumnReading(name, column.kind, int(column.missing.sum()), detail, _values(column), change))
        elif name and name in roles:
            found.append(ColumnReading(name, roles[name], 0, "", "", f"--{roles[name]} OTHER"))
        else:
            change = f"--types {name}=category" if left_out[name] == _IDENTIFIER else ""
            found.append(ColumnReading(name, "left out", 0, left_out[name], "", change))
    return tuple(found)


def _detail(table: Table, column: Column, form: str) -> tuple[str, str]:
    """The unit or format of a column, and the flag that reads it in another way."""
    change = f"--types {column.name}={_OTHER[column.kind]}"
    if column.kind == "date":
        return (form, change) if form else ("", change)
    if not isinstance(table, TextTable):
        return "", change
    if column.kind == "number":
        marks = " or ".join(map(repr, form.removesuffix(unit_of(form))))
        return ", ".join(filter(None, (unit_of(form), f"decimals after {marks}" if marks else ""))), change
    cells = [cell for cell in dict.fromkeys(table.texts(column.name).tolist()) if cell not in MISSING]
    orders = date_formats(cells) if cells and column.kind in ("category", "text") else []
    if len(orders) > 1:
        return "dates in an unclear order", f"--types {column.name}={orders[-2]}"
    return "", change


def _values(column: Column) -> str:
    """What a column holds, in a few words."""
    rows = np.flatnonzero(~column.missing)
    known = column.values[rows]
    if column.kind in ("number", "date"):
        ends = [shown(column, int(rows[place])) for place in (known.argmin(), known.argmax())]
        return " to ".join(f"{float(end):.6g}" for end in ends) if column.kind == "number" else " to ".join(ends)
    if column.kind == "text":
        return _quoted(str(known[0]))
    common = [name for name, _ in Counter(known.tolist()).most_common()]
    names = ["true" if name == 1 else "false" for name in common] if column.kind == "boolean" else common
    text = f"{len(names)}: {', '.join(names)}"
    return text if len(text) <= _WIDE else f"{text[: _WIDE - 3]}..."


def _quoted(text: str) -> str:
    text = " ".join(text.split())
    return repr(text if len(text) <= _WIDE - 2 else f"{text[: _WIDE - 5]}...")


def reading_table(reading: Sequence[ColumnReading], rows: int) -> Cells:
    """How columns were read, for people."""
    return Cells(
        ("column", "read as", "gaps", "values", "to change it"),
        tuple(
            (
                one.name or "(no name)",
                one.kind if one.kind == "left out" or not one.detail else f"{one.kind}, {one.detail}",
                "" if not one.gaps else f"{100 * one.gaps / rows:.2g} %",
                one.detail if one.kind == "left out" else one.values,
                one.change,
            )
            for one in reading
        ),
    )


def unit_notes(table: Table, columns: Sequence[Column]) -> list[str]:
    """A sentence for every column of which some numbers have a unit and others have none, or another one."""
    notes = []
    for column in columns if isinstance(table, TextTable) else ():
        unit = unit_of(table.formats.get(column.name, "")) if column.kind == "number" else ""
        if column.kind in ("boolean", "date") or (column.kind == "number" and not unit):
            continue
        cells = [cell for cell in table.texts(column.name).tolist() if cell not in MISSING]
        if not unit and not all(without_unit(cell)[1] for cell in cells[:100]):
            continue
        counts = Counter(without_unit(cell)[1] for cell in cells)
        if unit and counts[""]:
            notes.append(
                f"the column {column.name!r} has the unit {unit!r} in {counts[unit]:,} of {len(cells):,} cells: the "
                "others are read in the same unit"
            )
        elif len(counts) > 1 and "" not in counts:
            notes.append(
                f"the column {column.name!r} has several units, {', '.join(sorted(counts))}, and is read as "
                f"{column.kind}: convert them to one unit"
            )
    return notes


def reading_sentence(reading: Sequence[ColumnReading]) -> str:
    """The kinds of the columns, in a line.

    >>> reading_sentence([ColumnReading("a", "category", 0, "", "2: x, y", ""), ColumnReading("b", "left out")])
    '1 category; 1 column is left out'
    """
    counts = Counter(one.kind for one in reading)
    words = [counted(counts[kind], kind, _PLURALS.get(kind, "")) for kind in KINDS if counts[kind]]
    out = counts["left out"]
    return ", ".join(words) + (f"; {counted(out, 'column')} {'is' if out == 1 else 'are'} left out" if out else "")


def left_out_notes(left_out: Mapping[str, str]) -> list[str]:
    """A sentence that names what is left out without being asked for, if anything is."""
    columns: dict[str, list[str]] = {}
    for name, reason in left_out.items():
        columns.setdefault(reason.partition(":")[0], []).append(repr(name) if name else "without a name")
    which, are = ("columns", "are") if len(left_out) > 1 else ("column", "is")
    named = (f"{', '.join(names)} ({reason})" for reason, names in columns.items())
    return [f"the {which} {', '.join(named)} {are} left out"] if left_out else []
