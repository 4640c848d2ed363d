"""An audit as one page that needs nothing else: what it found, and a queue in which a person decides label by label."""

import base64
import hashlib
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np
from markupsafe import Markup
from matplotlib.figure import Figure

from pyrite.auditing import Audit
from pyrite.curves import CE, GCE, MAE
from pyrite.data import Dataset
from pyrite.diagnostics import detection
from pyrite.files import write
from pyrite.report.heat_map import heat_map, pairs
from pyrite.report.inline import Picture, as_json, picture, source, templates
from pyrite.report.learning import run_figure
from pyrite.report.margins import margins_figure
from pyrite.report.review_queue import Queue, make_queue
from pyrite.report.weight_curves import curves_figure
from pyrite.training import Run

__all__ = ["write_audit_page"]

_SCRIPTS = ("audit_queue.js", "audit_review.js", "audit_view.js", "audit_page.js")
_MANY = 25  # with more classes a list of confusions says more than a table


class _Truth(NamedTuple):
    """What the audit is worth, where the true labels are known."""

    noise_rate: float
    roc_auc: float | None
    average_precision: float | None
    precision: float | None
    recall: float | None


class _Expected(NamedTuple):
    """What the probabilities say of the threshold: suspects that are wrong, and wrong labels that are no suspects."""

    precision: float
    missed: float


def write_audit_page(
    found: Audit,
    path: str | Path,
    *,
    data: Dataset | None = None,
    columns: Sequence[str] = (),
    title: str = "Which labels look wrong",
) -> Path:
    """Write an audit as an HTML file: pictures, data and script inside, nothing from elsewhere.

    Decisions made in it are saved in the browser, and leave it as a CSV for ``pyrite train --corrections``.

    Args:
        found: the audit.
        path: the file.
        data: where ``found.index`` points into; by default what the audit's run was trained on. Without
            either the queue has no pictures or values.
        columns: the names of a table's features.
        title: above everything.
    """
    path, run = Path(path), found.run
    if data is None and run is not None:
        with suppress(ValueError):  # a page without pictures is better than none
            data = run.dataset()
    _check(found, data)
    queue = make_queue(found, data, columns)
    script = Markup("\n").join(source(name) for name in _SCRIPTS)
    confused = pairs(found, queue.rows)
    page = templates().get_template("audit.html").render(
        title=title,
        found=found,
        sentence=found.sentence[:1].upper() + found.sentence[1:],
        suspects=int(found.is_suspect.sum()),
        expected=_expected(found),
        truth=_truth(found),
        queue=queue,
        missing=_missing(queue),
        matrix=heat_map(found, queue.rows) if found.can_tell else [],
        many=len(found.classes) > _MANY,
        terse=all(len(name) <= 3 for name in found.classes),
        pairs=confused[: 24 if len(found.classes) > _MANY else 8],
        pair_count=len(confused),
        run=run,
        **_pictures(run),
        style=source("audit.css"),
        script=script,
        # Only this script runs, whatever else should get into the page.
        script_hash=base64.b64encode(hashlib.sha256(str(script).encode()).digest()).decode(),
        data=as_json(queue.data),
    )  # fmt: skip
    try:
        # A file name that is not UTF-8 is no reason to write nothing.
        return write(path, page.encode(errors="replace"))
    except OSError as error:
        raise ValueError(f"cannot write {path}: {error.strerror or error}") from None


def _check(found: Audit, data: Dataset | None) -> None:
    if data is None or not len(found):
        return
    outside = (found.index < 0) | (found.index >= len(data))
    if outside.any():
        first = int(outside.argmax())
        raise ValueError(
            f"found.index is {found.index[first]} at index {first}, but {data.name} has {len(data)} samples"
        )


def _expected(found: Audit) -> _Expected | None:
    wrong, suspect = found.wrong_probability, found.is_suspect
    if not found.can_tell or not suspect.any():
        return None
    return _Expected(float(wrong[suspect].mean()), float(np.nansum(wrong[~suspect])))


def _truth(found: Audit) -> _Truth | None:
    if found.true is None:
        return None
    is_wrong = found.true != found.labels
    seen = ~np.isnan(found.score)
    worth = detection(found.score[seen], is_wrong[seen])
    hits, suspects = int((is_wrong & found.is_suspect).sum()), int(found.is_suspect.sum())
    return _Truth(
        float(is_wrong.mean()),
        worth.roc_auc,
        worth.average_precision,
        hits / suspects if suspects else None,
        hits / int(is_wrong.sum()) if found.can_tell and is_wrong.any() else None,
    )


def _missing(queue: Queue) -> str:
    """What the page has to say where not every sample in the queue can be shown."""
    without = len(queue.rows) - queue.shown
    if not queue.kind or not without:
        return ""
    what = "a picture" if queue.kind == "images" else "their values"
    shown = f"{queue.shown:,} of {len(queue.rows):,} are shown with {what}"
    return f"{shown}; {without:,} are not, to keep this file small or because they cannot be read."


def _pictures(run: Run | None) -> dict[str, Picture | None]:
    """The figures of a run that has finished an epoch."""
    if run is None or not run.history:
        return dict.fromkeys(("margins", "learning", "weights"))
    learned = "weight_net" in run.method_arrays()
    return {
        "margins": picture(lambda: margins_figure(run)),
        "learning": picture(lambda: run_figure(run)),
        "weights": picture(lambda: _weights(run)) if learned else None,
    }


def _weights(run: Run) -> Figure:
    return curves_figure([run.weight_curve(), CE(), GCE(q=0.7), MAE()], len(run.classes), narrow=True)
