"""Texts under review, with the words marked that speak for the given class and for the other one.

A word speaks for a class if it is in more texts of that class than of the other, among the labels that are not
suspects. That is independent of the net and of its features, and anybody can check it.
"""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from pyrite.auditing import Audit
from pyrite.data import Records
from pyrite.diagnostics.arrays import Ints

__all__ = ["log_ratios", "marked_texts", "pieces"]

_WORD: Final = re.compile(r"\w+")
_LONGEST: Final = 4000  # characters of a text in the page
_TWICE: Final = float(np.log(2))  # a word is marked if it is twice as frequent in one class as in the other
_MARKED: Final = 15  # different words of a text, at most, for each class


def marked_texts(audit: Audit, records: Records, rows: Ints, budget: int) -> dict[str, Any]:
    """The first texts, as many as there is room for, each as pieces of which some are marked."""
    texts = records.texts()
    counts, sizes = _document_counts(audit, texts)
    shown: list[list[Any]] = []
    for row in rows.tolist():
        text = texts[audit.index[row]]
        given = int(audit.labels[row])
        other = next((int(choice) for choice in audit.choices[row] if choice != given), given)
        weights = log_ratios(counts, sizes, set(_words(text)), other, given)
        cut = text if len(text) <= _LONGEST else text[:_LONGEST] + " …"
        made = pieces(cut, weights)
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


def _words(text: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(text)]


def _document_counts(audit: Audit, texts: Sequence[str]) -> tuple[list[Counter[str]], list[int]]:
    """By class in how many texts each word is, and the number of texts, of labels that are not suspects."""
    counts: list[Counter[str]] = [Counter() for _ in audit.classes]
    sizes = [0] * len(audit.classes)
    for row in np.flatnonzero(~audit.is_suspect).tolist():
        counts[audit.labels[row]].update(set(_words(texts[audit.index[row]])))
        sizes[audit.labels[row]] += 1
    return counts, sizes
