"""Train, audit and train again, from Python. As it is typed: tests/cli/test_corrections.py."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import pyrite
from pyrite import without_suspects
from pyrite.auditing import Audit
from pyrite.cli.app import app
from pyrite.data import load
from pyrite.training import RunFailed

SMALL: dict[str, Any] = {"noise": "symmetric(0.4)", "model": "mlp(hidden=[16])", "epochs": 8, "loss": "ce"}


def test_suspects_of_the_first_run_are_not_in_the_second(tmp_path: Path) -> None:
    told: list[Audit] = []
    run = pyrite.train_without_suspects("digits", drop_suspects=0.9, out=tmp_path / "run", audited=told.append, **SMALL)
    first = pyrite.Run.load(tmp_path / "run" / "audit")
    (audit,) = told
    assert audit.run is not None
    assert audit.run.path == first.path
    suspects = audit.index[audit.wrong_probability >= 0.9]
    assert len(suspects) > 20
    dropped = run.labels["part"] == 2
    assert np.flatnonzero(dropped).tolist() == np.sort(suspects).tolist()
    wrong = run.labels["given"] != run.labels["true"]
    assert wrong[suspects].mean() > 0.8
    assert (first.config.validation, run.config.validation) == (0.2, 0.0)
    again = pyrite.train_without_suspects("digits", drop_suspects=0.9, out=tmp_path / "run", **SMALL)
    assert again.history == run.history
    with pytest.raises(ValueError, match="audit contains a run with other epochs"):
        pyrite.train_without_suspects("digits", drop_suspects=0.9, out=tmp_path / "run", **{**SMALL, "epochs": 9})


def test_both_runs_share_the_minutes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    times, lengths, resolve = iter((0.0, 45.0)), list[float](), without_suspects.resolve

    def recorded(data: Any, **options: Any) -> Any:
        lengths.append(options.pop("minutes"))
        return resolve(data, **options)

    monkeypatch.setattr(without_suspects, "perf_counter", lambda: next(times))
    monkeypatch.setattr(without_suspects, "resolve", recorded)
    settings = {name: value for name, value in SMALL.items() if name != "epochs"}
    pyrite.train_without_suspects("digits", drop_suspects=0.9, out=tmp_path / "run", minutes=1, samples=400, **settings)
    assert lengths == [0.5, 0.25]


def test_objects_are_handed_on_to_both_runs(tmp_path: Path) -> None:
    data = load("blobs(classes=3, samples=400)")

    def own(scores: Any, labels: Any) -> Any:
        return pyrite.CE(reduction="none")(scores, labels)

    run = pyrite.train_without_suspects(data, drop_suspects=0.9, loss=own, epochs=2, out=tmp_path / "run")
    assert str(run.config.method) == "erm(own)"
    assert str(run.config.data) == "blobs"
    assert run.finished


def test_what_is_wrong_is_said_before_the_first_run(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="drop_suspects is missing: set the lowest probability at which"):
        pyrite.train_without_suspects("digits", out=tmp_path / "run")
    with pytest.raises(ValueError, match=r"drop_suspects is 1\.5"):
        pyrite.train_without_suspects("digits", drop_suspects=1.5, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
    with pytest.raises(ValueError, match=r"or train with pyrite\.train_without_suspects"):
        pyrite.train("digits", drop_suspects=0.9, out=tmp_path / "run")


@pytest.mark.parametrize(
    ("words", "is_audited"),
    [
        (["--drop-suspects", "0.9"], True),
        (["--config", "run.toml"], True),
        (["--config", "run.toml", "--corrections", "suspects.csv"], False),
        (["--config", "run.toml", "--drop-suspects", "0.0"], False),
        ([], False),
    ],
)
def test_when_an_audit_is_needed(
    words: list[str], is_audited: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def called(name: str) -> Any:
        raise RunFailed(name)

    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.toml").write_text('data = "digits"\ndrop_suspects = 0.9\n')
    for name in ("training.train", "without_suspects.train_without_suspects"):
        monkeypatch.setattr(f"pyrite.{name}", lambda *given, name=name, **options: called(name))
    printed = CliRunner().invoke(app, ["train", "digits", *words]).stderr
    assert ("without_suspects" in printed) == is_audited
    assert "train" in printed


def test_decisions_are_not_replaced_by_the_audit(tmp_path: Path) -> None:
    (tmp_path / "c.csv").write_text("index,old,new,decision\n0,0,,drop\n")
    with pytest.raises(ValueError, match=r"c\.csv, but suspects are those of a new audit: omit corrections"):
        pyrite.train_without_suspects("digits", drop_suspects=0.9, corrections=tmp_path / "c.csv", **SMALL)
