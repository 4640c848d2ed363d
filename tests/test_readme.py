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


def results(name: str) -> Any:
    return json.loads((ROOT / "docs" / "results" / f"{name}.json").read_text(encoding="utf-8"))


def percent(rows: list[dict[str, Any]], **equal: object) -> str:
    """The mean accuracy of the rows that have these values."""
    return f"{100 * mean(row['accuracy'] for row in rows if equal.items() <= row.items()):.1f} %"


def test_the_results_are_those_that_were_measured() -> None:
    """The table of results in the README has the means of the files in docs/results."""
    digits = [row for row in results("methods")["cells"] if row["set"] == "digits"]
    timed = [row | {"more": str(row["more"])} for row in results("default_method")["timed"]]
    worst: dict[str, object] = {"labels": "worse_label", "more": "{}"}
    tables = [row for row in results("tabular")["cells"] if row["noise"] == "symmetric(0.3)"]
    rates = results("audit_rate")
    runs = (run["epochs"] for run in results("fine_tuning")["runs"] if run.get("minutes") == 15)
    fine_tuned = [epochs[-1]["test_accuracy"] for epochs in runs]
    expected = [
        *(f"{name} {percent(digits, entry=name, noise='flip2(0.4)')}" for name in ("ELR", "GCE", "Backward")),
        *(f"{name} {percent(digits, entry=name, noise='none')}" for name in ("ELR", "IMAE")),
        *(f"cross entropy {percent(digits, entry='CE', noise=noise)}" for noise in ("flip2(0.4)", "none")),
        f"cross entropy {percent(timed, **worst, method='CE', epochs=30)}",
        f"default {percent(timed, **worst, method='default', epochs=30)}; GCE {percent(timed, **worst, method='GCE')}",
        f"default {100 * mean(fine_tuned):.1f} %",
        *(f"{words} {percent(timed, labels='clean', method=name)}" for words, name in CLEAN.items()),
        *(f"{words} {percent(tables, classifier=name)}" for words, name in CLASSIFIERS.items()),
        f"cleanlab {100 * rates['half']['kept aside']['their_error']:.1f} points",
        f"audit {100 * rates['half']['kept aside']['error']:.1f} points",
        f"{100 * rates['kept_aside']['overlap']['error']:.1f} where classes overlap",
    ]
    table = (ROOT / "README.md").read_text(encoding="utf-8").partition("## Results")[2]
    assert [text for text in expected if text not in table] == []


CLEAN = {"cross entropy": "CE", "default": "default"}
CLASSIFIERS = {"cleanlab with boosting": "CleanLearning, boosting", "`RobustClassifier`": "RobustClassifier"}
