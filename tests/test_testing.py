"""What docs/testing.md says: what is skipped is named, and deliberate faults are caught."""

import ast
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks import faults
from tests.conftest import skipped_line

ROOT = Path(__file__).parents[1]


def test_one_line_by_reason() -> None:
    assert skipped_line([]) == ""
    reasons = ["Skipped: no browser", "PYRITE_DATA is not set", "Skipped: no browser"]
    assert skipped_line(reasons) == "NOT TESTED HERE: 2 (no browser); 1 (PYRITE_DATA is not set)"


def test_real_data_that_is_missing_is_said_at_the_end(tmp_path: Path) -> None:
    words = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "tests/real/test_official_sets.py"]
    environment = {"PYRITE_DATA": str(tmp_path), "PYTHONPATH": str(ROOT), "PATH": ""}
    done = subprocess.run([sys.executable, *words], cwd=ROOT, env=environment, capture_output=True, text=True)
    lines = [line for line in done.stdout.splitlines() if line.startswith("NOT TESTED HERE: ")]
    assert len(lines) == 1, done.stdout
    assert f"(mnist is not in {tmp_path})" in lines[0]


def test_faults_are_found_in_the_syntax_tree() -> None:
    source = """
def mean(values, least=1):
    if not values:
        raise ValueError(f"{1 + 1}")
    return sum(values, 0) / (len(values) + 1)
"""
    found = list(faults.faults_of("mean.py", source))
    assert [(fault.before, fault.after) for fault in found] == [
        ("if not values:", "if not not values:"),
        ("sum(values, 0) / (len(values) + 1)", "sum(values, 0) * (len(values) + 1)"),
        ("len(values) + 1", "len(values) - 1"),
        ("1", "2"),
    ]
    results = []
    for fault in found[1:]:
        space: dict[str, Any] = {}
        exec(faults.with_fault(source, fault), space)
        results.append(space["mean"]([1, 2]))
    assert results == [9, 3, 0.75]


def test_every_chosen_fault_changes_a_file_that_still_compiles() -> None:
    chosen = faults.chosen(faults.EACH)
    assert len(chosen) > 50
    for fault in chosen:
        source = (ROOT / "pyrite" / fault.file).read_text()
        assert ast.unparse(ast.parse(source)) != faults.with_fault(source, fault)
        compile(faults.with_fault(source, fault), fault.file, "exec")


def test_the_page_shows_how_many_faults_are_caught() -> None:
    results = json.loads(faults.RESULTS.read_text())
    assert sum(result["caught_by"] is not None for result in results) >= faults.ENOUGH * len(results)
    assert faults.table(results) in faults.PAGE.read_text()
