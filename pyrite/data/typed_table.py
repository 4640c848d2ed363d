"""Tables whose columns have types already: Parquet files and data frames."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Final, Protocol, TypeGuard, final

import numpy as np
import numpy.typing as npt

from pyrite.data.cells import in_seconds, string_column, to_objects
from pyrite.data.records import Column, Kind
from pyrite.data.statistics import check_spread, to_float64
from pyrite.errors import PyriteError
from pyrite.memory import check_memory

__all__ = ["Frame", "TypedTable", "check_unique", "column_of", "frame_table", "is_frame", "parquet_table"]

_TEXT: Final = ("category", "text")
_CATEGORIES: Final = ("CategoricalDtype", "Categorical", "Enum")  # the types of pandas and polars


@final
class TypedTable:
    """Columns as numpy arrays: truth values, numbers, ``datetime64``, or objects that are texts or None.

    Args:
        path: where the table is from, for messages.
        arrays: the columns.
        declared: the kinds of columns that their arrays do not show: categories, and truth values with gaps.
    """

    def __init__(
        self, path: object, arrays: Mapping[str, npt.NDArray[Any]], declared: Mapping[str, Kind] | None = None
    ) -> None:
        self.path, self.declared = path, dict(declared or {})
        self._arrays = dict(arrays)
        self.names = list(self._arrays)
        self.rows = len(next(iter(self._arrays.values()))) if self._arrays else 0
        if not self.rows:
            raise PyriteError(f"{path}: no rows")

    @property
    def distinct(self) -> "_Distinct":
        return _Distinct(self)

    def cell(self, row: int, name: str) -> str:
        return f"{self.path}, row {row + 1}, column {name!r}"

    def is_whole(self, name: str) -> bool:
        values = self._arrays[name]
        return values.dtype.kind != "f" or bool((np.isnan(values) | (values == np.floor(values))).all())

    def texts(self, names: Collection[str]) -> dict[str, npt.NDArray[Any]]:
        return {name: _texts(self._arrays[name]) for name in names}

    def columns(self, names: Collection[str], kinds: Mapping[str, Kind]) -> list[Column]:
        return [self._column(name, kinds.get(name)) for name in names]

    def with_column(self, name: str, values: npt.NDArray[Any]) -> "TypedTable":
        """The table with one more column."""
        return TypedTable(self.path, {**self._arrays, name: values}, self.declared)

    def _column(self, name: str, kind: Kind | None) -> Column:
        values = self._arrays[name]
        own: Kind = {"b": "boolean", "M": "date", "O": "text"}.get(values.dtype.kind, "number")  # type: ignore[assignment]
        if kind in _TEXT:
            return Column(name, kind, _texts(values))
        if kind == "date" and own == "text":  # as pandas reads a CSV file
            return in_seconds(name, _texts(values), lambda row: self.cell(row, name))
        if kind is not None and kind != own and not {kind, own} <= {"number", "boolean"}:
            if not _is_empty(values):
                raise PyriteError(f"{self.cell(0, name)}: {values[0]!r} is not a {kind}, as in training")
            return Column(
                name, kind, np.full(self.rows, np.nan if kind != "date" else "NaT", "M8[s]" if kind == "date" else "f8")
            )
        if own == "text":
            texts = _texts(values)
            declared = self.declared.get(name)
            return string_column(name, texts, plain=True) if declared is None else Column(name, declared, texts)
        if own == "date":
            return Column(name, own, values.astype("M8[s]"))
        return Column(name, kind or self.declared.get(name, own), self._numbers(name, values))

    def _numbers(self, name: str, values: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        known = np.flatnonzero(~np.isnan(values)) if values.dtype.kind == "f" else np.arange(len(values))
        some = to_float64(values[known][:, None], lambda row, _: self.cell(int(known[row]), name))
        check_spread(some, lambda row, _: self.cell(int(known[row]), name))
        return values.astype(np.float64)


class _Distinct:
    """How many distinct values a column has, counted when it is asked for."""

    def __init__(self, table: TypedTable) -> None:
        self._table = table

    def __getitem__(self, name: str) -> int:
        return len(set(self._table.texts([name])[name].tolist()))


def parquet_table(path: Path) -> TypedTable:
    """A Parquet file. Needs pyarrow."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise PyriteError("reading Parquet needs pyarrow: pip install 'pyrite[parquet]'") from None
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            rows, columns = file.metadata.num_rows, file.metadata.num_columns
            if rows <= 0 or columns <= 0:
                raise PyriteError(f"{path}: claims {rows} rows of {columns} columns")
            # Run-length encoded columns may claim any number of cells in a small file.
            check_memory(3 * 8 * rows * columns, f"{path}: {rows} rows of {columns} columns")
            table = file.read()
        check_unique(table.column_names, path)
        arrays = {
            name: _from_arrow(pyarrow, column, f"{path}, column {name!r}")
            for name, column in zip(table.column_names, table.columns, strict=True)
        }
    except (OSError, UnicodeDecodeError, pyarrow.ArrowException) as error:  # texts are decoded last
        raise PyriteError(f"{path}: not a Parquet file ({str(error).splitlines()[0]})") from None
    declared: dict[str, Kind] = {}
    for name, kind in zip(table.schema.names, table.schema.types, strict=True):
        if pyarrow.types.is_boolean(kind):
            declared[name] = "boolean"
        elif pyarrow.types.is_dictionary(kind) and arrays[name].dtype.kind == "O":
            declared[name] = "category"
    return TypedTable(path, arrays, declared)


def check_unique(names: Collection[str], where: object) -> None:
    """Raise ValueError if two columns have one name."""
    listed = list(names)
    twice = [name for name in listed if listed.count(name) > 1]
    if twice:
        raise PyriteError(f"{where}: two columns are {f'called {twice[0]!r}' if twice[0] else 'without a name'}")


def _from_arrow(pyarrow: Any, column: Any, where: str) -> npt.NDArray[Any]:
    types, kind = pyarrow.types, column.type
    if types.is_dictionary(kind):
        column, kind = column.cast(kind.value_type), kind.value_type
    if types.is_string(kind) or types.is_large_string(kind) or str(kind) == "string_view":
        return to_objects(column.to_pylist())
    if types.is_date(kind) or types.is_timestamp(kind):
        return np.asarray(column.cast(pyarrow.timestamp("s"), safe=False).to_numpy(), "M8[s]")
    if types.is_decimal(kind):
        column, kind = column.cast(pyarrow.float64()), pyarrow.float64()
    if types.is_null(kind):
        return np.full(len(column), np.nan)
    if types.is_boolean(kind) and not column.null_count:
        return np.asarray(column.to_numpy(), bool)
    if types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind):
        if not column.null_count:
            return np.asarray(column.to_numpy())
        return np.asarray(column.cast(pyarrow.float64(), safe=False).to_numpy(), np.float64)
    raise PyriteError(f"{where}: {kind} is neither numbers, dates nor texts: leave it out with --ignore")


class Frame(Protocol):
    """A data frame of pandas, polars or the like."""

    @property
    def columns(self) -> Any:
        """The names of the columns."""
        ...

    @property
    def shape(self) -> tuple[int, int]: ...

    def __getitem__(self, key: Any) -> Any: ...


def is_frame(thing: object) -> TypeGuard[Frame]:
    """Whether something is a data frame of pandas, polars or the like: named columns that numpy can read."""
    return (
        hasattr(thing, "columns")
        and hasattr(thing, "__getitem__")
        and hasattr(thing, "shape")
        and not isinstance(thing, np.ndarray)
    )


def frame_table(frame: Any, what: str = "the frame") -> TypedTable:
    """A data frame of pandas or polars."""
    names = [name if isinstance(name, str) else str(name) for name in frame.columns]
    check_unique(names, what)
    arrays: dict[str, npt.NDArray[Any]] = {}
    declared: dict[str, Kind] = {}
    for name, key in zip(names, frame.columns, strict=True):
        series, values = frame[key], _values(frame[key])
        arrays[name] = column_of(values, f"{what}, column {name!r}")
        if values.dtype.kind == "O" and _are_booleans(values[~_missing(values)]):
            declared[name] = "boolean"
        elif type(series.dtype).__name__ in _CATEGORIES and arrays[name].dtype.kind == "O":
            declared[name] = "category"
    return TypedTable(what, arrays, declared)


def _values(series: Any) -> npt.NDArray[Any]:
    # pandas's nullable types and those of Arrow become floats or objects with their own sign for a missing value.
    extension = hasattr(series.dtype, "na_value")
    return np.asarray(series.to_numpy(dtype=object) if extension else series.to_numpy())


def column_of(values: npt.NDArray[Any], where: str) -> npt.NDArray[Any]:
    """An array of any type as a column of a ``TypedTable``."""
    if values.dtype.kind == "m":
        return np.asarray(values / np.timedelta64(1, "s"), np.float64)
    if values.dtype.kind in "biufM":
        return values
    if values.dtype.kind == "U":
        return values.astype(object)
    if values.dtype.kind != "O":
        raise PyriteError(f"{where}: {values.dtype} is neither numbers, dates nor texts: leave it out")
    return _from_objects(values, where)


def _from_objects(values: npt.NDArray[Any], where: str) -> npt.NDArray[Any]:
    """Objects as numbers or dates if all are, or else as texts."""
    missing = _missing(values)
    known = values[~missing]
    kinds = {type(value) for value in known}
    if _are_booleans(known):
        return np.asarray(values, bool) if not missing.any() else _filled(values, missing)
    if all(issubclass(kind, bool | int | float | np.number) for kind in kinds):
        return _filled(values, missing)
    if all(hasattr(kind, "isoformat") and hasattr(kind, "year") for kind in kinds):
        dates = np.full(len(values), "NaT", "M8[s]")
        dates[~missing] = [np.datetime64(value.isoformat()[:19], "s") for value in known]
        return dates
    for row in np.flatnonzero(~missing).tolist():
        if not isinstance(values[row], str | int | float | bool | np.generic):
            raise PyriteError(
                f"{where}, row {row}: {type(values[row]).__name__} is neither a number, a date nor a text"
            )
    texts = np.full(len(values), "", object)
    texts[~missing] = [str(value) for value in known]
    return texts


def _missing(values: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    signs = ("NAType", "NaTType")  # of pandas, which cannot be compared
    return np.array([value is None or type(value).__name__ in signs or value != value for value in values], bool)


def _are_booleans(known: npt.NDArray[Any]) -> bool:
    return len(known) > 0 and all(isinstance(value, bool | np.bool_) for value in known)


def _filled(values: npt.NDArray[Any], missing: npt.NDArray[np.bool_]) -> npt.NDArray[np.float64]:
    numbers = np.full(len(values), np.nan)
    numbers[~missing] = values[~missing].astype(np.float64)
    return numbers


def _is_empty(values: npt.NDArray[Any]) -> bool:
    return bool(all(value is None or value == "" or value != value for value in values.tolist()))


def _texts(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Any column as texts: whole numbers without decimals, and nothing where a value is missing."""
    if values.dtype.kind == "O":
        return to_objects(["" if value is None else str(value) for value in values.tolist()])
    if values.dtype.kind in "fM":
        missing = values != values
        if (
            values.dtype.kind == "f"
            and bool((values[~missing] == np.floor(values[~missing])).all())
            and (np.abs(values[~missing]) < 2**53).all()
        ):
            shown = [str(int(value)) for value in np.where(missing, 0, values).tolist()]
        else:
            shown = [str(value) for value in (values.tolist() if values.dtype.kind == "f" else values)]
        return to_objects(["" if gone else text for text, gone in zip(shown, missing.tolist(), strict=True)])
    return to_objects([str(value) for value in values.tolist()])
