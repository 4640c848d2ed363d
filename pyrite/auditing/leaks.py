"""Columns that give the label away: they follow the given label where all other columns contradict it."""

from typing import Final, NamedTuple

import numpy as np

from pyrite.arrays import Flags, Ints
from pyrite.auditing.column_models import ColumnModels
from pyrite.auditing.parts import Parts, parts_of

__all__ = ["Leak", "find_leaks"]

_FEWEST: Final = 5  # samples of a value
_PURE: Final = 0.98  # the fraction of a value's other samples that have one label, from which on it names the label
_NAMED: Final = 0.05  # of all samples, at least, have such a value
_EXCLUDED: Final = 0.1  # the highest probability of a label that the other columns contradict
_FOLLOWED: Final = 0.9
_CONTRADICTED: Final = 20  # samples, at least
_SHARE: Final = 0.01  # and of all samples


class Leak(NamedTuple):
    """A column that gives the label away: of so many samples whose label all other columns ``contradict``, it has a
    value that names ``followed`` of the labels."""

    column: str
    contradicted: int
    followed: int

    @property
    def sentence(self) -> str:
        return (
            f"the column {self.column!r} is likely a leak of the label: its values name {self.followed:,} of "
            f"{self.contradicted:,} labels that all other columns contradict; if it is made from the label, leave "
            "it out with ignore"
        )


def find_leaks(models: ColumnModels) -> tuple[Leak, ...]:
    """Columns that give the label away, those that contradict the others most often first."""
    found, rows, count = [], np.arange(len(models.labels)), int(models.used.sum())
    for column in models.columns:
        parts = parts_of(column, _FEWEST)
        if parts is None or len(models.names) < 2:
            continue
        label, pure = _named_labels(parts, models.labels, models.classes)
        pure &= models.used
        if pure.sum() < _NAMED * count:
            continue
        chance = models.probabilities(without=(column.name,))[rows, label]
        against = pure & (chance <= _EXCLUDED)
        followed = int((models.labels[against] == label[against]).sum())
        if against.sum() >= max(_CONTRADICTED, _SHARE * count) and followed >= _FOLLOWED * against.sum():
            found.append(Leak(column.name, int(against.sum()), followed))
    return tuple(sorted(found, key=lambda leak: -leak.contradicted))


def _named_labels(parts: Parts, labels: Ints, classes: int) -> tuple[Ints, Flags]:
    """The most frequent label among the other samples with the same value, and whether nearly all have it."""
    known = parts.codes >= 0
    codes = np.where(known, parts.codes, 0)
    counts = np.zeros((len(parts), classes))
    np.add.at(counts, (codes[known], labels[known]), 1)
    others = counts[codes]
    others[np.arange(len(labels)), labels] -= 1
    size = others.sum(1)
    return others.argmax(1), known & (others.max(1) >= _PURE * size) & (size >= _FEWEST - 1)
