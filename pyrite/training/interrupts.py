"""Ctrl-C, and the signal that clusters send before they end a job."""

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
    """Yield a function that tells whether SIGINT or SIGTERM has arrived. A second one has its usual effect."""
    received: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    before = {int(number): signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def receive(number: int, frame: FrameType | None) -> None:
        received.append(number)
        if world_size() == 1:  # torchrun sends its processes a second signal after the terminal's
            signal.signal(number, before[number] or signal.SIG_DFL)

    for number in before:
        signal.signal(number, receive)
    try:
        yield lambda: bool(received)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler or signal.SIG_DFL)


def all_agree(stop: Callable[[], bool]) -> Callable[[], bool]:
    """``stop`` for all processes: True on all of them if it is True on any."""
    if world_size() == 1:
        return stop
    return lambda: bool(all_reduce(torch.tensor(float(stop()))))
