"""Arrays from wherever they come: lists, numpy, torch (which is not imported for it)."""

import sys
import zipfile
import zlib
from pathlib import Path

import numpy as np

from pyrite.draws import Array
from pyrite.pickles import LIMIT

__all__ = ["read_npz", "to_array", "to_labels"]


def to_array(value: object, name: str) -> Array:
    """An array of what numpy or torch call one, or of lists."""
    # Who holds a tensor has loaded torch.
    torch = sys.modules.get("torch")
    try:
        if torch is not None and isinstance(value, torch.Tensor):
            value = value.detach().cpu().numpy()
        return np.asarray(value)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} cannot be read as an array: {error}") from None


def to_labels(value: object, name: str = "labels") -> Array:
    """Labels as a new array of whole numbers; what is not one is refused, never rounded."""
    array = to_array(value, name)
    if array.ndim != 1 or len(array) == 0:
        raise ValueError(f"{name} has the shape {array.shape}, but must be a list of labels, one or more")
    if array.dtype.kind not in "iu":
        raise ValueError(f"{name} has the dtype {array.dtype}, first {array[0]!r}, but a label is a whole number")
    negative = np.flatnonzero(array < 0)
    if len(negative):
        first = int(negative[0])
        raise ValueError(f"{name} is {array[first]} at index {first}, but labels are 0 or more")
    return array.astype(np.int64)


def read_npz(path: str | Path) -> dict[str, Array]:
    """Every array of an ``.npz``, none of them pickled."""
    try:
        # numpy leaves a file open that it cannot read.
        with open(path, "rb") as stream:
            if not zipfile.is_zipfile(stream):
                raise ValueError("it is not an .npz file")
            stream.seek(0)
            with np.load(stream, allow_pickle=False) as held:
                size = sum(entry.file_size for entry in held.zip.infolist())
                if size > LIMIT:
                    raise ValueError(f"it says it is {size} bytes long; {LIMIT} are allowed")
                return {name: np.asarray(held[name]) for name in held}
    except (OSError, ValueError, KeyError, EOFError, MemoryError, zipfile.BadZipFile, zlib.error) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise ValueError(f"cannot read {path}: {reason}") from None
