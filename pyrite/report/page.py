"""Comparisons and the demo as self-contained pages: numbers, plots and explanations."""

import base64
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from matplotlib.figure import Figure, SubFigure
from PIL import Image

from pyrite.arrays import Ints
from pyrite.auditing import Audit
from pyrite.comparing import Comparison
from pyrite.data import Part
from pyrite.demonstration import DEMO_METHODS, Demo
from pyrite.errors import PyriteError
from pyrite.files import write_or_refuse
from pyrite.report.figures import add_legend, learning_figure, margins_figure, style_epochs
from pyrite.report.style import COLOURS, picture, templates
from pyrite.settings import SETTINGS
from pyrite.training import COLUMNS, Run


def write_page(
    comparison: Comparison,
    path: str | Path,
    title: str = "Losses side by side",
    *,
    columns: Sequence[str] = (),
    template: str = "comparison.html",
    **more: object,
) -> Path:
    """Write a comparison as an HTML file: pictures inside, no scripts; it loads nothing from elsewhere. ``more`` is for
    a template that extends the usual one."""
    if not comparison.rows or not all(run.history for row in comparison.rows for run in row.runs):
        raise PyriteError(f"{comparison.path} has runs without a finished epoch: there is nothing to report")
    first = comparison.rows[0].runs[0]
    tested = bool(comparison.rows[0].values("final_test_accuracy"))
    known = "true" in first.labels
    common, differ = _settings(comparison)
    page = templates().get_template(template).render(
        title=title,
        comparison=comparison,
        headings={name: COLUMNS[name].explanation for name in comparison.columns(columns)},
        config=first.config,
        settings=common,
        differ=differ,
        seeds=[run.config.seed for run in comparison.rows[0].runs],
        facts=first.facts,
        labels=_labels(first),
        findings=_findings(comparison) if tested and _labels(first).get("wrong") else [],
        warnings=[(row.name, text) for row in comparison.rows for run in row.runs for text in run.facts["warnings"]],
        learning=picture(lambda: learning_figure(comparison)) if tested or known else None,
        narrow=picture(lambda: learning_figure(comparison, narrow=True)) if tested or known else None,
        margins=picture(lambda: margins_figure(comparison)),
        seconds=sum(run.facts["seconds"] for row in comparison.rows for run in row.runs),
        **more,
    )  # fmt: skip
    return write_or_refuse(path, page.encode())


def _settings(comparison: Comparison) -> tuple[dict[str, object], dict[str, list[tuple[object, list[str]]]]]:
    """The settings that all recipes have in common, unless empty, 0 or off, and the values of those that differ,
    each with the losses that have it, the most frequent first; both without method and seed."""
    recipes = {}
    for row in comparison.rows:
        values = row.runs[0].config.to_dict().items()
        recipes[row.name] = {name: value["python"] if isinstance(value, dict) else value for name, value in values}
    first = next(iter(recipes.values()))
    names = [name for name in SETTINGS if name not in ("method", "seed")]
    differ = [name for name in names if len({recipe.get(name) for recipe in recipes.values()}) > 1]
    common = {name: first[name] for name in names if first.get(name) and name not in differ}
    if common.get("accumulate") == 1:
        del common["accumulate"]
    used: dict[str, dict[object, list[str]]] = {name: {} for name in differ}
    for name in differ:
        for loss, recipe in recipes.items():
            used[name].setdefault(recipe.get(name), []).append(loss)
    return common, {name: sorted(of.items(), key=lambda item: -len(item[1])) for name, of in used.items()}


def _labels(run: Run) -> dict[str, int]:
    """The numbers of labels that were trained on, of classes, and of wrong labels where that is known."""
    used = run.labels["part"] == Part.TRAIN
    counts = {"count": int(used.sum()), "classes": len(run.classes)}
    if "true" in run.labels:
        counts["wrong"] = int((run.labels["given"] != run.labels["true"])[used].sum())
    return counts


def _findings(comparison: Comparison) -> list[dict[str, Any]]:
    """Of the rows that memorise the most and the fewest wrong labels: the first seed."""
    ordered = sorted(comparison.rows, key=lambda row: row.runs[0].history[-1]["memorised"], reverse=True)
    found = []
    for row in (ordered[0], ordered[-1])[: len(ordered)]:
        history = row.runs[0].history
        best = max(history, key=lambda line: line["test_accuracy"])
        found.append({"name": row.name, "best": best["test_accuracy"], "epoch": best["epoch"], "last": history[-1]})
    return found


DEMO_COLUMNS: Final = ("final_test_accuracy", "best_test_accuracy", "clean_accuracy", "memorised", "recovered")
_SHOWN: Final = 12  # samples on the page
_DRAWN: Final = 10  # and in the picture
_GAIN: Final[Mapping[str, str]] = {"test_accuracy": "Test accuracy", "memorised": "Wrong labels memorised"}
_GREY: Final[dict[str, Any]] = {"color": "#B4BAC2", "linewidth": 1.2}


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
    corrected = hits & (suggested_labels(audit) == audit.true)
    return Check(len(audit), *(int(flags.sum()) for flags in (wrong, audit.is_suspect, hits, corrected)))


def demo_figure(demo: Demo) -> Figure:
    """A strip of suspects with given and suggested label; below, what cross entropy and the default learn."""
    figure = Figure(figsize=(10, 5.6), layout="constrained")
    strip, curves = figure.subfigures(2, 1, squeeze=False, height_ratios=(1.5, 4)).flat
    _draw_suspects(strip, demo.audit)
    draw_gain(curves, demo.comparison)
    return figure


def _draw_suspects(figure: SubFigure, audit: Audit) -> None:
    check, images, rows = check_audit(audit), _images(audit), _spread(audit, _DRAWN)
    title = f"{check.hits:,} of {check.wrong:,} wrong labels found. Suspects: given → suggested label"
    figure.suptitle(title, fontsize=13, fontweight="bold", x=0.01, ha="left")
    for axes, row in zip(figure.subplots(1, _DRAWN, squeeze=False).flat, rows, strict=False):
        axes.imshow(images[audit.index[row], 0], cmap="gray_r")
        given, suggested = audit.classes[audit.labels[row]], audit.classes[suggested_labels(audit)[row]]
        axes.set_title(f"{given} → {suggested}", fontsize=13)
    for axes in figure.axes:
        axes.set_axis_off()


def draw_gain(figure: SubFigure, comparison: Comparison, titles: Mapping[str, str] = _GAIN, columns: int = 3) -> None:
    """One panel per metric: cross entropy and the default with their last values; all other lines are grey."""
    panels = figure.subplots(1, len(titles), squeeze=False).flatten()
    for axes, (name, title) in zip(panels, titles.items(), strict=True):
        others = "other robust losses"
        for number, row in enumerate(comparison.rows):
            values = [line[name] for line in row.runs[0].history]
            named = row.name in map(DEMO_METHODS.get, ("ce", "auto"))
            style: dict[str, Any] = {"color": COLOURS[number], "linewidth": 3, "zorder": 3} if named else _GREY
            axes.plot(range(1, len(values) + 1), values, label=row.name if named else others, **style)
            if named:
                place: dict[str, Any] = {"xytext": (6, 0), "textcoords": "offset points", "va": "center"}
                last, colour = (len(values), values[-1]), COLOURS[number]
                axes.annotate(f"{100 * values[-1]:.1f} %", last, **place, color=colour, fontsize=13, fontweight="bold")
            else:
                others = "_"  # one entry of the legend for all of them
        style_epochs(axes, percent=True)
        axes.set_ylim(0, 1.02)
        axes.set_title(title, fontsize=13, fontweight="bold", loc="left")
    add_legend(figure, panels[0], fontsize=12, ncols=columns)


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
        specs={name: spec for spec, name in DEMO_METHODS.items()},
    )


def _images(audit: Audit) -> Any:
    assert audit.run is not None
    return audit.run.dataset().inputs


def suggested_labels(audit: Audit) -> Ints:
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
        "suggested": audit.classes[suggested_labels(audit)[row]],
        "true": audit.classes[audit.true[row]],
        "probability": float(audit.wrong_probability[row]),
    }
