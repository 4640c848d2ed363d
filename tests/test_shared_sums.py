"""Sums over processes in shared memory: against numpy, without such memory, and where a process ends."""

import os
import time
from datetime import timedelta
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.distributed as dist

from pyrite import processes, shared_sums
from pyrite.processes import all_reduce
from tests.children import FORKS

PROCESSES = 3
SHAPES = [(), (1,), (5, 7), (2, 3, 4), (0,), (1000, 1000)]  # the last one is larger than a slot in float64 alone
TYPES = [torch.float32, torch.float64, torch.int64, torch.bfloat16]
pytestmark = pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="no memory that processes share")


def values(rank: int) -> list[torch.Tensor]:
    """Whole numbers, whose sums are exact in every type."""
    draws = np.random.default_rng(rank)
    return [torch.from_numpy(draws.integers(-20, 20, shape)).to(kind) for shape in SHAPES for kind in TYPES]


def work(rank: int, store: Path, ends: bool, memory: bool, result: Connection) -> None:
    dist.init_process_group("gloo", f"file://{store}", timedelta(seconds=60), PROCESSES, rank)
    if not memory:
        shared_sums._FOLDER = store / "nowhere"
    first = [all_reduce(value) for value in values(rank)]
    turned = all_reduce(torch.arange(6.0).view(2, 3).T * rank)
    many = [float(all_reduce(torch.tensor(rank + step))) for step in range(500)]
    found = processes.shared_sums(dist.group.WORLD) is not None
    problem = ""
    if ends:
        if rank == 1:
            os._exit(0)
        try:
            all_reduce(torch.ones(2))
        except dist.DistError as error:
            problem = str(error) if processes.is_lost(error) else "?"
    result.send((found, [value.float().numpy() for value in first], turned.numpy(), many, problem))


def run(folder: Path, *, ends: bool = False, memory: bool = True) -> list:
    pipes = [FORKS.Pipe(duplex=False) for _ in range(PROCESSES)]
    children = [
        FORKS.Process(target=work, args=(rank, folder / "store", ends, memory, pipe[1]))
        for rank, pipe in enumerate(pipes)
    ]
    for child in children:
        child.start()
    answers = [pipe[0].recv() for rank, pipe in enumerate(pipes) if not (ends and rank == 1)]
    for child in children:
        child.join(60)
    return answers


@pytest.mark.parametrize("memory", [True, False])
def test_sums_are_those_of_numpy_on_every_process(memory: bool, tmp_path: Path) -> None:
    for found, sums, turned, many, _ in run(tmp_path, memory=memory):
        assert found == (memory and shared_sums.platform.machine() in shared_sums._ORDERED)
        for own, parts in zip(sums, zip(*map(values, range(PROCESSES)), strict=True), strict=True):
            np.testing.assert_array_equal(own, sum(part.float() for part in parts))
        np.testing.assert_array_equal(turned, 3 * np.arange(6.0).reshape(2, 3).T)
        assert many == [3 + 3 * step for step in range(500)]
    size = shared_sums.SharedSums.size(PROCESSES)
    assert not [path for path in Path("/dev/shm").glob("pyrite-*") if path.stat().st_size == size]


def test_a_process_that_ended_is_named(tmp_path: Path) -> None:
    begun = time.monotonic()
    problems = [answer[-1] for answer in run(tmp_path, ends=True)]
    assert problems == ["process 1 has ended"] * 2
    assert time.monotonic() - begun < 60  # not the time limit of a group
