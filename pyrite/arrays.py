"""Conversion of lists, numpy arrays and torch tensors to checked arrays, without importing torch."""

import sys
from typing import Any

import numpy as np
import numpy.typing as npt

from pyrite.errors import PyriteError

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


def to_floats(value: object, name: str, *, ndim: int = 1, infinite: bool = False, nan: bool = False) -> Floats:
    """Numbers in float64; a ValueError unless they are finite, or ``infinite`` or ``nan`` allows others."""
    array = to_array(value, name, ndim)
    if array.dtype.kind not in "fiub":
        raise PyriteError(f"{name} has the dtype {array.dtype}, but must be numbers")
    array = array.astype(np.float64, copy=False)
    if nan:
        return array
    bad = np.isnan(array) if infinite else ~np.isfinite(array)
    if bad.any():
        place = tuple(int(part) for part in np.argwhere(bad)[0])
        raise PyriteError(f"{name} is {array[place]} at index {place[0] if ndim == 1 else place}")
    return array


def to_ints(value: object, name: str, *, least: int | None = None) -> Ints:
    """Whole numbers; other values are a ValueError, and never rounded."""
    array = to_array(value, name, 1)
    if array.dtype.kind not in "iu" and array.size:
        raise PyriteError(f"{name} has the dtype {array.dtype}, first {array[0]!r}, but must be whole numbers")
    if array.dtype == np.uint64 and array.max(initial=0) > np.iinfo(np.int64).max:
        raise PyriteError(f"{name} is {array.max()} at index {int(array.argmax())}, which does not fit int64")
    array = array.astype(np.int64, copy=False)
    if least is not None and array.size and array.min() < least:
        first = int((array < least).argmax())
        raise PyriteError(f"{name} is {array[first]} at index {first}, but must be {least} or more")
    return array


def to_flags(value: object, name: str) -> Flags:
    """Booleans, from True and False or 1 and 0."""
    array = to_array(value, name, 1)
    if array.dtype.kind == "b":
        return array
    wrong = ~np.isin(array, (0, 1)) if array.dtype.kind in "iu" else np.ones(len(array), bool)
    if wrong.any():
        first = int(wrong.argmax())
        raise PyriteError(f"{name} is {array[first]!r} at index {first}, but must be true or false")
    return array.astype(bool)


def check_below(labels: Ints, classes: int, name: str) -> None:
    """Raise ValueError if a label is not the number of one of these classes."""
    wrong = (labels < 0) | (labels >= classes)
    if wrong.any():
        first = int(wrong.argmax())
        raise PyriteError(
            f"{name}: label {labels[first]} at index {first}, but there are {classes} classes, 0 to {classes - 1}"
        )


def coded(texts: npt.NDArray[Any]) -> tuple[list[str], Ints]:
    """The distinct texts of an array of objects, sorted, and the place of each there.

    ``np.unique`` of an array of texts needs memory for the longest in every row.

    >>> coded(np.array(["b", "a", "b"], object))
    (['a', 'b'], array([1, 0, 1]))
    """
    values = texts.tolist()
    names = sorted(set(values))
    place = {name: number for number, name in enumerate(names)}
    return names, np.fromiter(map(place.__getitem__, values), np.int64, len(values))


def check_same_length(**arrays: npt.NDArray[Any]) -> None:
    """Raise ValueError unless all arrays have the same length."""
    if len({len(array) for array in arrays.values()}) > 1:
        raise PyriteError(f"lengths differ: {', '.join(f'{name} {len(array)}' for name, array in arrays.items())}")


def to_array(value: object, name: str, ndim: int | None = None) -> npt.NDArray[Any]:
    """A list, numpy array or torch tensor as a numpy array."""
    # A tensor can only exist if torch is loaded.
    torch = sys.modules.get("torch")
    try:
        if torch is not None and isinstance(value, torch.Tensor):
            # numpy has no bfloat16, and float32 represents it exactly.
            dtype = torch.float32 if value.dtype == torch.bfloat16 else value.dtype
            value = value.detach().to("cpu", dtype).numpy()
        if np.ma.is_masked(value):
            raise PyriteError("it is a masked array with masked values: leave those out")
        array = np.asarray(value)
    except (TypeError, ValueError) as error:
        raise PyriteError(f"{name} cannot be read as an array: {error}") from None
    if ndim is not None and array.ndim != ndim:
        raise PyriteError(f"{name} has the shape {array.shape}, but must have {ndim} dimension{'s'[: ndim > 1]}")
    return array
