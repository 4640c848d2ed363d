"""Cells of text files: which of them are missing, numbers, truth values or dates, and what a column of them is."""

import math
import re
from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from pyrite.data.records import Column, Kind
from pyrite.errors import PyriteError

__all__ = ["MISSING", "decimal_mark", "in_seconds", "number", "string_column", "to_objects"]

MISSING: Final = frozenset(
    (
        "",
        "nan",
        "NaN",
        "NAN",
        "-nan",
        "NA",
        "N/A",
        "n/a",
        "#N/A",
        "null",
        "NULL",
        "None",
        "none",
        "<NA>",
        "NaT",
        "?",
        "-",
    )
)
"""Cells of a number, a date or a truth value that is missing. In a column of categories most of them are categories."""

_FEW: Final = 40  # texts with at most so many distinct values are categories
_WORDS: Final = 4  # texts of so many words or more that hardly repeat are texts, however few they are

_COMMA: Final = re.compile(r"[+-]?(\d{1,3}(\.\d{3})+|\d+)(,\d+)?([eE][+-]?\d+)?")  # 1.234,5
_POINT: Final = re.compile(r"[+-]?(\d{1,3}(,\d{3})+)(\.\d+)?([eE][+-]?\d+)?")  # 1,234.5
_BOOLEANS: Final = {"true": 1.0, "false": 0.0}

# What day and month are in 3/4/2020 depends on the country: only a column that leaves no doubt is read.
_ISO: Final = re.compile(r"\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?( ?(Z|UTC|[+-]\d{2}:?\d{2}))?)?")
_PARTS: Final = re.compile(r"(\d{1,4})([./-])(\d{1,2})\2(\d{1,4})(?:[T ](\d{1,2}):(\d{2})(?::(\d{2}))?)?")
_ORDERS: Final[dict[str, tuple[int, int, int]]] = {"ymd": (0, 1, 2), "dmy": (2, 1, 0), "mdy": (2, 0, 1)}


def number(cell: str, decimal: str = ".") -> float:
    """The number in a cell; ValueError if there is none. Thousands may be separated by the mark that is not decimal."""
    text = cell.strip()
    if decimal == "," and _COMMA.fullmatch(text):
        text = text.replace(".", "").replace(",", ".")
    elif decimal == "." and "," in text and _POINT.fullmatch(text):
        text = text.replace(",", "")
    if "_" in text:  # Python reads 1_000
        raise PyriteError(f"{cell!r} is not a number")
    return float(text)


def decimal_mark(columns: Sequence[Sequence[str]]) -> str | None:
    """The decimal mark of a table's numbers, ``"."`` or ``","``; None if it has numbers such as 1,234 alone.

    >>> decimal_mark([["1,5", "2"]]), decimal_mark([["1.5", "2"]]), decimal_mark([["1,234"]])
    (',', '.', None)
    """
    commas = points = doubt = False
    for column in columns:
        cells = [cell.strip() for cell in column if cell.strip() not in MISSING]
        if not all(_COMMA.fullmatch(cell) or _POINT.fullmatch(cell) or _is_number(cell) for cell in cells):
            continue
        for cell in cells:
            comma, point = bool(_COMMA.fullmatch(cell)), bool(_POINT.fullmatch(cell)) or _is_number(cell)
            commas |= comma and not point
            points |= point and not comma
            doubt |= comma and point and "," in cell
    if commas and not points:
        return ","
    return None if doubt and not points else "."


def string_column(name: str, values: npt.NDArray[Any], plain: bool = False) -> Column:
    """A column of texts, typed by what it holds: truth values, dates, categories or texts.

    ``plain`` texts were typed by whoever wrote them, and are categories or texts.
    """
    distinct = sorted(set(values.tolist()))
    if not plain:
        known = [value for value in distinct if value not in MISSING]
        if known and all(value.lower() in _BOOLEANS for value in known):
            return _mapped(name, "boolean", values, {value: _BOOLEANS[value.lower()] for value in known}, np.nan, "f8")
        read = _date_reader(known) if known else None
        if read is not None:
            return _mapped(name, "date", values, {v: np.datetime64(read(v), "s") for v in known}, "NaT", "M8[s]")
    return Column(name, _category_or_text(values, distinct), values)


def in_seconds(name: str, values: npt.NDArray[Any], where: Callable[[int], str]) -> Column:
    """A column of dates from texts of any format that leaves no doubt; the first that is none is a ValueError."""
    known = sorted(set(values.tolist()) - MISSING)
    read = _date_reader(known)
    if read is None and known:
        bad = next((value for value in known if _date_reader([value]) is None), known[0])
        row = values.tolist().index(bad)
        raise PyriteError(f"{where(row)}: {bad[:40]!r} is not a date as this column had in training")
    made = {} if read is None else {value: np.datetime64(read(value), "s") for value in known}
    return _mapped(name, "date", values, made, "NaT", "M8[s]")


def to_objects(values: Collection[str]) -> npt.NDArray[Any]:
    """Texts as an array of Python texts: one of fixed width would take the longest for all."""
    array = np.empty(len(values), object)
    array[:] = list(values)
    return array


def _mapped(
    name: str, kind: Kind, values: npt.NDArray[Any], meaning: dict[str, Any], missing: Any, dtype: str
) -> Column:
    return Column(name, kind, np.array([meaning.get(value, missing) for value in values.tolist()], dtype))


def _category_or_text(values: npt.NDArray[Any], distinct: Sequence[str]) -> Kind:
    if len(distinct) > _FEW:
        return "text"
    words = sum(len(value.split()) for value in distinct) / max(1, len(distinct))
    return "text" if len(distinct) > len(values) / 2 and words >= _WORDS else "category"


def _is_number(cell: str) -> bool:
    try:
        return math.isfinite(number(cell))
    except ValueError:
        return False


def _date_reader(cells: Sequence[str]) -> Callable[[str], datetime] | None:
    """What reads all of these as dates, if exactly one way does."""
    if all(_ISO.fullmatch(cell.strip()) for cell in cells):
        return _iso if _reads(_iso, cells) else None
    matches = [_PARTS.fullmatch(cell.strip()) for cell in cells]
    if not all(matches):
        return None
    readers = [_by_parts(order) for order in _ORDERS.values()]
    able = [read for read in readers if _reads(read, cells)]
    # 03.04.2020 is the third of April wherever points are used.
    dotted = able[:1] if cells and "." in cells[0] else able
    return dotted[0] if len(dotted) == 1 else None


def _reads(read: Callable[[str], datetime], cells: Sequence[str]) -> bool:
    try:
        for cell in cells:
            read(cell)
    except ValueError:
        return False
    return True


def _iso(cell: str) -> datetime:
    text = cell.strip().replace("UTC", "+00:00").replace("Z", "+00:00")
    return _plain(datetime.fromisoformat(re.sub(r" (?=[+-]\d{2}:?\d{2}$)", "", text)))


def _by_parts(order: tuple[int, int, int]) -> Callable[[str], datetime]:
    def read(cell: str) -> datetime:
        match = _PARTS.fullmatch(cell.strip())
        if match is None:
            raise PyriteError(cell)
        first, _, second, third, *time = match.groups()
        parts = (first, second, third)
        if len(parts[order[0]]) != 4:
            raise PyriteError("a year of two digits may be of any century")
        year, month, day = (int(parts[place]) for place in order)
        hour, minute, second = (int(part or 0) for part in time)
        return datetime(year, month, day, hour, minute, second)

    return read


def _plain(date: datetime) -> datetime:
    return date if date.tzinfo is None else date.astimezone(UTC).replace(tzinfo=None)
