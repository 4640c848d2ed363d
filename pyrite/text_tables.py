"""``Table``: headings and cells as plain text, Markdown and HTML; numbers of things in words."""

from html import escape
from typing import NamedTuple


class Table(NamedTuple):
    """Headings and cells, as text."""

    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    code: int = 0  # the number of the column with specs, which are code in Markdown
    title: str = ""

    def to_markdown(self) -> str:
        """As GitHub's Markdown, without the title.

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

    def to_html(self) -> str:
        """As a table that a notebook shows."""
        head = "".join(f"<th>{escape(heading)}</th>" for heading in self.headings)
        body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in self.rows)
        title = f"<caption>{escape(self.title)}</caption>" if self.title else ""
        return f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"

    def __str__(self) -> str:
        """In columns, under the title; numbers are aligned at their right ends.

        >>> print(Table(("loss", "final"), (("ce", "91.20"), ("gce(q=0.7)", "8.00"))))
        loss        final
        ce          91.20
        gce(q=0.7)   8.00
        """
        lines = [row for row in (self.headings, *self.rows) if any(row)]
        widths = [max(len(row[place]) for row in lines) for place in range(len(self.headings))] if lines else []
        numeric = [all(row[place][:1] in "0123456789-+." for row in self.rows) for place in range(len(self.headings))]
        shown = [
            "  ".join(
                cell.rjust(width) if right else cell.ljust(width)
                for cell, width, right in zip(row, widths, numeric, strict=True)
            ).rstrip()
            for row in lines
        ]
        return "\n".join(([self.title] if self.title else []) + shown)


def counted(number: int, word: str, several: str = "") -> str:
    """A number of things; ``several`` is the plural, if it is not the word with an s.

    >>> counted(1, "image"), counted(1500, "image"), counted(2, "class", "classes")
    ('1 image', '1,500 images', '2 classes')
    """
    return f"{number:,} {word if number == 1 else several or f'{word}s'}"


def duration(seconds: float) -> str:
    """A time in words.

    >>> duration(40), duration(200), duration(9000)
    ('40 s', '3 min', '2.5 h')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
