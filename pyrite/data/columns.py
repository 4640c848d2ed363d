"""What a column holds: numbers, truth values, dates, categories or texts, by its cells or by its type in pandas."""

import math
import re
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, NoReturn

import numpy as np
import numpy.typing as npt

from pyrite.data.records import Column, Kind
from pyrite.data.statistics import check_resolution
from pyrite.errors import PyriteError

if TYPE_CHECKING:
    import pandas

MISSING: Final = frozenset(
    (
        *("", "nan", "NaN", "NAN", "-nan", "NA", "N/A", "n/a", "#N/A"),
        *("null", "NULL", "None", "none", "<NA>", "NaT", "?", "-"),
    )
)
"""Cells of a number, a date or a truth value that is missing. In a column of categories most of them are categories."""

_FEW: Final = 40  # texts with at most so many distinct values are categories
_WORDS: Final = 4  # texts of so many words or more that hardly repeat are texts, however few they are
_MOSTLY: Final = 0.9  # a column with this fraction of numbers is meant to be one
_HEAD: Final = 4096  # cells of a column that are looked at first

_COMMA: Final = re.compile(r"[+-]?([1-9]\d{0,2}(\.\d{3})+|\d+)(,\d+)?([eE][+-]?\d+)?")  # 1.234,5
_POINT: Final = re.compile(r"[+-]?([1-9]\d{0,2}(,\d{3})+)(\.\d+)?([eE][+-]?\d+)?")  # 1,234.5
_CURRENCY: Final = r"[$€£¥₹]|USD|EUR|GBP|CHF|JPY|CNY|INR|CAD|AUD|SEK|NOK|DKK|PLN"
_MEASURE: Final = r"[%‰]|[kmµ]?g|lbs?|[kcmµ]?m|ft|[mµ]?s|min|h|°[CF]|[mc]?l|[km]?W|kWh|[kMG]B"
_UNIT: Final = re.compile(
    rf"([+-]?)\s*({_CURRENCY})?\s*([+-]?\d[\d.,]*(?:[ \u00a0\u202f'\u2019]\d{{3}}(?!\d)[\d.,]*)*)"
    rf"\s*({_CURRENCY}|{_MEASURE})?"
)
_UNCLEAR: Final = re.compile(r"[+-]?[1-9]\d{0,2}[.,]\d{3}")  # a mark of decimals or of thousands
_BOTH: Final = ".,"  # a column that was put together from others may have 6,55 beside 0.764
_BOOLEANS: Final = {"true": 1.0, "false": 0.0}

# What day and month are in 3/4/2020 depends on the country: only a column that leaves no doubt is read.
_ISO: Final = re.compile(r"\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?( ?(Z|UTC|[+-]\d{2}:?\d{2}))?)?")
_PARTS: Final = re.compile(r"(\d{1,4})([./-])(\d{1,2})\2(\d{1,4})(?:[T ](\d{1,2}):(\d{2})(?::(\d{2}))?)?")

Where = Callable[[int], str]
"""The place of a cell by its row, for messages."""


def number(cell: str, decimal: str = ".") -> float:
    """The number in a cell; ValueError if there is none. Thousands may be separated by the mark that is not decimal.

    Where decimals come after either mark, a single mark is decimal, and of two kinds the last.

    >>> number("1.234,5", ","), number("6,55", ".,"), number("0.764", ".,"), number("1,234.5", ".,")
    (1234.5, 6.55, 0.764, 1234.5)
    """
    text = cell.strip()
    if decimal == _BOTH:
        last, other = (",", ".") if text.rfind(",") > text.rfind(".") else (".", ",")
        decimal = last if text.count(last) == 1 else other
        text = text if other in text else text.replace(decimal, ".")
    if decimal == "," and _COMMA.fullmatch(text):
        text = text.replace(".", "").replace(",", ".")
    elif decimal == "." and "," in text and _POINT.fullmatch(text):
        text = text.replace(",", "")
    if "_" in text:  # Python reads 1_000
        raise ValueError(f"{cell!r} is not a number")
    return float(text)


def without_unit(cell: str) -> tuple[str, str]:
    """The number of a cell without a currency, a measure or gaps between thousands, and that unit.

    >>> without_unit("-€ 1 234,50"), without_unit("12 %"), without_unit("7.5 kg"), without_unit("7 of 9")
    (('-1234,50', '€'), ('12', '%'), ('7.5', 'kg'), ('7 of 9', ''))
    """
    found = _UNIT.fullmatch(cell.strip())
    if found is None or (found[2] and found[4]) or (found[1] and found[3][0] in "+-"):
        return cell, ""
    return found[1] + re.sub(r"[^\d.,+-]", "", found[3]), found[2] or found[4] or ""


def decimal_mark(columns: Iterable[Iterable[str]], like: str = "") -> str | None:
    """The decimal mark of a table's numbers, ``"."`` or ``","``; None if it has numbers such as 1,234 alone.

    ``like`` is the mark of the training data, which decides where the numbers leave a doubt: 5.400 may be 5,400.

    >>> decimal_mark([["1,5", "2"]]), decimal_mark([["1.5", "2"]]), decimal_mark([["1,234"]])
    (',', '.', None)
    """
    return _decided(set[str]().union(*map(_marks, columns)), like)


def leaves_doubt(columns: Sequence[Iterable[str]]) -> bool:
    """Whether some numbers of a table may have decimals or thousands, and no other number decides it.

    >>> leaves_doubt([["5.400"], ["7"]]), leaves_doubt([["5.400"], ["7.5"]]), leaves_doubt([["7"]])
    (True, False, False)
    """
    unclear = any(_UNCLEAR.fullmatch(without_unit(cell)[0]) for column in columns for cell in column)
    return unclear and decimal_mark(columns, ".") != decimal_mark(columns, ",")


def _decided(found: set[str], like: str) -> str | None:
    certain = found & {",", "."}
    if certain != {","} and certain != {"."} and like:
        return like
    if certain == {","}:
        return ","
    return None if "?" in found and not certain else "."


def _marks(column: Iterable[str]) -> set[str]:
    """The decimal marks of a column's numbers, ``"?"`` for 1,234, and none if a cell is no number."""
    found = set[str]()
    for written in filter(lambda cell: cell not in MISSING, map(str.strip, column)):
        cell = without_unit(written)[0]
        comma, point = bool(_COMMA.fullmatch(cell)), math.isfinite(_number_or_nan(cell, "."))
        if not comma and not point:
            return set()
        found.add("?" if comma and point and "," in cell else "" if comma and point else "," if comma else ".")
    return found


def _column_mark(cells: Collection[str], like: str) -> str:
    """The decimal mark of one column, which may be another one than that of the table."""
    found = _marks(cells)
    if {",", "."} <= found:
        bare = [without_unit(cell)[0] for cell in cells]
        if not any(map(_UNCLEAR.fullmatch, bare)) or all(cell.count(".") + cell.count(",") < 2 for cell in bare):
            return _BOTH
    return _decided(found, like) or like


def text_column(
    name: str, cells: npt.NDArray[Any], where: Where, decimal: str = ".", kind: Kind | None = None, form: str = ""
) -> tuple[Column, str]:
    """A column of texts, without spaces around them, typed by what it holds, and the format of its dates, or the
    decimal mark of its numbers if it is not that of the table, and their unit.

    ``kind`` is what the column was in training: a cell of another kind is an error. ``form`` is the format that it had
    in training, which decides where the cells allow several.
    """
    if kind in ("category", "text"):
        return Column(name, kind, cells), ""
    if kind in (None, "number"):
        bare, unit = _bare(cells)
        mark = form.removesuffix(unit_of(form)) or decimal
        if kind is None:
            mark = _column_mark(dict.fromkeys(bare), mark)
        values = _numbers(name, bare, where, mark, kind)
        if values is not None:
            return Column(name, "number", values), (mark if mark != decimal else "") + unit
    known = [cell for cell in dict.fromkeys(cells) if cell not in MISSING]
    if kind == "boolean" or (kind is None and known and all(cell.lower() in _BOOLEANS for cell in known)):
        _check_cells(cells, lambda cell: cell.lower() in _BOOLEANS, where, "is neither true nor false")
        return Column(name, "boolean", np.array([_BOOLEANS.get(cell.lower(), math.nan) for cell in cells])), ""
    formats = date_formats(known) if known else [form or "iso"] if kind == "date" else []
    chosen = form if form in formats else formats[0] if len(formats) == 1 else ""
    if chosen:
        dates: dict[str, Any] = {cell: np.datetime64(_DATE_READERS[chosen](cell), "us") for cell in known}
        if chosen == "iso" and len(zoned := {bool(_ISO.fullmatch(cell)[4]): cell for cell in reversed(known)}) > 1:  # type: ignore[index]
            _refuse_zones(where(cells.tolist().index(zoned[False])))
        return Column(name, "date", np.array([dates.get(cell, "NaT") for cell in cells], "M8[us]")), chosen
    if kind == "date":
        _check_cells(cells, lambda cell: bool(date_formats([cell])), where, _NO_DATE)
        raise PyriteError(f"{where(cells.tolist().index(known[0]))}: {known[0][:40]!r} {_NO_DATE}")
    return Column(name, category_or_text(cells), cells), ""


_NO_DATE: Final = "is not a date as this column had in training"


def category_or_text(cells: npt.NDArray[Any]) -> Kind:
    """What texts are that are neither numbers, dates nor truth values."""
    distinct = set(cells.tolist())
    if len(distinct) > _FEW:
        return "text"
    words = sum(len(value.split()) for value in distinct) / max(1, len(distinct))
    return "text" if len(distinct) > len(cells) / 2 and words >= _WORDS else "category"


def date_formats(cells: Sequence[str]) -> list[str]:
    """The formats in which all of these are dates."""
    found = []
    for name, read in _DATE_READERS.items():
        with suppress(ValueError):
            list(map(read, cells))
            found.append(name)
    # 03.04.2020 is the third of April wherever points are used.
    return found[:1] if "iso" in found or "." in cells[0] else found


def typed_values(series: "pandas.Series[Any]", where: Where) -> tuple[Kind, npt.NDArray[Any]]:
    """The kind of a column by its type in pandas, and its values as ``Column`` has them; numbers keep their type, so
    that large whole numbers are still exact."""
    import pandas

    types, dtype = pandas.api.types, series.dtype
    if types.is_bool_dtype(dtype) and not isinstance(dtype, pandas.CategoricalDtype):
        return "boolean", series.to_numpy(np.float64, na_value=np.nan)
    if types.is_numeric_dtype(dtype) and not types.is_complex_dtype(dtype):
        if isinstance(dtype, np.dtype):
            return "number", series.to_numpy()
        gone = series.isna().to_numpy(bool)
        known = series[~gone].to_numpy()
        if not gone.any() and known.dtype.kind in "iuf":
            return "number", known
        return "number", _filled(known, gone, where)
    if types.is_datetime64_any_dtype(dtype):
        zone = getattr(dtype, "tz", None) or getattr(getattr(dtype, "pyarrow_dtype", None), "tz", None)
        return "date", (series if zone is None else series.dt.tz_convert("UTC").dt.tz_localize(None)).to_numpy("M8[us]")
    if types.is_timedelta64_dtype(dtype) or getattr(dtype, "kind", "") == "m":  # the latter of Arrow
        arrow = getattr(dtype, "pyarrow_dtype", None)  # of such durations, pandas 2.1 has no seconds
        series = series if arrow is None else series.astype(f"m8[{arrow.unit}]")
        return "number", series.dt.total_seconds().to_numpy(np.float64, na_value=np.nan)
    values = np.asarray(series.to_numpy(dtype=object))
    missing, found = np.asarray(pandas.isna(values), bool), types.infer_dtype(values, skipna=True)
    known = values[~missing]
    if found == "boolean":
        return "boolean", _filled(known, missing, where)
    if found in ("integer", "floating", "mixed-integer-float", "decimal", "empty"):
        if isinstance(dtype, pandas.CategoricalDtype) and len(known):  # codes, whose size means nothing
            texts = np.full(len(values), "", object)
            texts[~missing] = as_text("number", np.array(known.tolist()))
            return "category", texts
        if found == "integer" and all(isinstance(n, int | np.integer) and -(2**63) <= n < 2**63 for n in values):
            return "number", values.astype(np.int64)
        return "number", _filled(known, missing, where)
    if found in ("date", "datetime", "datetime64"):
        dates = np.full(len(values), "NaT", "M8[us]")
        zoned = [getattr(value, "tzinfo", None) is not None for value in known]
        if any(zoned) and not all(zoned):
            _refuse_zones(where(int(np.flatnonzero(~missing)[zoned.index(False)])))
        dates[~missing] = [
            value.astimezone(UTC).replace(tzinfo=None) if zone else value
            for value, zone in zip(known, zoned, strict=True)
        ]
        return "date", dates
    for row in np.flatnonzero(~missing).tolist():
        if not isinstance(values[row], str | int | float | bool | np.generic):
            raise PyriteError(
                f"{where(row)}: {type(values[row]).__name__} is neither a number, a date nor a text: leave the column "
                "out with --ignore"
            )
    truth = [isinstance(value, bool | np.bool_) for value in known]
    if any(truth) and not any(isinstance(value, str) for value in known):
        row = int(np.flatnonzero(~missing)[truth.index(True)])
        raise PyriteError(
            f"{where(row)}: {values[row]} is a truth value, but others of the column are numbers: use one type"
        )
    texts = np.full(len(values), "", object)
    texts[~missing] = [str(value) for value in known]
    return ("category" if isinstance(dtype, pandas.CategoricalDtype) else "text"), texts


def _refuse_zones(place: str) -> NoReturn:
    raise PyriteError(
        f"{place}: the time has no time zone, but others of the column have one: add it, or leave the column out with "
        "--ignore"
    )


def as_text(kind: Kind, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Values as texts: whole numbers without decimals, and nothing where one is missing."""
    if kind in ("category", "text"):
        return values
    missing = np.asarray(values != values, bool)
    if kind == "boolean":
        shown = [str(bool(value)) for value in values]
    elif values.dtype.kind == "f" and (np.abs(known := values[~missing]) < 2**53).all() and (known % 1 == 0).all():
        shown = [str(int(value)) for value in np.where(missing, 0, values).tolist()]
    elif kind == "date":
        shown = [str(value).removesuffix(".000000") for value in values]
    else:
        shown = [str(value) for value in values.tolist()]
    return np.array(["" if gone else text for text, gone in zip(shown, missing.tolist(), strict=True)], object)


def _numbers(
    name: str, cells: npt.NDArray[Any], where: Where, decimal: str, kind: Kind | None
) -> npt.NDArray[np.float64] | None:
    """The numbers of a column, NaN where one is missing; None if it is none of numbers."""
    for part in (cells[:_HEAD], cells):
        known = np.array([cell not in MISSING for cell in part], bool)
        values = np.full(len(part), np.nan)
        values[known] = _parsed(part[known].tolist(), decimal)
        bad = known & ~np.isfinite(values)
        good, wrong = int((known & ~bad).sum()), int(bad.sum())
        if kind is None and good < _MOSTLY * (good + wrong) and not np.isinf(values[bad]).all():
            return None
    if not known.any() and kind is None:
        return None
    if wrong:
        row = int(bad.argmax())
        advice = f": correct it, or leave the column out with --ignore {name}"
        others = f", but {good} of {good + wrong} cells of the column are{advice}" if kind is None else ""
        raise PyriteError(f"{where(row)}: {cells[row][:40]!r} is not a number{others}")
    return values


def unit_of(form: str) -> str:
    """The unit in the format of a column of numbers.

    >>> unit_of("kg"), unit_of(",€"), unit_of(".,")
    ('kg', '€', '')
    """
    return form.lstrip(_BOTH)


def _bare(cells: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], str]:
    """Cells without their unit, and that unit, if all numbers of a column have the same one, or none."""
    known = [cell for cell in dict.fromkeys(cells.tolist()) if cell not in MISSING]
    if any(_UNIT.fullmatch(cell.strip()) is None for cell in known[:100]):  # mostly, no cell is a number
        return cells, ""
    texts = {cell: without_unit(cell) for cell in known}
    units = {unit for _, unit in texts.values()} - {""}
    if len(units) > 1:
        return cells, ""
    return np.array([texts[cell][0] if cell in texts else cell for cell in cells.tolist()], object), "".join(units)


def _parsed(cells: list[str], decimal: str) -> list[float]:
    """The numbers of cells, NaN for what is none."""
    with suppress(ValueError):
        if decimal == "." and not any("_" in cell for cell in cells):
            return list(map(float, cells))
    return [_number_or_nan(cell, decimal) for cell in cells]


def _number_or_nan(cell: str, decimal: str) -> float:
    with suppress(ValueError):
        return number(cell, decimal)
    return math.nan


def _check_cells(cells: npt.NDArray[Any], is_good: Callable[[str], bool], where: Where, problem: str) -> None:
    for row, cell in enumerate(cells.tolist()):
        if cell not in MISSING and not is_good(cell):
            raise PyriteError(f"{where(row)}: {cell[:40]!r} {problem}")


def _iso(cell: str) -> datetime:
    if not _ISO.fullmatch(cell):
        raise ValueError(cell)
    text = cell.replace("UTC", "+00:00").replace("Z", "+00:00")
    date = datetime.fromisoformat(re.sub(r" (?=[+-]\d{2}:?\d{2}$)", "", text))
    return date if date.tzinfo is None else date.astimezone(UTC).replace(tzinfo=None)


def _by_parts(year: int, month: int, day: int) -> Callable[[str], datetime]:
    def read(cell: str) -> datetime:
        match = _PARTS.fullmatch(cell)
        if match is None:
            raise ValueError(cell)
        parts = match.group(1, 3, 4)
        if len(parts[year]) != 4:
            raise ValueError("a year of two digits may be of any century")
        hour, minute, second = (int(part or 0) for part in match.group(5, 6, 7))
        return datetime(int(parts[year]), int(parts[month]), int(parts[day]), hour, minute, second)

    return read


_DATE_READERS: Final[Mapping[str, Callable[[str], datetime]]] = {
    "iso": _iso,
    "ymd": _by_parts(0, 1, 2),
    "dmy": _by_parts(2, 1, 0),
    "mdy": _by_parts(2, 0, 1),
}
DATE_FORMATS: Final = tuple(_DATE_READERS)


def _filled(known: npt.NDArray[Any], missing: npt.NDArray[np.bool_], where: Where) -> npt.NDArray[np.float64]:
    """The known numbers, of any type, in float64, and NaN where one is missing."""
    numbers, rows = np.full(len(missing), np.nan), np.flatnonzero(~missing)
    if known.dtype.kind == "O":
        for row, value in zip(rows.tolist(), known.tolist(), strict=True):
            if isinstance(value, int) and abs(value) > sys.float_info.max:
                raise PyriteError(f"{where(row)}: the number is larger than float64 holds")
    numbers[rows] = known.astype(np.float64)
    if known.dtype.kind != "f" and (np.abs(numbers[rows]) > 2.0**53).any():
        exact = [Decimal(int(value) if isinstance(value, np.integer) else value) for value in known]
        check_resolution(min(exact), max(exact), where(int(rows[0])))
    return numbers
