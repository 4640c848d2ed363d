"""What came out of the check of a claim."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, final

__all__ = ["Finding"]


@final
@dataclass(frozen=True)
class Finding:
    """Whether a claim holds, and the numbers behind it.

    Attributes:
        claim: its identifier.
        statements: what it says, part by part, and whether that is so.
        numbers: what was computed, by name.
        corrections: statements that replace one that does not hold as it is printed, and whether they are so.
    """

    claim: str
    statements: Mapping[str, bool]
    numbers: Mapping[str, float]
    corrections: Mapping[str, bool] | None = None

    @property
    def holds(self) -> bool:
        """Whether all of the claim holds as it is printed."""
        return all(self.statements.values())

    def to_dict(self) -> dict[str, Any]:
        """For a file of results."""
        return {**asdict(self), "holds": self.holds}
