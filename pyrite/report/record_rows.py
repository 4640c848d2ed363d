"""The user's own rows, for the page: the cells of each, and what is typical of every class."""

from collections import Counter
from typing import Any, Final

import numpy as np

from pyrite.auditing import Audit
from pyrite.data import Column, Records
from pyrite.diagnostics.arrays import Flags, Ints

__all__ = ["record_table"]

_LONGEST: Final = 2000  # characters of a cell
_TYPICAL: Final = 20_000  # cells of what is typical of the classes; with more, they are left out


def record_table(audit: Audit, records: Records, rows: Ints, budget: int) -> dict[str, Any]:
    """Cells of the first samples, as many as there is room for, and what is typical of each class.

    Typical are the mean of a number, the middle date and the most frequent category, over the labels of the class that
    are not suspects.
    """
    cells: list[list[str]] = []
    for index in audit.index[rows].tolist():
        row = [_cut(cell) for cell in records.cells(index)]
        budget -= sum(len(cell.encode(errors="replace")) + 3 for cell in row)
        if budget < 0:
            break
        cells.append(row)
    small = len(audit.classes) * len(records.columns) <= _TYPICAL
    typical = (
        [[_typical(column, kept) for column in records.columns] for kept in _kept(audit, records)] if small else None
    )
    return {"rows": len(cells), "names": list(records.names), "cells": cells, "typical": typical}


def _kept(audit: Audit, records: Records) -> list[Flags]:
    """For every class which records have its label and are not suspects."""
    flags = np.zeros((len(audit.classes), len(records)), bool)
    for number in range(len(audit.classes)):
        flags[number, audit.index[(audit.labels == number) & ~audit.is_suspect]] = True
    return list(flags)


def _typical(column: Column, kept: Flags) -> str:
    known = column.values[kept & ~column.missing]
    if not len(known) or column.kind == "text":
        return ""
    if column.kind == "category":
        return str(min(Counter(known.tolist()).items(), key=lambda pair: (-pair[1], pair[0]))[0])
    if column.kind == "date":
        return str(np.sort(known)[len(known) // 2].astype("M8[D]"))
    return f"{known.mean():.6g}"


def _cut(cell: str) -> str:
    return cell if len(cell) <= _LONGEST else cell[:_LONGEST] + " …"
