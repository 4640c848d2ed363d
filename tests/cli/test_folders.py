"""Folders that two commands want at a time, and recipes that were edited. The processes are real."""

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

import pyrite
from tests.children import differing, run, start

DATA = ["digits", "--samples", "300", "--noise", "symmetric(0.4)", "--model", "mlp(hidden=[16])"]


def appears(path: Path, process: Any) -> None:
    while not path.exists():
        assert process.is_alive()
        time.sleep(0.005)


def test_a_second_run_in_the_same_folder_is_refused_at_once(tmp_path: Path) -> None:
    out = tmp_path / "mix"
    first = start("train", *DATA, "--loss", "ce", "--epochs", "400", "--out", str(out), log=tmp_path / "first")
    appears(out / "history.jsonl", first)
    for words in (
        ["train", *DATA, "--loss", "mae", "--epochs", "1", "--out", str(out)],
        ["train", "--resume", str(out)],
    ):
        code, said = run(*words, log=tmp_path / "second")
        assert first.is_alive()
        assert code == 2, said
        assert said.count("\n") == 1
        resumed = "--resume" in words
        assert said.startswith(f"pyrite: {out} is {'in use: another process is training' if resumed else 'not empty'}")
    os.kill(first.pid or 0, signal.SIGTERM)
    first.join(60)
    assert first.exitcode == 130
    left = pyrite.Run.load(out)
    assert str(left.config.method) == "erm(ce)"


@pytest.mark.parametrize("attempt", range(3))
def test_two_that_begin_at_the_same_time(attempt: int, tmp_path: Path) -> None:
    """One is trained to its end as if it were alone; the other leaves nothing behind."""
    out, losses = tmp_path / "mix", ("ce", "mae")
    options = [*DATA, "--epochs", "3"]
    both = [start("train", *options, "--loss", loss, "--out", str(out), log=tmp_path / loss) for loss in losses]
    for process in both:
        process.join(120)
    codes = {loss: process.exitcode for loss, process in zip(losses, both, strict=True)}
    assert sorted(codes.values()) == [0, 2], [(tmp_path / loss).read_text() for loss in losses]
    (winner,) = (loss for loss, code in codes.items() if code == 0)
    (loser,) = (loss for loss, code in codes.items() if code == 2)
    assert (tmp_path / loser).read_text().startswith(f"pyrite: {out} is ")
    assert not list(out.glob(".*"))  # the lock is gone
    code, said = run("train", *options, "--loss", winner, "--out", str(tmp_path / "alone"), log=tmp_path / "log")
    assert code == 0, said
    assert differing(tmp_path / "alone", out) == []


def test_a_killed_run_leaves_no_lock(tmp_path: Path) -> None:
    out = tmp_path / "run"
    first = start("train", *DATA, "--epochs", "400", "--out", str(out), log=tmp_path / "log")
    appears(out / "state" / "state.safetensors", first)
    first.kill()
    first.join()
    second = start("train", "--resume", str(out), log=tmp_path / "log")
    lines = len(pyrite.Run.load(out).history)
    while second.is_alive() and len(pyrite.Run.load(out).history) <= lines + 1:
        time.sleep(0.01)
    assert second.is_alive(), (tmp_path / "log").read_text()
    second.kill()
    second.join()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("epochs = 3", "epochs = 30", "epochs was 3 and is 30"),
        ("lr=0.1", "lr=0.2", "optimiser was 'sgd(lr=0.1, "),
        (
            '"select(erm(ce), curriculum(keep=0.5, gain=4, most=1), elr(coefficient=3, momentum=0.7))"',
            '"erm(ce)"',
            "elr(coefficient=3, momentum=0.7))' and is 'erm(ce)'",
        ),
    ],
)
def test_an_edited_recipe_is_refused(old: str, new: str, said: str, tmp_path: Path) -> None:
    out = tmp_path / "run"
    left = iter([False, False, True])
    pyrite.train(
        "digits", samples=300, model="mlp(hidden=[16])", epochs=3, schedule="constant", out=out, stop=lambda: next(left)
    )
    recipe = out / "recipe.toml"
    text = recipe.read_text()
    assert old in text
    recipe.write_text(text.replace(old, new))
    code, found = run("train", "--resume", str(out), log=tmp_path / "log")
    assert code == 2
    assert found.startswith(f"pyrite: {recipe} was changed since the run began: ")
    assert said in found
    recipe.write_text(text)
    code, found = run("train", "--resume", str(out), log=tmp_path / "log")
    assert code == 0, found


def test_a_cut_run_json_is_named(tmp_path: Path) -> None:
    out = tmp_path / "run"
    pyrite.train("digits", samples=300, model="mlp(hidden=[16])", epochs=3, out=out, stop=lambda: True)
    content = (out / "run.json").read_text()
    (out / "run.json").write_text(content[: len(content) // 2])
    code, found = run("train", "--resume", str(out), log=tmp_path / "log")
    assert code == 2
    assert found.startswith(f"pyrite: cannot read {out / 'run.json'} (")
    assert json.loads(content)["recipe"]["epochs"] == 3


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["train", "digits", "--seed", "-1"], "seed is -1, "),
        (["train", "digits", "--samples", "0"], "samples is 0, but must be greater than or equal to 1"),
        (["train", "digits", "--samples", "-5"], "samples is -5, "),
        (
            ["train", "digits", "--loss", "gce(q=nan)"],
            "cannot read nan in the loss 'gce(q=nan)': it is not a finite number",
        ),
        (["train", "digits", "--loss", "gce(q=1e999)"], "q is inf"),
        (["train", "digits", "--model", "mlp(hidden=(1000000000,))"], "with its 74,000,000,000 weights would take"),
        (["train", "digits", "--model", "mlp(hidden=(1000000, 1000000))"], "weights would take"),
        (["train", "digits", "--lr", "nan"], "lr is nan, but must be"),
        (["train", "digits", "--optimiser", "sgd(lr=1e999)"], "lr is inf"),
        (
            ["curves", "ce", "--classes", "1000000000"],
            "classes is 1000000000, but must be at most 100,000",
        ),
        (["corrupt", "digits", "--noise", "symmetric(0.4)", "--seed", "-1"], "seed is -1"),
    ],
)
def test_numbers_that_cannot_be_are_one_sentence(words: list[str], said: str, tmp_path: Path) -> None:
    code, found = run(*words, log=tmp_path / "log")
    assert code == 2, found
    assert said in found
    assert len(found.splitlines()) == 1
