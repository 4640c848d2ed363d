"""The posterior of every label under a fitted noise model: log-odds, probabilities of classes, the threshold."""

import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from pyrite.auditing.noise_model import NoiseFit, log_odds
from pyrite.auditing.scores import Kind, chunks, to_margins
from pyrite.diagnostics.arrays import Floats, Ints

__all__ = [
    "Posterior",
    "best_threshold",
    "class_shares",
    "likely_classes",
    "posterior_of_scores",
    "shares_of_scores",
    "values_at_same_ranks",
]

_LOWEST_THRESHOLD: Final = 0.1  # with fewer wrong labels than one in ten, the page says that a review should stop
_CHOICES: Final = 5  # likely classes that are kept per sample


Singles = npt.NDArray[np.float32]


class Posterior(NamedTuple):
    """Of every sample: the log-odds of a wrong label, the likeliest classes, and their probabilities."""

    score: Floats
    choices: Ints
    likelihoods: Floats


def posterior_of_scores(
    fit: NoiseFit, table: npt.NDArray[Any], kind: Kind, gap: float, labels: Ints, shift: float
) -> Posterior:
    """The posterior of every row, with ``shift`` added to its log-odds.

    Rows are processed in chunks, because only a few numbers per sample are kept.
    """
    shape = len(labels), min(_CHOICES, table.shape[1])
    result = Posterior(np.empty(len(labels)), np.empty(shape, np.int64), np.empty(shape))

    def fill(rows: slice) -> None:
        evidence = fit.evidence(to_margins(table[rows], kind, gap), labels[rows])
        result.score[rows] = log_odds(evidence, labels[rows]) + shift
        result.choices[rows], result.likelihoods[rows] = likely_classes(evidence, labels[rows], result.score[rows])

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(fill, chunks(table.shape)))
    return result


def shares_of_scores(
    fit: NoiseFit, table: npt.NDArray[Any], kind: Kind, gap: float, labels: Ints, score: Floats
) -> Singles:
    """The probability of every true class, one row per sample, if these are the log-odds of a wrong label."""
    result: Singles = np.empty(table.shape, np.float32)

    def fill(rows: slice) -> None:
        evidence = fit.evidence(to_margins(table[rows], kind, gap), labels[rows])
        result[rows] = class_shares(evidence, labels[rows], score[rows])

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(fill, chunks(table.shape)))
    return result


def class_shares(evidence: Floats, labels: Ints, score: Floats) -> Floats:
    """The probability of every true class: the label has its own; the others share the rest by their evidence."""
    rows = np.arange(len(labels))
    others = evidence.copy()
    others[rows, labels] = -np.inf
    others = np.exp(others - others.max(1, keepdims=True))
    wrong = np.exp(-np.logaddexp(0, -score))
    shares = others / others.sum(1, keepdims=True) * wrong[:, None]
    shares[rows, labels] = np.exp(-np.logaddexp(0, score))
    return np.asarray(shares)


def likely_classes(evidence: Floats, labels: Ints, score: Floats) -> tuple[Ints, Floats]:
    """The likeliest true classes, and their probabilities."""
    rows = np.arange(len(labels))
    shares = class_shares(evidence, labels, score)
    classes, likelihoods = np.empty((2, min(_CHOICES, shares.shape[1]), len(labels)))
    for place in range(len(classes)):
        # Ties: the given label comes first, then the class with the lower number.
        top = shares.argmax(1)
        top = np.where(shares[rows, labels] == shares[rows, top], labels, top)
        classes[place], likelihoods[place] = top, shares[rows, top]
        shares[rows, top] = -1
    return classes.T.astype(np.int64), likelihoods.T


def best_threshold(wrong: Floats) -> float:
    """The probability above which the expected F1 of finding wrong labels is best.

    If hardly any label is wrong that could be any probability, so there is a lowest threshold.
    """
    ordered = np.sort(wrong)[::-1]
    expected = 2 * np.cumsum(ordered) / (np.arange(1, len(ordered) + 1) + wrong.sum())
    return max(float(ordered[expected.argmax()]), _LOWEST_THRESHOLD)


def values_at_same_ranks(own: Floats, other: Floats) -> Floats:
    """The values of ``other`` at the ranks of ``own``, as shares of the length; ties keep the order of ``own``."""
    rank = np.empty(len(own))
    rank[np.argsort(own, kind="stable")] = (np.arange(len(own)) + 0.5) / len(own)
    return np.interp(rank, (np.arange(len(other)) + 0.5) / len(other), np.sort(other)) + 1e-6 * rank
