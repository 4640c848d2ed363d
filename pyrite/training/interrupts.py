"""Ctrl-C, and what clusters send before they end a job."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

import torch

from pyrite.processes import all_reduce, world_size

__all__ = ["all_agree", "interrupts"]


@contextmanager
def interrupts() -> Iterator[Callable[[], bool]]:
    """Whether Ctrl-C was pressed, or a cluster asked to stop. A second time does what it would do without us."""
    asked: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    before = {int(number): signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def ask(number: int, frame: FrameType | None) -> None:
        asked.append(number)
        if world_size() == 1:  # torchrun passes on to its processes what the terminal has sent them already
            signal.signal(number, before[number] or signal.SIG_DFL)

    for number in before:
        signal.signal(number, ask)
    try:
        yield lambda: bool(asked)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler or signal.SIG_DFL)


def all_agree(stop: Callable[[], bool]) -> Callable[[], bool]:
    """All processes stop after the same step, if one of them wants to."""
    if world_size() == 1:
        return stop
    return lambda: bool(all_reduce(torch.tensor(float(stop()))))
