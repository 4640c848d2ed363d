"""An audit as one self-contained page: its result, and a queue in which a person reviews the suspects."""

import base64
import hashlib
import math
import shlex
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from markupsafe import Markup

from pyrite.arrays import Ints
from pyrite.auditing import SCORES, Audit
from pyrite.auditing.review import CHECKED
from pyrite.curves import CE, GCE, MAE
from pyrite.data import Dataset
from pyrite.data.column_reading import reading_table
from pyrite.diagnostics import detection
from pyrite.errors import PyriteError
from pyrite.files import write_or_refuse
from pyrite.report.figures import curves_figure, margins_figure, run_figure
from pyrite.report.review_queue import Queue, make_queue
from pyrite.report.style import Picture, as_json, picture, source, templates
from pyrite.settings import READING
from pyrite.training import Run

_SCRIPTS = tuple(f"audit_{part}.js" for part in ("queue", "estimate", "review", "words", "view", "page"))
_CLASSES = 100  # a larger matrix is slow to open and hard to read
_MOST_ANNOTATORS = 50  # that are listed, the least reliable first
_MOST_COPIES = 20  # that are listed
_MANY = 25  # with more classes a list of confusions is easier to read than a table


class _Cell(NamedTuple):
    """An entry of the matrix: in words, the strength of its colour, and the number of such suspects."""

    given: int
    short: str
    words: str
    shade: float
    queued: int


def write_audit_page(audit: Audit, path: str | Path, *, data: Dataset | None = None) -> Path:
    """Write an audit as an HTML file with pictures, data and script inside; it loads nothing from elsewhere.

    Decisions made in it are saved in the browser, and can be downloaded as a CSV for ``pyrite train --corrections``.
    ``data`` is what ``audit.index`` refers to, by default ``audit.samples()``; without any the queue has no pictures or
    values.
    """
    return write_or_refuse(path, _page(audit, data).encode(errors="replace"))  # file names may not be UTF-8


class InlinePage(NamedTuple):
    """The page of an audit as the output of a notebook's cell, in a frame that keeps its styles and keys apart."""

    page: str
    height: int

    def __repr__(self) -> str:
        return "<the page of an audit; a notebook displays it>"

    def _repr_html_(self) -> str:
        frame = Markup('<iframe srcdoc="{}" style="width: 100%; height: {}px; border: 0"></iframe>')
        return frame.format(self.page, self.height)


def inline_page(audit: Audit, height: int) -> InlinePage:
    """The page of an audit for a notebook; ``Audit.show`` returns it."""
    if height < 1:
        raise PyriteError(f"height is {height}, but must be a number of pixels, 1 or more")
    return InlinePage(_page(audit).encode(errors="replace").decode(), height)


def _page(audit: Audit, data: Dataset | None = None) -> str:
    run = audit.run
    data = audit.samples() if data is None else data
    _check(audit, data)
    queue = make_queue(audit, data)
    script = Markup("\n").join(source(name) for name in _SCRIPTS)
    counts = _counts(audit, queue.rows[: queue.suspects])
    confused = _pairs(counts)
    read_as = ""
    if data is not None and data.reading:
        table = reading_table(data.reading, len(data)).to_html()
        read_as = Markup(table)  # nosec B704
    return templates().get_template("audit.html").render(
        title="Which labels look wrong",
        audit=audit,
        sentence=audit.sentence[:1].upper() + audit.sentence[1:],
        suspects=int(audit.is_suspect.sum()),
        interval=None if math.isnan(audit.noise_interval[0]) else audit.noise_interval,
        checked=min(CHECKED, len(audit)),
        expected=_expected(audit),
        truth=_truth(audit),
        queue=queue,
        scores=SCORES,
        missing=_missing(queue),
        matrix=_heat_map(audit, counts) if audit.can_tell else [],
        many=len(audit.classes) > _MANY,
        terse=all(len(name) <= 3 for name in audit.classes),
        pairs=confused[: 24 if len(audit.classes) > _MANY else 8],
        pair_count=len(confused),
        annotators=sorted(audit.annotators.items(), key=lambda item: -item[1].rate)[:_MOST_ANNOTATORS],
        slices=[(row.name, row) for row in audit.slices],
        copies=_copies(audit),
        command=_next_command(run),
        columns=read_as,
        run=run,
        **_pictures(run),
        style=source("audit.css"),
        script=script,
        # The page's content security policy allows this script and no other.
        script_hash=base64.b64encode(hashlib.sha256(str(script).encode()).digest()).decode(),
        data=as_json(queue.data),
    )  # fmt: skip


def _next_command(run: Run | None) -> str:
    """The command that trains with the corrections, on the same data; empty if those were passed in Python."""
    if run is None or not isinstance(run.config.data, str):
        return ""
    settings = run.config.to_dict()
    given = {name: settings[name] for name in (*READING, "noise", "seed") if settings.get(name)}
    flags = [f"--{name} {shlex.quote(str(value))}" for name, value in given.items()]
    return " ".join(["pyrite train", shlex.quote(run.config.data), *flags, "--corrections corrections.csv"])


def _check(audit: Audit, data: Dataset | None) -> None:
    outside = np.zeros(0) if data is None else (audit.index < 0) | (audit.index >= len(data))
    if data is not None and outside.any():
        first = int(outside.argmax())
        raise PyriteError(
            f"audit.index is {audit.index[first]} at index {first}, but {data.name} has {len(data)} samples"
        )


def _copies(audit: Audit) -> list[dict[str, str]]:
    """Copies and near copies with different labels, by path or number."""
    issues = audit.data_issues
    found = () if issues is None else (*issues.contradictions, *issues.near_copies)
    names = dict(zip(audit.index.tolist(), audit.paths, strict=True)) if audit.paths else {}
    return [
        {"samples": ", ".join(names.get(row, str(row)) for row in rows), "labels": ", ".join(labels)}
        for rows, labels in found[:_MOST_COPIES]
    ]


def _expected(audit: Audit) -> dict[str, float] | None:
    """What is expected: the fraction of suspects that are wrong, how many wrong labels are missed or at the head."""
    wrong, suspect = audit.wrong_probability, audit.is_suspect
    if not audit.can_tell or not suspect.any():
        return None
    head = min(100, len(audit))
    missed = float(wrong[~suspect].sum())
    return {"precision": float(wrong[suspect].mean()), "missed": missed, "head": head, "of": audit.expected_wrong(head)}


def _truth(audit: Audit) -> dict[str, Any] | None:
    """The quality of the audit, where the true labels are known."""
    if audit.true is None:
        return None
    is_wrong = audit.true != audit.labels
    seen = ~np.isnan(audit.score)
    quality = detection(audit.score[seen], is_wrong[seen])
    hits, suspects = int((is_wrong & audit.is_suspect).sum()), int(audit.is_suspect.sum())
    return {
        "noise_rate": float(is_wrong.mean()),
        "roc_auc": quality.roc_auc,
        "average_precision": quality.average_precision,
        "precision": hits / suspects if suspects else None,
        "recall": hits / int(is_wrong.sum()) if audit.can_tell and is_wrong.any() else None,
    }


def _counts(audit: Audit, rows: Ints) -> Ints:
    """The number of labels in the queue, by suggested and by given class."""
    counts = np.zeros((len(audit.classes), len(audit.classes)), np.int64)
    np.add.at(counts, (audit.suggested[rows], audit.labels[rows]), 1)
    return counts


def _pairs(counts: Ints) -> list[dict[str, int]]:
    """Confusions in the queue, the most frequent first."""
    others = counts * ~np.eye(len(counts), dtype=bool)
    order = np.argsort(-others, axis=None, kind="stable")[: np.count_nonzero(others)]
    pairs = zip(*np.divmod(order, len(counts)), strict=True)
    return [{"true": int(true), "given": int(given), "queued": int(counts[true, given])} for true, given in pairs]


def _heat_map(audit: Audit, counts: Ints) -> list[tuple[int, list[_Cell]]]:
    """The matrix: true classes, with one cell per given label. Of many classes the most often confused are shown."""
    others = counts * ~np.eye(len(counts), dtype=bool)
    most_confused = np.argsort(-(others.sum(0) + others.sum(1)), kind="stable")
    shown = np.sort(most_confused[:_CLASSES]).tolist()
    return [(true, [_cell(audit, counts, true, given) for given in shown]) for true in shown]


def _cell(audit: Audit, counts: Ints, true: int, given: int) -> _Cell:
    chance, error = float(audit.matrix[true, given]), float(audit.matrix_error[true, given])
    if np.isnan(chance):
        return _Cell(given, "?", "not known", 0.0, int(counts[true, given]))
    short = f"{100 * chance:.0f}" if chance >= 0.005 else "·" if chance > 0 else ""
    words = f"{100 * chance:.1f} %" + ("" if np.isnan(error) else f" ± {100 * error:.1f}")
    # Square roots, so that half a per cent is visible too.
    return _Cell(given, short, words, round(float(np.sqrt(np.clip(chance, 0, 1))), 3), int(counts[true, given]))


def _missing(queue: Queue) -> str:
    """A sentence for the page if not every suspect can be shown."""
    without = queue.suspects - queue.shown
    if not queue.kind or not without:
        return ""
    content = {"images": "a picture", "text": "their text"}.get(queue.kind, "their values")
    shown = f"{queue.shown:,} of {queue.suspects:,} are shown with {content}"
    return f"{shown}; {without:,} are not, to keep this file small or because they cannot be read."


def _pictures(run: Run | None) -> dict[str, Picture | None]:
    """The figures of a run that has finished an epoch."""
    if run is None or not run.history:
        return dict.fromkeys(("margins", "learning", "weights"))
    pictures = {"margins": picture(lambda: margins_figure(run)), "learning": picture(lambda: run_figure(run))}
    if "weight_net" not in run.method_arrays():
        return {**pictures, "weights": None}
    curves = [run.weight_curve(), CE(), GCE(q=0.7), MAE()]
    return {**pictures, "weights": picture(lambda: curves_figure(curves, len(run.classes), narrow=True))}
