"""What is printed of results: a table, and the command that trains with given settings."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

__all__ = ["Table", "train_command"]


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


def train_command(data: str, settings: Mapping[str, Any]) -> str:
    """``pyrite train`` with one flag per setting, as it is typed.

    >>> train_command("digits", {"lr": 0.1, "mirror": False, "samples": None})
    'pyrite train digits --lr 0.1 --no-mirror'
    """
    words = ["pyrite", "train", data]
    for name, value in settings.items():
        flag = name.replace("_", "-")
        if isinstance(value, bool):
            words.append(f"--{flag}" if value else f"--no-{flag}")
        elif value is not None:
            words += [f"--{flag}", str(value)]
    return shlex.join(words)
