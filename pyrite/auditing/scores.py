"""Scores at the door: of a kind that is said, looked through in chunks, and turned to margins."""

from collections.abc import Iterator
from typing import Any, Final, Literal, get_args

import numpy as np
import numpy.typing as npt
import torch

from pyrite.diagnostics.arrays import Floats, Ints
from pyrite.soft_margin import margins

__all__ = ["Kind", "check_scores", "chunks", "to_margins"]

Kind = Literal["logits", "probabilities", "log-probabilities"]

_CHUNK: Final = 1 << 19  # scores worked on at once: 4 MiB in float64
# By how much probabilities may miss 1. In float16 the logarithm of a small one is good to some thousandths only.
_SUM: Final = 1e-3
_SUM_OF_HALVES: Final = 1e-2


def chunks(shape: tuple[int, ...]) -> Iterator[slice]:
    """Rows that are worked on together."""
    size = max(_CHUNK // shape[1], 1)
    return (slice(start, start + size) for start in range(0, shape[0], size))


def to_margins(scores: npt.NDArray[Any], kind: Kind) -> Floats:
    """Margins of every class. Logits and log-probabilities differ by a number a row, which margins do not see."""
    values = np.ascontiguousarray(scores, np.float64)
    if kind == "probabilities":
        with np.errstate(divide="ignore"):
            values = np.log(values)
    # The smallest probability that float64 knows stands for none at all.
    found: Floats = margins(torch.from_numpy(np.maximum(values, values.max(1, keepdims=True) - 745))).numpy()
    return found


def check_scores(scores: object, labels: Ints, kind: object) -> npt.NDArray[Any]:
    """Refuse what does not fit the labels, or is not of this kind; the first offender is named by its row."""
    if kind not in get_args(Kind):
        known = ", ".join(get_args(Kind))
        raise ValueError(f"kind is {kind!r}, but must be one of {known}: what the scores are is not guessed")
    table = _table(scores)
    if table.ndim != 2 or table.dtype.kind not in "fiu":
        raise ValueError(
            f"scores are {table.dtype} of shape {table.shape}, but must be numbers, a row a sample, a column a class"
        )
    if len(table) != len(labels):
        raise ValueError(f"there are {len(table)} rows of scores but {len(labels)} labels")
    if table.shape[1] < 2:
        raise ValueError("scores have one column: with one class no label can be wrong")
    if labels.size and labels.max() >= table.shape[1]:
        first = int((labels >= table.shape[1]).argmax())
        raise ValueError(f"label {labels[first]} at index {first} has no column: scores have {table.shape[1]}")
    for rows in chunks(table.shape):
        _check_rows(table[rows], str(kind), rows.start)
    return table


def _table(scores: object) -> npt.NDArray[Any]:
    """As they are, not copied: a .npy file that is mapped stays where it lies."""
    if isinstance(scores, torch.Tensor):
        scores = scores.detach().cpu()
        scores = scores.float().numpy() if scores.dtype == torch.bfloat16 else scores.numpy()  # numpy has no bfloat16
    try:
        return scores if isinstance(scores, np.ndarray) else np.asarray(scores)
    except ValueError as error:
        raise ValueError(f"scores cannot be read as an array: {error}") from None


def _check_rows(rows: npt.NDArray[Any], kind: str, start: int) -> None:
    """Refuse what cannot be scores of this kind, by the number of the first row."""
    endless = ~np.isfinite(rows) if kind != "log-probabilities" else np.isnan(rows) | (rows == np.inf)
    if endless.any():
        first = int(endless.any(1).argmax())
        raise ValueError(f"scores are {rows[first][endless[first]][0]} in row {start + first}")
    if kind == "logits":
        return
    with np.errstate(over="ignore"):
        shares = rows.astype(np.float64) if kind == "probabilities" else np.exp(rows.astype(np.float64))
    off = (shares < 0).any(1) | (abs(shares.sum(1) - 1) > (_SUM_OF_HALVES if rows.dtype == np.float16 else _SUM))
    if off.any():
        first = int(off.argmax())
        raise ValueError(
            f"row {start + first} of the scores does not hold {kind}: they add up to {shares[first].sum():.6g}, the "
            f"smallest is {rows[first].min():.6g}"
        )
