"""The page and the picture of the demo: wrong labels that were found, and training in spite of them."""

import base64
import io
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from PIL import Image

from pyrite.arrays import Ints
from pyrite.auditing import Audit
from pyrite.demonstration import DEMO_METHODS, Demo
from pyrite.report.figures import draw_learning
from pyrite.report.page import write_page

DEMO_COLUMNS: Final = ("final_test_accuracy", "best_test_accuracy", "clean_accuracy", "memorised", "recovered")
_SHOWN: Final = 12  # samples on the page
_DRAWN: Final = 10  # and in the picture


class Check(NamedTuple):
    """An audit, counted against the true labels."""

    labels: int
    wrong: int
    suspects: int
    hits: int
    corrected: int

    @property
    def sentences(self) -> tuple[str, ...]:
        """The counts in words."""
        if not self.hits:
            return (f"None of the {self.wrong:,} wrong labels was found.",)
        precision, recall = self.hits / self.suspects, self.hits / self.wrong
        return (
            f"{self.suspects:,} labels are suspects, and {self.hits:,} of them ({100 * precision:.1f} %) are wrong.",
            f"{self.hits:,} of the {self.wrong:,} wrong labels ({100 * recall:.1f} %) are found.",
            f"For {self.corrected:,} of these ({100 * self.corrected / self.hits:.1f} %) the suggested label is right.",
        )


def check_audit(audit: Audit) -> Check:
    """Count suspects and suggestions against the true labels."""
    assert audit.true is not None
    wrong = audit.true != audit.labels
    hits = wrong & audit.is_suspect
    corrected = hits & (_suggested(audit) == audit.true)
    return Check(len(audit), *(int(flags.sum()) for flags in (wrong, audit.is_suspect, hits, corrected)))


def demo_figure(demo: Demo) -> Figure:
    """A strip of suspects with given and suggested label, and learning curves below."""
    figure = Figure(figsize=(10, 5.9), layout="constrained")
    strip, curves = figure.subfigures(2, 1, squeeze=False, height_ratios=(1.5, 4.2)).flat
    audit, images = demo.audit, _images(demo.audit)
    strip.suptitle("Labels that look wrong: given → suggested", fontsize=11, x=0.01, ha="left")
    for axes, row in zip(strip.subplots(1, _DRAWN).flat, _spread(audit, _DRAWN), strict=False):
        axes.imshow(images[audit.index[row], 0], cmap="gray_r")
        given, suggested = audit.classes[audit.labels[row]], audit.classes[_suggested(audit)[row]]
        axes.set_title(f"{given} → {suggested}", fontsize=12)
    for axes in strip.axes:
        axes.set_axis_off()
    draw_learning(curves, demo.comparison)
    return figure


def write_demo_page(demo: Demo, path: str | Path) -> Path:
    """Write the demo as one HTML file."""
    audit, rows = demo.audit, {row.name: row for row in demo.comparison.rows}
    accuracies = {name: rows[DEMO_METHODS[name]].formatted("final_test_accuracy") for name in ("ce", "auto")}
    return write_page(
        demo.comparison,
        path,
        "Wrong labels: find them, and train in spite of them",
        columns=DEMO_COLUMNS,
        template="demo.html",
        audit=audit,
        check=check_audit(audit),
        samples=[_card(audit, row) for row in _spread(audit, _SHOWN).tolist()],
        accuracies=accuracies,
        default=rows[DEMO_METHODS["auto"]].runs[0].config.method,
        specs={name: spec for spec, name in DEMO_METHODS.items()},
    )


def _images(audit: Audit) -> Any:
    assert audit.run is not None
    return audit.run.dataset().inputs


def _suggested(audit: Audit) -> Ints:
    """The likeliest class other than the given one, which may be the likeliest even of a suspect."""
    return np.where(audit.choices[:, 0] == audit.labels, audit.choices[:, 1], audit.choices[:, 0])


def _spread(audit: Audit, count: int) -> Ints:
    """Suspects at equal distances in the ranking, from the most to the least certain one."""
    suspects = audit.ranking[audit.is_suspect[audit.ranking]]
    return suspects[np.unique(np.linspace(0, len(suspects) - 1, count).astype(np.int64))] if len(suspects) else suspects


def _card(audit: Audit, row: int) -> dict[str, Any]:
    assert audit.true is not None
    buffer = io.BytesIO()
    Image.fromarray(255 - np.asarray(_images(audit)[audit.index[row], 0])).save(buffer, "PNG")
    return {
        "image": f"data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}",
        "given": audit.classes[audit.labels[row]],
        "suggested": audit.classes[_suggested(audit)[row]],
        "true": audit.classes[audit.true[row]],
        "probability": float(audit.wrong_probability[row]),
    }
