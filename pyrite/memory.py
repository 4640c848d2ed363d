"""Whether something fits into memory, asked before any is taken: a process that takes too much is killed unheard."""

import os
from functools import cache
from pathlib import Path

__all__ = ["check_memory", "memory_size"]

# Where Linux says how much a container may take, in its two versions of control groups.
_LIMITS = "/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"


@cache
def memory_size() -> int | None:
    """Bytes of memory that this machine or container has; None where the system does not say."""
    try:
        size = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None
    for path in _LIMITS:
        try:
            size = min(size, int(Path(path).read_text()))
        except (OSError, ValueError):  # not there, or "max"
            continue
    return size if size > 0 else None


def check_memory(needed: int, what: str) -> None:
    """Refuse what takes more bytes than there are.

    >>> check_memory(10**18, "a net of 1e17 weights")
    Traceback (most recent call last):
    ...
    ValueError: a net of 1e17 weights would take 931,322,575 GiB of memory, more than this machine has
    """
    size = memory_size()
    if size is not None and needed > size:
        raise ValueError(f"{what} would take {needed / 2**30:,.0f} GiB of memory, more than this machine has")
