"""Tables with a label column: CSV and Parquet."""

import csv as csv_format
import math
from array import array
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pyrite.data.dataset import Dataset, encode, encode_like
from pyrite.data.files import as_path, is_regular
from pyrite.data.statistics import Floats, beyond_whole, check_resolution, check_spread, to_float64
from pyrite.memory import check_memory

__all__ = ["csv", "parquet"]


class _Table(NamedTuple):
    columns: list[str]
    features: Floats
    labels: list[Any]


def csv(path: str, label: str = "label", test: str | None = None) -> Dataset:
    """A comma-separated table with a header: one column of labels, all others numbers.

    Args:
        path: the file, as UTF-8.
        label: the name of the label column.
        test: another file with the same columns, the test part.
    """
    return _dataset(as_path(path), label, test, _read_csv)


def parquet(path: str, label: str = "label", test: str | None = None) -> Dataset:
    """A Parquet table: one column of labels, all others numbers. Needs the extra ``parquet``.

    The arguments are those of ``csv``.
    """
    return _dataset(as_path(path), label, test, _read_parquet)


def _dataset(path: Path, label: str, test: str | None, read: Any) -> Dataset:
    table: _Table = read(path, label)
    labels, classes = encode(table.labels, f"{path}: the labels in the column {label!r}")
    test_part = None
    if test is not None:
        test_path = as_path(test)
        test_table: _Table = read(test_path, label)
        if test_table.columns != table.columns:
            raise ValueError(f"{test_path}: its columns are {test_table.columns}, those of {path} are {table.columns}")
        test_labels = encode_like(test_table.labels, classes, f"{test_path}: the column {label!r}")
        test_part = Dataset(f"{path.stem} test", test_table.features, test_labels, classes)
    return Dataset(path.stem, table.features, labels, classes, test_part)


def _read_csv(path: Path, label: str) -> _Table:
    if not is_regular(path):  # opening a pipe would block for ever
        raise ValueError(f"{path}: cannot be read, it is not a file")
    numbers, labels, lines = array("d"), [], array("q")
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = csv_format.reader(file, strict=True)
            header = [name.strip() for name in next(rows, [])]
            place = _label_place(path, header, label)
            names = header[:place] + header[place + 1 :]
            for count, row in enumerate((row for row in rows if row), start=1):
                where = f"{path}, row {count} (line {rows.line_num})"
                if len(row) != len(header):
                    raise ValueError(f"{where}: {len(row)} cells, but {len(header)} columns")
                labels.append(_label(row.pop(place), label, where))
                numbers.extend(_numbers(row, names, where))
                lines.append(rows.line_num)
    except OSError as error:
        raise ValueError(f"{path}: cannot be read ({error.strerror or error})") from None
    except (csv_format.Error, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: not a CSV file in UTF-8 ({error})") from None
    if not labels:
        raise ValueError(f"{path}: no rows")
    features = np.frombuffer(numbers).reshape(len(labels), len(names))
    _check_resolution(path, {header.index(names[column]): names[column] for column in beyond_whole(features)})
    check_spread(features, lambda row, place: f"{path}, row {row + 1} (line {lines[row]}), column {names[place]!r}")
    return _Table(names, features, labels)


def _check_resolution(path: Path, columns: Mapping[int, str]) -> None:
    """Read columns of large numbers again, exactly: ``float`` has rounded them, maybe all to the same number."""
    if not columns:
        return
    ends: dict[int, tuple[Decimal, Decimal]] = {}
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = csv_format.reader(file, strict=True)
        next(rows)
        for row in filter(None, rows):
            for place in columns:
                value = Decimal(row[place].strip())
                low, high = ends.get(place, (value, value))
                ends[place] = min(low, value), max(high, value)
    for place, (low, high) in ends.items():
        check_resolution(low, high, f"{path}, column {columns[place]!r}")


def _label_place(path: Path, header: Sequence[str], label: str) -> int:
    if not header or header == [""]:
        raise ValueError(f"{path}: empty, it has no header")
    twice = [name for name in header if header.count(name) > 1]
    if twice:
        raise ValueError(f"{path}: two columns are called {twice[0]!r}")
    if label not in header:
        raise ValueError(
            f"{path}: no column is called {label!r}; there are {', '.join(map(repr, header[:20]))}"
            + (", ..." if len(header) > 20 else "")
            + ": name the label column with label="
        )
    if len(header) < 2:
        raise ValueError(f"{path}: there is no column besides the labels")
    return list(header).index(label)


def _label(cell: str, column: str, where: str) -> str:
    if not cell.strip():
        raise ValueError(f"{where}, column {column!r}: the label is missing")
    return cell.strip()


def _numbers(row: Sequence[str], names: Sequence[str], where: str) -> list[float]:
    try:
        numbers = [float(cell) for cell in row]
        if all(map(math.isfinite, numbers)) and not any("_" in cell for cell in row):
            return numbers
    except ValueError:
        pass
    for cell, name in zip(row, names, strict=True):
        try:
            wrong = not math.isfinite(float(cell)) or "_" in cell
        except ValueError:
            wrong = True
        if wrong:
            problem = f"{cell[:40]!r} is not a number" if cell.strip() else "the number is missing"
            raise ValueError(f"{where}, column {name!r}: {problem}")
    raise AssertionError("one cell is wrong")


def _read_parquet(path: Path, label: str) -> _Table:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise ValueError("reading Parquet needs pyarrow: pip install 'pyrite[parquet]'") from None
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            rows, columns = file.metadata.num_rows, file.metadata.num_columns
            if rows <= 0 or columns <= 0:
                raise ValueError(f"{path}: claims {rows} rows of {columns} columns")
            # Run-length encoded columns may claim any number of cells in a small file.
            check_memory(3 * 8 * rows * columns, f"{path}: {rows} rows of {columns} columns")
            table = file.read()
    except (OSError, pyarrow.ArrowException) as error:
        raise ValueError(f"{path}: not a Parquet file ({str(error).splitlines()[0]})") from None
    place = _label_place(path, table.column_names, label)
    names = [name for name in table.column_names if name != label]
    features = np.empty((rows, len(names)))
    for number, name in enumerate(names):
        features[:, number] = _arrow_numbers(pyarrow, table.column(name), f"{path}, column {name!r}")
    check_spread(features, lambda row, place: f"{path}, row {row + 1}, column {names[place]!r}")
    labels = table.column(place).to_pylist()
    for row, value in enumerate(labels, start=1):
        if value is None or not isinstance(value, str | int | bool):
            raise ValueError(
                f"{path}, row {row}, column {label!r}: {value!r} is not a label; labels are texts or whole numbers"
            )
    return _Table(names, features, labels)


def _arrow_numbers(pyarrow: Any, column: Any, where: str) -> Floats:
    kind = column.type
    if not (pyarrow.types.is_integer(kind) or pyarrow.types.is_floating(kind) or pyarrow.types.is_boolean(kind)):
        raise ValueError(f"{where}: {kind} is not a numeric type")
    if column.null_count:
        row = int(column.is_null().to_numpy().argmax())
        raise ValueError(f"{where}, row {row + 1}: the number is missing")
    values = to_float64(column.to_numpy()[:, None], lambda row, _: f"{where}, row {row + 1}")
    return values[:, 0]
