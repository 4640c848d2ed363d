"""Checks of the scores and labels that a user passes, and their margins in a scale that does not depend on theirs."""

from collections.abc import Iterator
from typing import Any, Final, Literal, get_args

import numpy as np
import numpy.typing as npt
import torch

from pyrite.auditing.gaps import typical_gap
from pyrite.diagnostics.arrays import Floats, Ints, to_ints
from pyrite.errors import PyriteError
from pyrite.soft_margin import margins

__all__ = ["Kind", "check_labels", "check_scores", "chunks", "gap_of", "to_logits", "to_margins"]

Kind = Literal["logits", "probabilities", "log-probabilities"]

_CHUNK: Final = 1 << 19  # scores worked on at once: 4 MiB in float64
# The tolerance for sums of probabilities. In float16 the logarithm of a small one has errors of some thousandths.
_TOLERANCE: Final = 1e-3
_HALF_TOLERANCE: Final = 1e-2
_CERTAIN: Final = 30.0  # probabilities below 1e-13 of the largest, including 0, are taken as that
_GAP: Final = 2.0  # scores are scaled to this typical gap; on noisy digits 1 to 4 differ by 0.002 in average precision
_FARTHEST: Final = 5000.0  # scaled scores so far below the first class are bounded, so that none overflows


def chunks(shape: tuple[int, ...]) -> Iterator[slice]:
    """Slices of rows that are processed together."""
    size = max(_CHUNK // shape[1], 1)
    return (slice(start, start + size) for start in range(0, shape[0], size))


def gap_of(scores: npt.NDArray[Any], kind: Kind) -> float:
    """The unit in which scores are measured, so that the result of an audit does not depend on their scale.

    The temperature of a net is arbitrary, in the logits as in the probabilities it gives: only the order of the classes
    and the ratios of the differences are evidence, and the fit of the noise finds the sharpness.
    """
    return typical_gap(to_logits(scores, kind))


def to_margins(scores: npt.NDArray[Any], kind: Kind, gap: float) -> Floats:
    """The margins of every class, with scores in units of this gap."""
    with np.errstate(over="ignore"):  # what overflows is bounded like all that is far below the first class
        values = np.maximum(to_logits(scores, kind) / gap * _GAP, -_FARTHEST)
    result: Floats = margins(torch.from_numpy(values)).numpy()
    return result


def to_logits(scores: npt.NDArray[Any], kind: Kind) -> Floats:
    """Logits in half of their unit, 0 at the largest of each row.

    Halves, because the difference of two large numbers overflows. Probabilities have a natural scale, so there is a
    smallest one that means anything; logits have none.
    """
    values = np.ascontiguousarray(scores, np.float64)
    if kind == "probabilities":
        with np.errstate(divide="ignore"):
            values = np.log(values)
    values = 0.5 * values
    values -= values.max(1, keepdims=True)
    return values if kind == "logits" else np.maximum(values, -0.5 * _CERTAIN)


def check_labels(labels: object) -> Ints:
    """The labels as class numbers; ``ValueError`` names the index of the first that is not one."""
    missing = np.ma.getmaskarray(labels) if isinstance(labels, np.ma.MaskedArray) else np.zeros(0, bool)
    if missing.any():
        raise PyriteError(f"labels is masked at index {int(missing.argmax())}: leave out samples without a label")
    if isinstance(labels, np.ndarray) and labels.ndim == 1 and labels.dtype.kind == "f":
        unknown = ~np.isfinite(labels)
        if unknown.any():
            first = int(unknown.argmax())
            raise PyriteError(f"labels is {labels[first]} at index {first}: leave out samples without a label")
    return to_ints(labels, "labels", least=0)


def check_scores(scores: object, labels: Ints, kind: object) -> npt.NDArray[Any]:
    """Raise ``ValueError`` for scores that do not fit the labels or the kind, with the first such row."""
    if kind not in get_args(Kind):
        known = ", ".join(get_args(Kind))
        raise PyriteError(f"kind is {kind!r}, but must be one of {known}: what the scores are is not guessed")
    table = _table(scores)
    if table.ndim != 2 or table.dtype.kind not in "fiu":
        raise PyriteError(
            f"scores are {table.dtype} of shape {table.shape}, but must be numbers: one row per sample, one column per "
            "class"
        )
    if len(table) != len(labels):
        raise PyriteError(f"there are {len(table)} rows of scores but {len(labels)} labels")
    if table.shape[1] < 2:
        raise PyriteError("scores have one column: with one class no label can be wrong")
    if labels.size and labels.max() >= table.shape[1]:
        first = int((labels >= table.shape[1]).argmax())
        raise PyriteError(f"label {labels[first]} at index {first} has no column: scores have {table.shape[1]}")
    for rows in chunks(table.shape):
        _check_rows(table[rows], str(kind), rows.start)
    return table


def _table(scores: object) -> npt.NDArray[Any]:
    """The scores as an array, without a copy, so that a memory-mapped .npy file stays on disk."""
    if isinstance(scores, torch.Tensor):
        scores = scores.detach().cpu()
        scores = scores.float().numpy() if scores.dtype == torch.bfloat16 else scores.numpy()  # numpy has no bfloat16
    if isinstance(scores, np.ma.MaskedArray):
        masked = np.ma.getmaskarray(scores)
        if masked.any():
            raise PyriteError(f"scores are masked in row {int(np.argwhere(masked)[0][0])}: every class needs a score")
        scores = np.ma.getdata(scores)
    try:
        return scores if isinstance(scores, np.ndarray) else np.asarray(scores)
    except ValueError as error:
        raise PyriteError(f"scores cannot be read as an array: {error}") from None


def _check_rows(rows: npt.NDArray[Any], kind: str, start: int) -> None:
    """Raise ``ValueError`` if these are not scores of this kind, with the number of the first such row."""
    bad = ~np.isfinite(rows) if kind != "log-probabilities" else np.isnan(rows) | (rows == np.inf)
    if bad.any():
        first = int(bad.any(1).argmax())
        raise PyriteError(f"scores are {rows[first][bad[first]][0]} in row {start + first}")
    if kind == "logits":
        return
    with np.errstate(over="ignore"):
        shares = rows.astype(np.float64) if kind == "probabilities" else np.exp(rows.astype(np.float64))
    off = (shares < 0).any(1) | (abs(shares.sum(1) - 1) > (_HALF_TOLERANCE if rows.dtype == np.float16 else _TOLERANCE))
    if off.any():
        first = int(off.argmax())
        raise PyriteError(
            f"row {start + first} of the scores does not hold {kind}: they add up to {shares[first].sum():.6g}, the "
            f"smallest is {rows[first].min():.6g}"
        )
