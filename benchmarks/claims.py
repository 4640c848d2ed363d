"""The front page of results: every claim, table and figure of the papers, from the cells in docs/results/cells.

    python -m benchmarks.claims            # reads what is finished; trains nothing
    python -m benchmarks.claims --exact    # also computes again what needs no training (a minute)

Writes docs/results/claims.json, docs/results/papers.md, docs/results/figures/*.png, and the claim table in
docs/results/claims.md, between its two markers.
"""

import argparse
import json
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyrite.papers import CLAIMS, RECIPES, SCALES, PaperRecipe, Reproduction, read_reproduction
from pyrite.papers.page import reproduction_figure
from pyrite.report.style import save
from pyrite.text_tables import Table

DOCS = Path(__file__).parent.parent / "docs"
RESULTS = DOCS / "results"
NOTES = RESULTS / "claims-notes.md"
BEGIN, END = "<!-- claims: begin -->", "<!-- claims: end -->"
NOT_RUN = {
    "I5": "needs Clothing1M (a million images, from its authors on request) and a GPU",
    "I14": "needs MARS (20,715 videos) and a GPU",
    "I18": "needs a GPU to train SL, GCE and D2L as long as the paper",
    "C16": "needs a GPU to train NCE+AUL as long as the paper",
}
FAR = "not tested in the paper's conditions"
KINDS = {  # of data in reduced settings: how the words on it begin, and what it is
    "A": ("images", "the paper's images with fewer pixels"),
    "B": ("data digits", "the digits of scikit-learn"),
    "C": ("data blobs", "synthetic points around 10 to 400 centres"),
    "D": ("", "other data or another net than the paper's"),
}
PAPERS = {"I": "IMAE", "C": "A curriculum view of robust losses", "R": "Gold samples"}
REDUCED = (
    "None of these settings tests a claim in the conditions of its paper. They show whether an effect appears in small "
    "and short training already. The first count is from the largest setting of the paper's own table that was run. "
    "The letter is the setting, and the per cent are its steps relative to those of the paper."
)


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
    """What is decided first; then, paper by paper, what shows in which reduced setting; each setting once."""
    found = {claim: _ordered([entry for entry in entries if entry["id"] == claim]) for claim in CLAIMS}
    near = [claim for claim, known in found.items() if known and known[0]["status"] != FAR]
    far = [claim for claim, known in found.items() if known and known[0]["status"] == FAR]
    absent = [claim for claim, known in found.items() if not known]
    shares = {claim: _held(found[claim][0]) / len(found[claim][0]["findings"]) for claim in far}
    counts = {
        "decided exactly, or near the paper's conditions": near,
        "only in a reduced setting, where every statement shows": [claim for claim in far if shares[claim] == 1],
        "only in a reduced setting, where some statements show": [claim for claim in far if 0 < shares[claim] < 1],
        "only in a reduced setting, where no statement shows": [claim for claim in far if not shares[claim]],
        "not run": absent,
    }
    lines = ["| tested | claims |", "|---|---|"]
    lines += [f"| {name} | {len(claims)}: {', '.join(claims)} |" for name, claims in counts.items() if claims]
    lines += ["", "### Decided exactly, or near the paper's conditions", "", *_table(near, found)]
    lines += ["", "### In reduced settings", "", *textwrap.wrap(REDUCED, 100), ""]
    settings = [entry for claim in far for entry in found[claim] if entry["missing"]]
    for kind in sorted(set(map(_kind, settings))):
        words = _setting(kind, [entry for entry in settings if _kind(entry) == kind])
        lines += textwrap.wrap(f"- {words}", 100, subsequent_indent="  ")
    for letter, paper in PAPERS.items():
        lines += ["", f"**{paper}**", "", *_table([claim for claim in far if claim[0] == letter], found)]
    lines += ["", "### Not run", "", "| | claim | from | because it |", "|---|---|---|---|"]
    lines += [f"| {c} | {CLAIMS[c].text} | {CLAIMS[c].source} | {NOT_RUN.get(c, 'takes long')} |" for c in absent]
    return "\n".join(lines) + "\n"


def _table(claims: list[str], found: dict[str, list[dict[str, Any]]]) -> list[str]:
    """A row per claim: the outcome nearest to the paper, and the others."""
    notes, rows = NOTES.read_text(), []
    for claim in claims:
        first, *others = map(_known, found[claim])
        why = f" ([note](claims-notes.md#{claim.lower()}))" if f'id="{claim.lower()}"' in notes else ""
        source = CLAIMS[claim].source.partition(", ")[2]
        rows.append((claim, CLAIMS[claim].text, source, f"{first}{why}", "; ".join(others)))
    used = 5 if any(row[4] for row in rows) else 4
    headings = ("", "claim", "from", "statements that hold", "elsewhere")
    return Table(headings[:used], tuple(row[:used] for row in rows), code=-1).to_markdown().splitlines()


def _known(entry: dict[str, Any]) -> str:
    """How many statements hold in a setting, with a link to their numbers."""
    states = [finding["status"] for finding in entry["findings"]]
    more = "".join(f", {states.count(one)} {one}" for one in ("undecided", "not run") if one in states)
    more += ", all once corrected" if entry["note"].startswith("corrected, it holds:") else ""
    where = f"{_kind(entry)} {_share(entry)} %: " if entry["missing"] else ""
    return f"{where}[{_held(entry)} of {len(states)}](papers.md#{entry['recipe']}){more}"


def _held(entry: dict[str, Any]) -> int:
    return sum(finding["status"] == "holds" for finding in entry["findings"])


def _kind(entry: dict[str, Any]) -> str:
    """The letter of the data of a reduced setting."""
    data = next((words for words in entry["missing"] if words.startswith(("data ", "images "))), "")
    return next(letter for letter, (begin, _) in KINDS.items() if data.startswith(begin))


def _setting(kind: str, entries: list[dict[str, Any]]) -> str:
    """What the settings with one kind of data have in place of the paper's, each condition once."""
    words = {one for entry in entries for one in entry["missing"]}
    samples = sorted(int(one.split(" ")[0].replace(",", "")) for one in words if " samples (" in one)
    ours = [one.split(" in place")[0].removeprefix("model ") for one in words if one.startswith("model ")]
    nets = sorted({net for one in ours for net in re.findall(r"(?:^|, )([a-z]\w*)(?=\(|,|$)", one)})
    shares = sorted(float(_share(entry)) for entry in entries)
    parts = [KINDS[kind][1], f"from {samples[0]:,} samples" if samples else "", ", ".join(f"`{net}`" for net in nets)]
    parts += ["no augmentation" if any(one.startswith("augment none") for one in words) else ""]
    return f"**{kind}**: {'; '.join(filter(None, parts))}; {shares[0]:g} to {shares[-1]:g} % of the steps"


def _share(entry: dict[str, Any]) -> str:
    """The steps relative to those of the paper, in per cent."""
    found = re.search(r"steps \(([\d.]+) %\)", "; ".join(entry["missing"]))
    return found[1] if found else "100"


def _ordered(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The entries of a claim, the one nearest to the paper first: of the same scale, the worst outcome."""
    worst, scales = ("does not hold", "undecided", "holds"), ("exact", *reversed(SCALES))
    return sorted(
        found, key=lambda e: (e["status"] == FAR, scales.index(e["scale"]), _follows(e), worst.index(e["outcome"]))
    )


def _follows(entry: dict[str, Any]) -> bool:
    """Whether it is a follow-up of our own, which counts after the paper's table."""
    return PaperRecipe.load(entry["recipe"]).title.startswith("Follow-up")


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
