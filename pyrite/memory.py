"""Checks that something fits into memory before it is allocated: a process that takes too much is killed silently."""

import os
from functools import cache
from pathlib import Path

from pyrite.errors import PyriteError

# Files in which Linux states the memory limit of a container, for control groups v2 and v1.
_LIMITS = "/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"


@cache
def memory_size() -> int | None:
    """The memory of this machine or container in bytes; None where the system does not report it."""
    try:
        size = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None
    for path in _LIMITS:
        try:
            size = min(size, int(Path(path).read_text()))
        except (OSError, ValueError):  # the file is missing, or holds "max"
            continue
    return size if size > 0 else None


def check_memory(needed: int, what: str) -> None:
    """Raise ValueError if ``what`` needs more bytes than this machine has.

    >>> check_memory(10**18, "a net of 1e17 weights")
    Traceback (most recent call last):
    ...
    pyrite.PyriteError: a net of 1e17 weights would take 931,322,575 GiB of memory, more than this machine has
    """
    size = memory_size()
    if size is not None and needed > size:
        raise PyriteError(f"{what} would take {needed / 2**30:,.0f} GiB of memory, more than this machine has")
