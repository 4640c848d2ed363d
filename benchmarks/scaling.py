"""Images per second of one and of several processes, side by side: ``python -m benchmarks.scaling``.

Each process has one thread. Both train ``fast_cnn`` on the same images with the same batch size; the first epoch, which
warms up, is not counted. The ratio means something only on as many idle cores as there are processes.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import pyrite
from pyrite.data import Dataset
from pyrite.methods import Step
from pyrite.processes import rank


class Clock:
    """The time at the end of every epoch."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def after_step(self, step: Step) -> None:
        pass

    def after_epoch(self, epoch: int) -> None:
        self.times.append(time.perf_counter())


def images(count: int) -> Dataset:
    draws = np.random.default_rng(0)
    pixels = draws.integers(256, size=(count, 3, 32, 32), dtype=np.uint8)
    return Dataset("random images", pixels, draws.integers(10, size=count), tuple("abcdefghij"))


def work(count: int, epochs: int, precision: str | None, out: str) -> None:
    clock = Clock()
    pyrite.train(
        images(count), model="fast_cnn", loss="ce", epochs=epochs + 1, batch_size=256, grow=1.0, validation=0.0,
        out=out, progress=False, observers=[clock], device="cpu", precision=precision,
    )  # fmt: skip
    if rank() == 0:
        print(json.dumps([count / taken for taken in np.diff(clock.times).tolist()]))


def measure(processes: int, words: list[str]) -> list[float]:
    with tempfile.TemporaryDirectory() as folder:
        start = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
        command = [*start, "-m", "benchmarks.scaling", "--worker", str(Path(folder) / "run"), *words]
        done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    if done.returncode:
        raise SystemExit(done.stderr)
    found: Any = json.loads(done.stdout.splitlines()[-1])
    return [float(speed) for speed in found]


def row(processes: int = 2, count: int = 5120, epochs: int = 3, precision: str | None = None) -> str:
    """A row of the table of ``benchmarks.losses``."""
    words = ["--images", str(count), "--epochs", str(epochs)]
    words += ["--precision", precision] if precision else []
    one, many = (median(measure(number, words)) for number in (1, processes))
    what = f"`fast_cnn`, {precision or 'default precision'}, {many:.0f} and {one:.0f} images/s"
    return f"| {what} | {processes} processes | one process | {many / one:.2f} times the speed | ≥ 1.6 | | |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--images", type=int, default=5120)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--precision", help="of torch; by default the one that the net has here")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        work(given.images, given.epochs, given.precision, given.worker)
    else:
        print(row(given.processes, given.images, given.epochs, given.precision))


if __name__ == "__main__":
    main()
