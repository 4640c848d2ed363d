"""Work on blocks of rows of a table: in the threads of this process, or where Dask computes."""

import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt

from pyrite.errors import PyriteError

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
