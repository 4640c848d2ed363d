"""The front page of results: every claim, table and figure of the papers, from the cells in docs/results/cells.

    python -m benchmarks.claims            # reads what is finished; trains nothing
    python -m benchmarks.claims --exact    # also computes again what needs no training (a minute)

Writes docs/results/claims.json, docs/results/papers.md, docs/results/figures/*.png, and the claim table in
docs/results/claims.md, between its two markers.
"""

import argparse
import json
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyrite.papers import CLAIMS, RECIPES, SCALES, PaperRecipe, Reproduction, read_reproduction
from pyrite.papers.page import reproduction_figure
from pyrite.report.style import save

DOCS = Path(__file__).parent.parent / "docs"
RESULTS = DOCS / "results"
BEGIN, END = "<!-- claims: begin -->", "<!-- claims: end -->"
NOT_RUN = {
    "I5": "Clothing1M (a million images, from its authors on request) and a GPU are needed",
    "I14": "MARS (20,715 videos) and a GPU are needed",
    "I18": "SL, GCE and D2L at the paper's length need a GPU",
    "C16": "NCE+AUL at the paper's length needs a GPU",
}
FAR = "not tested in the paper's conditions"
SHOWN = {"holds": "shows", "does not hold": "does not show", "undecided": "undecided"}  # of a claim that is not tested


def main() -> None:
    """Read, evaluate and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--exact", action="store_true", help="compute again what needs no training")
    arguments = parser.parse_args()
    found = list(_reproductions(arguments.exact))
    entries = list(_entries(found))
    if not arguments.exact:
        old = json.loads((RESULTS / "claims.json").read_text()) if (RESULTS / "claims.json").exists() else []
        entries += [e for e in old if e["scale"] == "exact" and e["id"] in PaperRecipe.load(e["recipe"]).compute]
    order = [*CLAIMS, *(entry["id"] for entry in entries)]
    entries.sort(key=lambda entry: (order.index(entry["id"]), entry["scale"]))
    (RESULTS / "claims.json").write_text(json.dumps(entries, indent=1, ensure_ascii=False) + "\n")
    _write_page(found)
    page = RESULTS / "claims.md"
    text = page.read_text()
    before, after = text.split(BEGIN)[0], text.split(END)[1]
    page.write_text(before + BEGIN + "\n\n" + front_page(entries) + "\n" + END + after)


def _reproductions(exact: bool) -> Iterator[Reproduction]:
    for name in RECIPES:
        recipe = PaperRecipe.load(name)
        if recipe.is_exact and (exact or not recipe.compute):
            yield read_reproduction(name, "tiny", RESULTS / "cells")
        for scale in recipe.scales():
            one = read_reproduction(name, scale, RESULTS / "cells")
            if one.results is not None and one.results.cells:
                yield one


def _entries(found: list[Reproduction]) -> Iterator[dict[str, Any]]:
    """One entry per claim, recipe and scale."""
    for one in found:
        seeds = [] if one.results is None else one.results.seeds
        for verdict, told in zip(one.verdicts(), one.to_dict()["claims"], strict=True):
            if verdict.outcome != "not run":
                known = CLAIMS.get(verdict.claim)
                words = {"claim": known.text if known else verdict.note, "from": known.source if known else "ours"}
                place = {"recipe": one.name, "scale": one.scale, "command": one.command, "seeds": seeds}
                yield {"id": verdict.claim, **words, **place, "note": verdict.note, **told}


def front_page(entries: list[dict[str, Any]]) -> str:
    """What is decided first, then what is known of the other claims."""
    ordered = {claim: _ordered([entry for entry in entries if entry["id"] == claim]) for claim in CLAIMS}
    nearest = {claim: found[0] if found else None for claim, found in ordered.items()}
    groups = {
        "Decided exactly, or near the paper's conditions": lambda e: e and e["status"] != FAR,
        "Not tested in the paper's conditions; the effect shows in a reduced setting": lambda e: _far(e, "holds"),
        "Not tested in the paper's conditions; undecided in a reduced setting": lambda e: _far(e, "undecided"),
        "Not tested in the paper's conditions; the effect does not show in a reduced setting": lambda e: _far(
            e, "does not hold"
        ),
        "Not run": lambda e: not e,
    }
    words = (
        "A claim is decided where it is computed exactly, or trained near the paper's conditions: the paper's data, "
        "net and augmentation, at least a quarter of its steps, a fifth of its samples and half of the side of its "
        "images. Where a condition is missing, the table gives the outcome in the reduced setting, which is no "
        "evidence against the paper. The first setting of a row is the largest one of the paper's own table that was "
        "run, and the numbers belong to the first statement that decided the claim there."
    )
    lines = [*textwrap.wrap(words, 100), ""]
    counts = {name: [claim for claim, entry in nearest.items() if is_in(entry)] for name, is_in in groups.items()}
    lines += ["| | claims |", "|---|---|"]
    lines += [f"| {name} | {len(claims)}: {', '.join(claims)} |" for name, claims in counts.items() if claims]
    for name, claims in counts.items():
        if claims:
            lines += ["", f"### {name}", "", "| | claim | from | outcome |", "|---|---|---|---|"]
            lines += [f"| {c} | {CLAIMS[c].text} | {CLAIMS[c].source} | {_known(ordered[c], c)} |" for c in claims]
    return "\n".join(lines) + "\n"


def _outcome(entry: dict[str, Any]) -> str:
    outcome: str = entry["outcome"]
    return SHOWN[outcome] if entry["status"] == FAR else outcome


def _far(entry: dict[str, Any] | None, outcome: str) -> bool:
    return bool(entry) and entry["status"] == FAR and entry["outcome"] == outcome


def _ordered(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The entries of a claim, the one nearest to the paper first: of the same scale, the worst outcome."""
    worst, scales = ("does not hold", "undecided", "holds"), ("exact", *reversed(SCALES))
    return sorted(
        found, key=lambda e: (e["status"] == FAR, scales.index(e["scale"]), _follows(e), worst.index(e["outcome"]))
    )


def _follows(entry: dict[str, Any]) -> bool:
    """Whether it is a follow-up of our own, which counts after the paper's table."""
    return PaperRecipe.load(entry["recipe"]).title.startswith("Follow-up")


def _known(entries: list[dict[str, Any]], claim: str) -> str:
    """The outcome with a link, how many statements hold, the first that decided, and which conditions are missing; and
    the outcomes in other settings."""
    if not entries:
        return f"not run: {NOT_RUN.get(claim, 'no time was left')}"
    entry, *others = entries
    findings = entry["findings"]
    held = sum(finding["status"] == "holds" for finding in findings)
    link = f"[{entry['recipe']}](papers.md#{entry['recipe']}), {entry['scale']}"
    text = f"**{_outcome(entry)}** ({link}), {held} of {len(findings)} statements"
    text += f"; {entry['note']}" if entry["note"] else ""
    same = [finding for finding in findings if finding["status"] == entry["outcome"]]
    shown = same[0] if same else findings[0]
    if shown["mean"] is not None:
        interval = f" [{shown['low']:.3g}, {shown['high']:.3g}]" if shown["low"] is not None else ""
        text += f"; {shown['words']}: {shown['mean']:.3g}{interval}, {shown['seeds']} seeds"
    elif entry["outcome"] != "holds":
        text += f"; {shown['words']}"
    text += f". *Missing:* {'; '.join(entry['missing'])}" if entry["missing"] else ""
    for other in others:
        link = f"[{other['recipe']}](papers.md#{other['recipe']}), {other['scale']}"
        text += f"<br>Also **{_outcome(other)}** ({link})" + (f": {other['note']}" if other["note"] else "")
    return text


def _write_page(found: list[Reproduction]) -> None:
    path = RESULTS / "papers.md"
    sections = _sections(path.read_text() if path.exists() else "")
    for one in found:
        figure = reproduction_figure(one)
        text = one.to_markdown()
        if figure is not None:
            name = f"figures/{one.stem}.png"
            save(figure, RESULTS / name)
            text += f"\n![{one.recipe.title}]({name})\n"
        sections[one.name, one.scale] = text
    parts = ["# Tables and figures of the papers", "", INTRODUCTION, ""]
    for name in RECIPES:
        mine = [sections[name, scale] for scale in ("exact", *SCALES) if (name, scale) in sections]
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


INTRODUCTION = """The tables show the mean ± standard deviation over the seeds, fractions in per cent, and in brackets
the published value. Each table names its seeds, the differences from the paper's setting, and the
claims that it tests with a 95 % interval over paired seeds. **Far from the paper's conditions a
claim is not tested**; "here" marks a result of the reduced setting. The folder `docs/results/cells`
contains every cell as a line of JSON with its command; `xzcat` prints a file. `python -m
benchmarks.claims` writes this page."""


if __name__ == "__main__":
    main()
