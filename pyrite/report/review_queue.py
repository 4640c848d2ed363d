"""The queue of labels a person should look at, as compact as a page needs it: columns of numbers, and sheets."""

import base64
import hashlib
from collections.abc import Sequence
from typing import Any, NamedTuple, final

import numpy as np
import numpy.typing as npt

from pyrite.auditing import Audit
from pyrite.data import Dataset
from pyrite.diagnostics.arrays import Floats, Ints
from pyrite.report.inline import as_json
from pyrite.report.thumbnails import make_sheets

__all__ = ["Queue", "make_queue"]

_WITHOUT_SUSPECTS = 200  # so much of the ranking is shown where nothing is a suspect
_MOST = 100_000  # more than anybody looks at; the ranking has them all
_PAGE = 18_000_000  # what a page may take without its frame, in bytes; base64 makes four of three
_PICTURES = 12_000_000
_TYPICAL = 200_000  # numbers that say what is typical of a class; with more, they are left out


@final
class Queue(NamedTuple):
    """What is reviewed.

    Attributes:
        rows: rows of the audit, in the order of the queue.
        cut: suspects that are not in it, because nobody looks at so many.
        data: for the script of the page, ready for JSON.
        sheets: pictures, as base64.
        kind: "images", "table" or "" where there is nothing to show of a sample.
        shown: how many samples have a picture or a row of values.
    """

    rows: Ints
    cut: int
    data: dict[str, Any]
    sheets: list[str]
    kind: str
    shown: int


def make_queue(found: Audit, data: Dataset | None = None, columns: Sequence[str] = ()) -> Queue:
    """The suspects in order, or the head of the ranking if there are none."""
    suspects = found.ranking[found.is_suspect[found.ranking]]
    rows = suspects[:_MOST] if len(suspects) else found.ranking[:_WITHOUT_SUSPECTS]
    number = "u2" if len(found.classes) <= 2**16 else "u4"
    queue = {
        "fingerprint": fingerprint(found),
        "classes": list(found.classes),
        "canTell": found.can_tell,
        "index": _column(found.index[rows], "u4"),
        "given": _column(found.labels[rows], number),
        "score": _column(found.score[rows], "f4"),
        "width": found.choices.shape[1],
        "choices": _column(found.choices[rows], number),
        "likelihoods": _column(found.likelihoods[rows], "f4"),
        "evidence": [
            {"name": name, "values": _column(values[rows], "f4"), "ranks": _column(_ranks(values, rows), "u1")}
            for name, values in found.evidence.items()
        ],
        "paths": [found.paths[row] for row in rows.tolist()] if found.paths else [],
    }
    cut = max(0, len(suspects) - len(rows))
    if data is None:
        return Queue(rows, cut, queue, [], "", 0)
    budget = max(0, min(_PICTURES, (_PAGE - len(as_json(queue))) * 3 // 4))
    if data.inputs.ndim == 4:
        sheets = make_sheets(data.inputs, found.index[rows], budget)
        queue["pictures"] = {
            "width": sheets.width,
            "height": sheets.height,
            "pitch": list(sheets.pitch),
            "columns": sheets.columns,
            "perSheet": sheets.per_sheet,
            "place": _column(sheets.place, "u4"),
        }
        return Queue(rows, cut, queue, sheets.images, "images", int((sheets.place > 0).sum()))
    table = _table(found, data, rows, columns, budget)
    return Queue(rows, cut, queue | {"table": table}, [], "table", table["rows"])


def fingerprint(found: Audit) -> str:
    """What tells this audit from another: decisions are saved under it, and belong to no other."""
    digest = hashlib.sha256()
    for part in (found.labels, found.index, found.score, found.choices):
        digest.update(np.ascontiguousarray(part).tobytes())
    digest.update("\0".join(found.classes).encode(errors="surrogatepass"))
    return digest.hexdigest()[:20]


def _column(values: npt.NDArray[Any], kind: str) -> dict[str, str]:
    """Numbers as base64 of their bytes: a third of what they take as digits, and nothing to parse."""
    return {"kind": kind, "data": base64.b64encode(np.ascontiguousarray(values, f"<{kind}").tobytes()).decode()}


def _ranks(values: Floats, rows: Ints) -> Ints:
    """How many per cent of all samples lie below; 255 where a value is not known."""
    known = np.sort(values[~np.isnan(values)])
    below = np.searchsorted(known, values[rows]) * 100 // max(1, len(known))
    return np.where(np.isnan(values[rows]), 255, below)


def _table(found: Audit, data: Dataset, rows: Ints, columns: Sequence[str], budget: int) -> dict[str, Any]:
    """Values of the first samples, as many as there is room for, and what is typical of each class.

    They are float64, as in the data: in float32 a time in seconds would be the same for all samples.
    """
    inputs = np.asarray(data.inputs)
    features = inputs.shape[1]
    if columns and len(columns) != features:
        raise ValueError(f"columns has {len(columns)} names, but there are {features} features")
    count = min(len(rows), budget // max(1, 8 * features))
    small = len(found.classes) * features <= _TYPICAL
    return {
        "rows": count,
        "names": list(columns) or [f"feature {number}" for number in range(features)],
        "values": _column(inputs[found.index[rows[:count]]], "f8"),
        "typical": _column(_typical(found, inputs), "f8") if small else None,
    }


def _typical(found: Audit, inputs: npt.NDArray[Any]) -> Floats:
    """The mean of every feature over the labels of each class that are not suspects; NaN where there is none."""
    means = np.full((len(found.classes), inputs.shape[1]), np.nan)
    for number in range(len(means)):
        some = inputs[found.index[(found.labels == number) & ~found.is_suspect]].astype(np.float64)
        known = np.isfinite(some)
        counts = known.sum(0)
        means[number] = np.where(counts, np.where(known, some, 0).sum(0) / np.maximum(counts, 1), np.nan)
    return means
