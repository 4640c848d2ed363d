"""The folder that a new run gets, and the lock that keeps a second process out of it."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

from pyrite.locks import acquire
from pyrite.processes import all_gather, join, rank

__all__ = ["LOCK", "locked", "new_folder"]

LOCK = ".lock"
"""The file in a run's folder that is locked while the run is trained."""


def new_folder(out: str | os.PathLike[str] | None, device: str = "cpu") -> Path:
    """A folder for a run: ``out`` if it is empty or not there, or a new one. All processes take that of the first."""
    join(device)
    if out is None:
        named = all_gather(_unused(Path(time.strftime("runs/%Y-%m-%d-%H%M%S"))) if rank() == 0 else "")[0]
        return Path(named)
    folder = Path(out)
    problem = all_gather(_occupied(folder))[0]
    if problem:
        raise ValueError(problem)
    return folder


@contextmanager
def locked(folder: Path, *, new: bool) -> Iterator[None]:
    """Keep other processes out of a run's folder; if one is in it, say so at once. The first process does it for all.

    Args:
        folder: the run's folder.
        new: whether the run begins. Then the folder must still be empty once it is locked: another process may have
            begun, and even ended, since ``new_folder`` looked.
    """
    was_there = folder.exists()
    release, problem = _lock(folder, new) if rank() == 0 else (None, "")
    try:
        problem = all_gather(problem)[0]
        if problem:
            raise ValueError(problem)
        yield
    finally:
        if release is not None:
            release()
            if not was_there:
                with suppress(OSError):  # it holds a run; if not, nothing is left behind
                    folder.rmdir()


def _lock(folder: Path, new: bool) -> tuple[Callable[[], None] | None, str]:
    """What releases the lock, or why the folder is not to be had."""
    try:
        release = acquire(folder / LOCK)
    except OSError:
        # Where nothing can be written the first file says so; where there are no locks, runs are trained without.
        return None, ""
    if release is None:
        return None, f"{folder} is in use: another process is training in it"
    return release, _occupied(folder) if new else ""


def _unused(folder: Path) -> str:
    """A folder of this name, or with a number after it, that nobody else has: runs may begin in the same second."""
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
    """Why a folder cannot be taken.

    A file that a killed process had only begun to write does not count, nor do a lock and the audit before a run.
    """
    try:
        names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
        occupying = [name for name in names if name not in ("audit", LOCK, ".writing") and not name.endswith(".part")]
    except OSError as error:
        return f"cannot read {folder}: {error.strerror}"
    if occupying or (folder.exists() and not folder.is_dir()):
        go_on = f", or go on with --resume {folder}" if "recipe.toml" in occupying else ""
        return f"{folder} is not empty: choose another out{go_on}"
    return ""
