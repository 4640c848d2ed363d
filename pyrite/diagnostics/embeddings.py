"""Measures of embeddings: retrieval, and the local intrinsic dimension."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, final

import numpy as np

from pyrite.arrays import Flags, Floats, Ints, check_same_length, to_floats, to_ints
from pyrite.checks import one_of, whole_number
from pyrite.errors import PyriteError

_BLOCK: Final = 256  # rows of a matrix of distances that are computed at a time


@final
@dataclass(frozen=True, eq=False)
class Retrieval:
    """The result of searching for queries in a gallery.

    Attributes:
        mean_average_precision: over the queries that have a match in the gallery; None if none has.
        cmc: for each rank r, the fraction of those queries with a match among the first r.
        queries: the number of queries with a match.
        without_match: the number of queries without one.
        average_precision: of every query; NaN without a match.
        first_match: the rank of the first match of every query; 0 without one.
    """

    mean_average_precision: float | None
    cmc: Mapping[int, float | None]
    queries: int
    without_match: int
    average_precision: Floats
    first_match: Ints


def embed_sets(frames: object, start: object, stop: object) -> Floats:
    """The embedding of each set of frames from ``start`` up to ``stop``: their mean, normalised to length 1.

    >>> embed_sets([[3.0, 0.0], [3.0, 8.0], [0.0, 2.0]], start=[0, 2], stop=[2, 3])
    array([[0.6, 0.8],
           [0. , 1. ]])
    """
    rows = to_floats(frames, "frames", ndim=2)
    begin, end = to_ints(start, "start", least=0), to_ints(stop, "stop")
    check_same_length(start=begin, stop=end)
    wrong = (end <= begin) | (end > len(rows))
    if wrong.any():
        first = int(wrong.argmax())
        raise PyriteError(f"set {first} runs from {begin[first]} to {end[first]}, of {len(rows)} frames")
    means = [rows[a:b].mean(0) for a, b in zip(begin, end, strict=True)]
    return _unit(np.stack(means) if means else np.empty((0, rows.shape[1])), "the mean of set")


def retrieve(
    query: object,
    gallery: object,
    *,
    query_identity: object,
    gallery_identity: object,
    query_camera: object | None = None,
    gallery_camera: object | None = None,
    ranks: Sequence[int] = (1, 5, 10, 20),
    distractors: Collection[int] = (0,),
    junk: Collection[int] = (-1,),
    precision: Literal["steps", "trapezoids"] = "steps",
) -> Retrieval:
    """Rank the gallery for each query by cosine similarity, and measure at which ranks the same identity occurs.

    Gallery entries with the identity and the camera of the query are ignored, so the gallery may include the queries.
    ``junk`` is ignored too; ``distractors`` are ranked and never match. The defaults are the numbers of MARS; if
    identities count from 0, pass ``()`` for both. For equal similarities, entries that do not match are ranked first,
    so a collapsed model does not benefit from ties.

    ``precision="steps"`` is the standard average precision. ``"trapezoids"`` averages the precision before and at each
    match, as the authors of MARS do; they also divide by all queries, including those without a match.
    """
    queries, entries = (_unit(to_floats(v, n, ndim=2), n) for v, n in ((query, "query"), (gallery, "gallery")))
    if queries.shape[1] != entries.shape[1]:
        raise PyriteError(f"query has {queries.shape[1]} dimensions, gallery has {entries.shape[1]}")
    if (query_camera is None) != (gallery_camera is None):
        raise PyriteError("only one of query_camera and gallery_camera is given: pass both or neither")
    one_of("precision", precision, ("steps", "trapezoids"))
    wanted, identity = to_ints(query_identity, "query_identity"), to_ints(gallery_identity, "gallery_identity")
    # Without cameras, those of queries and gallery are never equal.
    own_camera = to_ints(np.zeros_like(wanted) if query_camera is None else query_camera, "query_camera")
    camera = to_ints(np.ones_like(identity) if gallery_camera is None else gallery_camera, "gallery_camera")
    check_same_length(query=queries, query_identity=wanted, query_camera=own_camera)
    check_same_length(gallery=entries, gallery_identity=identity, gallery_camera=camera)
    no_match, ignored = np.isin(identity, [*distractors, *junk]), np.isin(identity, list(junk))
    average, first = np.full(len(wanted), np.nan), np.zeros(len(wanted), np.int64)
    for start in range(0, len(wanted), _BLOCK):
        similarity = queries[start : start + _BLOCK] @ entries.T
        for row, values in enumerate(similarity, start):
            same = identity == wanted[row]
            usable = ~(ignored | (same & (camera == own_camera[row])))
            match = same & ~no_match & usable
            if match.any():
                average[row], first[row] = _ranked(values[match], values[usable & ~match], precision == "trapezoids")
    found: Flags = first > 0
    count = int(np.count_nonzero(found))
    ranks = [whole_number("rank", rank, least=1) for rank in ranks]
    cmc = {rank: float(np.mean(first[found] <= rank)) if count else None for rank in ranks}
    return Retrieval(float(average[found].mean()) if count else None, cmc, count, len(first) - count, average, first)


def _ranked(matches: Floats, others: Floats, trapezoids: bool) -> tuple[float, int]:
    """Average precision, and the rank of the first match."""
    count = np.arange(1, len(matches) + 1)
    ahead = len(others) - np.searchsorted(np.sort(others), np.sort(matches)[::-1], side="left")
    rank = ahead + count
    precision = count / rank
    if trapezoids:
        before = np.where(rank > 1, (count - 1) / np.maximum(rank - 1, 1), 1.0)
        precision = (before + precision) / 2
    return float(precision.mean()), int(rank[0])


def _unit(rows: Floats, name: str) -> Floats:
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    if not length.all():
        raise PyriteError(f"{name} {int((length[:, 0] == 0).argmax())} is all 0, so it has no cosine similarity")
    return np.asarray(rows / length)


def local_intrinsic_dimension(points: object, k: int = 20, among: object | None = None) -> Floats:
    """The local intrinsic dimension at each point, estimated from its k nearest neighbours in ``among`` or ``points``.

    With distances r_1 ≤ … ≤ r_k, the maximum-likelihood estimate is (k − 1) / Σ_{i<k} log(r_k / r_i) (Levina & Bickel,
    2004). The k-th distance only sets the scale, so k − 1 ratios are averaged. The formula in the D2L paper divides by
    k and is larger by k / (k − 1); public code that uses k − 1 neighbours and divides by k differs more. D2L uses only
    ratios of these values, in which the factor cancels.

    The point itself and its duplicates are not neighbours, because their ratios would be infinite. The result is NaN if
    there are fewer than k neighbours, and infinite if all k are equally distant.
    """
    from scipy.spatial.distance import cdist

    rows = to_floats(points, "points", ndim=2)
    others = rows if among is None else to_floats(among, "among", ndim=2)
    if rows.shape[1] != others.shape[1]:
        raise PyriteError(f"points have {rows.shape[1]} dimensions, among has {others.shape[1]}")
    whole_number("k", k, least=2)
    dimension = np.full(len(rows), np.nan)
    for start in range(0, len(rows) if len(others) >= k else 0, _BLOCK):
        distance = cdist(rows[start : start + _BLOCK], others)
        distance[distance == 0] = np.inf
        nearest = np.sort(np.partition(distance, k - 1)[:, :k])
        complete = np.isfinite(nearest[:, -1])
        log_ratios = np.log(nearest[complete, -1:] / nearest[complete, :-1]).sum(1)
        with np.errstate(divide="ignore"):
            dimension[start : start + _BLOCK][complete] = (k - 1) / log_ratios
    return dimension
