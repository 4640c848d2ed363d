"""Training on corrected labels and without suspects: the same bytes as on data that never was wrong."""

import csv
import json
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image

import pyrite
from pyrite.data import Dataset, load
from pyrite.training import Config, resolve
from tests.children import both, differing, run

HOSTILE = tuple(f"{number}: \"a\", <b>\n & 'c' é 猫" for number in range(10))
SMALL: dict[str, Any] = {"model": "mlp(hidden=[8])", "epochs": 2, "batch_size": 100, "validation": 0.0}
Ints = npt.NDArray[np.int64]


def noisy() -> Dataset:
    """Digits with 40 % wrong labels, and the true ones; its classes have names that no file likes."""
    digits = load("digits")
    assert digits.test is not None
    given = pyrite.corrupt(digits.labels, "symmetric(0.4)", classes=10, seed=3).given
    test = replace(digits.test, classes=HOSTILE)
    return replace(digits, labels=given, true=digits.labels, classes=HOSTILE, test=test)


def export(path: Path, data: Dataset, decisions: dict[int, tuple[str, int | None]], score: float = 0.5) -> Path:
    """What the page exports: a line a decision."""
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["index", "path", "old", "new", "score", "decision"])
        for index, (decision, new) in decisions.items():
            name = "" if new is None else data.classes[new]
            table.writerow([index, "", data.classes[data.labels[index]], name, score, decision])
    return path


def rank(path: Path, data: Dataset, probability: npt.NDArray[np.float64]) -> Path:
    """The ranking of an audit, as far as training needs it."""
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["index", "path", "given", "suggested", "wrong_probability", "score", "suspect", "margin"])
        for index in np.argsort(-probability, kind="stable").tolist():
            name = data.classes[data.labels[index]]
            table.writerow([index, "", name, HOSTILE[0], f"{probability[index]:.6g}", 0, 0, 0])
    return path


def wrong(data: Dataset) -> Ints:
    assert data.true is not None
    return np.flatnonzero(data.labels != data.true)


@pytest.fixture(scope="module")
def data() -> Dataset:
    return noisy()


def test_all_corrected_is_as_if_never_wrong(data: Dataset, tmp_path: Path) -> None:
    assert data.true is not None
    fixed = export(tmp_path / "fixed.csv", data, {i: ("relabel", int(data.true[i])) for i in wrong(data).tolist()})
    pyrite.train(replace(data, labels=data.true), out=tmp_path / "right", **SMALL)
    run = pyrite.train(data, corrections=fixed, out=tmp_path / "fixed", **SMALL)
    assert differing(tmp_path / "right", run.path) == ["labels.npz", "recipe.toml"]
    assert (run.labels["given"] == data.true).all()
    assert (run.labels["original"] == data.labels).all()
    assert (run.labels["true"] == data.true).all()
    assert (run.facts["corrected"], run.facts["dropped"], run.facts["warnings"]) == (len(wrong(data)), 0, [])
    assert (run.path / "corrections.csv").read_bytes() == fixed.read_bytes()
    assert run.config.corrections == str(fixed)
    assert "original" not in pyrite.Run.load(tmp_path / "right").labels


def test_dropped_samples_are_as_if_not_there(data: Dataset, tmp_path: Path) -> None:
    gone = wrong(data)[::2]
    fixed = export(tmp_path / "fixed.csv", data, dict.fromkeys(gone.tolist(), ("drop", None)))
    left = np.setdiff1d(np.arange(len(data)), gone)
    assert data.true is not None
    less = replace(data, inputs=data.inputs[left], labels=data.labels[left], true=data.true[left])
    options = SMALL | {"validation": 0.2}
    run, other = (
        pyrite.train(data, corrections=fixed, out=tmp_path / "dropped", **options),
        pyrite.train(less, out=tmp_path / "less", **options),
    )
    assert run.history == other.history
    assert (run.path / "model.safetensors").read_bytes() == (other.path / "model.safetensors").read_bytes()
    assert (run.labels["part"][gone] == 2).all()
    assert (run.labels["part"][left] == other.labels["part"]).all()
    assert set(other.labels["part"].tolist()) == {0, 1}
    assert (run.labels["given"] == data.labels).all()
    assert run.facts["dropped"] == len(gone)


def test_suspects_of_a_ranking(data: Dataset, tmp_path: Path) -> None:
    probability = np.random.default_rng(2).random(len(data))
    ranking = rank(tmp_path / "suspects.csv", data, probability)
    run = pyrite.train(data, corrections=str(ranking), drop_suspects=0.9, samples=300, out=tmp_path / "run", **SMALL)
    plain = pyrite.train(data, samples=300, out=tmp_path / "plain", **SMALL)
    used = plain.labels["part"] == 0  # the same samples are chosen, and then some of them dropped
    assert np.array_equal(run.labels["part"] == 0, used & (probability < 0.9))
    assert run.facts["dropped"] == int((used & (probability >= 0.9)).sum()) > 10


def test_a_review_and_suspects(data: Dataset, tmp_path: Path) -> None:
    decisions: dict[int, tuple[str, int | None]] = {
        0: ("keep", int(data.labels[0])),
        1: ("relabel", int((data.labels[1] + 1) % 10)),
        2: ("drop", None),
        3: ("unsure", None),
    }
    fixed = export(tmp_path / "fixed.csv", data, decisions, score=0.95)
    run = pyrite.train(data, corrections=fixed, drop_suspects=0.9, out=tmp_path / "run", **SMALL)
    assert run.labels["part"][:5].tolist() == [0, 0, 2, 2, 0]
    assert np.flatnonzero(run.labels["given"] != data.labels).tolist() == [1]
    assert (run.facts["corrected"], run.facts["dropped"]) == (1, 2)


def test_corrections_are_of_labels_after_noise(tmp_path: Path) -> None:
    """Noise comes from the seed, so a ranking of one run fits the next; all corrected is as if there never was any."""
    digits = load("digits")
    given = pyrite.corrupt(digits.labels, "symmetric(0.4)", classes=10, seed=0).given
    after = replace(digits, labels=given, true=digits.labels)
    decisions: dict[int, tuple[str, int | None]] = {
        i: ("relabel", int(digits.labels[i])) for i in wrong(after).tolist()
    }
    fixed = export(tmp_path / "fixed.csv", after, decisions)
    run = pyrite.train("digits", noise="symmetric(0.4)", corrections=fixed, out=tmp_path / "run", **SMALL)
    plain = pyrite.train(replace(digits, true=digits.labels), out=tmp_path / "plain", **SMALL)
    assert differing(plain.path, run.path) == ["labels.npz", "recipe.toml"]
    assert (run.labels["original"] == given).all()
    assert (run.labels["given"] == digits.labels).all()
    assert run.facts["corrected"] == len(wrong(after))
    with pytest.raises(ValueError, match=r"has the label .* the file belongs to other data"):
        pyrite.train("digits", noise="symmetric(0.4)", seed=1, corrections=fixed, out=tmp_path / "b", **SMALL)
    assert not (tmp_path / "b").exists()


# --- what is odd ----------------------------------------------------------------------------------------------------


def test_a_class_that_is_gone(data: Dataset, tmp_path: Path) -> None:
    fours = np.flatnonzero(data.labels == 4).tolist()
    decisions: dict[int, tuple[str, int | None]] = dict.fromkeys(fours, ("drop", None))
    decisions[fours[0]] = ("relabel", 5)
    fixed = export(tmp_path / "fixed.csv", data, decisions)
    run = pyrite.train(data, corrections=fixed, out=tmp_path / "run", **SMALL)
    assert run.facts["warnings"] == [f"the corrections leave no sample of the class {HOSTILE[4]!r}"]
    assert len(run.classes) == 10


def test_nothing_is_left(data: Dataset, tmp_path: Path) -> None:
    ranking = rank(tmp_path / "suspects.csv", data, np.ones(len(data)))
    with pytest.raises(ValueError, match=f"suspects.csv drop all {len(data)} samples: keep some to train on"):
        pyrite.train(data, corrections=ranking, drop_suspects=1.0, out=tmp_path / "run", **SMALL)
    assert not (tmp_path / "run").exists()


def test_an_audit_that_could_not_tell(data: Dataset, tmp_path: Path) -> None:
    ranking = rank(tmp_path / "suspects.csv", data, np.full(len(data), np.nan))
    run = pyrite.train(data, corrections=ranking, drop_suspects=0.9, out=tmp_path / "run", **SMALL)
    assert run.facts["dropped"] == 0
    assert run.facts["warnings"] == [f"{ranking} contains no probabilities of wrong labels: no suspects were dropped"]


def test_what_a_recipe_refuses(data: Dataset, tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match=r"drop_suspects is 0.9, but no file lists the suspects: .* suspects.csv of an audit"
    ):
        pyrite.train("digits", drop_suspects=0.9)
    for value in (-0.1, 1.1, float("nan")):
        with pytest.raises(ValueError, match=f"drop_suspects is {value}, but must be "):
            pyrite.train("digits", corrections="fixed.csv", drop_suspects=value)
    with pytest.raises(ValueError, match=r"cannot read the corrections: .*nowhere.csv: no such file"):
        pyrite.train("digits", corrections=tmp_path / "nowhere.csv", out=tmp_path / "run")
    ranking = rank(tmp_path / "suspects.csv", data, np.zeros(len(data)))
    with pytest.raises(ValueError, match=r"suspects.csv, a ranking without decisions: set drop_"):
        pyrite.train(data, corrections=ranking, out=tmp_path / "run")
    with pytest.raises(
        ValueError, match=r"suspects.csv, line 2: sample 0 has the label .* the file belongs to other data"
    ):
        pyrite.train("digits", corrections=ranking, drop_suspects=0.5, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_the_path_is_from_everywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert resolve("digits", corrections="a/fixed.csv").config.corrections == str(tmp_path / "a" / "fixed.csv")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert resolve("digits", corrections="~/fixed.csv").config.corrections == str(tmp_path / "home" / "fixed.csv")
    (tmp_path / "run.toml").write_text('data = "digits"\ncorrections = "fixed.csv"\ndrop_suspects = 1\n')
    recipe = resolve(config="run.toml").config
    assert (recipe.corrections, recipe.drop_suspects) == (str(tmp_path / "fixed.csv"), 1.0)
    (tmp_path / "again.toml").write_text(recipe.to_toml())
    assert Config.load(tmp_path / "again.toml") == recipe


# --- resumed --------------------------------------------------------------------------------------------------------


@pytest.fixture
def written(tmp_path: Path) -> tuple[Path, Path]:
    """A file of data, and corrections to it."""
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "data.npz", x=rng.normal(size=(90, 4)).astype(np.float32), y=np.arange(90) % 3)
    data = load(str(tmp_path / "data.npz"))
    decisions: dict[int, tuple[str, int | None]] = {i: ("relabel", i % 2) for i in range(0, 40, 3)}
    decisions |= dict.fromkeys(range(1, 40, 3), ("drop", None))
    return tmp_path / "data.npz", export(tmp_path / "fixed.csv", data, decisions)


TINY: dict[str, Any] = {"model": "mlp(hidden=[4])", "batch_size": 20, "epochs": 2}


@pytest.mark.parametrize("outside", ["gone", "changed", "the same"])
def test_a_resume_reads_its_own_copy(outside: str, written: tuple[Path, Path], tmp_path: Path) -> None:
    data, fixed = written
    pyrite.train(data, corrections=fixed, out=tmp_path / "whole", **TINY)
    left = iter([False] * 4 + [True])
    pyrite.train(data, corrections=fixed, out=tmp_path / "run", stop=lambda: next(left), **TINY)
    if outside == "gone":
        fixed.unlink()
    elif outside == "changed":
        fixed.write_text("index,old,new,decision\n5,2,1,relabel\n")
    assert pyrite.train(resume=tmp_path / "run").finished
    assert differing(tmp_path / "whole", tmp_path / "run") == []


def test_a_copy_that_was_changed_or_lost(written: tuple[Path, Path], tmp_path: Path) -> None:
    data, fixed = written
    out = tmp_path / "run"
    pyrite.train(data, corrections=fixed, out=out, stop=lambda: True, **TINY)
    held = (out / "corrections.csv").read_bytes()
    (out / "corrections.csv").write_text("index,old,new,decision\n5,2,1,relabel\n")
    with pytest.raises(ValueError, match=r"the labels of .*data.npz are not those in .*labels.npz"):
        pyrite.train(resume=out)
    (out / "corrections.csv").unlink()
    fixed.unlink()
    with pytest.raises(ValueError, match=r"cannot read the corrections: .*fixed.csv: no such file"):
        pyrite.train(resume=out)
    fixed.write_bytes(held)
    assert pyrite.train(resume=out).finished


@pytest.mark.parametrize(
    ("number", "phase"), [(1, "renamed"), (2, "half"), (2, "renamed"), (3, "half"), (5, "renamed")]
)
def test_killed_while_writing(number: int, phase: str, written: tuple[Path, Path], tmp_path: Path) -> None:
    data, fixed = written
    pyrite.train(data, corrections=fixed, out=tmp_path / "whole", **TINY)
    words = [str(data), "--corrections", str(fixed), "--out", str(tmp_path / "run")]
    words += [text for name, value in TINY.items() for text in (f"--{name.replace('_', '-')}", str(value))]
    code, said = run("train", *words, log=tmp_path / "log", trouble=(phase, number))
    assert code == -signal.SIGKILL, said
    code, said = run("train", "--resume", str(tmp_path / "run"), log=tmp_path / "log")
    assert code == 0, said
    assert differing(tmp_path / "whole", tmp_path / "run") == []
    assert (tmp_path / "run" / "corrections.csv").read_bytes() == fixed.read_bytes()


def test_two_processes(written: tuple[Path, Path], tmp_path: Path) -> None:
    data, fixed = written
    words = ["train", str(data), "--corrections", str(fixed), "--model", "mlp(hidden=[4])", "--epochs", "1"]
    for process in both(*words, "--out", str(tmp_path / "two"), log=tmp_path / "log"):
        process.join(120)
        assert process.exitcode == 0, [(tmp_path / f"log.{rank}").read_text() for rank in range(2)]
    one = pyrite.train(data, corrections=fixed, model="mlp(hidden=[4])", epochs=1, out=tmp_path / "one")
    assert (one.path / "labels.npz").read_bytes() == (tmp_path / "two" / "labels.npz").read_bytes()
    for process in both(*words, "--corrections", "/nowhere.csv", "--out", str(tmp_path / "x"), log=tmp_path / "log"):
        process.join(120)  # none waits for the other
        assert process.exitcode == 2


# --- where samples lie ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lazy", [True, False])
def test_labels_know_their_files(lazy: bool, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for label in ("cat", "dog é"):
        (tmp_path / "photos" / label).mkdir(parents=True)
        for number in range(20):
            Image.fromarray(rng.integers(0, 256, (8, 8), np.uint8)).save(tmp_path / "photos" / label / f"{number}.png")
    data = f'folder("{tmp_path / "photos"}", lazy={lazy})'
    run = pyrite.train(data, out=tmp_path / "run", stop=lambda: True, **TINY)
    assert run.labels["path"].tolist() == list(load(data).paths)
    assert all((tmp_path / "photos" / name).is_file() for name in run.labels["path"])
    assert pyrite.train(resume=tmp_path / "run").finished
    (tmp_path / "photos" / "cat" / "7.png").rename(tmp_path / "photos" / "cat" / "70.png")
    with pytest.raises(ValueError, match="are not those in"):
        pyrite.train(resume=tmp_path / "run")
    assert "path" not in pyrite.train("digits", samples=100, out=tmp_path / "b", **TINY).labels


def test_counts_are_in_the_facts(written: tuple[Path, Path], tmp_path: Path) -> None:
    data, fixed = written
    pyrite.train(data, corrections=fixed, out=tmp_path / "run", **TINY)
    facts = json.loads((tmp_path / "run" / "run.json").read_text())
    assert (facts["corrected"], facts["dropped"]) == (7, 13)
