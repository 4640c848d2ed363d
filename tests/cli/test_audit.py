"""``pyrite audit`` as it is typed, and the circle back to ``pyrite train``."""

import csv
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyrite
from tests.children import run

SMALL = ["digits", "--samples", "800", "--noise", "symmetric(0.4)", "--model", "mlp(hidden=[32])", "--epochs", "8"]


def strict(text: str) -> Any:
    """Parsed, with NaN and infinities refused, which JSON does not know."""
    return json.loads(text, parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder, and what was said."""
    out = tmp_path_factory.mktemp("audit") / "run"
    code, said = run("audit", *SMALL, "--out", str(out), log=out.parent / "log")
    assert code == 0, said
    return out, said


def test_in_words(audited: tuple[Path, str]) -> None:
    out, said = audited
    found = pyrite.audit(out)
    assert found.sentence[1:] in said
    suspects = int(found.is_suspect.sum())
    assert f"{suspects:,} suspects, each at least {100 * found.threshold:.0f} % likely to be wrong:" in said
    first = int(found.ranking[0])
    names = found.classes
    given, better = names[found.labels[first]], names[found.suggested[first]]
    assert f"  sample {found.index[first]}: given {given}, suggested {better} (" in said
    assert said.endswith(f"{out / 'report.html'}\n")


def test_files_are_there(audited: tuple[Path, str]) -> None:
    out, _ = audited
    found = pyrite.audit(out)
    assert strict((out / "audit.json").read_text(encoding="utf-8")) == found.summary()
    with (out / "suspects.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file, strict=True))
    assert [int(row["index"]) for row in rows] == found.index[found.ranking].tolist()
    assert list(rows[0])[-3:] == ["margin", "last_margin", "agreement"]
    page = (out / "report.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>") or page.startswith("<!DOCTYPE html>")
    assert found.sentence[1:] in page
    assert "model.safetensors" in [path.name for path in out.iterdir()]


def test_the_folder_of_a_run_again(audited: tuple[Path, str], tmp_path: Path) -> None:
    out, _ = audited
    before = {name: (out / name).read_bytes() for name in ("audit.json", "suspects.csv")}
    code, said = run("audit", str(out), log=tmp_path / "log")
    assert code == 0, said
    assert {name: (out / name).read_bytes() for name in before} == before
    code, said = run("audit", str(out), "--out", str(tmp_path / "elsewhere"), "--json", log=tmp_path / "log")
    assert code == 0, said
    told = strict(said)
    assert (told["folder"], told["run"]) == (str(tmp_path / "elsewhere"), str(out))
    assert (tmp_path / "elsewhere" / "suspects.csv").read_bytes() == before["suspects.csv"]
    code, said = run("audit", *SMALL, "--out", str(out), log=tmp_path / "log")  # the same command: nothing is trained
    assert code == 0, said
    assert "epoch" not in said
    code, said = run("audit", str(out), "--epochs", "3", log=tmp_path / "log")
    assert (code, said) == (2, f"pyrite: epochs is a training setting, but {out} is trained already\n")


def test_for_a_program(tmp_path: Path) -> None:
    """Nothing but JSON on standard output, nothing at all on standard error."""
    out, errors = tmp_path / "run", tmp_path / "errors"
    words = [*SMALL[:-1], "2", "--samples", "400", "--seed", "3", "--loss", "ce", "--validation", "0.3"]
    code, said = run("audit", *words, "--out", str(out), "--json", log=tmp_path / "log", errors=errors)
    assert (code, errors.read_text()) == (0, "")
    found = pyrite.audit(out, seed=3)
    assert strict(said) == found.summary() | {"folder": str(out)}
    assert found.run is not None
    recipe = found.run.config
    method = "cross_fit(erm(ce), folds=4)"
    assert (str(recipe.method), recipe.seed, recipe.samples, recipe.validation) == (method, 3, 400, 0.3)


# --- after a review -------------------------------------------------------------------------------------------------


def corrections(path: Path, found: pyrite.Audit, true: Any, rows: Any) -> Path:
    names, lines = found.classes, ["index,path,old,new,score,decision"]
    for row in rows.tolist():
        old, new = names[found.labels[row]], names[true[found.index[row]]]
        lines.append(f"{found.index[row]},,{old},{new},,{'keep' if old == new else 'relabel'}")
    path.write_text("\n".join(lines) + "\n")
    return path


def test_after_a_review(audited: tuple[Path, str], tmp_path: Path) -> None:
    run_folder, out = audited[0], tmp_path / "out"
    found = pyrite.audit(run_folder)
    assert found.run is not None
    file = corrections(tmp_path / "c.csv", found, found.run.labels["true"], found.ranking[:60])
    code, said = run("audit", str(run_folder), "--reviewed", str(file), "--out", str(out), log=tmp_path / "log")
    assert code == 0, said
    after = found.reviewed(file)
    assert after.review is not None
    assert said.startswith(f"A{after.sentence[1:]}.\nA{after.advice[1:]}.\n{after.review.sentence}.\n")
    assert strict((out / "audit.json").read_text()) == after.summary()
    with (out / "suspects.csv").open(newline="") as table:
        rows = list(csv.DictReader(table))
    assert sum(row["reviewed"] != "" for row in rows) == 60
    assert [int(row["index"]) for row in rows] == after.index[after.ranking].tolist()
    assert after.review.sentence in (out / "report.html").read_text()
    first = found.classes[found.labels[found.ranking[0]]]
    other = next(name for name in found.classes if name != first)
    file.write_text(file.read_text().replace(f",,{first},", f",,{other},", 1))
    code, said = run("audit", str(run_folder), "--reviewed", str(file), log=tmp_path / "log")
    assert code == 2
    assert said.endswith("in digits: the file belongs to other data\n")
    code, said = run("audit", str(run_folder), "--reviewed", str(run_folder / "suspects.csv"), log=tmp_path / "log")
    assert code == 2
    assert "suspects.csv is a ranking without decisions" in said


# --- given scores ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def scores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("scores")
    random = np.random.default_rng(0)
    true = np.arange(300) % 3
    given = np.where(random.random(300) < 0.2, (true + 1) % 3, true)
    np.save(folder / "scores.npy", (random.normal(size=(300, 3)) + 5 * np.eye(3)[true]).astype(np.float32))
    np.save(folder / "labels.npy", given)
    (folder / "labels.txt").write_text("\n".join(map(str, given)) + "\n")
    (folder / "names.txt").write_text("cat\ndog\n")
    (folder / "two.csv").write_text(
        "size,kind\n" + "".join(f"{number / 7},{label}\n" for number, label in enumerate(given))
    )
    np.save(folder / "names.npy", np.array(["cat", "dog"] * 150))
    np.savez(folder / "both.npz", x=np.zeros(3))
    (folder / "empty.npy").touch()
    whole = (folder / "scores.npy").read_bytes()
    (folder / "torn.npy").write_bytes(whole[: len(whole) // 2])
    np.save(folder / "objects.npy", np.array([{}, None], object), allow_pickle=True)
    return folder


@pytest.mark.parametrize("labels", ["labels.npy", "labels.txt"])
def test_given_scores(labels: str, scores: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    words = ["--scores", str(scores / "scores.npy"), "--labels", str(scores / labels), "--kind", "logits"]
    code, said = run("audit", *words, "--out", str(out), log=tmp_path / "log")
    assert code == 0, said
    found = pyrite.audit(np.load(scores / "labels.npy"), scores=np.load(scores / "scores.npy"), kind="logits", seed=0)
    assert f"{found.sentence[1:]}.\n" in said
    assert sorted(path.name for path in out.iterdir()) == ["audit.json", "report.html", "suspects.csv"]
    assert strict((out / "audit.json").read_text()) == found.summary()


def test_labels_that_say_nothing(scores: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "labels.npy", np.random.default_rng(5).integers(0, 3, 300))
    words = ["--scores", str(scores / "scores.npy"), "--labels", str(tmp_path / "labels.npy"), "--kind", "logits"]
    code, said = run("audit", *words, "--json", "--out", str(tmp_path / "out"), log=tmp_path / "log")
    assert code == 0, said
    assert strict(said)["can_tell"] is False
    code, said = run("audit", *words, "--out", str(tmp_path / "out"), log=tmp_path / "log")
    assert code == 0, said
    assert said.startswith("Wrong labels cannot be identified among 300 labels: the scores do not separate them.\n")
    assert (tmp_path / "out" / "report.html").exists()


# --- mistyped -------------------------------------------------------------------------------------------------------

GIVEN = ["--scores", "scores.npy", "--labels", "labels.npy", "--kind", "logits"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["digits", "--reviewed", "none.csv"], "none.csv: no such file"),
        ([*GIVEN, "--reviewed", "scores.npy"], "scores.npy, line 1: not a CSV file in UTF-8"),
        ([], "nothing to audit: pass DATA, a run directory, or --scores with --labels and --kind"),
        (["digits", *GIVEN], "DATA and --scores exclude each other"),
        (["digits", "--kind", "logits"], "--kind requires --scores, in place of digits: omit --kind"),
        (["digits", "--labels", "labels.npy"], "--labels requires --scores, in place of digits: omit --labels"),
        (GIVEN[:4], "--scores requires --kind logits, probabilities or log-probabilities"),
        ([*GIVEN[:2], *GIVEN[4:]], "--scores requires --labels"),
        ([*GIVEN[:5], "logit"], "kind is 'logit', but must be one of logits, probabilities, log-probabilities: it is"),
        ([*GIVEN[:5], "probabilities"], "row 0 of the scores does not contain probabilities: the sum"),
        ([*GIVEN, "--epochs", "3"], "epochs is a training setting, but with given scores nothing is trained"),
        ([*GIVEN, "--scores", "nowhere.npy"], "cannot read nowhere.npy: "),
        ([*GIVEN, "--labels", "nowhere.npy"], "cannot read nowhere.npy: "),
        ([*GIVEN, "--labels", "nowhere.txt"], "cannot read nowhere.txt: "),
        ([*GIVEN, "--scores", "labels.txt"], "cannot read labels.txt: "),
        ([*GIVEN, "--scores", "both.npz"], "cannot read both.npz: "),
        ([*GIVEN, "--scores", "empty.npy"], "cannot read empty.npy: "),
        ([*GIVEN, "--scores", "torn.npy"], "cannot read torn.npy: "),
        ([*GIVEN, "--scores", "objects.npy"], "cannot read objects.npy: "),
        ([*GIVEN, "--scores", "."], "cannot read .: "),
        ([*GIVEN, "--scores", "labels.npy"], "scores are int64 of shape (300,), but must be numbers: one row"),
        ([*GIVEN, "--labels", "names.txt"], "labels are texts, such as 'cat': pass"),
        ([*GIVEN, "--labels", "names.npy"], "labels are texts, such as "),
        ([*GIVEN[:3], "two.csv", *GIVEN[4:]], "without --label, all 2 columns of "),
        (["no-such-data"], "no-such-data"),
        (["x" * 300], "x" * 300),
        (["digits", "--noise", "symmetrical(0.4)"], "symmetrical"),
        (["digits", "--validation", "1.5"], "validation is 1.5, but must be less than 1"),
    ],
)  # fmt: skip
def test_bad_input_is_one_sentence_and_exit_code_2(words: list[str], said: str, scores: Path, tmp_path: Path) -> None:
    here = [str(scores / word) if os.path.isfile(scores / word) else word for word in words]
    code, found = run("audit", *here, log=tmp_path / "log")
    assert code == 2, found
    assert said in found.replace(f"{scores}/", "")
    assert found.startswith("pyrite: ")
    assert found.count("\n") == 1
    assert "Traceback" not in found


# --- the circle -----------------------------------------------------------------------------------------------------


def test_what_was_found_is_dropped(tmp_path: Path) -> None:
    """Cross entropy learns wrong labels by heart, and is better without them: this seed shows it more than others.

    Measured on test over seeds 0 to 4: 91.4, 90.0, 89.2, 91.4, 90.0 % with all labels, and 93.6, 94.4, 93.6, 91.7,
    92.5 % without suspects. The default, gce, hardly learns them: 96.1, 95.0, 95.6, 95.8, 94.2 % with, and only 93.6,
    95.8, 93.3, 94.2, 93.3 % without.
    """
    words = ["digits", "--noise", "symmetric(0.4)", "--loss", "ce", "--model", "mlp(hidden=[64])", "--epochs", "20"]
    words += ["--seed", "1", "--json"]
    told = []
    for name, more in (("all", []), ("rest", ["--drop-suspects", "0.5"])):
        code, said = run("train", *words, *more, "--out", str(tmp_path / name), log=tmp_path / "log")
        assert code == 0, said
        told.append(json.loads(said[said.index("{") :]))
    assert told[1]["final_test_accuracy"] > told[0]["final_test_accuracy"] + 0.02
    first, second = pyrite.Run.load(tmp_path / "rest" / "audit"), pyrite.Run.load(tmp_path / "rest")
    assert (first.config.validation, second.config.validation) == (0.2, 0.0)
    assert str(first.config.noise) == str(second.config.noise) == "symmetric(rate=0.4)"
    # The noise is the same in both runs, and the labels after it are those that are corrected.
    assert (first.labels["given"] == second.labels["original"]).all()
    assert (second.labels["given"] == second.labels["original"]).all()
    assert (first.labels["true"] == second.labels["true"]).all()
    found = pyrite.audit(first)
    gone = np.sort(found.index[found.wrong_probability >= 0.5])
    assert np.flatnonzero(second.labels["part"] == 2).tolist() == gone.tolist()
    assert told[1]["dropped"] == len(gone) > 300
    wrong = second.labels["given"] != second.labels["true"]
    assert wrong[second.labels["part"] == 0].mean() < wrong.mean() / 3


def test_a_ranking_of_other_noise_is_refused(tmp_path: Path, audited: tuple[Path, str]) -> None:
    out, _ = audited
    words = ["train", *SMALL, "--corrections", str(out / "suspects.csv"), "--drop-suspects", "0.9"]
    code, said = run(*words, "--out", str(tmp_path / "a"), log=tmp_path / "log")
    assert code == 0, said
    code, said = run(*words, "--seed", "5", "--out", str(tmp_path / "b"), log=tmp_path / "log")
    assert code == 2
    assert "the file belongs to other data" in said
