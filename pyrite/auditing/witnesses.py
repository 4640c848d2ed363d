"""Scores of several models as one table, and scores by neighbours: more evidence than the scores of one model."""

from collections.abc import Sequence
from itertools import combinations
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import softmax

from pyrite.auditing.scores import Kind, check_scores, chunks, gap_of, to_logits
from pyrite.diagnostics.arrays import Floats, Ints, to_floats
from pyrite.errors import PyriteError

__all__ = ["Opinions", "Witnesses", "gather", "neighbour_scores", "several"]

_NEIGHBOURS: Final = 20
_SHARPNESS: Final = 4.0  # of the probabilities that are averaged: a sample with the typical gap has odds of e⁴


class Opinions(NamedTuple):
    """What two models prefer beside the labels, averaged over all pairs of models.

    Attributes:
        disagreement: the share of samples for which they prefer different classes.
        differ: the share of labels that differ from the class that both prefer, of the samples where they agree; 1 if
            they never do.
        neither: the share of labels that neither prefers, of the samples where they disagree; 0 if they never do.
    """

    disagreement: float
    differ: float
    neither: float

    @classmethod
    def of(cls, one: Ints, two: Ints, labels: Ints) -> "Opinions":
        """The opinions of one pair, from the classes that they prefer."""
        agree = one == two
        neither = (one != labels) & (two != labels)
        return cls(
            float((~agree).mean()),
            float(neither[agree].mean()) if agree.any() else 1.0,
            float(neither[~agree].mean()) if not agree.all() else 0.0,
        )

    @property
    def highest_rate(self) -> float:
        """The share of wrong labels if models are right where they agree, and one of them is where they disagree.

        Where they disagree, labels are taken to be wrong as often as elsewhere, but all are that neither prefers.
        """
        return self.differ + self.disagreement * max(self.neither - self.differ, 0.0)


class Witnesses(NamedTuple):
    """The scores of one or more models.

    Attributes:
        table: one row per sample, one column per class.
        kind: what the scores are.
        opinions: what the models prefer beside the labels; None with one model.
    """

    table: npt.NDArray[Any]
    kind: Kind
    opinions: Opinions | None = None


def several(scores: object) -> Sequence[object]:
    """The tables of scores: a list of tables, or one table, which may be a list of rows."""
    if isinstance(scores, list | tuple) and any(getattr(each, "ndim", 0) == 2 for each in scores):
        return scores
    return [scores]


def gather(scores: object, embeddings: object | None, labels: Ints, kind: Kind | None) -> Witnesses:
    """The evidence of all models, and of neighbours by embeddings, as one table.

    Of several models the scores are divided by their typical gap, so that none counts more because of its scale, and
    their probabilities are averaged. Logits would give a model that is certain by mistake the last word.
    """
    tables = [check_scores(each, labels, kind) for each in several(scores)]
    assert kind is not None
    logits = [(table, kind) for table in tables]
    if embeddings is not None:
        logits.append((neighbour_scores(embeddings, labels, tables[0].shape[1]), "logits"))
    if len(logits) == 1:
        return Witnesses(tables[0], kind)
    if len({table.shape for table, _ in logits}) > 1:
        raise PyriteError(f"scores have the shapes {', '.join(str(table.shape) for table, _ in logits)}")
    mean = np.zeros(tables[0].shape, np.float32)
    for table, own_kind in logits:
        gap = gap_of(table, own_kind)
        for rows in chunks(table.shape):
            with np.errstate(over="ignore"):  # a class that is infinitely far below the first has the probability 0
                sharp = _SHARPNESS * (to_logits(table[rows], own_kind) / gap)
            mean[rows] += softmax(sharp, axis=1) / len(logits)
    preferred = [table.argmax(1) for table, _ in logits]
    pairs = [Opinions.of(one, two, labels) for one, two in combinations(preferred, 2)]
    return Witnesses(mean, "probabilities", Opinions(*np.mean(pairs, axis=0).tolist()))


def neighbour_scores(embeddings: object, labels: Ints, classes: int) -> Floats:
    """Logarithms of the shares of each class among the labels of a sample's nearest neighbours, without its own label.

    Distances are angles. Every class gets its share of one more neighbour, so that no share is 0.
    """
    from sklearn.neighbors import NearestNeighbors

    points = to_floats(embeddings, "embeddings", ndim=2)
    if len(points) != len(labels):
        raise PyriteError(f"there are {len(points)} embeddings but {len(labels)} labels")
    count = min(_NEIGHBOURS, len(labels) - 1)
    # Without points to look up, scikit-learn leaves out each point itself.
    found = NearestNeighbors(n_neighbors=count, metric="cosine").fit(points).kneighbors(return_distance=False)
    votes = labels[found]
    shares = np.tile(np.bincount(labels, minlength=classes) / len(labels), (len(labels), 1))
    np.add.at(shares, (np.arange(len(labels))[:, None], votes), 1.0)
    with np.errstate(divide="ignore"):
        return np.maximum(np.log(shares / (count + 1)), np.log(1e-6))
