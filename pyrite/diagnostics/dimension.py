"""Local intrinsic dimension, estimated from the distances to the nearest neighbours."""

from typing import Final

import numpy as np

from pyrite.checks import whole_number
from pyrite.diagnostics.arrays import Floats, to_floats
from pyrite.errors import PyriteError

__all__ = ["local_intrinsic_dimension"]

# Squared distances below this share of the squared norms are lost to cancellation in a·a − 2a·b + b·b.
_CANCELS: Final = 1e-9


def local_intrinsic_dimension(points: object, k: int = 20, among: object | None = None, chunk: int = 512) -> Floats:
    """The maximum-likelihood estimate at each point, from its k nearest neighbours in ``among`` (or ``points``).

    With distances r_1 ≤ … ≤ r_k it is (k − 1) / Σ_{i<k} log(r_k / r_i) (Levina & Bickel, 2004): the k-th distance
    only sets the scale, so k − 1 ratios are averaged. The formula printed with D2L divides by k and
    is larger by k / (k − 1); public code that takes k − 1 neighbours and still divides by k is further off. D2L uses
    only ratios of these numbers, in which the factor cancels.

    The point itself and its duplicates are not neighbours: their ratio would be infinite. The result is NaN where there
    are fewer than k neighbours, and infinite where all k are equally far.
    """
    rows = to_floats(points, "points", ndim=2)
    others = rows if among is None else to_floats(among, "among", ndim=2)
    if rows.shape[1] != others.shape[1]:
        raise PyriteError(f"points have {rows.shape[1]} dimensions, among has {others.shape[1]}")
    whole_number("k", k, least=2)
    whole_number("chunk", chunk, least=1)
    dimension = np.full(len(rows), np.nan)
    if len(others) < k:
        return dimension
    centre = others.mean(0)
    rows, others = rows - centre, others - centre
    for start in range(0, len(rows), chunk):
        part = slice(start, start + chunk)
        dimension[part] = _estimate(_nearest(rows[part], others, k))
    return dimension


def _nearest(rows: Floats, others: Floats, k: int) -> Floats:
    """Distances of the k nearest at a distance above 0, ascending; infinite where there are fewer."""
    scale = np.square(rows).sum(1)[:, None] + np.square(others).sum(1)
    squares = scale - 2 * (rows @ others.T)
    row, column = np.nonzero(squares <= _CANCELS * scale)
    exact = np.square(rows[row] - others[column]).sum(1)
    squares[row, column] = np.where(exact > 0, exact, np.inf)
    nearest = np.argpartition(squares, k - 1, axis=1)[:, :k]
    # The neighbours are found by products; their distances are computed from differences, which lose no digits.
    distance = np.sqrt(np.square(rows[:, None] - others[nearest]).sum(2))
    distance[np.isinf(np.take_along_axis(squares, nearest, 1))] = np.inf
    return np.sort(distance, axis=1)


def _estimate(distance: Floats) -> Floats:
    k = distance.shape[1]
    estimate = np.full(len(distance), np.nan)
    complete = np.isfinite(distance[:, -1])
    log_ratios = (np.log(distance[complete, -1:]) - np.log(distance[complete, :-1])).sum(1)
    estimate[complete] = np.where(log_ratios > 0, (k - 1) / np.where(log_ratios > 0, log_ratios, 1), np.inf)
    return estimate
