"""Large tables of scores: work on blocks of rows, in threads or where Dask computes, and rows of several files."""

import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache, partial
from itertools import count, pairwise
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar, final

import numpy as np
import numpy.typing as npt

from pyrite.data import listed
from pyrite.errors import PyriteError
from pyrite.files import shard_paths

Result = TypeVar("Result")
Column = npt.NDArray[Any] | range

_BLOCK: Final = 1 << 16  # scores worked on at once: half a MiB in float64


def blocks(shape: tuple[int, ...]) -> Iterator[slice]:
    """Slices of rows that are processed together."""
    size = max(_BLOCK // shape[1], 1)
    return (slice(start, start + size) for start in range(0, max(shape[0], 1), size))


def over_rows(
    work: Callable[..., Result],
    table: npt.NDArray[Any],
    *columns: Column,
    merge: Callable[[list[Result]], Result] | None = None,
) -> Iterator[Result]:
    """What ``work`` returns for blocks of rows of a table, and of columns beside it, in order; computed in parallel.

    The chunks of a Dask array stay where they are: ``work`` and rows of the columns are sent there, and its results
    back, those of a chunk as one if there is a function to ``merge`` them. So they must be small beside the table, such
    as sums, or a few numbers per row.
    """
    if is_dask(table):
        yield from _over_chunks(work, table, columns, merge)
        return
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        yield from pool.map(lambda rows: work(table[rows], *(each[rows] for each in columns)), blocks(table.shape))


def is_dask(table: object) -> bool:
    """Whether a table is a Dask array."""
    return hasattr(table, "__dask_graph__") and hasattr(table, "chunks")


def with_whole_rows(table: Any) -> Any:
    """A Dask array whose chunks are rows of known number."""
    if np.isnan(table.shape).any():
        raise PyriteError("the scores have chunks of unknown length: call compute_chunk_sizes() first")
    return table.rechunk({1: -1}) if table.ndim == 2 else table


def _over_chunks(
    work: Callable[..., Result],
    table: Any,
    columns: Sequence[Column],
    merge: Callable[[list[Result]], Result] | None,
) -> Iterator[Result]:
    from dask.base import compute
    from dask.delayed import delayed

    ends = np.cumsum([0, *table.chunks[0]]).tolist()
    computed_there = delayed(_of_chunk, pure=False)
    tasks = [
        computed_there(work, merge, chunk, *(each[start:end] for each in columns))
        for chunk, (start, end) in zip(table.to_delayed()[:, 0], pairwise(ends), strict=True)
    ]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sending large graph")  # rows of the columns
        computed = compute(*tasks)
    for results in computed:
        yield from results


def _of_chunk(
    work: Callable[..., Result],
    merge: Callable[[list[Result]], Result] | None,
    table: npt.NDArray[Any],
    *columns: Column,
) -> list[Result]:
    """In one thread, because Dask has one for each chunk that it works on."""
    results = [work(table[rows], *(each[rows] for each in columns)) for rows in blocks(table.shape)]
    return results if merge is None else [merge(results)]


_CHUNK: Final = 64 << 20  # bytes that a Dask worker reads at once
_OPENED: Final = count()  # numbers files as they are opened


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
                raise PyriteError(
                    f"{part.path} has {part.columns} columns of scores, but {first}: shards must have equal columns"
                )
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

    def to_dask(self) -> Any:
        """The same table as a Dask array, of which workers that have the same files read chunks of at most 64 MiB."""
        try:
            from dask.array import concatenate, from_delayed
            from dask.delayed import delayed
        except ImportError:
            raise PyriteError("Dask is not installed: pip install 'pyrite-labels[scale]'") from None
        chunks = []
        for part in self._parts:
            rows = max(_CHUNK // (part.dtype.itemsize * part.columns), 1)
            for start in range(0, part.rows, rows):
                shape = min(rows, part.rows - start), self.shape[1]
                read = delayed(_read_rows, pure=False)(part.read, start, start + shape[0], self._chosen)
                chunks.append(from_delayed(read, shape, part.dtype))
        return concatenate(chunks)


def _read_rows(
    read: Callable[[], npt.NDArray[Any]], start: int, end: int, chosen: slice | list[int]
) -> npt.NDArray[Any]:
    return np.array(read()[start:end][:, chosen])


def open_shards(pattern: str | Path) -> Shards | None:
    """The files that a pattern such as ``scores-*.npy`` names, ordered by their numbers; None if it is no pattern."""
    paths = shard_paths(str(pattern))
    if paths is None:
        return None
    parts, names = list[_Part](), list[str]()
    for path in paths:
        if path.lower().endswith(".parquet"):
            own, names = _parquet(path, names)
            parts += own
        else:
            parts.append(_mapped(path))
    return Shards(parts, names or None)


def _mapped(path: str) -> _Part:
    table = _open(path)
    if table.ndim != 2 or table.dtype.kind not in "fiu":
        raise PyriteError(f"{path} has {table.dtype} of shape {table.shape}, but scores are numbers in two dimensions")
    return _Part(path, len(table), table.shape[1], table.dtype, partial(_open, path))


def _open(path: str) -> npt.NDArray[Any]:
    try:
        return np.lib.format.open_memmap(path, mode="r")
    except (OSError, ValueError, EOFError) as error:
        raise PyriteError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from None


def _parquet(path: str, names: Sequence[str]) -> tuple[list[_Part], list[str]]:
    """The row groups of a file, with the columns in the order of ``names`` if there are any, and these names."""
    try:
        from pyarrow import ArrowException
        from pyarrow.parquet import ParquetFile
    except ImportError:
        raise PyriteError("reading Parquet needs pyarrow: pip install 'pyrite-labels[parquet]'") from None

    try:
        with ParquetFile(path) as file:
            own = list(file.schema_arrow.names)
            counts = [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]
    except (OSError, ArrowException) as error:
        raise PyriteError(f"{path}: not a Parquet file ({str(error).splitlines()[0]})") from None
    order = tuple(names) or tuple(own)
    if sorted(own) != sorted({*order}):
        raise PyriteError(f"{path} has the columns {listed(own)}, but must have {listed(order)}, each once")
    opened = next(_OPENED)  # the file may be another one by now
    reads = [partial(_row_group, path, order, group, opened) for group in range(len(counts))]
    dtype = reads[0]().dtype if reads else np.dtype(np.float32)
    return [_Part(path, rows, len(order), dtype, read) for rows, read in zip(counts, reads, strict=True)], list(order)


@lru_cache(maxsize=1)
def _row_group(path: str, order: tuple[str, ...], group: int, opened: int) -> npt.NDArray[Any]:
    from pyarrow.parquet import ParquetFile

    with ParquetFile(path) as file:
        columns = [column.to_numpy() for column in file.read_row_group(group).select(order).columns]
    wrong = next((name for name, c in zip(order, columns, strict=True) if c.dtype.kind not in "fiu"), None)
    if wrong is not None:
        raise PyriteError(f"column {wrong!r} of {path} is not numeric")
    table = np.stack(columns, axis=1)
    return table if table.dtype.kind == "f" else table.astype(np.float64)  # as whole numbers with a gap are
