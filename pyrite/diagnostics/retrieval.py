"""Retrieval by embeddings: mean average precision and cumulative matching characteristic."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, final

import numpy as np

from pyrite.arrays import Flags, Floats, Ints, check_same_length, to_floats, to_ints
from pyrite.checks import one_of, whole_number
from pyrite.errors import PyriteError


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
    """The embedding of each run of frames from ``start`` up to ``stop``: their mean, scaled to length 1.

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
    chunk: int = 256,
) -> Retrieval:
    """Rank the gallery for each query by cosine similarity, and measure how early the same identity comes.

    Gallery entries with the identity and the camera of the query are ignored, and so is ``junk``; ``distractors`` are
    ranked and never match. So the gallery may include the queries, as in the evaluation of MARS, whose numbers for
    distractors and junk are the defaults: where identities count from 0, pass ``()``. Of equal similarities, entries
    that do not match come first, so that a collapsed model gets no undeserved credit.

    ``precision="trapezoids"`` averages the precision before and at each match, as the authors of MARS do; they also
    divide by all queries, those without a match included. ``"steps"`` is the usual average precision.
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
    for start in range(0, len(wanted), whole_number("chunk", chunk, least=1)):
        similarity = queries[start : start + chunk] @ entries.T
        for row, values in enumerate(similarity, start):
            same = identity == wanted[row]
            usable = ~(ignored | (same & (camera == own_camera[row])))
            match = same & ~no_match & usable
            others = usable & ~match
            average[row], first[row] = _average_precision(values[match], values[others], precision == "trapezoids")
    found: Flags = first > 0
    count = int(np.count_nonzero(found))
    ranks = [whole_number("rank", rank, least=1) for rank in ranks]
    cmc = {rank: float(np.mean(first[found] <= rank)) if count else None for rank in ranks}
    return Retrieval(float(average[found].mean()) if count else None, cmc, count, len(first) - count, average, first)


def _average_precision(matches: Floats, others: Floats, trapezoids: bool) -> tuple[float, int]:
    """Average precision, and the rank of the first match."""
    if not len(matches):
        return np.nan, 0
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
