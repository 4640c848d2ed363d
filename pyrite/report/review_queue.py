"""The queue of labels for review, in a compact form for the page: columns of numbers, and sheets of pictures."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, final

import numpy as np

from pyrite.arrays import Floats, Ints
from pyrite.auditing import SCORES, Audit
from pyrite.auditing.review import Review, queue_of, random_check
from pyrite.data import Dataset, Records, digest
from pyrite.report.sample_content import encode_column, make_sheets, marked_texts, number_table, record_table
from pyrite.report.style import as_json

_MOST = 100_000  # more than a person can review; suspects.csv has them all
_PAGE = 18_000_000  # bytes of data in a page; base64 makes four of three
_PICTURES = 12_000_000
_SAID = 8  # annotators of a sample whose labels are shown
_LISTED = 100  # samples in the list of a score, at most


@final
class Queue(NamedTuple):
    """What is reviewed."""

    rows: Ints  # of the audit; the suspects come first, in the order of the queue
    suspects: int  # their number, or that of the head of the ranking if there are none
    listed: dict[str, int]  # scores that have a list of the samples with the highest values, and its length
    cut: int  # the number of suspects that are left out because there are too many
    data: dict[str, Any]  # for the script of the page, ready for JSON
    sheets: Sequence[str] = ()  # pictures, as base64
    kind: str = ""  # "images", "table", "text", or "" if samples cannot be shown
    shown: int = 0  # the number of suspects that have a picture, a text or a row of values


def make_queue(audit: Audit, data: Dataset | None = None) -> Queue:
    """The suspects in order, or the head of the ranking if there are none; then the other samples that are listed."""
    queued = queue_of(audit)
    first, checked = queued[:_MOST], random_check(len(audit))
    ranked = {name: audit.ranked_by(name) for name in audit.evidence if SCORES[name].listed}
    listed = {name: rows[: min(_LISTED, -(-len(rows) // 20))] for name, rows in ranked.items()}  # a twentieth
    before = np.zeros(0, np.int64) if audit.review is None else audit.review.rows
    shown = np.concatenate([first, checked, *listed.values(), before])
    rows = shown[np.sort(np.unique(shown, return_index=True)[1])]
    place = np.zeros(len(audit), np.int64)
    place[rows] = np.arange(len(rows))
    number = "u2" if len(audit.classes) <= 2**16 else "u4"
    queue = {
        "fingerprint": fingerprint(audit),
        "classes": list(audit.classes),
        "canTell": audit.can_tell,
        "index": encode_column(audit.index[rows], "u4"),
        "given": encode_column(audit.labels[rows], number),
        "score": encode_column(audit.score[rows], "f4"),
        "width": audit.choices.shape[1],
        "choices": encode_column(audit.choices[rows], number),
        "likelihoods": encode_column(audit.likelihoods[rows], "f4"),
        "evidence": [
            {
                "heading": SCORES[name].heading,
                "help": SCORES[name].help,
                "values": encode_column(values[rows], "f4"),
                "ranks": encode_column(_ranks(values, rows), "u1"),
            }
            for name, values in audit.evidence.items()
        ],
        "paths": [audit.paths[row] for row in rows.tolist()] if audit.paths else [],
        "said": _said(audit, rows),
        "lists": {
            "suspects": encode_column(np.concatenate([np.arange(len(first)), place[_settled(audit, first)]]), "u4"),
            "random": encode_column(place[checked], "u4"),
            **{name: encode_column(place[items], "u4") for name, items in listed.items()},
        },
        "decided": _decided(audit, place),
        "estimate": _for_estimates(audit, rows),
    }
    lengths = {name: len(items) for name, items in listed.items()}
    made = Queue(rows, len(first), lengths, len(queued) - len(first), queue)
    return made if data is None else _shown(made, audit, data)


def _shown(queue: Queue, audit: Audit, data: Dataset) -> Queue:
    """The queue with pictures or values of its samples, as many as there is room for."""
    rows = np.roll(queue.rows, -queue.suspects)  # what is listed after the suspects is little, and comes first
    budget = max(0, min(_PICTURES, (_PAGE - len(as_json(queue.data))) * 3 // 4))
    kind, inputs = "table", data.inputs
    sheets: Sequence[str] = ()
    if inputs.ndim == 4:
        kind = "images"
        part, sheets, place = make_sheets(data.numeric, audit.index[rows], budget)
    else:
        if isinstance(inputs, Records) and inputs.is_text:
            kind, part = "text", marked_texts(audit, inputs, rows, budget)
        elif isinstance(inputs, Records):
            part = record_table(audit, inputs, rows, budget)
        else:
            part = number_table(audit, data, rows, budget)
        number = np.arange(1, len(rows) + 1)  # places are counted from 1; 0 if there was no room
        place = np.where(number <= part.pop("rows"), number, 0)
    place = np.roll(place, queue.suspects)
    content = queue.data | {kind: part | {"place": encode_column(place, "u4")}}
    return queue._replace(data=content, sheets=sheets, kind=kind, shown=int((place[: queue.suspects] > 0).sum()))


def _said(audit: Audit, rows: Ints) -> list[str]:
    """The labels of several annotators, sample by sample, in words."""
    if audit.annotations is None:
        return []
    labels, names = audit.annotations.labels, audit.annotations.names
    given = [np.flatnonzero(labels[row] >= 0).tolist() for row in rows]
    return [
        ", ".join(f"{names[by]} {audit.classes[labels[row, by]]}" for by in some[:_SAID])
        + (f" and {len(some) - _SAID} more" if len(some) > _SAID else "")
        for row, some in zip(rows.tolist(), given, strict=True)
    ]


def _settled(audit: Audit, first: Ints) -> Ints:
    """Rows of the queue before an earlier review that are not in the queue any more."""
    if audit.review is None:
        return np.zeros(0, np.int64)
    return np.setdiff1d(np.intersect1d(audit.review.rows, queue_of(audit.review.before)), first)


def _decided(audit: Audit, place: Ints) -> list[int]:
    """Decisions of an earlier review: items and codes in turn, as the script of the page stores them."""
    if audit.review is None:
        return []
    codes = {"keep": 1, "drop": 2, "unsure": 3, "relabel": 4}
    review = audit.review
    decided: list[int] = []
    for row, word, new in zip(review.rows.tolist(), review.decision, review.new.tolist(), strict=True):
        decided += [int(place[row]), codes[word] + (new if word == "relabel" else 0)]
    return decided


def _for_estimates(audit: Audit, rows: Ints) -> dict[str, Any]:
    """What the script needs to estimate rate and precision from decisions."""
    review = Review(audit, np.zeros(0, np.int64), (), audit.labels[:0]) if audit.review is None else audit.review
    before, strata = review.before, review.strata
    low, high = before.noise_interval
    return {
        "total": len(before),
        "size": strata.size.tolist(),
        "centre": strata.centre.tolist(),
        "suspects": strata.counts(np.flatnonzero(audit.is_suspect)).tolist(),
        "limits": None if math.isnan(low) else [low, high],
        "stratum": encode_column(strata.of[rows], "u1"),
        "claimed": encode_column(before.score[rows], "f4"),
        "suspect": encode_column(audit.is_suspect[rows], "u1"),
        "speaks": encode_column(review.speaks[rows], "u1"),
    }


def fingerprint(audit: Audit) -> str:
    """An identifier of this audit, under which the browser saves decisions."""
    names = "\0".join(audit.classes).encode(errors="surrogatepass")
    return digest([audit.labels, audit.index, audit.score, audit.choices, names])[:20]


def _ranks(values: Floats, rows: Ints) -> Ints:
    """The percentage of samples below each value; 255 for unknown values."""
    known = np.sort(values[~np.isnan(values)])
    below = np.searchsorted(known, values[rows]) * 100 // max(1, len(known))
    return np.where(np.isnan(values[rows]), 255, below)
