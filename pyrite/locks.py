"""Locks on folders that several processes may want to write to.

A lock belongs to a process: the kernel takes it from a process that dies, however it dies.
"""

import os
from collections.abc import Callable
from pathlib import Path

__all__ = ["LocksMissingError", "acquire"]


class LocksMissingError(OSError):
    """The system, or the file system, has no file locks."""


def acquire(path: Path, *, wait: bool = False) -> Callable[[], None] | None:
    """Lock a file, which is made if it is missing; what comes back releases it. None if somebody else has it.

    Args:
        path: the file; its folder is made if it is missing.
        wait: wait until it is free.
    """
    try:
        import fcntl
    except ImportError:
        raise LocksMissingError("this system has no file locks (flock)") from None
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        os.close(handle)
        return None
    except OSError as error:
        os.close(handle)
        raise LocksMissingError(f"cannot lock {path}: {error.strerror or error}") from None
    except BaseException:  # Ctrl-C while it waits
        os.close(handle)
        raise
    return lambda: os.close(handle)
