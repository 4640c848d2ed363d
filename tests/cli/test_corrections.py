"""``pyrite train --corrections`` and ``--drop-suspects`` as they are typed."""

import csv
import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

import pyrite
from pyrite.auditing import Audit
from pyrite.cli.app import app
from pyrite.data import load
from tests.children import run

SMALL = ["--samples", "200", "--model", "mlp(hidden=[8])", "--epochs", "2", "--loss", "gce(q=0.7)"]


def test_corrections(tmp_path: Path) -> None:
    digits = load("digits")
    with (tmp_path / "fixed.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["index", "path", "old", "new", "score", "decision"])
        for index, label in enumerate(digits.labels.tolist()):
            decision = ("keep", "relabel", "drop", "unsure")[index % 4]
            new = {"keep": label, "relabel": (label + 1) % 10}.get(decision, "")
            table.writerow([index, "", label, new, index / len(digits), decision])
    out = tmp_path / "run"
    words = ["digits", *SMALL, "--corrections", str(tmp_path / "fixed.csv"), "--drop-suspects", "0.75"]
    code, said = run("train", *words, "--out", str(out), log=tmp_path / "log")
    assert code == 0, said
    found = pyrite.Run.load(out)
    index = np.arange(len(digits))
    chosen = np.isin(index % 4, (2,)) | ((index % 4 == 3) & (index / len(digits) >= 0.75))
    assert not (chosen & (found.labels["part"] == 0)).any()
    assert (found.labels["given"] == np.where(index % 4 == 1, (digits.labels + 1) % 10, digits.labels)).all()
    facts = found.facts
    assert f"corrected {facts['corrected']} labels, dropped {facts['dropped']} samples\n" in said
    trained = found.labels["part"] == 0
    assert facts["dropped"] + trained.sum() == 200
    assert facts["corrected"] == (trained & (index % 4 == 1)).sum() > 0
    code, said = run("train", *words, "--json", "--out", str(tmp_path / "b"), log=tmp_path / "log")
    assert code == 0, said
    told = json.loads(said)
    assert (told["corrected"], told["dropped"], told["warnings"]) == (facts["corrected"], facts["dropped"], [])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--corrections", "/nowhere.csv"], "cannot read the corrections: /nowhere.csv: no such file"),
        (["--drop-suspects", "0.9", "--validation", "1"], "validation is 1.0, but must be less than 1"),
        (["--drop-suspects", "1.5"], "drop_suspects is 1.5, but must be less than or equal to 1"),
        (["--drop-suspects", "-1"], "drop_suspects is -1.0, but must be greater than or equal to 0"),
        (["--resume", "/nowhere", "--drop-suspects", "0.9"], "omit all other options"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(words: list[str], said: str, tmp_path: Path) -> None:
    code, found = run("train", "digits", *words, log=tmp_path / "log")
    assert code == 2
    assert said in found
    assert "Traceback" not in found


def test_what_is_held_out_may_be_said(typed: "Type", tmp_path: Path) -> None:
    words = [*SMALL, "--drop-suspects", "0.9", "--validation", "0.3"]
    done = typed("digits", *words, "--out", str(tmp_path / "run"))
    assert done.exit_code == 0, done.output
    for place in ("run/audit", "run"):
        assert pyrite.Run.load(tmp_path / place).config.validation == 0.3
    (tmp_path / "run.toml").write_text('data = "digits"\nvalidation = 0.4\n')
    done = typed("--config", str(tmp_path / "run.toml"), *words[:-2], "--out", str(tmp_path / "b"))
    assert done.exit_code == 0, done.output
    assert pyrite.Run.load(tmp_path / "b" / "audit").config.validation == 0.4


# --- suspects alone: an audit comes first ---------------------------------------------------------------------------


def suspecting(run: pyrite.Run) -> Audit:
    """In the place of an audit: every third sample is suspected with 95 %."""
    index = np.flatnonzero(run.labels["part"] < 2)
    given, classes = run.labels["given"][index], len(run.classes)
    likely = np.where(np.arange(len(index)) % 3 == 0, 0.95, 0.05)
    return Audit(
        labels=given, classes=run.classes, index=index, score=np.log(likely / (1 - likely)),
        choices=((given + 1) % classes)[:, None], likelihoods=np.ones((len(index), 1)), threshold=0.5,
        noise_rate=0.34, noise_rate_error=0.01, matrix=np.eye(classes), matrix_error=np.zeros((classes, classes)),
    )  # fmt: skip


Type = Callable[..., Result]


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> Type:
    monkeypatch.setattr("pyrite.without_suspects.audit", suspecting)
    return lambda *words: CliRunner().invoke(app, ["train", *words])


def check(home: Path, least: float) -> None:
    first, second = pyrite.Run.load(home / "audit"), pyrite.Run.load(home)
    assert first.finished
    assert second.finished
    assert (first.labels["part"] == 1).sum() == 40  # a fifth tells how many labels are wrong
    trained = np.flatnonzero(first.labels["part"] < 2)
    assert len(trained) == 200
    left = np.setdiff1d(trained, trained[::3]) if least <= 0.95 else trained
    assert np.flatnonzero(second.labels["part"] == 0).tolist() == left.tolist()
    assert second.config.corrections == str(home / "audit" / "suspects.csv")
    assert second.config.drop_suspects == least
    assert (first.config.corrections, first.config.drop_suspects) == (None, 0.0)
    assert (first.config.validation, second.config.validation) == (0.2, 0.0)
    same = {"corrections": None, "drop_suspects": 0.0, "validation": 0.2}
    assert second.config.replace(**same) == first.config
    assert (home / "corrections.csv").read_bytes() == (home / "audit" / "suspects.csv").read_bytes()


def test_suspects_are_found_and_dropped(typed: Type, tmp_path: Path) -> None:
    out = tmp_path / "run"
    done = typed("digits", *SMALL, "--loss", "mae", "--lr", "0.05", "--drop-suspects", "0.9", "--out", str(out))
    assert done.exit_code == 0, done.output
    check(out, 0.9)
    assert "about 34.0 % of 200 labels look wrong" in done.stdout
    assert "corrected 0 labels, dropped 67 samples" in done.stdout
    assert done.stdout.endswith(f"wrote {out}\n")
    assert str(pyrite.Run.load(out).config.method) == "erm(mae)"
    assert str(pyrite.Run.load(out).config.optimiser).startswith("sgd(lr=0.05, ")


def test_for_a_program(typed: Type, tmp_path: Path) -> None:
    done = typed("digits", *SMALL, "--drop-suspects", "0.99", "--json", "--out", str(tmp_path / "run"))
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert (told["run"], told["dropped"]) == (str(tmp_path / "run"), 0)
    check(tmp_path / "run", 0.99)


def test_a_folder_of_its_own_and_a_config(typed: Type, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("run.toml").write_text('data = "digits"\ndrop_suspects = 0.9\n')
    done = typed("--config", "run.toml", *SMALL)
    assert done.exit_code == 0, done.output
    (home,) = (tmp_path / "runs").iterdir()
    check(home, 0.9)
    # With a ranking in the config nothing is audited.
    Path("run.toml").write_text(f'data = "digits"\ncorrections = "{home}/audit/suspects.csv"\n')
    done = typed("--config", "run.toml", *SMALL, "--drop-suspects", "0.9", "--out", "b")
    assert done.exit_code == 0, done.output
    assert not Path("b/audit").exists()
    assert pyrite.Run.load("b").history == pyrite.Run.load(home).history


@pytest.mark.parametrize("stopped", ["audit", "."])
def test_the_same_command_goes_on(stopped: str, typed: Type, tmp_path: Path) -> None:
    words = ["digits", *SMALL, "--checkpoint-every", "1", "--drop-suspects", "0.9", "--out", str(tmp_path / "run")]
    assert typed(*words).exit_code == 0
    whole = (tmp_path / "run" / "model.safetensors").read_bytes()
    if stopped == "audit":
        for path in (tmp_path / "run").iterdir():  # the second run has not begun
            if path.is_file():
                path.unlink()
        os.remove(tmp_path / "run" / "state" / "state.safetensors")
        os.rmdir(tmp_path / "run" / "state")
    place = tmp_path / "run" / stopped
    facts = json.loads((place / "run.json").read_text())
    (place / "run.json").write_text(json.dumps(facts | {"finished": False}))
    (place / "model.safetensors").unlink()
    done = typed(*words)
    assert done.exit_code == 0, done.output
    check(tmp_path / "run", 0.9)
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == whole
    done = typed(*words, "--seed", "5")
    assert isinstance(done.exception, ValueError)
    assert f"{tmp_path / 'run' / 'audit'} contains a run with other seed: choose another folder" in str(done.exception)


def test_an_occupied_folder_is_refused_before_anything(typed: Type, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()
    done = typed("digits", *SMALL, "--drop-suspects", "0.9", "--out", str(tmp_path))
    assert str(done.exception) == f"{tmp_path} is not empty: choose another folder"
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_ctrl_c_before_the_first_step(typed: Type, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("pyrite.training.launch.resolve", interrupted)
    done = typed("digits", *SMALL, "--out", str(tmp_path / "run"))
    assert (done.exit_code, done.output) == (130, "pyrite: stopped\n")


def test_ctrl_c_says_how_to_go_on(typed: Type, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(run: pyrite.Run) -> Audit:
        raise KeyboardInterrupt

    monkeypatch.setattr("pyrite.without_suspects.audit", interrupted)
    done = typed("digits", *SMALL, "--drop-suspects", "0.9", "--out", str(tmp_path / "run"))
    assert done.exit_code == 130
    assert f"stopped and saved; continue with the same command and --out {tmp_path / 'run'}" in done.output
