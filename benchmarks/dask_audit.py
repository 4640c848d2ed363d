"""Time and peak memory of an audit of shards: ``python -m benchmarks.dask_audit``.

By default on a local Dask cluster of two workers, with ``--workers 0`` in one process.

The memory of a worker is the most that its process had; that of the client includes labels and results.
"""

import argparse
import resource
import tempfile
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from distributed import Client, LocalCluster

import pyrite
from pyrite.auditing import open_shards


def used(_: object = None) -> tuple[float, float]:
    """Seconds of processor time, and the most memory in GiB."""
    return time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def write_shards(folder: Path, rows: int, classes: int, shards: int) -> np.ndarray:
    """Scores of four distinct blocks of rows each, because random numbers take longer than the audit."""
    draws = np.random.default_rng(0)
    true = draws.integers(classes, size=rows)
    block = rows // (4 * shards)
    noise = draws.normal(size=(block, classes)).astype(np.float32)
    for shard in range(shards):
        path = folder / f"scores-{shard:02d}.npy"
        table = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(4 * block, classes))
        for part in range(4):
            own = true[(4 * shard + part) * block :][:block]
            here = slice(part * block, (part + 1) * block)
            table[here] = np.roll(noise, 4 * shard + part, axis=1)
            table[here][np.arange(block), own] += 4
    return np.where(draws.random(rows) < 0.1, draws.integers(classes, size=rows), true)


def measured(labels: np.ndarray, scores: Any, workers: Callable[[], Iterable[tuple[float, float]]]) -> None:
    begun, spent = time.perf_counter(), time.process_time()
    audit = pyrite.audit(labels, scores=scores, kind="logits")
    taken, (ended, memory) = time.perf_counter() - begun, used()
    print(f"{audit.sentence}\n{taken:.0f} s of elapsed time; processor time and most memory:")
    for name, seconds, most in [("client", ended - spent, memory), *(("worker", *each) for each in workers())]:
        print(f"{name} {seconds:.0f} s, {most:.2f} GiB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--classes", type=int, default=100)
    parser.add_argument("--workers", type=int, default=2, help="0: shard by shard in this process, without Dask")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        # In a process of its own, so that its memory is not counted.
        with ProcessPoolExecutor(1, get_context("spawn")) as pool:
            labels = pool.submit(write_shards, Path(folder), given.rows, given.classes, 4).result()
        shards = open_shards(f"{folder}/scores-*.npy")
        assert shards is not None
        if not given.workers:
            return measured(labels, shards, list)
        with (
            LocalCluster(
                n_workers=given.workers, threads_per_worker=1, dashboard_address=None, memory_limit="2GiB"
            ) as cluster,
            Client(cluster) as client,
        ):
            measured(labels, shards.to_dask(), lambda: client.run(used).values())


if __name__ == "__main__":
    main()
