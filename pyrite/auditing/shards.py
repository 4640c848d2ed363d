"""Scores in several files, of which rows are read when they are used."""

import glob
import re
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, final

import numpy as np
import numpy.typing as npt

from pyrite.data import listed
from pyrite.errors import PyriteError

__all__ = ["Shards", "open_shards"]


class _Part(NamedTuple):
    """Consecutive rows of the table: a file, or a row group of one."""

    path: str
    rows: int
    columns: int
    dtype: np.dtype[Any]
    read: Callable[[], npt.NDArray[Any]]


@final
class Shards:
    """The rows of several score files as one table. A slice or a list of rows is read from the files.

    Memory holds the rows that were asked for. A .npy file is mapped only while it is read; of Parquet files, one row
    group is kept.
    """

    ndim = 2

    def __init__(
        self, parts: Sequence[_Part], names: Sequence[str] | None = None, chosen: Sequence[int] | None = None
    ) -> None:
        for part in parts:
            if part.columns != parts[0].columns:
                first = f"{parts[0].path} has {parts[0].columns}"
                raise PyriteError(f"{part.path} has {part.columns} columns of scores, but {first}")
        self._parts, self.names = list(parts), names
        self._chosen = slice(None) if chosen is None else [*chosen]
        self._starts = np.cumsum([0, *(part.rows for part in parts)])
        self.shape = int(self._starts[-1]), parts[0].columns if chosen is None else len(chosen)
        self.dtype, self.size = np.result_type(*(part.dtype for part in parts)), self.shape[0] * self.shape[1]

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice | npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        wanted = np.arange(*rows.indices(len(self))) if isinstance(rows, slice) else np.asarray(rows)
        found = np.empty((len(wanted), self.shape[1]), self.dtype)
        part_of = np.searchsorted(self._starts, wanted, side="right") - 1
        for number in np.unique(part_of).tolist():
            here = part_of == number
            found[here] = self._parts[number].read()[wanted[here] - self._starts[number]][:, self._chosen]
        return found

    def select(self, names: Sequence[str]) -> "Shards":
        """The columns with these names, in this order."""
        known = list(self.names or ())
        return Shards(self._parts, names, [known.index(name) for name in names])


def open_shards(pattern: str | Path) -> Shards | None:
    """The files that a pattern such as ``scores-*.npy`` names, ordered by their numbers; None if it is no pattern."""
    text = str(pattern)
    if not glob.has_magic(text) or Path(text).exists():
        return None
    paths = sorted(glob.glob(text), key=lambda path: [int(n) if n.isdigit() else n for n in re.split(r"(\d+)", path)])
    if not paths:
        raise PyriteError(f"no file has a name like {text}")
    _check_numbers(text, paths)
    parts, names = list[_Part](), list[str]()
    for path in paths:
        if path.lower().endswith(".parquet"):
            own, names = _parquet(path, names)
            parts += own
        else:
            parts.append(_mapped(path))
    return Shards(parts, names or None)


def _check_numbers(pattern: str, paths: Sequence[str]) -> None:
    """Refuse a gap in the numbers that a single ``*`` stands for."""
    before, star, after = pattern.partition("*")
    middles = [path[len(before) : len(path) - len(after)] for path in paths]
    if not star or glob.has_magic(before + after) or not all(middle.isdigit() for middle in middles):
        return
    for previous, name in pairwise(middles):
        if int(name) != int(previous) + 1:
            missing = f"{before}{str(int(previous) + 1).zfill(len(previous))}{after}"
            raise PyriteError(f"{missing} is missing, but {before}{name}{after} exists")


def _mapped(path: str) -> _Part:
    def opened() -> npt.NDArray[Any]:
        try:
            return np.lib.format.open_memmap(path, mode="r")
        except (OSError, ValueError, EOFError) as error:
            raise PyriteError(f"cannot read {path}: {error}") from None

    table = opened()
    if table.ndim != 2 or table.dtype.kind not in "fiu":
        raise PyriteError(f"{path} has {table.dtype} of shape {table.shape}, but scores are numbers in two dimensions")
    return _Part(path, len(table), table.shape[1], table.dtype, opened)


def _parquet(path: str, names: Sequence[str]) -> tuple[list[_Part], list[str]]:
    """The row groups of a file, with the columns in the order of ``names`` if there are any, and these names."""
    try:
        from pyarrow import ArrowException
        from pyarrow.parquet import ParquetFile
    except ImportError:
        raise PyriteError("reading Parquet needs pyarrow: pip install 'pyrite-labels[parquet]'") from None

    @lru_cache(maxsize=1)
    def read(group: int) -> npt.NDArray[Any]:
        with ParquetFile(path) as file:
            columns = [column.to_numpy() for column in file.read_row_group(group).select(order).columns]
        wrong = next((name for name, c in zip(order, columns, strict=True) if c.dtype.kind not in "fiu"), None)
        if wrong is not None:
            raise PyriteError(f"column {wrong!r} of {path} does not hold numbers")
        table = np.stack(columns, axis=1)
        return table if table.dtype.kind == "f" else table.astype(np.float64)  # as whole numbers with a gap are

    try:
        with ParquetFile(path) as file:
            own = list(file.schema_arrow.names)
            counts = [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]
    except (OSError, ArrowException) as error:
        raise PyriteError(f"{path}: not a Parquet file ({str(error).splitlines()[0]})") from None
    order = list(names) or own
    if sorted(own) != sorted({*order}):
        raise PyriteError(f"{path} has the columns {listed(own)}, but must have {listed(order)}, each once")
    dtype = read(0).dtype if counts else np.dtype(np.float32)
    return [_Part(path, rows, len(order), dtype, partial(read, group)) for group, rows in enumerate(counts)], order
