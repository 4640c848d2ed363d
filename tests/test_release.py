"""What is released: the name to install, one version everywhere, and the versions that CI tests."""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

import pyrite

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_no_file_names_another_distribution_to_install() -> None:
    """pyrite is somebody else's; ours is pyrite-labels."""
    assert PROJECT["name"] == "pyrite-labels"
    wrong = re.compile(rb"""pip install (?:-\S+ )*["'`]?pyrite(?![-\w])|["']pyrite\\?\[[a-z{]""")
    asked = b"pip" + b" install "  # this file is searched too
    assert wrong.search(asked + b"pyrite")
    assert wrong.search(asked + b'"pyrite' + b'[hf]"')
    assert not wrong.search(asked + b"'pyrite-labels[hf]'")
    done = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        pytest.skip("not a git checkout")
    files = [path for name in done.stdout.split("\0") if name and (path := ROOT / name).is_file()]
    assert [str(path.relative_to(ROOT)) for path in files if wrong.search(path.read_bytes())] == []


def test_the_citation_has_the_version() -> None:
    assert f"\nversion: {pyrite.__version__}\n" in (ROOT / "CITATION.cff").read_text()


def test_ci_tests_the_oldest_versions_that_are_allowed() -> None:
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text()
    for package in ("torch", "scikit-learn"):
        (least,) = [line.partition(">=")[2] for line in PROJECT["dependencies"] if line.startswith(f"{package}>=")]
        assert workflow.count(f"{package}=={least}.*") == 2
    assert f'"{PROJECT["requires-python"].removeprefix(">=")}"' in workflow
