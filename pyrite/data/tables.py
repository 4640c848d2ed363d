"""Tables as pandas frames: delimited text, Parquet, and frames of pandas, polars and the like."""

import csv
import io
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal, InvalidOperation
from itertools import compress, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeGuard, final

import numpy as np
import numpy.typing as npt

from pyrite.checks import check_memory, require
from pyrite.data.columns import (
    MISSING,
    as_text,
    category_or_text,
    decimal_mark,
    leaves_doubt,
    number,
    text_column,
    typed_values,
    unit_of,
)
from pyrite.data.records import DTYPES, Column, Kind, Records, listed
from pyrite.data.statistics import beyond_whole, check_resolution, check_spread, to_float64
from pyrite.errors import PyriteError
from pyrite.files import as_path, read_bytes
from pyrite.spec import nearest

if TYPE_CHECKING:
    import pandas

_DELIMITERS: Final = ",;\t|"
_SNIFFED: Final = 1000  # rows by which the decimal mark is found
_CELLS: Final = 2_000_000  # cells of numbers that are kept as texts at a time
_MARKS: Final = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
_CODE: Final = re.compile(r"0\d\d+")  # with its zeros it is not a number
_CATEGORIES: Final = ("Categorical", "Enum")  # the types of polars


class Table:
    """A frame whose columns have types already. ``path`` is where it is from, for messages."""

    decimal = "."  # the mark of numbers that are texts

    def __init__(self, path: Path | str, frame: "pandas.DataFrame") -> None:
        self.path, self.names = path, [str(name) for name in frame.columns]
        check_unique(self.names, path)
        self.frame = frame.set_axis(self.names, axis=1)
        self.formats: dict[str, str] = {}  # of the dates and numbers that are texts, for the columns that were read
        if not len(frame):
            raise PyriteError(f"{path}: no rows")

    def __len__(self) -> int:
        return len(self.frame)

    def check_column(self, name: str) -> None:
        """Raise PyriteError if no column has this name."""
        if name not in self.frame.columns:
            close = nearest(name, dict.fromkeys(self.names)) if len(self.names) <= 1000 else ""
            hint = close if close.startswith("did") else f"there are {listed(self.names)}"
            raise PyriteError(f"{self.path}: no column is called {name!r}; {hint}")

    def cell(self, row: int, name: str) -> str:
        """Where a cell is, for error messages."""
        return f"{self.path}, row {row + 1}, column {name!r}"

    def texts(self, name: str) -> npt.NDArray[Any]:
        """A column as texts, empty where a cell is missing. Whole numbers are exact, however large."""
        import pandas

        series, types = self.frame[name], pandas.api.types
        if types.is_integer_dtype(series.dtype) or (series.dtype == object and types.infer_dtype(series) == "integer"):
            try:
                return np.array(["" if gone else str(n) for n, gone in zip(series, series.isna(), strict=True)], object)
            except ValueError:  # Python writes no others
                raise PyriteError(f"{self.path}, column {name!r}: a number has more than 4,300 digits") from None
        return as_text(*typed_values(self.frame[name], lambda row: self.cell(row, name)))

    def names_of_rows(self, name: str, rows: npt.NDArray[np.int64] | slice = slice(None)) -> tuple[str, ...]:
        """The cells of the column that names the rows, if there is one."""
        if not name:
            return ()
        self.check_column(name)
        return tuple(self.texts(name)[rows].tolist())

    def columns(self, kinds: Mapping[str, Kind], formats: Mapping[str, str]) -> list[Column]:
        """The columns that there were in training, of the same kinds and formats."""
        for name in kinds:
            self.check_column(name)
        columns = [self.column(name, kind, formats.get(name, "")) for name, kind in kinds.items()]
        for name in (name for name, kind in kinds.items() if kind == "number"):
            unit, trained = unit_of(self.formats.get(name, "")), unit_of(formats.get(name, ""))
            if unit not in ("", trained):  # 154 lb are not 154 kg
                was = f"was {trained!r}" if trained else "there was none"
                raise PyriteError(f"{self.path}, column {name!r}: the unit is {unit!r}, but {was} in training")
        return columns

    def column(self, name: str, kind: Kind | None = None, form: str = "") -> Column:
        """A column, typed by what it holds, or of the kind and with the format of dates that it had in training."""
        if kind in ("category", "text"):
            return Column(name, kind, self.texts(name))
        series = self.frame[name]
        if kind is not None and series.dtype == "category":  # of numbers, as which they are read again
            series = series.astype(object)
        own, values = typed_values(series, lambda row: self.cell(row, name))
        if kind == "boolean" and own == "number" and (other := ~np.isin(values, (0, 1)) & (values == values)).any():
            row = int(other.argmax())
            raise PyriteError(f"{self.cell(row, name)}: {values[row]} is neither true nor false, as in training")
        if kind == "date" and own == "text":  # as pandas reads a CSV file
            return self._from_texts(name, values, kind, form)
        if own in ("category", "text") and kind is None:  # it was typed by whoever wrote it, and is no number or date
            return Column(name, category_or_text(values) if own == "text" else own, values)
        if own == "date" and kind in (None, "date"):
            return Column(name, "date", values)
        if own in ("number", "boolean") and kind in (None, "number", "boolean"):
            return Column(name, kind or own, self._checked(name, values))
        if not (as_text(own, values) == "").all():
            raise PyriteError(f"{self.cell(0, name)}: {values[0]!r} is not a {kind}, as in training")
        missing: Any = "NaT" if kind == "date" else np.nan
        return Column(name, kind or own, np.full(len(values), missing, DTYPES[kind or own]))

    def _from_texts(self, name: str, cells: npt.NDArray[Any], kind: Kind | None, form: str) -> Column:
        column, found = text_column(name, cells, lambda row: self.cell(row, name), self.decimal, kind, form)
        self.formats |= {name: found} if found else {}
        return column

    def _checked(self, name: str, values: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        """Numbers in float64; what it cannot hold, and an outlier that hides all others, is an error."""
        known = np.flatnonzero(values == values)
        some = to_float64(values[known][:, None], lambda row, _: self.cell(int(known[row]), name))
        check_spread(some, lambda row, _: self.cell(int(known[row]), name))
        return values.astype(np.float64)


@final
class TextTable(Table):
    """A delimited text file with a header: pandas reads columns of numbers as such, and all others as texts.

    ``like`` is the decimal mark of the training data, which decides where the numbers of its columns, ``among``, leave
    a doubt.
    """

    def __init__(
        self, path: Path, delimiter: str | None = None, decimal: str | None = None,
        encoding: str | None = None, like: str = "", among: Collection[str] = (),
    ) -> None:  # fmt: skip
        import pandas

        if delimiter is not None:
            require(isinstance(delimiter, str) and len(delimiter) == 1, "delimiter", delimiter, "one character")
        require(decimal in (None, ".", ","), "decimal", decimal, "'.' or ','")
        self.path: Path = path
        self._content, excel = self._read(encoding)
        self._skipped = int(bool(excel))  # lines before the header
        self._texts = pandas.DataFrame()  # of some columns of numbers
        self._has_codes = re.search(rb"(?m)(?:^|[^\w.])0\d\d+(?:[^\w.]|$)", self._content) is not None
        marks = delimiter or excel or _DELIMITERS
        headers = {mark: [name.strip() for name in self._header(mark)] for mark in marks}
        self._delimiter = max(marks, key=lambda mark: len(headers[mark]))
        self.names = names = headers[self._delimiter]
        if not names or names == [""]:
            raise PyriteError(f"{path}: empty, it has no header")
        check_unique(names, path)
        rows = [record for _, record in islice(self._rows(), _SNIFFED) if len(record) == len(names)]
        used = [name in among or not among for name in names]
        columns = list(compress(zip(*rows, strict=True), used))
        self.decimal = decimal or self._mark(columns, like)
        self.is_clear = decimal is not None or not leaves_doubt(columns)
        try:
            frame = self._parsed()
            if decimal is None and self.decimal == "." and len(frame) > _SNIFFED:
                texts = (frame[name].unique() for name in compress(names, used) if frame[name].dtype.kind == "O")
                if any(decimal_mark([cells]) != "." for cells in texts):  # a comma further below
                    whole = self._parsed(dtype=object)
                    self.decimal = self._mark((whole[name].unique() for name in compress(names, used)), like)
                    frame = self._parsed() if self.decimal == "," else frame
        except PyriteError:
            raise
        except (pandas.errors.ParserError, pandas.errors.EmptyDataError, ValueError) as error:
            self._check_rows()
            raise PyriteError(f"{path}: not a CSV file ({' '.join(str(error).split())})") from None
        # pandas fills short rows, and takes the first cells of all for an index if the first row is too long.
        _, first = next(self._rows(), (0, names))
        unquoted = b"".join(self._content.split(b'"')[::2])
        cells = unquoted.count(self._delimiter.encode()) + len(frame) + 1
        if len(first) != len(names) or cells != len(names) * (len(frame) + 1):
            self._check_rows()
        super().__init__(path, frame)

    def cell(self, row: int, name: str) -> str:
        line, _ = next(islice(self._rows(), row, None))
        return f"{self.path}, row {row + 1} (line {line}), column {name!r}"

    def texts(self, name: str) -> npt.NDArray[Any]:
        """The cells of a column as they are written, without spaces around them."""
        series = self.frame[name]
        codes, distinct = (self._written(name) if series.dtype.kind in "biuf" else series).factorize()
        if not all(isinstance(cell, str) for cell in distinct):  # whole numbers of more than 64 bits
            codes, distinct = self._written(name).factorize()
        cells: npt.NDArray[Any] = np.array([cell.strip() for cell in distinct.tolist()], object)[codes]
        return cells

    def _written(self, name: str) -> Any:
        """The cells of a column as they are written. Columns to its right are parsed with it and kept, because parsing
        one column takes as long as parsing all of them."""
        if name not in self._texts:
            place, count = self.frame.columns.get_loc(name), max(1, _CELLS // len(self.frame))
            self._texts = self._parsed(usecols=self.names[place : place + count], dtype=object)
        return self._texts[name]

    def column(self, name: str, kind: Kind | None = None, form: str = "") -> Column:
        values = self.frame[name].to_numpy()
        if kind is None and values.dtype.kind in "iu" and self._has_codes:
            cells = self.texts(name)
            if any(map(_CODE.fullmatch, dict.fromkeys(cells))):  # 01067 is a name
                return Column(name, category_or_text(cells), cells)
        if values.dtype.kind in "iuf" and kind in (None, "number") and np.isfinite(values).all():
            return Column(name, "number", self._checked(name, values))
        column = self._from_texts(name, self.texts(name), kind, form)
        return column._replace(values=self._checked(name, column.values)) if column.kind == "number" else column

    def _checked(self, name: str, values: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        numbers = super()._checked(name, values)
        known = numbers[~np.isnan(numbers)][:, None]
        if values.dtype.kind == "f" and len(known) and beyond_whole(known):
            # Rounded already, maybe all to the same number: their texts are exact.
            exact = [_exact(text, self.decimal) for text in self.texts(name) if text not in MISSING]
            check_resolution(min(exact), max(exact), f"{self.path}, column {name!r}")
        return numbers

    def _read(self, encoding: str | None) -> tuple[bytes, str]:
        """The text from the header on, in UTF-8, and the delimiter that Excel has written before it."""
        content = read_bytes(self.path)
        try:
            text = content.decode(encoding or _MARKS.get(content[:2], "utf-8-sig"))
        except (LookupError, TypeError):
            raise PyriteError(f"encoding is {encoding!r}, which is not known: such as 'utf-8' or 'cp1252'") from None
        except UnicodeError as error:
            raise PyriteError(
                f"{self.path}: not a CSV file in UTF-8 ({error}): save it as UTF-8, or name its encoding, as in "
                f'\'csv("{self.path.name}", encoding="cp1252")\''
            ) from None
        first = text[:20].splitlines()[:1]
        if first and len(first[0]) == 5 and first[0].startswith("sep="):  # Excel writes it, and reads it
            return text[5:].lstrip("\r\n").encode(), first[0][4]
        return text.encode(), ""

    def _mark(self, columns: Iterable[Iterable[str]], like: str) -> str:
        mark = decimal_mark(columns, like)
        if mark is None:
            raise PyriteError(
                f"{self.path}: numbers such as 1,234 may have decimals or thousands: specify decimal, as in "
                f'\'csv("{self.path.name}", decimal=",")\''
            )
        return mark

    def _header(self, delimiter: str) -> list[str]:
        with suppress(PyriteError):
            return next(self._records(delimiter), (0, []))[1]
        return []

    def _parsed(self, **options: Any) -> "pandas.DataFrame":
        import pandas

        if tuple(map(int, pandas.__version__.split(".")[:2])) < (3, 1):  # later ones round to the nearest by default
            options["float_precision"] = "round_trip"
        return pandas.read_csv(
            io.BytesIO(self._content), sep=self._delimiter, decimal=self.decimal, header=0, names=self.names,
            na_filter=False, low_memory=False, **options,
        )  # fmt: skip

    def _check_rows(self) -> None:
        """Raise PyriteError for the first row that is shorter or longer than the header."""
        for row, (line, record) in enumerate(self._rows(), start=1):
            if len(record) != len(self.names):
                raise PyriteError(
                    f"{self.path}, row {row} (line {line}): {len(record)} cells, but {len(self.names)} columns"
                )

    def _rows(self) -> Iterator[tuple[int, list[str]]]:
        """The records below the header, without blank lines, and the line where each ends."""
        for line, record in islice(self._records(self._delimiter), 1, None):
            if record and (len(record) > 1 or len(self.names) == 1 or record[0].strip()):
                yield line, record

    def _records(self, delimiter: str) -> Iterator[tuple[int, list[str]]]:
        # Unlike StringIO it does not take four bytes for a character.
        lines = io.TextIOWrapper(io.BytesIO(self._content), encoding="utf-8", newline="")
        reader = csv_reader(lines, delimiter)
        try:
            for record in reader:
                yield reader.line_num + self._skipped, record
        except csv.Error as error:
            raise PyriteError(f"{self.path}: not a CSV file ({error})") from None


def parquet_table(path: Path) -> Table:
    """A Parquet file. Needs pyarrow."""
    import pandas

    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise PyriteError("reading Parquet needs pyarrow: pip install 'pyrite-labels[parquet]'") from None
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            rows, columns = file.metadata.num_rows, file.metadata.num_columns
            if rows <= 0 or columns <= 0:
                raise PyriteError(f"{path}: claims {rows} rows of {columns} columns")
            # Run-length encoded columns may claim any number of cells in a small file.
            check_memory(3 * 8 * rows * columns, f"{path}: {rows} rows of {columns} columns")
            table = file.read()
        table.validate(full=True)  # texts are in UTF-8
        check_unique(table.column_names, path)
        # By default a gap would make whole numbers floats, before anybody can check that they are exact.
        kept = {pyarrow.int64(): pandas.Int64Dtype(), pyarrow.uint64(): pandas.UInt64Dtype()}
        return Table(path, table.to_pandas(ignore_metadata=True, date_as_object=False, types_mapper=kept.get))
    except (OSError, UnicodeDecodeError, pyarrow.ArrowException) as error:
        raise PyriteError(f"{path}: not a Parquet file ({str(error).splitlines()[0]})") from None


class Frame(Protocol):
    """A data frame of pandas, polars or the like."""

    columns: Any
    shape: tuple[int, int]

    def __getitem__(self, key: Any) -> Any: ...


def is_frame(thing: object) -> TypeGuard[Frame]:
    """Whether something is a data frame of pandas, polars or the like: named columns that numpy can read."""
    named = all(hasattr(thing, name) for name in ("columns", "shape", "__getitem__"))
    return named and not isinstance(thing, np.ndarray) and not is_arrow(thing)


def is_arrow(thing: object) -> bool:
    """Whether something is of pyarrow, whose tables have arrays for columns, and not names."""
    return type(thing).__module__.partition(".")[0] == "pyarrow"


def check_order(samples: Any, other: Any, what: str) -> None:
    """Raise PyriteError if two objects of pandas have one index in two orders: whether their rows match is unclear."""
    one: Any = getattr(samples, "index", None)
    two: Any = getattr(other, "index", None)
    if all(hasattr(index, "equals") for index in (one, two)) and not one.equals(two) and {*one} == {*two}:
        raise PyriteError(
            f"{what} has the same index as the samples, but in another order: sort both alike, or pass "
            f"{what}.to_numpy() if rows with the same position belong together"
        )


def frame_table(frame: Any, what: str = "the frame") -> Table:
    """A data frame of pandas, or one whose columns numpy can read."""
    import pandas

    if isinstance(frame, pandas.DataFrame):
        return Table(what, frame)
    if type(frame).__module__.partition(".")[0] == "dask":
        raise PyriteError(f"{what} is a frame of Dask, which has no rows yet: pass frame.compute()")
    columns: dict[str, Any] = {}
    for name in map(str, frame.columns):
        column, kind = frame[name], type(frame[name].dtype).__name__
        values = np.asarray(column.to_list(), object) if kind == "Int128" else np.asarray(column.to_numpy())
        if kind in ("Int64", "UInt64") and values.dtype.kind == "f":  # a gap has made floats of exact whole numbers
            values = pandas.arrays.IntegerArray(column.fill_null(0).to_numpy(), column.is_null().to_numpy())
        elif kind == "Decimal" or values.ndim != 1:  # lists and the like may be in columns that are left out
            values = pandas.Series(column.to_list(), dtype=object)
        columns[name] = pandas.Series(values, dtype="category" if kind in _CATEGORIES else None)
    return Table(what, pandas.DataFrame(columns))


def csv_reader(lines: Iterable[str], delimiter: str = ",") -> Any:
    """A strict reader of delimited text with cells of any length."""
    csv.field_size_limit(2**31 - 1)  # 131,072 characters by default; it can only be set for all readers
    return csv.reader(lines, delimiter=delimiter, strict=True)


def check_unique(names: Sequence[str], where: object) -> None:
    """Raise ValueError if two columns have one name."""
    ((name, times),) = Counter(names).most_common(1) or [("", 0)]
    if times > 1:
        raise PyriteError(f"{where}: two columns are {f'called {name!r}' if name else 'without a name'}")


def _exact(text: str, decimal: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation:  # with separators of thousands
        return Decimal(number(text, decimal))


def table_of(source: object) -> Table | None:
    """The table that a frame, a .csv or a .parquet file is; None of anything else."""
    if is_frame(source):
        return frame_table(source)
    suffix = Path(source).suffix.lower() if isinstance(source, str | Path) else ""
    if suffix == ".parquet":
        return parquet_table(as_path(str(source)))
    return TextTable(as_path(str(source))) if suffix in (".csv", ".tsv") else None


def read_records(source: object, what: str) -> Records:
    """All columns of a table."""
    table = table_of(source)
    if table is None:
        raise PyriteError(f"{what} is {source!r}, but must be a frame, or a .csv or .parquet file")
    return Records(map(table.column, table.names))
