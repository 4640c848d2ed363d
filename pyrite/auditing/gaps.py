"""The differences between the two best classes: the unit of all margins, and how many are near ties."""

from typing import Final

import numpy as np

from pyrite.diagnostics.arrays import Floats

__all__ = ["OVERLAP", "near_ties", "typical_gap"]

OVERLAP: Final = 0.05
"""The share of near ties from which on classes may overlap; overlapping ones have 0.13 and more."""


def typical_gap(scores: Floats) -> float:
    """The median difference of the two largest of a row, over rows where they differ; 1 if there are none.

    >>> typical_gap(np.array([[0.0, 1.0, 3.0], [2.0, 2.0, 0.0], [5.0, 0.0, 1.0], [0.0, 6.0, -1.0]]))
    4.0
    """
    second, first = np.partition(scores, -2, axis=1)[:, -2:].T
    gaps = (first - second)[first > second]
    return float(np.median(gaps)) if len(gaps) else 1.0


def near_ties(margins: Floats) -> float:
    """The share of samples whose two best classes are closer than a quarter of what is typical.

    >>> near_ties(np.array([[0.0, 1.0, 3.0], [2.0, 2.0, 0.0], [5.0, 0.0, 1.0], [0.0, 6.0, -1.0]]))
    0.25
    """
    second, first = np.partition(margins, -2, axis=1)[:, -2:].T
    return float((first - second < typical_gap(margins) / 4).mean())
