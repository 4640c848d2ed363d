"""A comparison as one self-contained page: numbers, plots and explanations."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pyrite.comparing import Comparison
from pyrite.data import Part
from pyrite.errors import PyriteError
from pyrite.files import write_or_refuse
from pyrite.report.figures import learning_figure, margins_figure
from pyrite.report.style import picture, templates
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
