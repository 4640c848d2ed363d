"""Criteria of a search: measured on held-out samples and their given labels, which are partly wrong."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import sqrt
from typing import Final, final

TRAP: Final = (
    "choosing by cross entropy on noisy labels is a trap: a wrong label costs a confident model without bound, so that "
    "the vaguest model wins, not the most accurate; accuracy and mae keep the order of models under symmetric noise"
)


@final
@dataclass(frozen=True)
class Criterion:
    """A column of a run's history, its name in texts, and whether a larger number is better."""

    column: str
    words: str
    rises: bool
    symmetric: bool  # its sum over all labels is the same for every model: symmetric noise keeps their order

    def formatted(self, value: float, count: int = 0) -> str:
        """A value as text; with ``count`` samples, an accuracy has its standard error."""
        if not self.rises:
            return f"{value:.4f}"
        return f"{100 * value:.2f}{f' ± {100 * sqrt(value * (1 - value) / count):.2f}' if count else ''} %"

    def best(self, values: list[float]) -> float:
        """The best of several."""
        return max(values) if self.rises else min(values)


CRITERIA: Final[Mapping[str, Criterion]] = {
    "accuracy": Criterion("validation_accuracy", "accuracy", rises=True, symmetric=True),
    "mae": Criterion("validation_mae", "MAE", rises=False, symmetric=True),
    "ce": Criterion("validation_ce", "cross entropy", rises=False, symmetric=False),
}
