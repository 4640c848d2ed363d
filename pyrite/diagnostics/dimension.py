"""Local intrinsic dimension, estimated from the distances to the nearest neighbours."""

import numpy as np

from pyrite.arrays import Floats, to_floats
from pyrite.checks import whole_number
from pyrite.errors import PyriteError


def local_intrinsic_dimension(points: object, k: int = 20, among: object | None = None, chunk: int = 512) -> Floats:
    """The maximum-likelihood estimate at each point, from its k nearest neighbours in ``among`` (or ``points``).

    With distances r_1 ≤ … ≤ r_k it is (k − 1) / Σ_{i<k} log(r_k / r_i) (Levina & Bickel, 2004): the k-th distance
    only sets the scale, so k − 1 ratios are averaged. The formula printed with D2L divides by k and
    is larger by k / (k − 1); public code that takes k − 1 neighbours and still divides by k is further off. D2L uses
    only ratios of these numbers, in which the factor cancels.

    The point itself and its duplicates are not neighbours: their ratio would be infinite. The result is NaN where there
    are fewer than k neighbours, and infinite where all k are equally far.
    """
    from scipy.spatial.distance import cdist

    rows = to_floats(points, "points", ndim=2)
    others = rows if among is None else to_floats(among, "among", ndim=2)
    if rows.shape[1] != others.shape[1]:
        raise PyriteError(f"points have {rows.shape[1]} dimensions, among has {others.shape[1]}")
    whole_number("k", k, least=2)
    whole_number("chunk", chunk, least=1)
    dimension = np.full(len(rows), np.nan)
    if len(others) < k:
        return dimension
    for start in range(0, len(rows), chunk):
        distance = cdist(rows[start : start + chunk], others)
        distance[distance == 0] = np.inf
        nearest = np.sort(np.partition(distance, k - 1)[:, :k])
        complete = np.isfinite(nearest[:, -1])
        log_ratios = np.log(nearest[complete, -1:] / nearest[complete, :-1]).sum(1)
        with np.errstate(divide="ignore"):
            dimension[start : start + chunk][complete] = (k - 1) / log_ratios
    return dimension
