"""What is printed of results: a table, and the command that trains with given settings."""

import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev
from typing import Any, final

from pyrite.files import one_at_a_time, write
from pyrite.training import RunFailed


@final
@dataclass(frozen=True)
class Table:
    """Headings and cells, as text."""

    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    code: int = 0  # the number of the column with specs, which are code in Markdown

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


def mean_and_deviation(values: Sequence[float], formatted: Callable[[float], str]) -> str:
    """The mean, with the standard deviation where there are several values."""
    return " ± ".join(map(formatted, [mean(values), stdev(values)] if len(values) > 1 else [mean(values)]))


def write_results(folder: Path, table: str, markdown: str, facts: str, values: object) -> None:
    """Write a table as Markdown and what programs read as JSON, while no other process writes them."""
    try:
        with one_at_a_time(folder):
            write(folder / table, markdown.encode())
            write(folder / facts, (json.dumps(values, indent=2) + "\n").encode())
    except OSError as error:
        raise RunFailed(f"cannot write to {folder}: {error.strerror or error}; the runs are complete") from None
