"""Sums over the processes of one machine, in memory that they share.

A batch norm over all processes waits for sums of a few hundred numbers, twelve times in a step of ``fast_cnn``. gloo
wakes a thread of its own for every message. If the cores compute in between, that takes 1 to 2 ms; here a process
polls, which takes about 0.1 ms.
"""

import mmap
import os
import platform
import tempfile
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from time import perf_counter, sleep
from typing import Final, final

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

__all__ = ["SharedSums", "shared_sums"]

_FOLDER: Final = Path("/dev/shm")  # nosec B108
_SLOT: Final = 1 << 22  # bytes of a value; containers often limit all of /dev/shm to 64 MiB
_POLL: Final = 0.02  # seconds after which a process that waits sleeps in between
_PAUSE: Final = 0.001
_ORDERED: Final = ("x86_64", "AMD64")  # processors on which other cores see stores in the order in which they were made


@final
class SharedSums:
    """A buffer in which every process writes a value, and adds up those of all.

    There are two slots for each process, used in turn: a process overwrites its value only after all processes have
    written the next one, and have therefore read this one.

    Args:
        buffer: shared by all processes, of ``SharedSums.size(processes)`` bytes, which are 0.
        rank: of this process.
        pids: of all processes.
    """

    def __init__(self, buffer: mmap.mmap, rank: int, pids: list[int]) -> None:
        self.rank, self.pids, self.sums = rank, pids, 0
        self.written = np.frombuffer(buffer, np.int64, len(pids))  # sums for which each process has written its value
        self.slots = torch.frombuffer(buffer, dtype=torch.uint8, offset=mmap.PAGESIZE).view(2, len(pids), _SLOT)

    @staticmethod
    def size(processes: int) -> int:
        """The bytes of the buffer."""
        return mmap.PAGESIZE + 2 * processes * _SLOT

    def fits(self, value: Tensor) -> bool:
        """Whether the buffer has room for a value."""
        return value.device.type == "cpu" and 0 < value.nbytes <= _SLOT

    def add(self, value: Tensor) -> Tensor:
        """The sum over all processes, in order of rank, so that it is the same on all of them."""
        self.sums += 1
        values = [slot[: value.nbytes].view(value.dtype).view(value.shape) for slot in self.slots[self.sums % 2]]
        values[self.rank].copy_(value)
        self.written[self.rank] = self.sums
        self._wait()
        total: Tensor = values[0].clone()
        for other in values[1:]:
            total += other
        return total

    def _wait(self) -> None:
        begun = perf_counter()
        while self.written.min() < self.sums:
            if perf_counter() - begun < _POLL:
                os.sched_yield()
            else:
                sleep(_PAUSE)
                self._check_others(perf_counter() - begun)

    def _check_others(self, waited: float) -> None:
        """As gloo does, raise an error if another process has ended, or does not answer for its time limit."""
        for number in np.flatnonzero(self.written < self.sums).tolist():
            if not _is_running(self.pids[number]) and self.written[number] < self.sums:
                raise dist.DistError(f"process {number} has ended")
            if waited > dist.default_pg_timeout.total_seconds():
                raise dist.DistError(f"process {number} has not answered for {waited:.0f} seconds")


def _is_running(pid: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    return False


@lru_cache(maxsize=1)
def shared_sums(group: dist.ProcessGroup) -> SharedSums | None:
    """The shared memory of a group; None if its processes do not share any. All of them must call this together."""
    rank, processes = dist.get_rank(group), dist.get_world_size(group)
    name, buffer = "", None
    if rank == 0:
        with suppress(OSError):
            name = _new_file(SharedSums.size(processes))
    pids, names = [os.getpid()] * processes, [name] * processes
    dist.all_gather_object(pids, os.getpid(), group)
    dist.all_gather_object(names, name, group)
    with suppress(OSError, ValueError), open(names[0] or os.devnull, "r+b") as file:
        buffer = mmap.mmap(file.fileno(), SharedSums.size(processes))
    opened = [False] * processes
    dist.all_gather_object(opened, buffer is not None and all(map(_is_running, pids)), group)
    if name:
        Path(name).unlink()
    return SharedSums(buffer, rank, pids) if buffer is not None and all(opened) else None


def _new_file(size: int) -> str:
    """A file of zeros in memory, or no name where there is no such folder or the order of stores is not kept."""
    if not _FOLDER.is_dir() or platform.machine() not in _ORDERED:
        return ""
    handle, name = tempfile.mkstemp(prefix="pyrite-", dir=_FOLDER)
    try:
        os.posix_fallocate(handle, 0, size)  # so that memory that is not there is an error here
    except OSError:
        os.unlink(name)
        raise
    finally:
        os.close(handle)
    return name
