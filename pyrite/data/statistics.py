"""Mean and standard deviation of the training data, and standardisation of features.

Everything here is computed in float64. Times in seconds such as 1.7e9 ± 40 would all be the same number in float32, so
features are converted to float32 only after they are centred and scaled.
"""

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, final

import numpy as np
import numpy.typing as npt

from pyrite.data.images import LazyImages
from pyrite.errors import PyriteError

Floats = npt.NDArray[np.float64]

LIMIT: Final = 1e9
"""The largest standardised value; its square still fits float32."""

_BLOCK: Final = 2**22  # numbers processed at a time, so that a large table is not copied as a whole
_SAMPLED: Final = 10_000  # rows that the check for extreme outliers uses
_COLLAPSED: Final = 2.0**-22  # relative to the standard deviation: float32 has 24 bits, of which the mean takes some
_ROUNDING: Final = 2.0**-44  # relative to a value: smaller differences may be rounding errors


@final
@dataclass(frozen=True)
class Statistics:
    """Mean and standard deviation of each feature or channel; uint8 images are scaled to [0, 1] first.

    Attributes:
        mean: the mean of each feature or channel.
        std: the standard deviation of each feature or channel.

    >>> data = np.array([[1.0, 2.0], [3.0, 2.0]])
    >>> Statistics.of(data)
    Statistics(mean=(2.0, 2.0), std=(1.0, 1.0))
    """

    mean: tuple[float, ...]
    std: tuple[float, ...]

    @staticmethod
    def of(inputs: npt.NDArray[Any] | LazyImages, index: npt.ArrayLike | None = None) -> "Statistics":
        """The statistics of the training data; ``index`` selects its samples.

        For images that are read lazily, 1,000 evenly spaced images are used.
        """
        rows = np.arange(len(inputs)) if index is None else np.asarray(index, np.int64)
        if not rows.size:
            raise PyriteError("index is empty: the mean of no samples is not defined")
        if isinstance(inputs, LazyImages):
            chosen = rows[np.linspace(0, rows.size - 1, min(rows.size, 1000)).astype(np.int64)]
            images, readable, unreadable = inputs.read(chosen)
            if not readable.any():
                raise PyriteError(f"none of {len(chosen)} images can be read; the first: {unreadable[0].reason}")
            return _of_images(images)
        selected = slice(None) if index is None else rows
        if inputs.ndim == 4:
            return (_of_images if inputs.dtype == np.uint8 else _of_float_images)(inputs[selected])
        mean, std = np.empty(inputs.shape[1]), np.empty(inputs.shape[1])
        width = max(1, _BLOCK // len(inputs))
        for start in range(0, inputs.shape[1], width):
            columns = slice(start, start + width)
            block = np.asarray(inputs[:, columns][selected], np.float64)

            def cell(row: int, column: int, first: int = start) -> str:
                return f"features, row {rows[row]}, column {first + column}"

            check_finite(block, cell)
            check_spread(block, cell)
            mean[columns], std[columns] = mean_and_std(block)
        return Statistics(tuple(mean.tolist()), tuple(np.where(std > 0, std, 1.0).tolist()))

    def with_one_scale(self) -> "Statistics":
        """The same means with one common standard deviation, the root of the mean variance."""
        std = float(np.sqrt(np.mean(np.square(self.std))))
        return Statistics(self.mean, (std,) * len(self.std))

    def standardise(self, features: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        """Standardise features to mean 0 and standard deviation 1, in float32, clipped to ±``LIMIT``."""
        mean, std = np.array(self.mean), np.array(self.std)
        # Numbers near the largest of float64 are divided by four, so that subtraction does not overflow.
        part = np.where((np.abs(mean) > 2.0**1000) | (std > 2.0**1000), 0.25, 1.0)
        with np.errstate(over="ignore"):
            centred = np.asarray(features, np.float64) * part - mean * part
            return np.asarray((centred / (std * part)).clip(-LIMIT, LIMIT), np.float32)


def mean_and_std(features: Floats) -> tuple[Floats, Floats]:
    """Mean and standard deviation of each column, for numbers of any magnitude in float64.

    Columns are divided by powers of two before anything is added or squared, and the first row is subtracted, so that
    1e300 does not overflow, 1e-300 does not underflow, and 1e15 ± 1 keeps its digits.

    >>> mean_and_std(np.array([[1e300, 1e15], [3e300, 1e15 + 2]]))
    (array([2.e+300, 1.e+015]), array([1.e+300, 1.e+000]))
    """
    scaled, exponent = rescaled(features)
    first = scaled[0]
    centred = scaled - first
    offset = centred.mean(0)
    centred, smaller = rescaled(centred - offset)
    with np.errstate(under="ignore"):
        std = np.ldexp(np.sqrt(np.square(centred).mean(0)), exponent + smaller)
        return np.ldexp(first + offset, exponent), std


def rescaled(features: Floats) -> tuple[Floats, npt.NDArray[Any]]:
    """Each column divided by a power of two, so that its largest number is from 1/4 to 1/2; and the exponents."""
    _, exponent = np.frexp(np.abs(features).max(0))
    with np.errstate(under="ignore"):
        return np.ldexp(features, -(exponent + 1)), exponent + 1


def check_spread(features: Floats, cell: Callable[[int, int], str]) -> None:
    """Raise ValueError for a column with outliers so extreme that all other values are one number in float32.

    The middle 90 % may be constant; otherwise they differ by more than float32 resolves, or only by rounding.
    """
    if len(features) < 3:
        return
    sample = features[np.linspace(0, len(features) - 1, min(len(features), _SAMPLED)).astype(np.int64)]
    scaled, _ = rescaled(sample)
    low = np.quantile(scaled, 0.05, axis=0, method="higher")
    high = np.quantile(scaled, 0.95, axis=0, method="lower")
    middle = high - low
    _, std = mean_and_std(scaled)
    rounding = _ROUNDING * np.maximum(np.abs(low), np.abs(high))
    wrong = np.flatnonzero((middle > rounding) & (middle < _COLLAPSED * std))
    if len(wrong):
        column = int(wrong[0])
        values, middle_value = features[:, column], float(np.median(sample[:, column]))
        row = int(np.abs(values * 0.25 - middle_value * 0.25).argmax())
        raise PyriteError(
            f"{cell(row, column)}: {values[row]:g} is so far from the other values of the column, such as "
            f"{middle_value:g}, that these become one number: remove such outliers, or take logarithms"
        )


def to_features(values: npt.NDArray[Any], where: str) -> Floats:
    """Numbers of any type, (N, F), in float64; those that a net cannot be trained on are a ValueError."""

    def cell(row: int, column: int) -> str:
        return f"{where}, row {row}, column {column}"

    features = to_float64(values, cell)
    check_spread(features, cell)
    return features


def to_float64(values: npt.NDArray[Any], cell: Callable[[int, int], str]) -> Floats:
    """Numbers of any type in float64. NaN, infinity, and whole numbers that it cannot distinguish are a ValueError:
    rounding is harmless for times in nanoseconds, but not for identifiers that differ only in their last digits."""
    with np.errstate(over="ignore"):
        features = np.ascontiguousarray(values, np.float64)
    check_finite(features, cell)
    if values.dtype.kind in "iu" and values.dtype.itemsize == 8 and len(values):
        low, high = values.min(0), values.max(0)
        for column in beyond_whole(features):
            check_resolution(int(low[column]), int(high[column]), cell(0, column))
    return features


def beyond_whole(features: Floats) -> list[int]:
    """The columns with numbers so large that float64 does not hold every whole number of their size."""
    large = (features.max(0) > 2.0**53) | (features.min(0) < -(2.0**53))
    return list(map(int, np.flatnonzero(large)))


def check_resolution(low: Decimal | int, high: Decimal | int, cell: str) -> None:
    """Refuse a column whose numbers, from ``low`` to ``high``, differ by less than float64 resolves at their size."""
    if 0 < high - low < 1024 * float(np.spacing(max(abs(float(low)), abs(float(high))))):
        raise PyriteError(
            f"{cell}: the numbers of the column, from {low} to {high}, differ by less than float64 resolves at their "
            "size: subtract a constant from them"
        )


def check_finite(features: npt.NDArray[Any], cell: Callable[[int, int], str]) -> None:
    """Raise ValueError for NaN and infinity; ``cell`` describes a row and column for the message."""
    step = max(1, _BLOCK // max(1, features.shape[1]))
    for start in range(0, len(features), step):
        finite = np.isfinite(features[start : start + step])
        if not finite.all():
            row, column = map(int, np.argwhere(~finite)[0])
            raise PyriteError(f"{cell(start + row, column)}: {features[start + row, column]} is not a finite number")


def _of_images(images: npt.NDArray[np.uint8]) -> Statistics:
    """Exact statistics, from the counts of the 256 possible values."""
    values, means, deviations = np.arange(256) / 255, [], []
    for channel in range(images.shape[1]):
        parts = (images[start : start + 4096, channel].ravel() for start in range(0, len(images), 4096))
        counts = np.sum([np.bincount(part, minlength=256) for part in parts], 0)
        means.append(float(counts @ values / counts.sum()))
        deviations.append(float(np.sqrt(counts @ (values - means[-1]) ** 2 / counts.sum())) or 1.0)
    return Statistics(tuple(means), tuple(deviations))


def _of_float_images(images: npt.NDArray[np.float32]) -> Statistics:
    """The first pass finds the mean, the second the deviation: a mean far above it would cost all digits."""
    channels, count = images.shape[1], images.size / images.shape[1]
    step = max(1, _BLOCK // int(np.prod(images.shape[1:])))
    total, squares = np.zeros(channels), np.zeros(channels)
    for start in range(0, len(images), step):
        total += images[start : start + step].sum((0, 2, 3), np.float64)
    if not np.isfinite(total).all():
        check_finite(images.reshape(len(images), -1), lambda row, column: f"images, number {row}, value {column}")
    mean = total / count
    for start in range(0, len(images), step):
        squares += np.square(images[start : start + step] - mean[:, None, None]).sum((0, 2, 3))
    std = np.sqrt(squares / count)
    return Statistics(tuple(mean.tolist()), tuple(np.where(std > 0, std, 1.0).tolist()))
