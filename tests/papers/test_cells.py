"""Cells: named by their settings, trained once, and small enough to be committed."""

import json
import lzma
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import pyrite
from pyrite.papers import cells as module
from pyrite.papers.cells import Cell, CellFolder, CellResult, train_cell
from pyrite.training import Job, Run, RunFailed

SETTINGS = {"data": "digits", "model": "mlp(hidden=[8])", "samples": 200, "epochs": 3, "noise": "symmetric(0.4)"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cells")


@pytest.fixture(scope="module")
def result(folder: Path) -> CellResult:
    return train_cell(Cell.make(SETTINGS | {"loss": "mae"}), "mine.toml", CellFolder(folder / "cells"), folder / "runs")


def test_one_run_has_one_name() -> None:
    cell = Cell.make(SETTINGS | {"method": "erm(mae)", "optimiser": "sgd(0.1)"})
    same = Cell.make(
        {"seed": 0, "optimiser": "sgd(lr=0.1)", "loss": "mae", "schedule": ""}
        | SETTINGS
        | {"noise": "symmetric(rate=0.4)"}
    )
    assert cell.key == same.key
    assert cell.key != Cell.make(SETTINGS | {"method": "erm(mae)", "seed": 1}).key
    # The committed results have such names: if this changes, all of them are orphans.
    assert Cell.make({"data": "digits", "loss": "ce"}).key == "cec0911c4720d983"


def test_bad_settings_are_named() -> None:
    with pytest.raises(ValueError, match="unknown setting 'epoch'"):
        Cell.make({"data": "digits", "epoch": 3})
    with pytest.raises(ValueError, match="method and loss"):
        Cell.make({"data": "digits", "loss": "ce", "method": "erm(ce)"})


def test_the_result_is_the_run(folder: Path, result: CellResult) -> None:
    run = pyrite.train(out=folder / "same", loss="mae", progress=False, **SETTINGS)  # type: ignore[arg-type]
    for name, value in run.table.items():
        if value is not None:
            assert result.value(name) == pytest.approx(value, rel=1e-5), name
    tests = [line["test_accuracy"] for line in run.history]
    assert result.facts["history"]["test_accuracy"] == pytest.approx(tests, rel=1e-3)
    assert result.value("fall") == pytest.approx(max(tests) - tests[-1], abs=1e-5)
    assert result.value("test_accuracy_first") == pytest.approx(tests[0], rel=1e-3)
    assert result.value("test_accuracy_gain") == pytest.approx(tests[-1] - tests[0], abs=1e-3)
    assert result.value("wrong_margin") == result.facts["history"]["wrong_margin"][-1]  # kept in the history alone
    assert result.value("no_such_column") is None
    margins = result.facts["margins"]
    wrong = run.samples["noisy_margins"][margins["epochs"][-1] - 1]
    assert sum(margins["wrong"][-1]) == wrong.sum() > 0
    assert not (folder / "runs" / result.cell.key).exists()


def test_it_is_trained_once(folder: Path, result: CellResult, monkeypatch: pytest.MonkeyPatch) -> None:
    cells = CellFolder(folder / "cells")
    assert [file.name for file in cells.path.iterdir()] == ["mine.jsonl.xz"]
    assert (cells.path / "mine.jsonl.xz").stat().st_size < 4000
    monkeypatch.setattr(module, "resolve", None)  # training would fail
    again = train_cell(result.cell, "mine", cells, folder / "runs")
    assert dict(again.cell.settings) == dict(result.cell.settings)
    assert again.facts["final"] == result.facts["final"]
    assert again.facts["command"] == result.cell.command


def test_the_same_results_are_the_same_bytes(tmp_path: Path, result: CellResult) -> None:
    """In whatever order they were finished; those of all recipes are found."""
    made = [CellResult(result.cell.with_seed(seed), result.facts) for seed in range(3)]
    for name, order in {"one": (0, 1, 2), "other": (2, 0, 1, 0)}.items():
        for place in order:
            CellFolder(tmp_path / name).add("mine", made[place])
    files = [tmp_path / name / "mine.jsonl.xz" for name in ("one", "other")]
    assert files[0].read_bytes() == files[1].read_bytes()
    CellFolder(tmp_path / "one").add("yours", CellResult(result.cell.with_seed(3), result.facts))
    found = CellFolder(tmp_path / "one").results()
    assert {one.cell.settings["seed"] for one in found.values()} == {0, 1, 2, 3}
    assert found[made[1].cell.key].facts["final"] == result.facts["final"]


def test_the_command_trains_the_same_cell(result: CellResult) -> None:
    command = result.cell.command
    words = "pyrite train digits --grow 1.0 --keep last --no-mirror --precision float32 --epochs 3 --method 'erm(mae)'"
    assert command.startswith(f"{words} --model ")
    assert command.endswith("--samples 200 --seed 0")


def test_files_that_are_something_else(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl.xz"
    lines = ("[]", '{"settings": 1, "final": {}, "history": {}}', json.dumps({"settings": {}}), "{")
    for content in (b"", b"{}", *(lzma.compress(line.encode()) for line in lines)):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"x.jsonl.xz contains no results"):
            CellFolder(tmp_path).results()


def test_a_run_that_diverged_is_a_result_of_its_last_epoch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train = module.train_once

    def diverge(job: Job, out: Path, **watching: Any) -> Run:
        steps = count()
        train(job, out, **watching, stop=lambda: next(steps) >= 3)  # 200 samples are two steps an epoch
        raise RunFailed("the loss is not finite")

    monkeypatch.setattr(module, "train_once", diverge)
    found = train_cell(Cell.make(SETTINGS | {"loss": "ce"}), "mine", CellFolder(tmp_path / "cells"), tmp_path / "runs")
    assert found.facts["failed"] == "the loss is not finite"
    assert len(found.facts["history"]["test_accuracy"]) == 1
    assert found.value("final_test_accuracy") == pytest.approx(found.facts["history"]["test_accuracy"][0], rel=1e-3)
