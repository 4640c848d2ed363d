"""What docs/testing.md says: what is skipped is named, and deliberate faults are caught."""

import json
import subprocess
import sys
from pathlib import Path

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


def test_every_fault_can_be_put_in() -> None:
    tree = {fault.file: (ROOT / "pyrite" / fault.file).read_text() for fault in faults.FAULTS}
    assert [fault for fault in faults.FAULTS if tree[fault.file].count(fault.old) != 1] == []


def test_the_page_shows_the_faults_and_all_are_caught() -> None:
    results = json.loads(faults.RESULTS.read_text())
    assert [result for result in results if result["caught_by"] is None] == []
    assert {fault[:3] for fault in faults.FAULTS} == {(one["file"], one["old"], one["new"]) for one in results}
    assert faults.table(results) in faults.PAGE.read_text()
