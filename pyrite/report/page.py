"""A comparison as one self-contained page: numbers, plots and explanations."""

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


def write_page(comparison: Comparison, path: str | Path, title: str = "Losses side by side") -> Path:
    """Write a comparison as an HTML file: pictures inside, no scripts; it loads nothing from elsewhere."""
    if not comparison.rows or not all(run.history for row in comparison.rows for run in row.runs):
        raise PyriteError(f"{comparison.path} has runs without a finished epoch: there is nothing to report")
    first = comparison.rows[0].runs[0]
    tested = bool(comparison.rows[0].values("final_test_accuracy"))
    known = "true" in first.labels
    common, differ = _settings(comparison)
    page = templates().get_template("comparison.html").render(
        title=title,
        comparison=comparison,
        headings={name: COLUMNS[name].explanation for name in comparison.columns()},
        config=first.config,
        settings=common,
        differ=differ,
        seeds=[run.config.seed for run in comparison.rows[0].runs],
        facts=first.facts,
        labels=_labels(first),
        findings=_findings(comparison) if tested and _labels(first).get("wrong") else [],
        warnings=[(row.name, text) for row in comparison.rows for run in row.runs for text in run.facts["warnings"]],
        learning=picture(lambda: learning_figure(comparison)) if tested or known else None,
        margins=picture(lambda: margins_figure(comparison)),
        seconds=sum(run.facts["seconds"] for row in comparison.rows for run in row.runs),
    )  # fmt: skip
    return write_or_refuse(path, page.encode())


def _settings(comparison: Comparison) -> tuple[dict[str, object], dict[str, dict[str, object]]]:
    """The settings that all recipes have in common, unless they are empty, 0 or off, and those that differ, by name and
    loss; both without method and seed."""
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
    return common, {name: {loss: recipe.get(name) for loss, recipe in recipes.items()} for name in differ}


def _labels(run: Run) -> dict[str, int]:
    """The numbers of labels that were trained on, of classes, and of wrong labels where that is known."""
    used = run.labels["part"] == Part.TRAIN
    counts = {"count": int(used.sum()), "classes": len(run.classes)}
    if "true" in run.labels:
        counts["wrong"] = int((run.labels["given"] != run.labels["true"])[used].sum())
    return counts


def _findings(comparison: Comparison) -> list[dict[str, Any]]:
    """Of the row that follows the most wrong labels, and of the one that follows the fewest: the first seed."""
    ordered = sorted(comparison.rows, key=lambda row: row.runs[0].history[-1]["memorised"], reverse=True)
    found = []
    for row in (ordered[0], ordered[-1])[: len(ordered)]:
        history = row.runs[0].history
        best = max(history, key=lambda line: line["test_accuracy"])
        found.append({"name": row.name, "best": best["test_accuracy"], "epoch": best["epoch"], "last": history[-1]})
    return found
