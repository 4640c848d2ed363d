"""The folder of a new run, and the lock that keeps a second process out of it."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

from pyrite.errors import PyriteError
from pyrite.locks import acquire
from pyrite.processes import all_gather, join, rank

__all__ = ["LOCK", "locked", "new_folder"]

LOCK = ".lock"
"""The file in a run's folder that is locked while the run is trained."""


def new_folder(out: str | os.PathLike[str] | None, device: str = "cpu") -> Path:
    """A folder for a run: ``out``, which must be empty or not exist, or a new one. Process 0 chooses it for all."""
    join(device)
    if out is None:
        named = all_gather(_unused(Path(time.strftime("runs/%Y-%m-%d-%H%M%S"))) if rank() == 0 else "")[0]
        return Path(named)
    folder = Path(out)
    problem = all_gather(_occupied(folder))[0]
    if problem:
        raise PyriteError(problem)
    return folder


@contextmanager
def locked(folder: Path, *, new: bool) -> Iterator[None]:
    """Lock a run's folder, or raise ``ValueError`` if another process uses it. Process 0 does it for all.

    Args:
        folder: the run's folder.
        new: whether the run is new. Then the folder must still be empty once it is locked, because another process may
            have trained in it since ``new_folder`` checked.
    """
    was_there = folder.exists()
    release, problem = _lock(folder, new) if rank() == 0 else (None, "")
    try:
        problem = all_gather(problem)[0]
        if problem:
            raise PyriteError(problem)
        yield
    finally:
        if release is not None:
            release()
            if not was_there:
                with suppress(OSError):  # not empty: it contains a run
                    folder.rmdir()


def _lock(folder: Path, new: bool) -> tuple[Callable[[], None] | None, str]:
    """The function that releases the lock, or the reason why the folder cannot be locked."""
    try:
        release = acquire(folder / LOCK)
    except OSError:
        # Where nothing can be written, the first file reports it; where there are no file locks, runs go without.
        return None, ""
    if release is None:
        return None, f"{folder} is in use: another process is training in it"
    return release, _occupied(folder) if new else ""


def _unused(folder: Path) -> str:
    """Make a folder of this name, or with a number after it: several runs may begin in the same second."""
    for number in count(1):
        wanted = folder if number == 1 else folder.with_name(f"{folder.name}-{number}")
        try:
            wanted.mkdir(parents=True)
            return str(wanted)
        except FileExistsError:
            continue
        except OSError:  # reported when the first file is written
            return str(wanted)
    raise AssertionError("there is always another number")


def _occupied(folder: Path) -> str:
    """The reason why a folder cannot be used for a new run; empty if it can.

    Unfinished files of a killed process, a lock and the audit before a run may be in it.
    """
    try:
        names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
        occupying = [name for name in names if name not in ("audit", LOCK, ".writing") and not name.endswith(".part")]
    except OSError as error:
        return f"cannot read {folder}: {error.strerror}"
    if occupying or (folder.exists() and not folder.is_dir()):
        resume = f", or continue with --resume {folder}" if "recipe.toml" in occupying else ""
        return f"{folder} is not empty: choose another out{resume}"
    return ""
