"""Comparisons: trained alike, gone on with, never mixed up."""

import json
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite.files import acquire
from pyrite.training import COLUMNS, Observer

OPTIONS: dict[str, Any] = {"noise": "symmetric(0.4)", "samples": 200, "epochs": 2, "model": "mlp(hidden=[8])"}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> pyrite.Comparison:
    out = tmp_path_factory.mktemp("comparison")
    return pyrite.compare("digits", ["ce", "erm(mae)", "0.5*ce + 0.5*mae"], out=out, seeds=2, seed=5, **OPTIONS)


def test_a_run_for_every_loss_and_seed(found: pyrite.Comparison) -> None:
    names = ["ce", "erm-mae", "0.5-ce-+-0.5-mae"]
    assert [run.path.name for row in found.rows for run in row.runs] == [
        f"{n}-{seed}" for n in names for seed in (5, 6)
    ]
    assert [str(row.runs[0].config.method) for row in found.rows] == ["erm(ce)", "erm(mae)", "erm(0.5*ce + 0.5*mae)"]
    for row in found.rows:
        assert [run.config.seed for run in row.runs] == [5, 6]
        assert all(run.finished for run in row.runs)
    first, second = (row.runs[0] for row in found.rows[:2])
    assert (first.labels["given"] == second.labels["given"]).all()  # the same noise
    alone = pyrite.train("digits", loss="ce", seed=6, out=found.path / "alone", **OPTIONS)
    assert alone.history == found.rows[0].runs[1].history


def test_the_table_is_the_runs(found: pyrite.Comparison) -> None:
    lines = (found.path / "table.md").read_text().splitlines()
    assert lines[0] == "| loss | final | best on test | right learned | wrong memorised | wrong recovered |"
    assert lines[1] == "|---|---|---|---|---|---|"
    folders = {"ce": "ce", "erm(mae)": "erm-mae", "0.5*ce + 0.5*mae": "0.5-ce-+-0.5-mae"}
    for line, (name, folder) in zip(lines[2:], folders.items(), strict=True):
        histories = [pyrite.Run.load(found.path / f"{folder}-{seed}").history for seed in (5, 6)]
        values = {
            "final": [history[-1]["test_accuracy"] for history in histories],
            "best": [max(line["test_accuracy"] for line in history) for history in histories],
            **{
                key: [history[-1][key] for history in histories] for key in ("clean_accuracy", "memorised", "recovered")
            },
        }
        cells = [f"{100 * mean(column):.2f} ± {100 * stdev(column):.2f}" for column in values.values()]
        assert line == f"| `{name}` | {' | '.join(cells)} |"
    rows = json.loads((found.path / "comparison.json").read_text())["rows"]
    assert [(row["method"], row["seed"]) for row in rows] == [(name, seed) for name in folders for seed in (5, 6)]
    assert rows[0]["memorised"] == pyrite.Run.load(found.path / "ce-5").history[-1]["memorised"]


def test_columns_by_name(found: pyrite.Comparison) -> None:
    names = ("final_hybrid_accuracy", "alpha", "snr")
    table = found.table(names)
    assert table.headings == ("loss", "hybrid", "alpha", "snr")
    for cells, row in zip(table.rows, found.rows, strict=True):
        runs = [pyrite.Run.load(run.path) for run in row.runs]
        hybrid = [run.facts["final_model"]["final_hybrid_accuracy"] for run in runs]
        assert cells[1] == f"{100 * mean(hybrid):.2f} ± {100 * stdev(hybrid):.2f}"
        for cell, name in zip(cells[2:], ("alpha", "snr"), strict=True):
            values = [run.history[-1][name] for run in runs]
            assert cell == f"{mean(values):.3g} ± {stdev(values):.3g}"
    with pytest.raises(ValueError, match="unknown column 'snrr': did you mean 'snr'"):
        found.table(["snrr"])


def test_what_the_noise_costs(tmp_path: Path) -> None:
    options = {**OPTIONS, "epochs": 1}
    found = pyrite.compare("digits", ["ce", "mae"], out=tmp_path, seeds=2, with_clean=True, **options)
    assert found.table().headings[-1] == "diff"
    for row, slug in zip(found.rows, ("ce", "mae"), strict=True):
        ends = {
            kind: [pyrite.Run.load(tmp_path / f"{slug}{kind}-{seed}").history[-1] for seed in (0, 1)]
            for kind in ("", "-clean")
        }
        assert all(line["clean_accuracy"] == line["train_accuracy"] for line in ends["-clean"])
        lost = [c["test_accuracy"] - n["test_accuracy"] for c, n in zip(ends["-clean"], ends[""], strict=True)]
        assert row.values("diff") == lost
    rows = json.loads((tmp_path / "comparison.json").read_text())["rows"]
    assert [row["diff"] for row in rows] == [value for row in found.rows for value in row.values("diff")]
    with pytest.raises(ValueError, match="with_clean compares with runs without noise, but noise is not set"):
        pyrite.compare("digits", ["ce"], out=tmp_path / "none", with_clean=True, **{**OPTIONS, "noise": None})


def test_what_is_there_is_not_trained_again(found: pyrite.Comparison) -> None:
    def state(row: pyrite.comparing.Row) -> list[int]:
        return [(run.path / "model.safetensors").stat().st_mtime_ns for run in row.runs]

    before, told = [state(row) for row in found.rows], []
    again = pyrite.compare(
        "digits", ["ce", "erm(mae)", "0.5*ce + 0.5*mae"], out=found.path, seeds=2, seed=5, **OPTIONS,
        begin=lambda name, seed: told.append((name, seed)),
    )  # fmt: skip
    assert [state(row) for row in again.rows] == before
    assert again.to_markdown() == found.to_markdown()
    assert told[:3] == [("ce", 5), ("ce", 6), ("erm(mae)", 5)]


def test_other_options_are_refused(found: pyrite.Comparison) -> None:
    for changed in ({"epochs": 3}, {"noise": "symmetric(0.2)"}, {"lr": 0.01}):
        name = "optimiser" if "lr" in changed else next(iter(changed))
        with pytest.raises(
            ValueError, match=rf"ce-5 contains a run with other {name}(, schedule)?: choose another folder"
        ):
            pyrite.compare("digits", ["ce"], out=found.path, seed=5, **{**OPTIONS, **changed})


def test_it_goes_on_where_it_stopped(found: pyrite.Comparison, tmp_path: Path) -> None:
    class Stop:
        def __init__(self) -> None:
            self.left = 6

        def after_step(self, step: pyrite.Step) -> None:
            self.left -= 1
            if not self.left:
                raise KeyboardInterrupt

        def after_epoch(self, epoch: int) -> None: ...

    with pytest.raises(KeyboardInterrupt):  # two steps an epoch: in the second run, after its first epoch
        pyrite.compare("digits", ["ce", "erm(mae)"], out=tmp_path, seed=5, observers=[Stop()], **OPTIONS)
    assert len(pyrite.Run.load(tmp_path / "erm-mae-5").history) == 0
    assert not (tmp_path / "table.md").exists()
    whole = pyrite.compare("digits", ["ce", "erm(mae)"], out=tmp_path, seed=5, **OPTIONS)
    for mine, theirs in zip(whole.rows, found.rows, strict=False):
        assert mine.runs[0].history == theirs.runs[0].history
    assert (tmp_path / "table.md").read_text() == whole.to_markdown()


def test_what_another_process_trains_is_taken_up_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyrite.comparing._PAUSE", 0.01)
    release = acquire(tmp_path / "ce-0" / ".lock")  # as a process on another machine has it
    assert release is not None
    ended: list[list[str]] = []

    class Watch(Observer):
        def after_epoch(self, epoch: int) -> None:
            ended.append(sorted(path.name for path in tmp_path.iterdir() if (path / "recipe.toml").exists()))
            if len(ended) == 2:
                release()

    table = pyrite.compare("digits", ["ce", "mae"], out=tmp_path, observers=[Watch()], **OPTIONS)
    assert ended == [["mae-0"], ["mae-0"], ["ce-0", "mae-0"], ["ce-0", "mae-0"]]
    assert [run.finished for row in table.rows for run in row.runs] == [True, True]


def test_one_seed_has_no_spread_and_unknown_columns_go(tmp_path: Path) -> None:
    found = pyrite.compare("digits", ["ce"], out=tmp_path, **{**OPTIONS, "noise": None, "epochs": 1})
    final = found.rows[0].runs[0].history[-1]["test_accuracy"]
    assert found.rows[0].formatted("final_test_accuracy") == f"{100 * final:.2f}"
    assert found.rows[0].formatted("memorised") == "unknown"
    assert list(found.columns()) == ["final_test_accuracy", "best_test_accuracy", "train_accuracy"]
    assert set(found.columns()) < set(COLUMNS)


def test_names_that_look_alike(tmp_path: Path) -> None:
    specs = ["smooth(ce, rate=0.5)", "smooth(ce, rate=-0.5)"]
    found = pyrite.compare("digits", specs, out=tmp_path, **{**OPTIONS, "epochs": 1})
    assert [str(row.runs[0].config.method) for row in found.rows] == [f"erm({spec})" for spec in specs]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"methods": []}, "methods is empty: name at least one loss or method"),
        ({"seeds": 0}, "seeds is 0, but must be a whole number, 1 or more"),
        ({"seeds": True}, "seeds is True, but must be a whole number, 1 or more"),
        ({"methods": ["gcee"]}, "unknown method 'gcee': did you mean 'gce'"),
        ({"epoch": 3}, "unknown setting 'epoch': did you mean 'epochs'"),
    ],
)
def test_what_cannot_be_compared(options: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=said):
        pyrite.compare("digits", out=tmp_path, **{"methods": ["ce"], **options})
    assert list(tmp_path.iterdir()) == []


def test_the_seed_of_a_config_and_data_without_truth_or_test(tmp_path: Path) -> None:
    rows = np.random.default_rng(0)
    np.savez(tmp_path / "d.npz", x=rows.normal(size=(60, 4)).astype(np.float32), y=np.arange(60) % 3)
    (tmp_path / "c.toml").write_text('seed = 5\nmodel = "mlp(hidden=[4])"\nepochs = 1\n')
    found = pyrite.compare(tmp_path / "d.npz", ["ce"], out=tmp_path / "out", config=tmp_path / "c.toml")
    assert found.rows[0].runs[0].config.seed == 5
    assert found.to_markdown().startswith("| loss | validation | given learned |\n|---|---|---|\n")
