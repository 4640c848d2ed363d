"""A search: its trials are runs, it goes on where it stopped, and it does what it says."""

import json
import shlex
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite.training import RunFailed
from pyrite.tuning.result import CRITERIA
from pyrite.tuning.space import Between, Space
from pyrite.tuning.study import Study

OPTIONS: dict[str, Any] = {"noise": "symmetric(0.4)", "samples": 200, "epochs": 2, "model": "mlp(hidden=[8])"}
METHODS = ["ce", "gce(q=between(0.1, 0.9))"]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> pyrite.Tuning:
    out = tmp_path_factory.mktemp("tuning") / "search"
    return pyrite.tune("digits", METHODS, out=out, trials=6, prune=False, seed=3, **OPTIONS)


def chosen(found: pyrite.Tuning) -> list[tuple[Any, ...]]:
    return [(trial.number, trial.method, trial.lr, trial.values) for trial in found.trials]


def test_trials_are_runs(found: pyrite.Tuning) -> None:
    assert [trial.number for trial in found.trials] == [1, 2, 3, 4, 5, 6]
    for trial in found.trials:
        run = pyrite.Run.load(found.path / f"trial-{trial.number:04d}")
        assert run.finished
        assert (str(run.config.method), run.config.seed, run.config.validation) == (trial.method, 3, 0.2)
        assert str(run.config.optimiser).startswith(f"sgd(lr={trial.lr}, ")
        assert trial.state == "complete"
        assert trial.values == tuple(line["validation_accuracy"] for line in run.history)
        assert trial.value == run.history[-1]["validation_accuracy"]  # the end, not the best epoch
        assert trial.test_accuracy == run.history[-1]["test_accuracy"]
    assert len({(trial.method, trial.lr) for trial in found.trials}) == 6
    labels = [pyrite.Run.load(found.path / trial.name).labels for trial in found.trials]
    assert all((one["part"] == labels[0]["part"]).all() for one in labels)
    assert all((one["given"] == labels[0]["given"]).all() for one in labels)


def test_first_each_method_as_it_would_be_by_itself(found: pyrite.Tuning) -> None:
    assert [(trial.method, trial.lr) for trial in found.trials[:2]] == [("erm(ce)", 0.1), ("erm(gce(q=0.5))", 0.1)]
    rates = [trial.lr for trial in found.trials]
    assert all(0.025 <= rate <= 0.4 for rate in rates)
    assert len(set(rates)) > 2


def test_the_best_by_the_end(found: pyrite.Tuning) -> None:
    values = [trial.value for trial in found.trials]
    assert found.best.number == 1 + int(np.argmax(np.array(values, float)))
    assert found.run.path == found.path / found.best.name
    assert found.held_out == 40
    assert "of 40 held-out samples, of 6 trials" in found.sentence
    assert f"{100 * found.best.values[-1]:.2f} ± " in found.sentence
    assert repr(found) == f"<tuning {found.path}: {found.sentence}>"
    best_test = max(trial.test_accuracy or 0 for trial in found.trials)
    assert "did not look at" in found.tested
    assert found.tested.endswith(f"that of the best trial {100 * best_test:.2f} %")


def test_what_is_written(found: pyrite.Tuning) -> None:
    held = json.loads((found.path / "tuning.json").read_text())
    assert held == json.loads(json.dumps(found.to_dict()))
    assert held["best"]["run"] == str(found.run.path)
    assert [row["value"] for row in held["trials"]] == [trial.value for trial in found.trials]
    lines = (found.path / "table.md").read_text().splitlines()
    assert len(lines) == 8
    assert lines[2].startswith(f"| {found.best.number} | `")
    assert "not looked at" in lines[0]


def test_the_command_trains_with_the_choice_on_all_samples(found: pyrite.Tuning, tmp_path: Path) -> None:
    from typer.testing import CliRunner

    from pyrite.cli.app import app

    assert found.command is not None
    program, *words = shlex.split(found.command)
    assert program == "pyrite"
    done = CliRunner().invoke(app, [*words, "--out", str(tmp_path / "final"), "--json"])
    assert done.exit_code == 0, done.output
    run = pyrite.Run.load(tmp_path / "final")
    assert (str(run.config.method), run.config.samples, run.config.validation) == (found.best.method, None, 0.0)
    assert str(run.config.optimiser).startswith(f"sgd(lr={found.best.lr}, ")
    assert (run.labels["part"] == 0).all()
    assert (str(run.config.noise), str(run.config.model), run.config.seed) == (
        str(found.run.config.noise),
        str(found.run.config.model),
        found.run.config.seed,
    )
    again = pyrite.train("digits", out=tmp_path / "again", **found.options)
    assert again.config == run.config


def test_the_same_seed_finds_the_same_in_one_go_or_several(found: pyrite.Tuning, tmp_path: Path) -> None:
    for trials in (1, 4, 6):
        again = pyrite.tune("digits", METHODS, out=tmp_path / "a", trials=trials, prune=False, seed=3, **OPTIONS)
        assert len(again.trials) == trials
    assert chosen(again) == chosen(found)
    fewer = pyrite.tune("digits", METHODS, out=tmp_path / "a", trials=2, prune=False, seed=3, **OPTIONS)
    assert chosen(fewer) == chosen(found)  # what is there counts


def test_what_is_there_is_not_trained_again(found: pyrite.Tuning) -> None:
    files = [path for path in found.path.rglob("*") if path.is_file() and path.parent != found.path]
    before = {path: path.stat().st_mtime_ns for path in files}
    again = pyrite.tune("digits", METHODS, out=found.path, trials=6, prune=False, seed=3, **OPTIONS)
    assert chosen(again) == chosen(found)
    assert {path: path.stat().st_mtime_ns for path in files} == before


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"epochs": 3}, "other epochs"),
        ({"seed": 4}, "other seed"),
        ({"by": "mae"}, "other by"),
        ({"methods": ["ce"]}, "other methods"),
        ({"lr": 0.1}, "other lr"),
        ({"lr": "between(0.01, 1)"}, "other lr"),
        ({"validation": 0.3}, "other validation"),
        ({"prune": True}, "other prune"),
        ({"data": "blobs"}, "other data"),
    ],
)
def test_another_search_in_the_same_folder_is_refused(found: pyrite.Tuning, changed: dict[str, Any], said: str) -> None:
    asked = {"data": "digits", "methods": METHODS, "prune": False, "seed": 3, **OPTIONS, **changed}
    with pytest.raises(ValueError, match=f"holds a search with {said}.*: choose another folder"):
        pyrite.tune(out=found.path, trials=6, **asked)


def test_data_of_the_same_name_are_told_apart(tmp_path: Path) -> None:
    inputs = np.random.default_rng(0).normal(size=(60, 2)).astype(np.float32)
    one, other = (pyrite.Dataset("rows", sign * inputs, np.arange(60) % 2, ("a", "b")) for sign in (1, -1))
    small = {"epochs": 1, "model": "mlp(hidden=(4,))", "lr": 0.1, "trials": 1}
    pyrite.tune(one, ["ce"], out=tmp_path / "a", **small)
    pyrite.tune(one, ["ce"], out=tmp_path / "a", **small)
    with pytest.raises(ValueError, match="holds a search with other inputs"):
        pyrite.tune(other, ["ce"], out=tmp_path / "a", **small)


@pytest.mark.parametrize("changed", ["labels", "decisions"])
def test_files_that_have_changed_are_another_search(changed: str, tmp_path: Path) -> None:
    numbers = np.random.default_rng(0).normal(size=60).round(2).tolist()
    rows = [f"{number},{('a', 'b')[number > 0]}\n" for number in numbers]
    data, decisions = tmp_path / "t.csv", tmp_path / "decisions.csv"
    data.write_text("x,label\n" + "".join(rows))
    decisions.write_text(f"index,old,new,decision\n3,{rows[3][-2]},,drop\n")
    small = {"epochs": 1, "model": "mlp(hidden=(4,))", "lr": 0.1, "trials": 1, "corrections": decisions}
    for _ in range(2):
        pyrite.tune(data, ["ce"], out=tmp_path / "a", **small)
    if changed == "labels":
        data.write_text("x,label\n" + "".join(rows[:-1]) + rows[-1].replace("a", "c").replace("b", "a"))
    else:
        decisions.write_text(f"index,old,new,decision\n4,{rows[4][-2]},,drop\n")
    with pytest.raises(pyrite.PyriteError, match=r"holds a search with other (labels|corrected labels): choose"):
        pyrite.tune(data, ["ce"], out=tmp_path / "a", **small)


def test_a_folder_with_something_else_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("")
    with pytest.raises(ValueError, match="is not empty and contains no search"):
        pyrite.tune("digits", METHODS, out=tmp_path, **OPTIONS)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]
    with pytest.raises(ValueError, match="is not a folder"):
        pyrite.tune("digits", METHODS, out=tmp_path / "thesis.tex", **OPTIONS)


def test_rates(tmp_path: Path) -> None:
    """Said, looked for in a range, or said by the optimiser."""
    short: dict[str, Any] = {**OPTIONS, "epochs": 1, "trials": 3}
    fixed = pyrite.tune("digits", ["ce", "gce(q=between(0.1, 0.9))"], out=tmp_path / "a", lr="0.07", **short)
    assert {trial.lr for trial in fixed.trials} == {0.07}
    assert fixed.command is not None
    assert "--lr 0.07" in fixed.command
    found = pyrite.tune("digits", ["ce"], out=tmp_path / "b", lr="between(0.01, 0.04)", **short)
    assert found.trials[0].lr == 0.025
    assert all(0.01 <= trial.lr <= 0.04 for trial in found.trials)
    assert len({trial.lr for trial in found.trials}) == 3
    said = pyrite.tune("digits", ["gce(q=between(0.1, 0.9))"], out=tmp_path / "c", optimiser="adam(lr=0.003)", **short)
    assert {trial.lr for trial in said.trials} == {0.003}
    assert said.command is not None
    assert "--lr" not in said.command
    assert "--optimiser 'adam(lr=0.003)'" in said.command
    around = pyrite.tune("digits", ["ce"], out=tmp_path / "d", optimiser="adamw", **short)
    assert around.trials[0].lr == 0.001
    assert all(0.00025 <= trial.lr <= 0.004 for trial in around.trials)


def test_a_strong_method_gets_the_rate_that_a_recipe_would_give_it(tmp_path: Path) -> None:
    found = pyrite.tune("digits", ["imae(T=8)"], out=tmp_path / "a", trials=1, **OPTIONS)
    alone = pyrite.train("digits", loss="imae(T=8)", out=tmp_path / "b", **OPTIONS)
    assert f"sgd(lr={found.trials[0].lr}, " in str(alone.config.optimiser)
    assert found.trials[0].lr < 0.05


def test_it_ends_when_nothing_is_left_to_choose(tmp_path: Path) -> None:
    found = pyrite.tune("digits", ["ce", "gce(q=one_of(0.5, 0.7))"], out=tmp_path / "a", trials=9, lr=0.1, **OPTIONS)
    assert sorted(trial.method for trial in found.trials) == ["erm(ce)", "erm(gce(q=0.5))", "erm(gce(q=0.7))"]


def test_a_trial_that_diverges_is_one_of_many(tmp_path: Path) -> None:
    options = {**OPTIONS, "lr": "one_of(0.1, 1e30)", "trials": 2, "out": tmp_path / "a"}
    found = pyrite.tune("digits", ["ce"], **options)
    assert sorted(trial.state for trial in found.trials) == ["complete", "failed"]
    assert found.best.lr == 0.1
    failed = next(trial for trial in found.trials if trial.state == "failed")
    assert "learning rate" in failed.reason
    assert "of 2 trials (1 failed)" in found.sentence
    with pytest.raises(RunFailed, match="none of 1 trials finished: "):
        pyrite.tune("digits", ["ce"], out=tmp_path / "b", lr=1e30, trials=1, **OPTIONS)


@pytest.mark.parametrize("by", ["mae", "ce"])
def test_costs_are_made_small(by: str, tmp_path: Path) -> None:
    options = {**OPTIONS, "by": by, "trials": 3, "out": tmp_path / "a"}
    if by == "ce":
        with pytest.warns(UserWarning, match="cross entropy on noisy labels is misleading"):
            found = pyrite.tune("digits", ["ce"], **options)
    else:
        found = pyrite.tune("digits", ["ce"], **options)
    ends = [pyrite.Run.load(found.path / trial.name).history[-1][f"validation_{by}"] for trial in found.trials]
    assert found.best.value == min(ends)
    assert found.ranked[0] == found.best
    assert found.to_optuna().best_value == min(ends)


def test_data_and_nets_that_have_no_spelling(tmp_path: Path) -> None:
    from torch import nn

    rows = np.random.default_rng(0).normal(size=(100, 3)).astype(np.float32)
    data = pyrite.Dataset("rows", rows, (rows[:, 0] > 0).astype(np.int64), ("a", "b"))

    def make(shape: tuple[int, ...], classes: int) -> nn.Module:
        return nn.Linear(shape[0], classes)

    found = pyrite.tune(data, out=tmp_path / "a", trials=2, epochs=1, model=make)
    assert [trial.method for trial in found.trials] == ["erm(ce)", "erm(gce(q=0.55))"]
    assert found.command is None
    assert found.tested == ""
    assert "not looked at" not in found.to_markdown()
    assert (pyrite.train(data, out=tmp_path / "b", **found.options).labels["part"] == 0).all()
    with pytest.raises(ValueError, match="a network that all runs would share"):
        pyrite.tune(data, out=tmp_path / "c", model=make((3,), 2))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"trials": 0}, "trials is 0, but must be a whole number"),
        ({"trials": 2.5}, "trials is 2.5"),
        ({"by": "auc"}, "by is 'auc'"),
        ({"by": "test_accuracy"}, "by is 'test_accuracy'"),
        ({"loss": "ce"}, "tune has no loss"),
        ({"resume": "runs/a"}, "tune has no resume"),
        ({"validation": 0.0}, "validation is 0, but the search needs held-out samples"),
        ({"epoch": 3}, "unknown setting 'epoch': did you mean 'epochs'"),
        ({"lr": "fast"}, "unknown range 'fast'"),
        ({"lr": "between(-1, 1)"}, "lr is -1.0, but must be a number, 0 or more"),
        ({"lr": 0.1, "optimiser": "sgd(lr=0.2)"}, "lr is given twice"),
        ({"methods": ["gce(p=between(0.1, 0.2))"]}, "GCE does not take p"),
    ],
)
def test_bad_input_is_said_before_the_first_trial(options: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=said):
        pyrite.tune("digits", out=tmp_path / "a", **options)
    assert not (tmp_path / "a").exists()


def test_torchrun_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ValueError, match="start the same command several times"):
        pyrite.tune("digits", out=tmp_path / "a")


def test_without_optuna_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(ValueError, match=r'optuna is not installed .*: pip install "pyrite-labels\[tune\]"'):
        pyrite.tune("digits", out=tmp_path / "a")


# --- pruning --------------------------------------------------------------------------------------------------------


def a_study(path: Path, space: Space, by: str, epochs: int) -> Study:
    return Study(path, {}, space, CRITERIA[by], seed=0, epochs=epochs)


@pytest.mark.parametrize("by", ["accuracy", "mae"])
def test_who_is_behind_the_median_after_half_of_the_epochs_is_hopeless(by: str, tmp_path: Path) -> None:
    def curve(end: float) -> list[float]:
        return [(1 - value if by == "mae" else value) for value in (0.1, end / 2, end, end)]

    study = a_study(tmp_path, Space(["ce"], Between(0.25, 4, log=True)), by, epochs=4)
    for number, end in enumerate((0.2, 0.3, 0.4, 0.5, 0.6), 1):
        assert not study.is_hopeless(curve(0.1)[:3])  # too few to compare with
        claim = study.claim(number, lambda method, rate: (str(method), rate or 0.0))
        assert claim is not None
        study.finish(claim.trial, "complete", curve(end))
        claim.release()
    assert not study.is_hopeless(curve(0.3)[:1])  # too early, equal
    assert study.is_hopeless(curve(0.3)[:2])  # 0.15 of 0.2
    assert study.is_hopeless(curve(0.3)[:3])
    assert not study.is_hopeless(curve(0.5)[:3])
    assert not study.is_hopeless(curve(0.3))  # it is at its end


def test_pruned_trials_stop_early_and_are_never_the_best(tmp_path: Path) -> None:
    options = {**OPTIONS, "epochs": 6, "lr": "one_of(0.1, 0.12, 0.14, 0.16, 0.18, 1e-6, 2e-6, 3e-6)", "trials": 8}
    found = pyrite.tune("digits", ["ce"], out=tmp_path / "a", seed=1, **options)
    pruned = [trial for trial in found.trials if trial.state == "pruned"]
    assert pruned
    for trial in pruned:
        run = pyrite.Run.load(found.path / trial.name)
        assert not run.finished
        assert 3 <= len(run.history) == len(trial.values) < 6
        assert trial.value is None
    assert found.best.state == "complete"
    assert f"{len(pruned)} pruned" in found.sentence
    states = [trial.state.name for trial in found.to_optuna().trials]
    assert states.count("PRUNED") == len(pruned)
    assert len(found.to_optuna().trials) == 8
    whole = pyrite.tune("digits", ["ce"], out=tmp_path / "b", seed=1, prune=False, **options)
    assert {trial.state for trial in whole.trials} == {"complete"}


def test_proposals_follow_what_was_good(tmp_path: Path) -> None:
    """Not the same everywhere: with values that fall with q, later trials have a small q."""
    space = Space(["gce(q=between(0.01, 1))"], Between(0.5, 2, log=True))
    study = a_study(tmp_path, space, "accuracy", epochs=1)
    for number in range(1, 41):
        claim = study.claim(number, lambda method, rate: (str(method), rate or 0.0))
        assert claim is not None
        study.finish(claim.trial, "complete", [1 - claim.trial.params["gce.q"]])
        claim.release()
    drawn = [trial.params["gce.q"] for trial in study.trials()]
    assert np.mean(drawn[20:]) < 0.5 * np.mean(drawn[:10])
