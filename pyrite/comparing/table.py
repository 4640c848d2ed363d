"""A table of results, to be printed or written."""

from dataclasses import dataclass
from typing import final

__all__ = ["Table"]


@final
@dataclass(frozen=True)
class Table:
    """Headings and cells, as text.

    Attributes:
        headings: one per column.
        rows: one cell per column.
        code: the number of the column with specs, which are code in Markdown.
    """

    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    code: int = 0

    def to_markdown(self) -> str:
        """As GitHub's Markdown.

        >>> print(Table(("loss", "final"), (("ce", "91.20"),)).to_markdown(), end="")
        | loss | final |
        |---|---|
        | `ce` | 91.20 |
        """
        lines = [f"| {' | '.join(self.headings)} |", "|---" * len(self.headings) + "|"]
        for row in self.rows:
            cells = (f"`{cell}`" if place == self.code else cell for place, cell in enumerate(row))
            lines.append(f"| {' | '.join(cells)} |")
        return "\n".join(lines) + "\n"
