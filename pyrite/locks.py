"""Locks on folders that several processes may want to write to; those of a process that dies are released."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

__all__ = ["acquire", "one_at_a_time"]


def acquire(path: Path, *, wait: bool = False) -> Callable[[], None] | None:
    """Lock a file, which is made if it is missing, and return what releases and removes it; None if another has it.

    Args:
        path: the file; its folder is made if it is missing.
        wait: wait until it is free.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path, thread_local=False)
    try:
        lock.acquire(blocking=wait, poll_interval=0.02)
    except Timeout:
        return None

    def release() -> None:
        with suppress(OSError):  # removed while it is locked: who waits for it finds that out, and makes a new one
            path.unlink()
        lock.release()

    return release


@contextmanager
def one_at_a_time(folder: Path) -> Iterator[None]:
    """Around several files that belong together: another process that writes them to the same folder waits.

    Where nothing can be written, it does nothing.
    """
    with ExitStack() as stack:
        with suppress(OSError):
            release = acquire(folder / ".writing", wait=True)
            assert release is not None
            stack.callback(release)
        yield
