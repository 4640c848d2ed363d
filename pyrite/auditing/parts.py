"""The parts of a column: categories by value, numbers as quantiles, dates by period."""

from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from pyrite.arrays import Flags, Ints, coded
from pyrite.data import Column

_QUANTILES: Final = 10
_VALUES: Final = 12  # numbers of at most so many distinct values are parted by value
_PERIODS: Final = 24
_MOST: Final = 200  # values of a category
_DIGITS: Final = 4


class Parts(NamedTuple):
    """Parts of a column: the number of each sample's part, −1 for none, and the first and last value of each part.

    Parts that have an order come first, and runs of them are sets as well. A part without values is that of gaps.
    """

    column: str
    codes: Ints
    values: tuple[tuple[str, str], ...]
    ordered: int  # the number of parts that have an order

    def __len__(self) -> int:
        return len(self.values)

    def runs(self) -> list[tuple[int, int]]:
        """First part, and the one after the last: single parts, and runs of those that have an order."""
        rest = [(one, one + 1) for one in range(self.ordered, len(self))]
        return rest + [(one, two) for one in range(self.ordered) for two in range(one + 1, self.ordered + 1)]

    def inside(self, run: tuple[int, int]) -> Flags:
        return np.asarray((self.codes >= run[0]) & (self.codes < run[1]))

    def name(self, run: tuple[int, int]) -> str:
        first, last = self.values[run[0]][0], self.values[run[1] - 1][1]
        if not first:
            return f"{self.column} is missing"
        return f"{self.column} = {first}" if first == last else f"{self.column} from {first} to {last}"


def parts_of(column: Column, fewest: int) -> Parts | None:
    """The parts of a column that have so many samples; None if there are fewer than two, or for texts."""
    missing = column.missing
    if column.kind == "text":
        return None
    if column.kind == "category":
        names, codes = coded(column.values[~missing])
        size = np.bincount(codes, minlength=len(names))
        kept = np.flatnonzero(size >= fewest)
        kept = kept[np.argsort(-size[kept], kind="stable")][:_MOST]
        number = np.full(len(names), -1)
        number[kept] = np.arange(len(kept))
        values, codes, ordered = tuple((str(names[one]),) * 2 for one in kept), number[codes], 0
    else:
        values, codes = _ordered(column, column.values[~missing])
        ordered = len(values)
    all_codes = np.full(len(missing), -1)
    all_codes[~missing] = codes
    if missing.sum() >= fewest:
        all_codes[missing] = len(values)
        values = (*values, ("", ""))
    return Parts(column.name, all_codes, values, ordered) if len(values) > 1 else None


def _ordered(column: Column, known: npt.NDArray[Any]) -> tuple[tuple[tuple[str, str], ...], Ints]:
    if column.kind == "date":
        return _periods(known)
    distinct = np.unique(known)
    if len(distinct) <= _VALUES:
        words = ("false", "true") if column.kind == "boolean" else [f"{value:.15g}" for value in distinct]
        shown = [words[int(value)] for value in distinct] if column.kind == "boolean" else words
        return tuple((word, word) for word in shown), np.searchsorted(distinct, known)
    edges = np.unique(np.quantile(known, np.arange(1, _QUANTILES) / _QUANTILES))
    raw = np.searchsorted(edges, known, side="right")
    used, codes = np.unique(raw, return_inverse=True)
    ends = [(known[codes == one].min(), known[codes == one].max()) for one in range(len(used))]
    return tuple((f"{low:.{_DIGITS}g}", f"{high:.{_DIGITS}g}") for low, high in ends), codes


def _periods(known: npt.NDArray[Any]) -> tuple[tuple[tuple[str, str], ...], Ints]:
    """Days, months or years, whichever are not too many; of many years quantiles of them."""
    for unit in ("D", "M", "Y"):
        periods, codes = np.unique(known.astype(f"M8[{unit}]"), return_inverse=True)
        if len(periods) <= _PERIODS:
            break
    step = -(-len(periods) // _PERIODS)
    starts = range(0, len(periods), step)
    values = tuple((str(periods[one]), str(periods[min(one + step, len(periods)) - 1])) for one in starts)
    return values, codes // step
