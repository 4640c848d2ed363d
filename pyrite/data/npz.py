"""Arrays in an .npz: ``x`` and ``y``, ``x_test`` and ``y_test`` if there is a test part, ``classes`` for the names."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pyrite.data.dataset import Dataset, Labels, check_names, check_range, encode, encode_like
from pyrite.data.files import as_path
from pyrite.data.statistics import check_spread, to_float64
from pyrite.errors import PyriteError
from pyrite.npz_files import read_npz

__all__ = ["npz", "to_images"]

_CHANNELS = (1, 3, 4)  # grey, RGB, RGBA
NAMES = ("x", "y", "x_test", "y_test", "classes")


def npz(path: str, channels: str | None = None) -> Dataset:
    """An .npz with ``x`` (images or features) and ``y``; ``x_test``, ``y_test`` and ``classes`` are optional.

    Images are uint8: (N, H, W) for grey, or (N, C, H, W) or (N, H, W, C) with 1, 3 or 4 channels, of which the fourth,
    transparency, is dropped. Features are any numbers, (N, F). Labels are whole numbers or texts; the classes are their
    distinct values in order, unless ``classes`` names them, in which case labels are the numbers of these names.

    Args:
        path: the file.
        channels: ``first`` or ``last``, for images whose shape is ambiguous, such as (N, 3, 32, 3) or (N, 9, 32, 32).
    """
    if channels not in (None, "first", "last"):
        raise PyriteError(f"channels is {channels!r}, but must be 'first' or 'last'")
    place = as_path(path)
    arrays = read_npz(place, NAMES)
    for name in ("x", "y"):
        if name not in arrays:
            raise PyriteError(f"{place}: there is no array {name!r}")
    inputs = to_images(arrays["x"], channels, f"{place}: x")
    y = _column(arrays["y"], f"{place}: y")
    if "classes" in arrays:
        classes = tuple(str(name) for name in _column(arrays["classes"], f"{place}: classes"))
        check_names(classes, f"{place}: classes")
        labels = _numbers(y, len(classes), f"{place}: y")
    else:
        labels, classes = encode(y.tolist(), f"{place}: the labels y")
    if len(labels) != len(inputs):
        raise PyriteError(f"{place}: x has {len(inputs)} samples, y has {len(labels)}")
    test = _test(place, arrays, channels, inputs.shape, classes)
    return Dataset(place.stem, inputs, labels, classes, test)


def _test(
    place: Path,
    arrays: dict[str, npt.NDArray[Any]],
    channels: str | None,
    shape: tuple[int, ...],
    classes: tuple[str, ...],
) -> Dataset | None:
    if "x_test" not in arrays and "y_test" not in arrays:
        return None
    if "x_test" not in arrays or "y_test" not in arrays:
        raise PyriteError(f"{place}: x_test and y_test belong together, and one is missing")
    inputs = to_images(arrays["x_test"], channels, f"{place}: x_test")
    if inputs.shape[1:] != shape[1:]:
        raise PyriteError(f"{place}: samples of x are {shape[1:]}, those of x_test {inputs.shape[1:]}")
    y = _column(arrays["y_test"], f"{place}: y_test")
    if "classes" in arrays:
        labels = _numbers(y, len(classes), f"{place}: y_test")
    else:
        labels = encode_like(y.tolist(), classes, f"{place}: y_test")
    return Dataset(f"{place.stem} test", inputs, labels, classes)


def to_images(x: npt.NDArray[Any], channels: str | None, where: str) -> npt.NDArray[Any]:
    """Images as (N, C, H, W), or features in float64."""
    if x.dtype == np.uint8 and x.ndim == 3:
        return np.ascontiguousarray(x[:, None])
    if x.dtype == np.uint8 and x.ndim == 4:
        return _images(x, channels, where)
    if x.ndim in (3, 4):
        raise PyriteError(f"{where}: images are uint8 from 0 to 255, these are {x.dtype}")
    if x.ndim != 2 or x.dtype.kind not in "biuf":
        raise PyriteError(
            f"{where}: {x.dtype} of shape {x.shape}; images are uint8 (N, C, H, W), features numbers (N, F)"
        )

    def cell(row: int, column: int) -> str:
        return f"{where}, row {row}, column {column}"

    features = to_float64(x, cell)
    check_spread(features, cell)
    return features


def _images(x: npt.NDArray[np.uint8], channels: str | None, where: str) -> npt.NDArray[np.uint8]:
    """Images as (N, C, H, W), if the shape shows which axis has the channels; transparency is dropped."""
    first, last = x.shape[1] in _CHANNELS, x.shape[3] in _CHANNELS
    if channels is None and first == last:
        problem = "may be (N, C, H, W) or (N, H, W, C)" if first else "has neither 1, 3 nor 4 channels"
        raise PyriteError(
            f"{where}: the shape {x.shape} {problem}: say which by channels='first' or channels='last', "
            "as in \"npz('file.npz', channels='last')\""
        )
    if channels == "last" or (channels is None and last):
        x = x.transpose(0, 3, 1, 2)
    return np.ascontiguousarray(x[:, :3] if x.shape[1] == 4 else x)


def _column(values: npt.NDArray[Any], where: str) -> npt.NDArray[Any]:
    if values.ndim != 1 or not (np.issubdtype(values.dtype, np.integer) or values.dtype.kind == "U"):
        raise PyriteError(f"{where}: {values.dtype} of shape {values.shape}, not a list of whole numbers or texts")
    return values


def _numbers(values: npt.NDArray[Any], classes: int, where: str) -> Labels:
    if not np.issubdtype(values.dtype, np.integer):
        raise PyriteError(f"{where}: with classes given, labels are numbers of classes, not {values.dtype}")
    labels = values.astype(np.int64)
    check_range(labels, classes, where)
    return labels
