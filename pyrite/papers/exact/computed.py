"""What came out of the computation of a claim."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import final

from pyrite.papers.claims import Finding, Verdict

__all__ = ["Computed"]


@final
@dataclass(frozen=True)
class Computed:
    """Whether a claim holds, and the numbers behind it.

    Attributes:
        claim: its identifier.
        statements: its parts as they are printed, and whether each holds.
        numbers: what was computed, by name.
        corrections: statements that replace one that does not hold as it is printed, and whether they hold.
    """

    claim: str
    statements: Mapping[str, bool]
    numbers: Mapping[str, float]
    corrections: Mapping[str, bool] = field(default_factory=dict)

    @property
    def holds(self) -> bool:
        """Whether all of the claim holds as it is printed."""
        return all(self.statements.values())

    @property
    def verdict(self) -> Verdict:
        """What follows; what holds once it is corrected is in the note."""
        findings = [Finding(words, "holds" if true else "does not hold") for words, true in self.statements.items()]
        corrected = "; ".join(words for words, true in self.corrections.items() if true)
        words = "corrected, it holds further" if self.holds else "corrected, it holds"
        return Verdict(self.claim, tuple(findings), f"{words}: {corrected}" if corrected else "")
