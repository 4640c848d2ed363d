"""Reading of regular files, atomic writing, and locks on folders that several processes write to."""

import glob
import io
import json
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from filelock import FileLock, Timeout

from pyrite.errors import PyriteError


def as_path(path: object) -> Path:
    """A path given by the user, with ``~`` expanded."""
    if not isinstance(path, str | Path) or not str(path) or "\0" in str(path):
        raise PyriteError(f"{path!r} is not a path")
    return Path(os.path.expanduser(path))


_BRACES = re.compile(r"\{(\d+)\.\.(\d+)\}")


def is_pattern(text: str) -> bool:
    """Whether a path stands for several files."""
    return bool(_BRACES.search(text) or glob.has_magic(text)) and not os.path.exists(text)


def shard_paths(pattern: str) -> list[str] | None:
    """The files of a pattern, ``scores-*.npy`` in the order of their numbers or ``photos-{000..009}.tar``; None if it
    is no pattern. A missing file is an error."""
    if not is_pattern(pattern):
        return None
    if braces := _BRACES.search(pattern):
        first, last = braces.groups()
        numbers = [str(number).zfill(len(first)) for number in range(int(first), int(last) + 1)]
        paths = [f"{pattern[: braces.start()]}{number}{pattern[braces.end() :]}" for number in numbers]
        absent = next((path for path in paths if not os.path.exists(path)), "" if paths else pattern)
        if absent:
            raise PyriteError(f"{absent} is missing")
        return paths
    paths = sorted(
        glob.glob(pattern), key=lambda path: [int(n) if n.isdigit() else n for n in re.split(r"(\d+)", path)]
    )
    if not paths:
        raise PyriteError(f"no file has a name like {pattern}")
    _check_numbers(pattern, paths)
    return paths


def _check_numbers(pattern: str, paths: Sequence[str]) -> None:
    """Refuse a gap in the numbers that a single ``*`` stands for."""
    before, star, after = pattern.partition("*")
    middles = [path[len(before) : len(path) - len(after)] for path in paths]
    if not star or glob.has_magic(before + after) or not all(middle.isdigit() for middle in middles):
        return
    for previous, name in pairwise(middles):
        if int(name) != int(previous) + 1:
            missing = f"{before}{str(int(previous) + 1).zfill(len(previous))}{after}"
            raise PyriteError(f"{missing} is missing, but {before}{name}{after} exists")


def read_bytes(path: str | Path, most: int = -1) -> bytes:
    """The content of a file, or its first bytes; a PyriteError if it cannot be read."""
    path = Path(path)
    check_regular(path)
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            return file.read(most if most < size else -1)  # a buffer of ``most`` bytes would be made at once
    except OSError as error:
        raise PyriteError(f"{path}: cannot be read ({error.strerror or error})") from None


def check_regular(path: Path) -> None:
    """Raise PyriteError unless a path is a file: opening a pipe or a device would wait for ever."""
    if is_regular(path):
        return
    try:
        os.stat(path)
        problem = "cannot be read, it is not a file"
    except PermissionError as error:  # of a folder
        problem = f"cannot be read ({error.strerror})"
    except (OSError, ValueError):
        problem = "no such file"
    raise PyriteError(f"{path}: {problem}")


def is_regular(path: Path) -> bool:
    """Whether a path is a regular file, not a pipe or a device."""
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except (OSError, ValueError):
        return False


def write(path: str | Path, content: bytes) -> Path:
    """Write to a temporary name, flush to the disk and rename. The folder is created if it is missing.

    Whatever happens, ``path`` holds either its old content or the new content, never a part. A full disk or a folder
    without write permission raises ``OSError``. Devices and pipes are written to.
    """
    named, path = Path(path), Path(os.path.realpath(path))  # a link stays, and its file is replaced
    if named.exists() and not named.is_dir() and not is_regular(named):
        with named.open("wb") as device:  # such as /dev/null
            device.write(content)
        return named
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_file():  # one that must not be written to must not be replaced either
            path.open("ab").close()
        with open(part, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
        with suppress(OSError):  # make the rename survive a power cut, where a system lets a folder be opened
            handle = os.open(path.parent, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
    except BaseException:  # Ctrl-C too
        with suppress(OSError):
            part.unlink()
        raise
    return named


def write_or_refuse(path: str | Path, content: bytes) -> Path:
    """As ``write``, for a path that the user has named: one that cannot be written to is a ValueError."""
    try:
        return write(path, content)
    except OSError as error:
        raise PyriteError(f"cannot write {path}: {error.strerror or error}") from None


def npz_bytes(arrays: Mapping[str, npt.ArrayLike], *, compress: bool = False) -> bytes:
    """The bytes of an ``.npz`` with these arrays. The same arrays give the same bytes."""
    buffer = io.BytesIO()
    save = np.savez_compressed if compress else np.savez
    save(buffer, **{name: np.asarray(array) for name, array in arrays.items()})  # type: ignore[arg-type]
    return buffer.getvalue()


def pack_texts(texts: Iterable[str]) -> npt.NDArray[np.uint8]:
    """Texts as an array of bytes, JSON: one of fixed width would take the longest for all, and cut off zero bytes."""
    return np.frombuffer(json.dumps(list(texts)).encode(), np.uint8)


def unpack_texts(packed: npt.NDArray[Any]) -> list[str]:
    """What ``pack_texts`` packed; a ValueError if it is anything else."""
    texts: Any = json.loads(packed.tobytes())
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise PyriteError("it is not a list of texts")
    return texts


def acquire(path: Path, *, wait: bool = False) -> Callable[[], None] | None:
    """Lock a file, which is made if it is missing, and return what releases and removes it; None if another has it.

    With ``wait``, wait until it is free. The locks of a process that dies are released.
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
def held(path: Path) -> Iterator[None]:
    """A context that only one process at a time can enter; others wait."""
    release = acquire(path, wait=True)
    assert release is not None
    try:
        yield
    finally:
        release()


@contextmanager
def one_at_a_time(folder: Path) -> Iterator[None]:
    """Around several files that belong together: another process that writes them to the same folder waits.

    Where nothing can be written, it does nothing.
    """
    with ExitStack() as stack:
        with suppress(OSError):
            stack.enter_context(held(folder / ".writing"))
        yield
