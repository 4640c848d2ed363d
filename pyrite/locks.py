"""Locks on folders that several processes may want to write to.

A lock belongs to a process: the kernel takes it from a process that dies, however it dies.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = ["LocksMissingError", "acquire", "one_at_a_time"]


class LocksMissingError(OSError):
    """The system, or the file system, has no file locks."""


def acquire(path: Path, *, wait: bool = False) -> Callable[[], None] | None:
    """Lock a file, which is made if it is missing; what comes back releases and removes it.
    None if somebody else has it.

    Args:
        path: the file; its folder is made if it is missing.
        wait: wait until it is free.
    """
    try:
        import fcntl
    except ImportError:
        raise LocksMissingError("this system has no file locks (flock)") from None
    path.parent.mkdir(parents=True, exist_ok=True)
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            if _is_at(path, handle):
                return lambda: _release(path, handle)
        except BlockingIOError:
            os.close(handle)
            return None
        except OSError as error:
            os.close(handle)
            raise LocksMissingError(f"cannot lock {path}: {error.strerror or error}") from None
        except BaseException:  # Ctrl-C while it waits
            os.close(handle)
            raise
        os.close(handle)  # whoever had the lock has removed this file since it was opened


@contextmanager
def one_at_a_time(folder: Path) -> Iterator[None]:
    """Around several files that belong together: another process that writes them to the same folder waits.

    Where there are no locks, or nothing can be written, it does nothing.
    """
    try:
        release = acquire(folder / ".writing", wait=True)
    except OSError:
        release = None
    try:
        yield
    finally:
        if release is not None:
            release()


def _is_at(path: Path, handle: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(handle))
    except FileNotFoundError:
        return False


def _release(path: Path, handle: int) -> None:
    """Remove the file while it is still locked, so that nobody else has it; then give the lock back."""
    with suppress(OSError):
        path.unlink()
    os.close(handle)
