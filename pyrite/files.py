"""Files that are whole or not there."""

import io
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import numpy as np
import numpy.typing as npt

__all__ = ["npz_bytes", "write"]


def write(path: str | Path, content: bytes) -> Path:
    """Write a file under another name, flush it to the disk and rename it; the folder is made if it is missing.

    Whatever happens, what stood under ``path`` before is still there whole, or the new content is. A disk that is
    full or a folder that may not be written to is an ``OSError``.
    """
    path = Path(path)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(part, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
        _flush_folder(path.parent)
    except BaseException:  # Ctrl-C too
        with suppress(OSError):
            part.unlink()
        raise
    return path


def npz_bytes(arrays: Mapping[str, npt.ArrayLike], *, compress: bool = False) -> bytes:
    """Arrays as the content of an ``.npz``; the same arrays give the same bytes."""
    buffer = io.BytesIO()
    save = np.savez_compressed if compress else np.savez
    save(buffer, **{name: np.asarray(array) for name, array in arrays.items()})  # type: ignore[arg-type]
    return buffer.getvalue()


def _flush_folder(path: Path) -> None:
    """So that the rename survives a power cut too. Not every system lets a folder be opened."""
    with suppress(OSError):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
