"""``Schema``: what the samples of a data set look like. It is saved as JSON with a run, and reads new samples alike."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, final

import numpy.typing as npt

from pyrite.data.images import LazyImages
from pyrite.data.records import Kind, Records

__all__ = ["InputKind", "Schema", "kind_of"]

InputKind = Literal["images", "numbers", "table", "text"]


@final
@dataclass(frozen=True)
class Schema:
    """How samples look.

    Attributes:
        kind: what they are.
        shape: of one sample.
        columns: the kinds of the columns, by their names in order; empty if they have no names.
        label: the label column, if there is one.
        formats: of dates that were texts, by column: ``iso``, or the order of day, month and year.
        decimal: the decimal mark of numbers that were texts.
    """

    kind: InputKind
    shape: tuple[int, ...]
    columns: Mapping[str, Kind]
    label: str = ""
    formats: Mapping[str, str] = field(default_factory=dict)
    decimal: str = ""

    def to_json(self) -> dict[str, Any]:
        """The schema as JSON can hold it: what ``Schema(**values)`` takes."""
        return asdict(self) | {"shape": list(self.shape)}


def kind_of(inputs: npt.NDArray[Any] | LazyImages | Records) -> InputKind:
    """Which kind of samples these are."""
    if isinstance(inputs, Records):
        return "text" if inputs.is_text else "table"
    return "images" if inputs.ndim == 4 else "numbers"
