"""Arrays made of lists, numpy arrays and torch tensors; torch is not imported for it."""

import sys

import numpy as np

from pyrite.draws import Array

__all__ = ["to_array", "to_labels"]


def to_array(value: object, name: str) -> Array:
    """An array of what numpy or torch call one, or of lists."""
    # A tensor can only exist if torch is loaded.
    torch = sys.modules.get("torch")
    try:
        if torch is not None and isinstance(value, torch.Tensor):
            value = value.detach().cpu().numpy()
        if np.ma.is_masked(value):
            raise ValueError("it is a masked array with masked values: leave those out")
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
    if array.dtype == np.uint64 and array.max() > np.iinfo(np.int64).max:
        raise ValueError(f"{name} is {array.max()} at index {int(array.argmax())}, which is more than int64 holds")
    return array.astype(np.int64)
