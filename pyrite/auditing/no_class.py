"""Samples that look like none of the classes: no object, two objects, or something else.

A net that has learned the classes excludes most of them for a sample of one class, whether its label is right or wrong.
For a sample of no class it excludes few.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import log_expit, logsumexp

from pyrite.auditing.scores import Kind, chunks, to_margins
from pyrite.diagnostics.arrays import Floats

__all__ = ["flatness", "no_class_of_margins", "no_class_of_scores"]


def flatness(log_probabilities: Floats) -> Floats:
    """The geometric mean of the probabilities of all classes, divided by their arithmetic mean.

    It is 1 if all classes are equally likely, and near 0 if some are excluded.

    >>> flatness(np.log([[0.5, 0.5], [0.9, 0.1]])).round(3).tolist()
    [1.0, 0.6]
    """
    return np.asarray(np.exp(log_probabilities.mean(1) + np.log(log_probabilities.shape[1])))


def no_class_of_margins(margins: Floats) -> Floats:
    """How little each sample looks like any class, from the margins of all classes."""
    log_probabilities = log_expit(margins)
    return flatness(log_probabilities - logsumexp(log_probabilities, axis=1, keepdims=True))


def no_class_of_scores(table: npt.NDArray[Any], kind: Kind, gap: float) -> Floats:
    """The same from scores of any scale."""
    return np.concatenate([no_class_of_margins(to_margins(table[rows], kind, gap)) for rows in chunks(table.shape)])
