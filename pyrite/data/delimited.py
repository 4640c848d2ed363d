"""Delimited text files: their encoding, delimiter and decimal mark, and their columns, read without pandas."""

import csv
import math
from array import array
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal, InvalidOperation
from itertools import islice
from pathlib import Path
from typing import Any, Final, final

import numpy as np
import numpy.typing as npt

from pyrite.data.cells import MISSING, decimal_mark, in_seconds, number, string_column, to_objects
from pyrite.data.files import is_regular
from pyrite.data.records import Column, Kind
from pyrite.data.statistics import beyond_whole, check_resolution, check_spread
from pyrite.data.typed_table import check_unique
from pyrite.errors import PyriteError

__all__ = ["Delimited"]

_DELIMITERS: Final = ",;\t|"
_SNIFFED: Final = 1000  # rows by which delimiter and decimal mark are found
_CHUNK: Final = 4096  # rows that are read at a time
_MOSTLY: Final = 0.9  # a column with this share of numbers is meant to be one
_DISTINCT: Final = 1000  # distinct values are counted up to this number
_MARKS: Final = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}


@final
class Delimited:
    """The columns of a delimited file with a header, read in two passes.

    The first pass keeps the columns of numbers as 8 bytes per cell and checks the length of every row. The second reads
    the other columns, in which equal cells share one text.

    Args:
        path: the file.
        delimiter, decimal, encoding: of the file; found by its first rows if None, and UTF-8.

    Attributes:
        names: the header.
        rows: the number of rows.
        distinct: how many distinct values each column has, counted up to 1,001.
    """

    def __init__(
        self, path: Path, delimiter: str | None = None, decimal: str | None = None, encoding: str | None = None
    ) -> None:
        self.path = path
        if not is_regular(path):  # opening a pipe would block for ever
            raise PyriteError(f"{path}: cannot be read, it is not a file")
        self.encoding = encoding or self._encoding()
        self._check_options(delimiter, decimal)
        self.skipped, self.delimiter = self._delimiter(delimiter)
        self.names = self._header()
        self.decimal = decimal or self._decimal()
        self._scan()

    def cell(self, row: int, name: str) -> str:
        """Where a cell is."""
        return f"{self.path}, row {row + 1} (line {self._lines[row]}), column {name!r}"

    def is_whole(self, name: str) -> bool:
        """Whether no cell of a column is a number with decimals."""
        values = np.frombuffer(self._scans[self.names.index(name)].numbers)
        return bool((np.isnan(values) | (values == np.floor(values))).all())

    def texts(self, names: Collection[str]) -> dict[str, npt.NDArray[Any]]:
        """The cells of these columns as texts, without spaces around them."""
        places = {name: self.names.index(name) for name in names}
        cells: dict[str, list[str]] = {name: [] for name in names}
        same: dict[str, str] = {}
        with self._records() as (records, _):
            next(records)
            for record in filter(None, records):
                for name, place in places.items():
                    cell = record[place].strip()
                    cells[name].append(same.setdefault(cell, cell) if len(cell) < 64 else cell)
        return {name: to_objects(column) for name, column in cells.items()}

    def columns(self, names: Collection[str], kinds: Mapping[str, Kind]) -> list[Column]:
        """These columns, typed by what they hold, or of the given kinds. A cell of another kind is a ValueError."""
        scans = {name: self._scans[self.names.index(name)] for name in names}
        numeric = [name for name, scan in scans.items() if self._is_number(name, scan, kinds.get(name))]
        read = self.texts([name for name in names if name not in numeric])
        return [
            self._number_column(name, scans[name]) if name in numeric else self._text_column(name, read[name], kinds)
            for name in names
        ]

    def _is_number(self, name: str, scan: "_Scan", kind: Kind | None) -> bool:
        if kind not in (None, "number"):
            return False
        if scan.first_bad is None:
            return scan.good > 0 or kind == "number"
        if kind is None and not scan.mostly_numbers and scan.bad > scan.infinite:
            return False
        row, text = scan.first_bad
        advice = f": correct it, or leave the column out with --ignore {name}"
        others = f", but {scan.good} of {scan.good + scan.bad} cells of the column are{advice}" if kind is None else ""
        raise PyriteError(f"{self.cell(row, name)}: {text[:40]!r} is not a number{others}")

    def _number_column(self, name: str, scan: "_Scan") -> Column:
        values = np.frombuffer(scan.numbers)
        known = np.flatnonzero(~np.isnan(values))
        some = values[known][:, None]
        if len(some):
            if beyond_whole(some):
                self._check_resolution(name)
            check_spread(some, lambda row, _: self.cell(int(known[row]), name))
        return Column(name, "number", values)

    def _check_resolution(self, name: str) -> None:
        """Read a column of large numbers again, exactly: ``float`` has rounded them, maybe all to the same number."""
        values = []
        for text in self.texts([name])[name]:
            try:
                values += [] if text in MISSING else [Decimal(text)]
            except InvalidOperation:  # with separators of thousands
                values.append(Decimal(number(text, self.decimal)))
        check_resolution(min(values), max(values), f"{self.path}, column {name!r}")

    def _text_column(self, name: str, values: npt.NDArray[Any], kinds: Mapping[str, Kind]) -> Column:
        kind = kinds.get(name)
        if kind is None:
            return string_column(name, values)
        if kind == "date":
            return in_seconds(name, values, lambda row: self.cell(row, name))
        if kind == "boolean":
            for row, cell in enumerate(values.tolist()):
                if cell.lower() not in ("true", "false") and cell not in MISSING:
                    raise PyriteError(f"{self.cell(row, name)}: {cell[:40]!r} is neither true nor false")
            truth = [math.nan if cell in MISSING else float(cell.lower() == "true") for cell in values.tolist()]
            return Column(name, kind, np.array(truth))
        return Column(name, kind, values)

    def _check_options(self, delimiter: str | None, decimal: str | None) -> None:
        if delimiter is not None and (not isinstance(delimiter, str) or len(delimiter) != 1):
            raise PyriteError(f"delimiter is {delimiter!r}, but must be one character")
        if decimal not in (None, ".", ","):
            raise PyriteError(f"decimal is {decimal!r}, but must be '.' or ','")
        try:
            "".encode(self.encoding)
        except (LookupError, TypeError):
            raise PyriteError(
                f"encoding is {self.encoding!r}, which is not known: such as 'utf-8' or 'cp1252'"
            ) from None

    def _encoding(self) -> str:
        try:
            with self.path.open("rb") as file:
                return _MARKS.get(file.read(2), "utf-8-sig")
        except OSError as error:
            raise PyriteError(f"{self.path}: cannot be read ({error.strerror or error})") from None

    @contextmanager
    def _records(self, delimiter: str | None = None) -> Iterator[tuple[Iterator[list[str]], Any]]:
        """The records of the file, and the reader that knows the line it is at."""
        try:
            with self.path.open(encoding=self.encoding, newline="") as file:
                for _ in range(self.skipped if delimiter is None else 0):
                    file.readline()
                reader = csv.reader(file, delimiter=delimiter or self.delimiter, strict=True)
                yield reader, reader
        except OSError as error:
            raise PyriteError(f"{self.path}: cannot be read ({error.strerror or error})") from None
        except UnicodeError as error:
            raise PyriteError(
                f"{self.path}: not a CSV file in UTF-8 ({error}): save it as UTF-8, or name its encoding, as in "
                f'\'csv("{self.path.name}", encoding="cp1252")\''
            ) from None
        except csv.Error as error:
            raise PyriteError(f"{self.path}: not a CSV file ({error})") from None

    def _delimiter(self, wanted: str | None) -> tuple[int, str]:
        """How many lines come before the header, and the delimiter: the one that parts the header the most."""
        try:
            with self.path.open(encoding=self.encoding, newline="") as file:
                first = file.readline(20).rstrip("\r\n")
        except (OSError, UnicodeError):
            return 0, wanted or ","  # the error is told when the file is read
        if len(first) == 5 and first.startswith("sep="):  # Excel writes it, and reads it
            return 1, wanted or first[4]
        best, most = ",", 0
        for candidate in _DELIMITERS if wanted is None else "":
            with self._records(candidate) as (records, _):
                try:
                    width = len(next(records, []))
                except csv.Error:
                    continue
            if width > most:
                best, most = candidate, width
        return 0, wanted or best

    def _header(self) -> list[str]:
        with self._records() as (records, _):
            names = [name.strip() for name in next(records, [])]
        if not names or names == [""]:
            raise PyriteError(f"{self.path}: empty, it has no header")
        check_unique(names, self.path)
        return names

    def _decimal(self) -> str:
        with self._records() as (records, _):
            next(records)
            rows = [row for row in islice(filter(None, records), _SNIFFED) if len(row) == len(self.names)]
        mark = decimal_mark(list(zip(*rows, strict=True)))
        if mark is None:
            raise PyriteError(
                f"{self.path}: numbers such as 1,234 may have decimals or thousands: say which with decimal, as in "
                f'\'csv("{self.path.name}", decimal=",")\''
            )
        return mark

    def _scan(self) -> None:
        self._lines = array("q")
        self._scans = [_Scan(self.decimal) for _ in self.names]
        with self._records() as (records, reader):
            next(records)
            chunk: list[list[str]] = []
            for record in filter(None, records):
                if len(record) != len(self.names):
                    raise PyriteError(
                        f"{self.path}, row {len(self._lines) + 1} (line {reader.line_num}): {len(record)} cells, but "
                        f"{len(self.names)} columns"
                    )
                chunk.append(record)
                self._lines.append(reader.line_num)
                if len(chunk) == _CHUNK:
                    self._add(chunk)
                    chunk = []
            self._add(chunk)
        self.rows = len(self._lines)
        if not self.rows:
            raise PyriteError(f"{self.path}: no rows")
        self.distinct = {name: len(scan.distinct) for name, scan in zip(self.names, self._scans, strict=True)}

    def _add(self, chunk: list[list[str]]) -> None:
        for scan, cells in zip(self._scans, zip(*chunk, strict=True), strict=bool(chunk)):
            scan.add(len(self._lines) - len(chunk), cells)


@final
class _Scan:
    """What the first pass learns of a column: its numbers, the first cell that is none, and how many are distinct."""

    def __init__(self, decimal: str) -> None:
        self.decimal = decimal
        self.numbers = array("d")
        self.good = self.bad = self.infinite = 0
        self.first_bad: tuple[int, str] | None = None
        self.distinct: set[str] = set()

    @property
    def mostly_numbers(self) -> bool:
        return self.good >= _MOSTLY * (self.good + self.bad)

    def add(self, start: int, cells: Sequence[str]) -> None:
        """Add the cells from row ``start`` on. A column that is not mostly numbers is given up."""
        if len(self.distinct) <= _DISTINCT:
            self.distinct.update(cell.strip() for cell in cells)
        if self.mostly_numbers:
            self.numbers.extend(self._fast(cells) or [self._slow(start + row, cell) for row, cell in enumerate(cells)])

    def _fast(self, cells: Sequence[str]) -> list[float]:
        """All numbers; none if one of the cells is something else."""
        try:
            values = list(map(float, cells)) if self.decimal == "." else []
        except ValueError:
            return []
        if not all(map(math.isfinite, values)) or any("_" in cell for cell in cells):
            return []
        self.good += len(values)
        return values

    def _slow(self, row: int, cell: str) -> float:
        """The number of a cell, NaN if it is missing or none."""
        if cell.strip() in MISSING:
            return math.nan
        try:
            value = number(cell, self.decimal)
        except ValueError:
            value = math.nan
        if math.isfinite(value):
            self.good += 1
            return value
        self.bad += 1
        self.infinite += not math.isnan(value)
        self.first_bad = self.first_bad or (row, cell)
        return math.nan
