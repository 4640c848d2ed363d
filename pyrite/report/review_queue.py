"""The queue of labels for review, in a compact form for the page: columns of numbers, and sheets of pictures."""

import base64
import hashlib
from collections.abc import Sequence
from typing import Any, NamedTuple, final

import numpy as np
import numpy.typing as npt

from pyrite.auditing import Audit
from pyrite.data import Dataset, Records
from pyrite.diagnostics.arrays import Floats, Ints
from pyrite.report.inline import as_json
from pyrite.report.marked_words import marked_texts
from pyrite.report.record_rows import record_table
from pyrite.report.thumbnails import make_sheets

__all__ = ["Queue", "make_queue"]

_WITHOUT_SUSPECTS = 200  # rows of the ranking that are shown if there are no suspects
_MOST = 100_000  # more than a person can review; suspects.csv has them all
_PAGE = 18_000_000  # bytes of data in a page; base64 makes four of three
_PICTURES = 12_000_000
_TYPICAL = 200_000  # means of features by class; with more, they are left out


@final
class Queue(NamedTuple):
    """What is reviewed.

    Attributes:
        rows: rows of the audit, in the order of the queue.
        cut: the number of suspects that are left out because there are too many.
        data: for the script of the page, ready for JSON.
        sheets: pictures, as base64.
        kind: "images", "table", "text", or "" if samples cannot be shown.
        shown: the number of samples that have a picture or a row of values.
    """

    rows: Ints
    cut: int
    data: dict[str, Any]
    sheets: list[str]
    kind: str
    shown: int


def make_queue(audit: Audit, data: Dataset | None = None, columns: Sequence[str] = ()) -> Queue:
    """The suspects in order, or the head of the ranking if there are none."""
    suspects = audit.ranking[audit.is_suspect[audit.ranking]]
    rows = suspects[:_MOST] if len(suspects) else audit.ranking[:_WITHOUT_SUSPECTS]
    number = "u2" if len(audit.classes) <= 2**16 else "u4"
    queue = {
        "fingerprint": fingerprint(audit),
        "classes": list(audit.classes),
        "canTell": audit.can_tell,
        "index": _column(audit.index[rows], "u4"),
        "given": _column(audit.labels[rows], number),
        "score": _column(audit.score[rows], "f4"),
        "width": audit.choices.shape[1],
        "choices": _column(audit.choices[rows], number),
        "likelihoods": _column(audit.likelihoods[rows], "f4"),
        "evidence": [
            {"name": name, "values": _column(values[rows], "f4"), "ranks": _column(_ranks(values, rows), "u1")}
            for name, values in audit.evidence.items()
        ],
        "paths": [audit.paths[row] for row in rows.tolist()] if audit.paths else [],
    }
    cut = max(0, len(suspects) - len(rows))
    if data is None:
        return Queue(rows, cut, queue, [], "", 0)
    budget = max(0, min(_PICTURES, (_PAGE - len(as_json(queue))) * 3 // 4))
    if data.inputs.ndim == 4:
        sheets = make_sheets(data.numeric, audit.index[rows], budget)
        queue["pictures"] = {
            "width": sheets.width,
            "height": sheets.height,
            "pitch": list(sheets.pitch),
            "columns": sheets.columns,
            "perSheet": sheets.per_sheet,
            "place": _column(sheets.place, "u4"),
        }
        return Queue(rows, cut, queue, sheets.images, "images", int((sheets.place > 0).sum()))
    if isinstance(data.inputs, Records) and data.inputs.is_text:
        text = marked_texts(audit, data.inputs, rows, budget)
        return Queue(rows, cut, queue | {"text": text}, [], "text", text["rows"])
    if isinstance(data.inputs, Records):
        table = record_table(audit, data.inputs, rows, budget)
    else:
        table = _table(audit, data, rows, columns or data.columns, budget)
    return Queue(rows, cut, queue | {"table": table}, [], "table", table["rows"])


def fingerprint(audit: Audit) -> str:
    """An identifier of this audit, under which the browser saves decisions."""
    digest = hashlib.sha256()
    for part in (audit.labels, audit.index, audit.score, audit.choices):
        digest.update(np.ascontiguousarray(part).tobytes())
    digest.update("\0".join(audit.classes).encode(errors="surrogatepass"))
    return digest.hexdigest()[:20]


def _column(values: npt.NDArray[Any], kind: str) -> dict[str, str]:
    """Numbers as base64 of their bytes: a third of the size of decimal digits."""
    return {"kind": kind, "data": base64.b64encode(np.ascontiguousarray(values, f"<{kind}").tobytes()).decode()}


def _ranks(values: Floats, rows: Ints) -> Ints:
    """The percentage of samples below each value; 255 for unknown values."""
    known = np.sort(values[~np.isnan(values)])
    below = np.searchsorted(known, values[rows]) * 100 // max(1, len(known))
    return np.where(np.isnan(values[rows]), 255, below)


def _table(audit: Audit, data: Dataset, rows: Ints, columns: Sequence[str], budget: int) -> dict[str, Any]:
    """Values of the first samples, as many as there is room for, and what is typical of each class.

    They are float64, as in the data: in float32 a time in seconds would be the same for all samples.
    """
    inputs = np.asarray(data.inputs)
    features = inputs.shape[1]
    if columns and len(columns) != features:
        raise ValueError(f"columns has {len(columns)} names, but there are {features} features")
    count = min(len(rows), budget // max(1, 8 * features))
    small = len(audit.classes) * features <= _TYPICAL
    return {
        "rows": count,
        "names": list(columns) or [f"feature {number}" for number in range(features)],
        "values": _column(inputs[audit.index[rows[:count]]], "f8"),
        "typical": _column(_typical(audit, inputs), "f8") if small else None,
    }


def _typical(audit: Audit, inputs: npt.NDArray[Any]) -> Floats:
    """The mean of every feature over the labels of each class that are not suspects; NaN where there is none."""
    means = np.full((len(audit.classes), inputs.shape[1]), np.nan)
    for number in range(len(means)):
        some = inputs[audit.index[(audit.labels == number) & ~audit.is_suspect]].astype(np.float64)
        known = np.isfinite(some)
        counts = known.sum(0)
        means[number] = np.where(counts, np.where(known, some, 0).sum(0) / np.maximum(counts, 1), np.nan)
    return means
