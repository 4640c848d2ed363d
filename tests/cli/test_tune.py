"""``pyrite tune`` as it is typed."""

import json
from pathlib import Path

import pytest
from PIL import Image

from tests.children import run

SMALL = ["digits", "ce", "mae", "--samples", "200", "--noise", "symmetric(0.4)", "--model", "mlp(hidden=[8])"]
SMALL += ["--epochs", "2", "--trials", "3"]


def test_in_words_and_again(tmp_path: Path) -> None:
    out = tmp_path / "out"
    code, said = run("tune", *SMALL, "--out", str(out), log=tmp_path / "log")
    assert code == 0, said
    lines = said.splitlines()
    assert [line.split("  ")[0] for line in lines[:3]] == ["trial 1/3", "trial 2/3", "trial 3/3"]
    held = json.loads((out / "tuning.json").read_text())
    assert f"  {held['command']}" in lines
    assert held["command"].startswith("pyrite train digits --loss ")
    assert any("on the given labels of 40 held-out samples, of 3 trials" in line for line in lines)
    assert any(line.startswith("On the test part, which the choice did not look at, ") for line in lines)
    assert lines[-1] == f"wrote {out / 'table.md'}, {out / 'tuning.json'} and {out / 'tuning.png'}"
    with Image.open(out / "tuning.png") as picture:
        assert picture.width == 720
    code, again = run("tune", *SMALL, "--out", str(out), log=tmp_path / "log")
    assert code == 0
    assert again.splitlines() == lines[3:]  # nothing was trained


def test_for_a_program(tmp_path: Path) -> None:
    """Nothing but JSON on standard output, nothing at all on standard error."""
    out, errors = tmp_path / "out", tmp_path / "errors"
    words = ["tune", *SMALL, "--by", "mae", "--lr", "between(0.01, 0.3, log=True)", "--out", str(out), "--json"]
    code, said = run(*words, log=tmp_path / "log", errors=errors)
    assert (code, errors.read_text()) == (0, "")
    held = json.loads((out / "tuning.json").read_text())
    assert json.loads(said) == held | {"picture": str(out / "tuning.png")}
    assert held["by"] == "mae"
    assert held["trials"][0]["lr"] == 0.0548


def test_cross_entropy_is_misleading(tmp_path: Path) -> None:
    out = tmp_path / "out"
    code, said = run("tune", *SMALL, "--by", "ce", "--trials", "1", "--out", str(out), log=tmp_path / "log")
    assert code == 0
    assert said.startswith("pyrite: selection by cross entropy on noisy labels is misleading: ")
    assert said.count("is misleading") == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["gce(p=between(0.1, 1))"], "GCE does not take p"),
        (["gce(q=between(1, 0.1))"], "low must be below high"),
        (["--by", "auc"], "by is 'auc'"),
        (["--lr", "quick"], "unknown range 'quick'"),
        (["--trials", "0"], "trials is 0"),
        (["--validation", "0"], "validation is 0"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(words: list[str], said: str, tmp_path: Path) -> None:
    code, text = run("tune", "digits", *words, "--out", str(tmp_path / "out"), log=tmp_path / "log")
    assert code == 2
    assert said in text
    assert len(text.splitlines()) == 1


def test_when_all_diverge_the_exit_code_is_1(tmp_path: Path) -> None:
    out = tmp_path / "out"
    code, said = run("tune", *SMALL, "--lr", "1e30", "--trials", "2", "--out", str(out), log=tmp_path / "log")
    assert code == 1
    assert "pyrite: none of 2 trials finished: " in said
