"""Arrays in an .npz: ``x`` and ``y``, ``x_test`` and ``y_test`` if there is a test part, ``classes`` for the names."""

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from pyrite.checks import one_of
from pyrite.data.dataset import Dataset, check_names, check_range, encode, encode_like
from pyrite.data.files import as_path
from pyrite.data.statistics import check_finite, to_features
from pyrite.errors import PyriteError
from pyrite.npz_files import read_npz

_CHANNELS = (1, 3, 4)  # grey, RGB, RGBA


def npz(path: str, channels: str | None = None) -> Dataset:
    """An .npz with ``x`` (images or features) and ``y``; ``x_test``, ``y_test`` and ``classes`` are optional.

    Images are uint8 from 0 to 255, or other numbers of any scale: (N, H, W) for grey, or (N, C, H, W) or (N, H, W,
    C) with 1, 3 or 4 channels, of which the fourth, the transparency of bytes, is dropped. Features are any
    numbers, (N, F). Labels are whole numbers or texts; the classes are their distinct values in order, unless
    ``classes`` names them, in which case labels are the numbers of these names.

    Args:
        path: the file.
        channels: ``first`` or ``last``, for images whose shape is ambiguous, such as (N, 3, 32, 3) or (N, 9, 32, 32).
    """
    one_of("channels", channels, (None, "first", "last"))
    place = as_path(path)
    arrays = read_npz(place, ("x", "y", "x_test", "y_test", "classes"))
    classes: tuple[str, ...] = ()
    if "classes" in arrays:
        classes = tuple(str(name) for name in _column(arrays["classes"], f"{place}: classes"))
        check_names(classes, f"{place}: classes")

    def part(ending: str, train: Dataset | None) -> Dataset:
        x, y = f"x{ending}", f"y{ending}"
        for name in (x, y):
            if name not in arrays:
                both = f": {x} and {y} belong together" if ending else ""
                raise PyriteError(f"{place}: there is no array {name!r}{both}")
        inputs, values = to_images(arrays[x], channels, f"{place}: {x}"), _column(arrays[y], f"{place}: {y}")
        if train is not None and inputs.shape[1:] != train.inputs.shape[1:]:
            raise PyriteError(f"{place}: samples of x are {train.inputs.shape[1:]}, those of x_test {inputs.shape[1:]}")
        names = classes or (train.classes if train is not None else ())
        if classes:
            if not np.issubdtype(values.dtype, np.integer):
                raise PyriteError(f"{place}: {y}: with classes given, labels are numbers of them, not {values.dtype}")
            labels = values.astype(np.int64)
            check_range(labels, len(classes), f"{place}: {y}")
        elif train is not None:
            labels = encode_like(values.tolist(), names, f"{place}: {y}")
        else:
            labels, names = encode(values.tolist(), f"{place}: the labels {y}")
        if len(labels) != len(inputs):
            raise PyriteError(f"{place}: {x} has {len(inputs)} samples, {y} has {len(labels)}")
        return Dataset(place.stem + ending.replace("_", " "), inputs, labels, names)

    train = part("", None)
    return replace(train, test=part("_test", train)) if {"x_test", "y_test"} & arrays.keys() else train


def to_images(x: npt.NDArray[Any], channels: str | None, where: str) -> npt.NDArray[Any]:
    """Images as (N, C, H, W) without transparency, if the shape shows the axis of channels, or features in float64."""
    if x.ndim not in (2, 3, 4) or x.dtype.kind not in "biuf":
        raise PyriteError(f"{where}: {x.dtype} of shape {x.shape}; images are (N, C, H, W), features numbers (N, F)")
    if x.ndim == 2:
        return to_features(x, where)
    is_bytes = x.dtype == np.uint8
    if not is_bytes:
        x = x.astype(np.float32)
        check_finite(x.reshape(len(x), -1), lambda row, column: f"{where}, image {row}, value {column}")
    if x.ndim == 3:
        return np.ascontiguousarray(x[:, None])
    first, last = x.shape[1] in _CHANNELS, x.shape[3] in _CHANNELS
    if channels is None and first == last:
        problem = "may be (N, C, H, W) or (N, H, W, C)" if first else "has neither 1, 3 nor 4 channels"
        raise PyriteError(
            f"{where}: the shape {x.shape} {problem}: say which by channels='first' or channels='last', "
            "as in \"npz('file.npz', channels='last')\""
        )
    if channels == "last" or (channels is None and last):
        x = x.transpose(0, 3, 1, 2)
    return np.ascontiguousarray(x[:, :3] if x.shape[1] == 4 and is_bytes else x)


def _column(values: npt.NDArray[Any], where: str) -> npt.NDArray[Any]:
    if values.ndim != 1 or not (np.issubdtype(values.dtype, np.integer) or values.dtype.kind == "U"):
        raise PyriteError(f"{where}: {values.dtype} of shape {values.shape}, not a list of whole numbers or texts")
    return values
