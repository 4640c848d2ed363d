"""What the page shows of samples that are no pictures: rows of numbers, records, and texts with marked words.

A word speaks for a class if it is in more texts of that class than of the other, among the labels that are not
suspects. That is independent of the net and of its features, and anybody can check it.
"""

import base64
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from pyrite.arrays import Flags, Ints
from pyrite.auditing import Audit
from pyrite.data import Column, Dataset, Records
from pyrite.errors import PyriteError

_TYPICAL: Final = 20_000  # cells of what is typical of the classes; with more, they are left out
_TYPICAL_NUMBERS: Final = 200_000
_LONGEST_CELL: Final = 2000  # characters
_LONGEST_TEXT: Final = 4000
_WORD: Final = re.compile(r"\w+")
_TWICE: Final = float(np.log(2))  # a word is marked if it is twice as frequent in one class as in the other
_MARKED: Final = 15  # different words of a text, at most, for each class


def encode_column(values: npt.NDArray[Any], kind: str) -> dict[str, str]:
    """Numbers as base64 of their bytes: a third of the size of decimal digits."""
    return {"kind": kind, "data": base64.b64encode(np.ascontiguousarray(values, f"<{kind}").tobytes()).decode()}


def number_table(audit: Audit, data: Dataset, rows: Ints, columns: Sequence[str], budget: int) -> dict[str, Any]:
    """Values of the first of these samples, as many as there is room for, and the means of each class, in float64: in
    float32 a time in seconds would be the same for all samples."""
    inputs = np.asarray(data.inputs)
    features = inputs.shape[1]
    if columns and len(columns) != features:
        raise PyriteError(f"columns has {len(columns)} names, but there are {features} features")
    count = min(len(rows), budget // max(1, 8 * features))
    means = None
    if len(audit.classes) * features <= _TYPICAL_NUMBERS:
        classes = (inputs[audit.index[kept]].astype(np.float64) for kept in _kept(audit))
        means = encode_column(np.stack([np.ma.masked_invalid(some).mean(0).filled(np.nan) for some in classes]), "f8")
    return {
        "rows": count,
        "names": list(columns) or [f"feature {number}" for number in range(features)],
        "values": encode_column(inputs[audit.index[rows[:count]]], "f8"),
        "typical": means,
    }


def record_table(audit: Audit, records: Records, rows: Ints, budget: int) -> dict[str, Any]:
    """Cells of the first samples, as many as there is room for, and what is typical of each class."""
    cells: list[list[str]] = []
    for index in audit.index[rows].tolist():
        row = [_cut(cell, _LONGEST_CELL) for cell in records.cells(index)]
        budget -= sum(len(cell.encode(errors="replace")) + 3 for cell in row)
        if budget < 0:
            break
        cells.append(row)
    typical = None
    if len(audit.classes) * len(records.columns) <= _TYPICAL:
        typical = [[_typical(column, audit.index[kept]) for column in records.columns] for kept in _kept(audit)]
    return {"rows": len(cells), "names": list(records.names), "cells": cells, "typical": typical}


def _kept(audit: Audit) -> Iterable[Flags]:
    """For every class which labels are given to it and are not suspects."""
    return ((audit.labels == number) & ~audit.is_suspect for number in range(len(audit.classes)))


def _typical(column: Column, index: Ints) -> str:
    known = column.values[index][~column.missing[index]]
    if not len(known) or column.kind == "text":
        return ""
    if column.kind == "category":
        return str(min(Counter(known.tolist()).items(), key=lambda pair: (-pair[1], pair[0]))[0])
    if column.kind == "date":
        return str(np.sort(known)[len(known) // 2].astype("M8[D]"))
    if column.kind == "boolean":
        return f"{100 * known.mean():.0f} % true"
    mean = float(known.mean())
    return f"{mean:.0f}" if 1e4 <= abs(mean) < 1e15 else f"{mean:.4g}"  # 11850 and not 1.185e+04


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[:longest] + " …"


def marked_texts(audit: Audit, records: Records, rows: Ints, budget: int) -> dict[str, Any]:
    """The first texts, as many as there is room for, each as pieces of which some are marked."""
    texts = records.texts()
    # By class in how many texts each word is, and the number of texts, of labels that are not suspects.
    counts, sizes = [Counter[str]() for _ in audit.classes], [0] * len(audit.classes)
    for row in np.flatnonzero(~audit.is_suspect).tolist():
        counts[audit.labels[row]].update({word.lower() for word in _WORD.findall(texts[audit.index[row]])})
        sizes[audit.labels[row]] += 1
    shown: list[list[Any]] = []
    for row in rows.tolist():
        text = texts[audit.index[row]]
        given = int(audit.labels[row])
        other = next((int(choice) for choice in audit.choices[row] if choice != given), given)
        weights = log_ratios(counts, sizes, {word.lower() for word in _WORD.findall(text)}, other, given)
        made = pieces(_cut(text, _LONGEST_TEXT), weights)
        budget -= sum(len(part.encode(errors="replace")) + 8 for _, part in made)
        if budget < 0:
            break
        shown.append([list(piece) for piece in made])
    return {"rows": len(shown), "pieces": shown}


def log_ratios(
    counts: Sequence[Counter[str]], sizes: Sequence[int], words: set[str], other: int, given: int
) -> dict[str, float]:
    """The logarithm of how much more frequent each word is in texts of the other class; one text is added to each.

    >>> counts, sizes = [Counter({"good": 3}), Counter({"bad": 2, "good": 1})], [4, 4]
    >>> {word: round(value, 2) for word, value in sorted(log_ratios(counts, sizes, {"good", "bad"}, 1, 0).items())}
    {'bad': 1.1, 'good': -0.69}
    """
    if other == given:
        return {}
    scale = np.log((sizes[given] + 2) / (sizes[other] + 2))
    return {word: float(np.log((counts[other][word] + 1) / (counts[given][word] + 1)) + scale) for word in words}


def pieces(text: str, weights: dict[str, float]) -> list[tuple[int, str]]:
    """The text in pieces: 1 speaks for the other class, -1 for the given one, 0 for neither.

    >>> pieces("Not good at all", {"not": 1.2, "good": -0.9, "at": 0.1})
    [(1, 'Not'), (0, ' '), (-1, 'good'), (0, ' at all')]
    """
    signs: dict[str, int] = {}
    for sign in (1, -1):
        chosen = sorted(
            (word for word in weights if sign * weights[word] >= _TWICE - 1e-9), key=lambda w: (-sign * weights[w], w)
        )
        signs |= dict.fromkeys(chosen[:_MARKED], sign)
    parts: list[tuple[int, str]] = []
    end = 0
    for match in _WORD.finditer(text):
        sign = signs.get(match[0].lower(), 0)
        if sign:
            parts += [(0, text[end : match.start()])] if end < match.start() else []
            parts.append((sign, match[0]))
            end = match.end()
    return [*parts, (0, text[end:])] if end < len(text) else parts
