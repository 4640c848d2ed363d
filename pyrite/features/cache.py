"""Embeddings on the disk, found by the content of the samples they are of."""

import hashlib
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import numpy.typing as npt

from pyrite.data import Inputs, LazyImages, Records
from pyrite.files import npz_bytes, write
from pyrite.npz_files import read_npz

__all__ = ["cache_folder", "digest", "recall", "remember"]

Numbers = npt.NDArray[np.float32]


def cache_folder() -> Path:
    """The folder of the embeddings: ``PYRITE_CACHE``, or one in the user's cache folder. It may be deleted any time."""
    named = os.environ.get("PYRITE_CACHE")
    if named:
        return Path(os.path.expanduser(named))
    import pooch

    return Path(pooch.os_cache("pyrite")) / "embeddings"


def digest(net: str, inputs: Inputs) -> str:
    """A name for what a net makes of these samples: others have other names."""
    hashed = hashlib.blake2b(net.encode(), digest_size=20)
    for part in _content(inputs):
        # With its length, so that no two lists of parts look the same.
        hashed.update(len(part).to_bytes(8, "little"))
        hashed.update(part)
    return hashed.hexdigest()


def recall(name: str, count: int) -> Numbers | None:
    """The rows that were remembered under a name; None if there are none, or if the file is damaged."""
    try:
        rows = read_npz(_path(name)).get("rows")
    except ValueError:
        return None
    fits = rows is not None and rows.dtype == np.float32 and rows.ndim == 2 and len(rows) == count and rows.shape[1]
    return rows if fits else None


def remember(name: str, rows: Numbers) -> None:
    """Keep rows under a name. On a full disk, or in a folder that cannot be written to, nothing happens."""
    with suppress(OSError):
        write(_path(name), npz_bytes({"rows": rows}))


def _path(name: str) -> Path:
    return cache_folder() / name[:2] / f"{name}.npz"


def _content(inputs: Inputs) -> Iterator[bytes]:
    """The bytes that samples consist of; of images in files, those of the files."""
    if isinstance(inputs, Records):
        yield b"texts"
        for text in inputs.texts():
            yield text.encode("utf-8", "surrogatepass")
    elif isinstance(inputs, LazyImages):
        yield f"files {inputs.shape[1:]} {inputs.warp}".encode()
        for index in range(len(inputs)):
            try:
                yield inputs.path(index).read_bytes()
            except OSError:
                yield b""
    else:
        yield f"array {inputs.dtype.str} {inputs.shape[1:]}".encode()
        yield inputs.tobytes()
