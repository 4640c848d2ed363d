"""Many runs: one after the other, or in several processes."""

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from typing import TypeVar

import torch

from pyrite.checks import whole_number

Task = TypeVar("Task")
Result = TypeVar("Result")


def run_grid(
    tasks: Sequence[Task],
    work: Callable[[Task], Result],
    *,
    workers: int = 1,
    begin: Callable[[Task], None] = lambda task: None,
) -> Iterator[tuple[Task, Result]]:
    """Every task with its result, in the order in which they are finished. Workers are processes of one thread each."""
    if whole_number("workers", workers, least=1) == 1 or len(tasks) < 2:
        for only in tasks:
            begin(only)
            yield only, work(only)
        return
    # A process that is forked while torch's threads run may never return, hence "spawn".
    context = multiprocessing.get_context("spawn")
    waiting, running = list(tasks), dict[Future[Result], Task]()
    with ProcessPoolExecutor(workers, mp_context=context, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        try:
            while waiting or running:
                while waiting and len(running) < workers:
                    task = waiting.pop(0)
                    begin(task)
                    running[pool.submit(work, task)] = task
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    yield running.pop(future), future.result()
        finally:
            pool.shutdown(cancel_futures=True)
