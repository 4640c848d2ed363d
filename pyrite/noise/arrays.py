"""Conversion of lists, numpy arrays and torch tensors to arrays, without importing torch."""

import sys

import numpy as np

from pyrite.draws import Array
from pyrite.errors import PyriteError

__all__ = ["to_array", "to_labels"]


def to_array(value: object, name: str) -> Array:
    """A list, numpy array or torch tensor as a numpy array."""
    # A tensor can only exist if torch is loaded.
    torch = sys.modules.get("torch")
    try:
        if torch is not None and isinstance(value, torch.Tensor):
            value = value.detach().cpu().numpy()
        if np.ma.is_masked(value):
            raise PyriteError("it is a masked array with masked values: leave those out")
        return np.asarray(value)
    except (TypeError, ValueError) as error:
        raise PyriteError(f"{name} cannot be read as an array: {error}") from None


def to_labels(value: object, name: str = "labels") -> Array:
    """Labels as a new array of whole numbers. Other values raise ValueError; they are never rounded."""
    array = to_array(value, name)
    if array.ndim != 1 or len(array) == 0:
        raise PyriteError(f"{name} has the shape {array.shape}, but must be one-dimensional with at least one label")
    if array.dtype.kind not in "iu":
        raise PyriteError(f"{name} has the dtype {array.dtype}, first {array[0]!r}, but labels must be whole numbers")
    negative = np.flatnonzero(array < 0)
    if len(negative):
        first = int(negative[0])
        raise PyriteError(f"{name} is {array[first]} at index {first}, but labels must be 0 or more")
    if array.dtype == np.uint64 and array.max() > np.iinfo(np.int64).max:
        raise PyriteError(f"{name} is {array.max()} at index {int(array.argmax())}, which does not fit int64")
    return array.astype(np.int64)
