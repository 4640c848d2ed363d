"""What the README and the page on training show is what happens."""

import json
import re
import shlex
from pathlib import Path
from statistics import mean
from typing import Any

import pytest

from tests.children import run

ROOT = Path(__file__).parents[1]
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")


def blocks(kind: str, page: str = "README.md") -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), flags=re.DOTALL)


PAGES = [
    "README.md",
    *(f"docs/{name}.md" for name in ("training", "methods", "auditing", "integrations", "tuning", "sklearn")),
    *(f"docs/{name}.md" for name in ("predicting", "data", "extending", "concepts/margin")),
]


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.usefixtures("registries_as_before")
def test_the_python_runs(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    found = blocks("python", page)
    assert found
    for block in found:
        exec(compile(block, page, "exec"), names)


def test_the_commands_print_what_is_shown(tmp_path: Path) -> None:
    """Each command is run; the lines shown after it, up to dots, are its first lines.

    Training differs between processors in the last digits, so a number may differ by a tenth, and which sample comes
    first may differ altogether.
    """
    pages = [*blocks("console"), *blocks("console", "docs/concepts/margin.md")]
    commands = [part.splitlines() for block in pages for part in block.split("$ ") if part]
    assert len(commands) >= 3
    for command, *shown in commands:
        program, *words = shlex.split(command)
        assert program == "pyrite"
        errors = tmp_path / "errors"
        code, output = run(*words, log=tmp_path / "log", errors=errors, folder=tmp_path)
        assert code == 0, errors.read_text()
        expected = shown[: shown.index("...")] if "..." in shown else shown
        for line, wanted in zip(output.splitlines(), expected, strict="..." not in shown):
            assert NUMBER.sub("#", line.rstrip()) == NUMBER.sub("#", wanted)
            if not line.startswith("  sample"):
                numbers = [[float(text.replace(",", "")) for text in NUMBER.findall(part)] for part in (line, wanted)]
                assert numbers[0] == pytest.approx(numbers[1], rel=0.1, abs=1)


def test_the_results_are_those_that_were_measured() -> None:
    """Every number in the table of results is in the files of docs/results."""
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    table = page.partition("## What it gains")[2].partition("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("|")][2:]
    assert len(rows) >= 6
    known = measured()
    for name, *cells in rows:
        for column, cell in zip(known["columns"], cells, strict=True):
            assert cell.strip("*") == known[name, column], (name, column)


def measured() -> dict[Any, Any]:
    """Mean accuracies of the benchmark of methods on digits, in per cent."""
    cells = json.loads((ROOT / "docs" / "results" / "methods.json").read_text())["cells"]
    table: dict[Any, Any] = {"columns": ["none", "uniform(0.4)", "flip2(0.4)"]}
    for entry in {cell["entry"] for cell in cells}:
        for noise in table["columns"]:
            own = [c["accuracy"] for c in cells if (c["set"], c["entry"], c["noise"]) == ("digits", entry, noise)]
            table[entry, noise] = f"{100 * mean(own):.1f}" if own else ""
    return table
