"""An audit as one self-contained page: its result, and a queue in which a person reviews the suspects."""

import base64
import hashlib
import math
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np
from markupsafe import Markup
from matplotlib.figure import Figure

from pyrite.auditing import SCORES, Audit
from pyrite.auditing.review import CHECKED
from pyrite.curves import CE, GCE, MAE
from pyrite.data import Dataset
from pyrite.diagnostics import detection
from pyrite.errors import PyriteError
from pyrite.files import write_or_refuse
from pyrite.report.figures import curves_figure, margins_figure, run_figure
from pyrite.report.heat_map import heat_map, pairs
from pyrite.report.review_queue import Queue, make_queue
from pyrite.report.style import Picture, as_json, picture, source, templates
from pyrite.training import Run

__all__ = ["write_audit_page"]

_SCRIPTS = tuple(f"audit_{part}.js" for part in ("queue", "estimate", "review", "words", "view", "page"))
_MANY = 25  # with more classes a list of confusions is easier to read than a table


class _Truth(NamedTuple):
    """The quality of the audit, where the true labels are known."""

    noise_rate: float
    roc_auc: float | None
    average_precision: float | None
    precision: float | None
    recall: float | None


class _Expected(NamedTuple):
    """What is expected at the threshold: the share of wrong suspects, and wrong labels that are not suspects."""

    precision: float
    missed: float


def write_audit_page(
    audit: Audit,
    path: str | Path,
    *,
    data: Dataset | None = None,
    columns: Sequence[str] = (),
    title: str = "Which labels look wrong",
) -> Path:
    """Write an audit as an HTML file with pictures, data and script inside; it loads nothing from elsewhere.

    Decisions made in it are saved in the browser, and can be downloaded as a CSV for ``pyrite train --corrections``.

    Args:
        audit: the audit.
        path: the file.
        data: the data set that ``audit.index`` refers to; by default that of the audit's run. Without either the queue
            has no pictures or values.
        columns: the names of a table's features.
        title: the heading of the page.
    """
    path, run = Path(path), audit.run
    if data is None and run is not None:
        with suppress(ValueError):  # a page without pictures is better than none
            data = run.dataset()
    _check(audit, data)
    queue = make_queue(audit, data, columns)
    script = Markup("\n").join(source(name) for name in _SCRIPTS)
    suspects = queue.rows[: queue.suspects]
    confused = pairs(audit, suspects)
    page = templates().get_template("audit.html").render(
        title=title,
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
        matrix=heat_map(audit, suspects) if audit.can_tell else [],
        many=len(audit.classes) > _MANY,
        terse=all(len(name) <= 3 for name in audit.classes),
        pairs=confused[: 24 if len(audit.classes) > _MANY else 8],
        pair_count=len(confused),
        run=run,
        **_pictures(run),
        style=source("audit.css"),
        script=script,
        # The page's content security policy allows this script and no other.
        script_hash=base64.b64encode(hashlib.sha256(str(script).encode()).digest()).decode(),
        data=as_json(queue.data),
    )  # fmt: skip
    return write_or_refuse(path, page.encode(errors="replace"))  # file names may not be UTF-8


def _check(audit: Audit, data: Dataset | None) -> None:
    if data is None or not len(audit):
        return
    outside = (audit.index < 0) | (audit.index >= len(data))
    if outside.any():
        first = int(outside.argmax())
        raise PyriteError(
            f"audit.index is {audit.index[first]} at index {first}, but {data.name} has {len(data)} samples"
        )


def _expected(audit: Audit) -> _Expected | None:
    wrong, suspect = audit.wrong_probability, audit.is_suspect
    if not audit.can_tell or not suspect.any():
        return None
    return _Expected(float(wrong[suspect].mean()), float(np.nansum(wrong[~suspect])))


def _truth(audit: Audit) -> _Truth | None:
    if audit.true is None:
        return None
    is_wrong = audit.true != audit.labels
    seen = ~np.isnan(audit.score)
    quality = detection(audit.score[seen], is_wrong[seen])
    hits, suspects = int((is_wrong & audit.is_suspect).sum()), int(audit.is_suspect.sum())
    return _Truth(
        float(is_wrong.mean()),
        quality.roc_auc,
        quality.average_precision,
        hits / suspects if suspects else None,
        hits / int(is_wrong.sum()) if audit.can_tell and is_wrong.any() else None,
    )


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
    learned = "weight_net" in run.method_arrays()
    return {
        "margins": picture(lambda: margins_figure(run)),
        "learning": picture(lambda: run_figure(run)),
        "weights": picture(lambda: _weights(run)) if learned else None,
    }


def _weights(run: Run) -> Figure:
    return curves_figure([run.weight_curve(), CE(), GCE(q=0.7), MAE()], len(run.classes), narrow=True)
