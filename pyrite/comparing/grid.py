"""Many runs, one after the other or in several processes, and what is written of their results."""

import json
import multiprocessing
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from pathlib import Path
from statistics import mean, stdev
from typing import Any, TypeVar

import torch
from torch import nn

from pyrite.checks import whole_number
from pyrite.errors import PyriteError
from pyrite.files import one_at_a_time, write
from pyrite.training import RunFailed

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


def check_many(command: str, settings: Mapping[str, Any]) -> None:
    """Refuse settings that cannot be the same in many runs."""
    for name in ("method", "loss", "resume", "observers", "stop"):
        if settings.get(name) is not None:
            raise PyriteError(f"{command} has no {name}: it trains several runs with several methods")
    if isinstance(settings.get("model"), nn.Module):
        raise PyriteError("model is a network that all runs would share: pass a spec string or a factory")


def train_command(data: str, settings: Mapping[str, Any]) -> str:
    """``pyrite train`` with one flag per setting, as it is typed.

    >>> train_command("digits", {"lr": 0.1, "mirror": False, "samples": None})
    'pyrite train digits --lr 0.1 --no-mirror'
    """
    words = ["pyrite", "train", data]
    for name, value in settings.items():
        flag = name.replace("_", "-")
        if isinstance(value, bool):
            words.append(f"--{flag}" if value else f"--no-{flag}")
        elif value is not None:
            words += [f"--{flag}", str(value)]
    return shlex.join(words)


def mean_and_deviation(values: Sequence[float], formatted: Callable[[float], str]) -> str:
    """The mean, with the standard deviation where there are several values."""
    return " ± ".join(map(formatted, [mean(values), stdev(values)] if len(values) > 1 else [mean(values)]))


def write_results(folder: Path, table: str, markdown: str, facts: str, values: object) -> None:
    """Write a table as Markdown and what programs read as JSON, while no other process writes them."""
    try:
        with one_at_a_time(folder):
            write(folder / table, markdown.encode())
            write(folder / facts, (json.dumps(values, indent=2) + "\n").encode())
    except OSError as error:
        raise RunFailed(f"cannot write to {folder}: {error.strerror or error}; the runs are complete") from None
