"""Comparison of two predictors on the same labels."""

import math

from pyrite.diagnostics.arrays import check_same_length, to_flags

__all__ = ["clearly_better"]


def clearly_better(hits: object, others: object) -> bool:
    """Whether one predictor has more hits than another by more than one standard error of the difference.

    Only labels that one of the two predicts and the other does not tell them apart. If both are as good, each of these
    falls to either with probability 1/2, so that the standard error of the difference of the numbers of hits is the
    square root of their number.

    Args:
        hits: which of the labels the first predicts.
        others: which of the same labels the second predicts.

    >>> clearly_better([True, True, True, False], [True, False, False, False])
    True
    >>> clearly_better([True, True, True, False], [True, True, False, False])
    False

    McNemar, 1947.
    """
    first, second = to_flags(hits, "hits"), to_flags(others, "others")
    check_same_length(hits=first, others=second)
    return int(first.sum()) - int(second.sum()) > math.sqrt(int((first != second).sum()))
