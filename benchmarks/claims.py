"""The front page of results: every claim, table and figure of the papers, from the cells in docs/results/cells.

    python -m benchmarks.claims            # reads what is finished; trains nothing
    python -m benchmarks.claims --exact    # also computes again what needs no training (a minute)

Writes docs/results/claims.json, docs/results/papers.md, docs/results/figures/*.png, and the claim table at the top of
docs/results.md, between its two markers.
"""

import argparse
import json
import textwrap
from pathlib import Path
from typing import Any

from pyrite.papers import CLAIMS, RECIPES, SCALES, PaperRecipe, Reproduction, read_reproduction
from pyrite.papers.page import reproduction_figure
from pyrite.report.style import save

DOCS = Path(__file__).parent.parent / "docs"
RESULTS = DOCS / "results"
BEGIN, END = "<!-- claims: begin -->", "<!-- claims: end -->"
NOT_RUN = {
    "I5": "Clothing1M (a million images, from its authors on request) and a GPU are needed; it is a statement about "
    "that data set, which no smaller one decides",
    "I14": "MARS (20,715 videos) and a GPU are needed; it is a statement about that data set, which no "
    "smaller one decides",
}
DECIDED = ("holds", "does not hold")
WORD = {"holds": "**holds**", "does not hold": "**does not hold**", "undecided": "undecided", "not run": "not run"}


def main() -> None:
    """Read, evaluate and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--exact", action="store_true", help="compute again what needs no training")
    arguments = parser.parse_args()
    found = _reproductions(arguments.exact)
    entries = _entries(found)
    if not arguments.exact:
        old = json.loads((RESULTS / "claims.json").read_text()) if (RESULTS / "claims.json").exists() else []
        entries += [e for e in old if e["scale"] == "exact" and e["id"] in PaperRecipe.load(e["recipe"]).compute]
    entries.sort(key=lambda entry: (list(CLAIMS).index(entry["id"]), entry["scale"]))
    (RESULTS / "claims.json").write_text(json.dumps(entries, indent=1, ensure_ascii=False) + "\n")
    _write_page(found)
    page = DOCS / "results.md"
    text = page.read_text()
    before, after = text.split(BEGIN)[0], text.split(END)[1]
    page.write_text(before + BEGIN + "\n\n" + _claim_table(entries) + "\n" + END + after)


def _reproductions(exact: bool) -> list[Reproduction]:
    found = []
    for name in RECIPES:
        recipe = PaperRecipe.load(name)
        if recipe.is_exact:
            if exact or not recipe.compute:
                found.append(read_reproduction(name, "tiny", RESULTS / "cells"))
            continue
        for scale in SCALES:
            if scale in recipe.scales():
                one = read_reproduction(name, scale, RESULTS / "cells")
                if one.results is not None and one.results.cells:
                    found.append(one)
    return found


def _entries(found: list[Reproduction]) -> list[dict[str, Any]]:
    """One entry per claim, recipe and scale."""
    entries = []
    for one in found:
        for verdict in one.verdicts():
            if verdict.status == "not run":
                continue
            cells = [] if one.results is None else list(one.results.cells.values())
            versions = cells[0].facts["versions"] if cells else _versions()
            entries.append(
                {"id": verdict.claim, "claim": CLAIMS[verdict.claim].text, "from": CLAIMS[verdict.claim].source}
                | {"recipe": one.name, "scale": one.scale, "status": verdict.status, "note": verdict.note}
                | {"findings": [finding.to_dict() for finding in verdict.findings]}
                | {"seeds": [] if one.results is None else one.results.seeds}
                | {"command": one.command, "versions": versions}
            )
    return entries


def _versions() -> dict[str, str]:
    import platform

    import numpy
    import torch

    import pyrite

    versions = {"pyrite": pyrite.__version__, "torch": torch.__version__, "numpy": numpy.__version__}
    return {**versions, "python": platform.python_version()}


def _claim_table(entries: list[dict[str, Any]]) -> str:
    known = {claim: [entry for entry in entries if entry["id"] == claim] for claim in CLAIMS}
    decided = sum(any(_at(scale, found) in DECIDED for scale in ("exact", *SCALES)) for found in known.values())
    words = (
        f"**{decided} of {len(CLAIMS)} claims are decided** at some scale. Each is counted here at the largest scale "
        "that decides it or at which all of its statements were run; if several recipes check it there, the worst "
        "counts."
    )
    lines = [*textwrap.wrap(words, 100), "", *_counts(known), ""]
    words = (
        "The numbers below are of the first statement that decided; above and below say what they must be for it to "
        "hold."
    )
    lines += [*textwrap.wrap(words, 100), ""]
    lines += ["| | claim | from | status |", "|---|---|---|---|"]
    for claim, found in known.items():
        status = "<br>".join(map(_status, found)) or f"not run: {NOT_RUN.get(claim, 'no time was left')}"
        lines.append(f"| {claim} | {CLAIMS[claim].text} | {CLAIMS[claim].source} | {status} |")
    return "\n".join(lines) + "\n"


def _counts(known: dict[str, list[dict[str, Any]]]) -> list[str]:
    """How many claims have which status at which scale, with their identifiers."""
    overall = {claim: _overall(found) for claim, found in known.items()}
    statuses = ("holds", "does not hold", "undecided", "not run")
    lines = ["| largest scale | " + " | ".join(statuses) + " |", "|---|" + "---|" * len(statuses)]
    for scale in ("exact", *SCALES, ""):
        places = [[claim for claim, place in overall.items() if place == (scale, status)] for status in statuses]
        if any(places):
            cells = [f"{len(claims)}: {', '.join(claims)}" if claims else "" for claims in places]
            lines.append(f"| {scale} | " + " | ".join(cells) + " |")
    return lines


def _overall(found: list[dict[str, Any]]) -> tuple[str, str]:
    """The largest scale at which a claim was run, and its status there."""
    ran = [scale for scale in ("exact", *SCALES) if _at(scale, found)]
    return (ran[-1], _at(ran[-1], found)) if ran else ("", "not run")


def _at(scale: str, found: list[dict[str, Any]]) -> str:
    """The status of a claim at a scale; of several recipes, the worst. Empty if it was not run there."""
    statuses = {entry["status"] for entry in found if entry["scale"] == scale}
    return next((status for status in ("does not hold", "undecided", "holds") if status in statuses), "")


def _status(entry: dict[str, Any]) -> str:
    """The status with a link, how many statements hold, and the first of those that decided."""
    findings = entry["findings"]
    held = sum(finding["status"] == "holds" for finding in findings)
    link = f"[{entry['recipe']}](results/papers.md#{entry['recipe']}), {entry['scale']}"
    text = f"{WORD[entry['status']]} ({link}), {held} of {len(findings)} statements"
    text += f"; {entry['note']}" if entry["note"] else ""
    same = [finding for finding in findings if finding["status"] == entry["status"]]
    shown = same[0] if same else findings[0]
    if shown["mean"] is None:
        return f"{text}; {shown['words']}" if entry["status"] != "holds" else text
    interval = f" [{shown['low']:.3g}, {shown['high']:.3g}]" if shown["low"] is not None else ""
    return f"{text}; {shown['words']}: {shown['mean']:.3g}{interval}, {shown['seeds']} seeds"


def _write_page(found: list[Reproduction]) -> None:
    path = RESULTS / "papers.md"
    old = path.read_text() if path.exists() else ""
    sections = _sections(old)
    for one in found:
        figure = reproduction_figure(one)
        text = one.to_markdown()
        if figure is not None:
            name = f"figures/{one.stem}.png"
            save(figure, RESULTS / name)
            text += f"\n![{one.recipe.title}]({name})\n"
        sections[one.name, one.scale] = text
    parts = ["# Tables and figures of the papers", "", INTRODUCTION, ""]
    order = [(name, scale) for name in RECIPES for scale in ("exact", *SCALES)]
    for name in RECIPES:
        mine = [sections[place] for place in order if place[0] == name and place in sections]
        parts += [f'<a id="{name}"></a>', "", *(mine or [_nothing(name)])]
    path.write_text("\n".join(parts))


def _sections(text: str) -> dict[tuple[str, str], str]:
    """The exact sections of the page as it is, which are kept if they are not computed again."""
    sections = {}
    for name in RECIPES:
        mark = f'<a id="{name}"></a>\n'
        if mark in text and PaperRecipe.load(name).is_exact:
            body = text.split(mark)[1].split('<a id="')[0].strip() + "\n"
            if "not computed" not in body:
                sections[name, "exact"] = body
    return sections


def _nothing(name: str) -> str:
    recipe = PaperRecipe.load(name)
    known = [NOT_RUN[claim.id] for claim in recipe.claims if claim.id in NOT_RUN]
    why = "not computed yet" if recipe.is_exact else f"not run: {known[0] if known else 'no time was left'}"
    return f"### {recipe.article}: {recipe.title}\n\n{recipe.shows}\n\n{why}\n"


INTRODUCTION = """Ours, mean ± standard deviation over the seeds, fractions in per cent; in brackets what the paper has
for the same cell. Each table says how it is reduced, and the claims that it was checked for with a
95 % interval over paired seeds. Every cell is a line of JSON in [cells](cells), with its command;
`xzcat` prints a file. Written by `python -m benchmarks.claims`."""


if __name__ == "__main__":
    main()
