"""Audits as a hostile or an unlucky user would ask for them, from the command line: a sentence, never a traceback."""

import csv
import json
import math
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings, strategies
from PIL import Image
from sklearn.datasets import load_breast_cancer, make_blobs
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import cross_val_predict
from typer.testing import CliRunner, Result

import pyrite
from pyrite.cli.app import app
from pyrite.data import Corrections, Dataset, load
from pyrite.data.corrections import from_cell, to_cell
from pyrite.training.run import read_history, read_json, read_npz, read_weights

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


def type_in(*words: object) -> Result:
    """``pyrite`` with these words, in this process."""
    return CliRunner().invoke(app, [str(word) for word in words])


def refused(result: Result, *words: str) -> None:
    """One sentence with these words, and exit code 2."""
    error = result.exception
    said = str(error) if isinstance(error, ValueError) else result.output
    assert isinstance(error, ValueError | SystemExit), repr(error)
    assert result.exit_code != 0
    assert "\n" not in said.strip()
    for word in words:
        assert word in said, said


# --- scores at any scale --------------------------------------------------------------------------------------------


def cosine_like(
    samples: int = 1000, classes: int = 5, seed: int = 0, spread: float = 0.03
) -> tuple[Floats, Ints, Ints]:
    """Scores about 0.2, and 0.1 more at the right class, which always has the largest; a tenth of the labels wrong."""
    random = np.random.default_rng(0)
    true = np.arange(samples) % classes
    scores = 0.2 + spread * random.normal(size=(samples, classes)).clip(-1.6, 1.6) + 0.1 * np.eye(classes)[true]
    wrong = random.random(samples) < 0.1
    return scores, np.where(wrong, (true + random.integers(1, classes, samples)) % classes, true), true


@pytest.mark.parametrize("scale", [1, 10, 100, 1e-6, 1e300])
def test_the_same_answer_at_every_scale(scale: float, tmp_path: Path) -> None:
    scores, given_labels, true = cosine_like()
    assert (scores.argmax(1) == true).all()
    np.save(tmp_path / "scores.npy", scale * scores)
    np.save(tmp_path / "labels.npy", given_labels)
    words = ["--scores", tmp_path / "scores.npy", "--labels", tmp_path / "labels.npy", "--kind", "logits", "--json"]
    result = type_in("audit", *words, "--out", tmp_path / "out")
    assert result.exit_code == 0, result.output
    told = json.loads(result.output)
    assert told["noise_rate"] == pytest.approx((given_labels != true).mean(), abs=0.02)
    assert told["noise_rate_error"] < 0.02
    assert told["suspects"] == pytest.approx((given_labels != true).sum(), rel=0.2)


def test_scores_that_are_all_as_sure() -> None:
    """Labels cannot tell then whether the net errs or they are wrong: the net is trusted, and the interval says so."""
    scores, labels, true = cosine_like(spread=0)
    found = pyrite.audit(labels, scores=scores, kind="logits")
    assert found.noise_rate == pytest.approx((labels != true).mean(), abs=0.03)
    assert found.noise_interval[0] < (labels != true).mean() < found.noise_interval[1]


def close(one: pyrite.Audit, other: pyrite.Audit, rows: Ints, classes: Ints, near: float = 2e-3) -> None:
    """``other`` has the rows and classes of ``one`` in another order."""
    assert one.can_tell == other.can_tell
    assert other.noise_rate == pytest.approx(one.noise_rate, abs=near / 2)
    assert other.noise_rate_error == pytest.approx(one.noise_rate_error, abs=near)
    assert other.wrong_probability == pytest.approx(one.wrong_probability[rows], abs=near)
    assert other.matrix == pytest.approx(one.matrix[np.ix_(classes, classes)], abs=near)
    assert (classes[other.suggested] == one.suggested[rows]).mean() > 0.99


@pytest.mark.parametrize("names", [[0, 1, 2], ["0", "1", "2"], [0.0, 1.0, 2.0], [1, 2, 3], [7, 5, 10]])
@pytest.mark.parametrize("annotators", [1, 2])
def test_classes_that_are_called_by_numbers(names: list[Any], annotators: int) -> None:
    """Labels that are some of their names are names, and not places of columns."""
    true, random = np.arange(240) % 3, np.random.default_rng(0)
    scores = pd.DataFrame(4 * np.eye(3)[true] + random.normal(size=(240, 3)), columns=names)
    given = np.where(np.arange(240) < 24, (true + 1) % 3, true)
    labels: Any = np.array([int(float(name)) for name in names])[given]
    if annotators == 2:
        labels = np.stack([labels, np.where(np.arange(240) < 200, labels, np.roll(labels, 1))], 1)
    expected = pyrite.audit(labels, scores=scores, kind="logits")
    for some in (scores[[names[2], *names[:2]]], scores[names[::-1]]):
        found = pyrite.audit(labels, scores=some, kind="logits")
        assert [found.classes[label] for label in found.labels] == [
            expected.classes[label] for label in expected.labels
        ]
        np.testing.assert_allclose(found.wrong_probability, expected.wrong_probability, atol=0.01)
    if names == [1, 2, 3] and annotators == 1:
        with pytest.raises(pyrite.PyriteError, match="the label '0' is not one of the classes"):
            pyrite.audit(given, scores=scores, kind="logits")
    if names == [7, 5, 10] and annotators == 1:  # none is a name
        ordered = pyrite.audit(given, scores=scores, kind="logits", classes=["7", "5", "10"])
        np.testing.assert_array_equal(ordered.labels, given)


@pytest.mark.parametrize("form", ["numbers", "texts", "annotators"])
def test_numbers_of_classes_need_columns_in_a_known_order(form: str) -> None:
    """Which class is 0, where columns are called dog, cat, emu? They are in the order of no encoder."""
    true, names = np.arange(240) % 3, ["cat", "dog", "emu"]
    scores = pd.DataFrame(4 * np.eye(3)[true] + np.random.default_rng(0).normal(size=(240, 3)), columns=names)
    labels: Any = {
        "numbers": true,
        "texts": true.astype(str),
        "annotators": np.stack([true, (true + (np.arange(240) % 9 == 0)) % 3], 1),
    }[form]
    expected = pyrite.audit(labels, scores=scores, kind="logits")
    swapped = scores[["dog", "cat", "emu"]]
    with pytest.raises(pyrite.PyriteError, match="the columns of the scores are not in alphabetical order"):
        pyrite.audit(labels, scores=swapped, kind="logits")
    found = pyrite.audit(labels, scores=swapped, kind="logits", classes=names)
    np.testing.assert_array_equal(found.wrong_probability, expected.wrong_probability)


def test_labels_that_are_truth_values_are_names() -> None:
    true = np.arange(240) % 2
    scores = 4 * np.eye(2)[true] + np.random.default_rng(0).normal(size=(240, 2))
    expected = pyrite.audit(true == 1, scores=scores, kind="logits", classes=["False", "True"])
    found = pyrite.audit(true == 1, scores=scores[:, ::-1], kind="logits", classes=["True", "False"])
    np.testing.assert_allclose(found.wrong_probability, expected.wrong_probability)
    whole = pd.DataFrame(scores, columns=["0", "1"])[["1", "0"]]
    floats = pyrite.audit(true.astype(float), scores=whole, kind="logits")
    np.testing.assert_allclose(floats.wrong_probability, expected.wrong_probability)


def rows() -> tuple[Any, Any, Any]:
    random, true = np.random.default_rng(0), np.arange(90) % 2
    frame = pd.DataFrame({"a": random.normal(size=90), "site": ["A", "B", "C"] * 30})
    return pd.Series(true), pd.DataFrame(3 * np.eye(2)[true] + random.normal(size=(90, 2))), frame


@pytest.mark.parametrize("what", ["metadata", "embeddings", "data"])
def test_what_is_beside_scores_has_their_order(what: str) -> None:
    labels, scores, frame = rows()
    other = frame[["a"]] if what == "embeddings" else frame
    pyrite.audit(labels, scores=scores, kind="logits", **{what: other})
    with pytest.raises(pyrite.PyriteError, match=f"{what} has the same index as the samples, but in another order"):
        pyrite.audit(labels, scores=scores, kind="logits", **{what: other.sample(frac=1, random_state=0)})


def test_samples_with_labels_in_another_order() -> None:
    labels, scores, frame = rows()
    order, noise = np.random.default_rng(1).permutation(90), np.arange(90) < 20
    inputs = frame[["a"]].to_numpy()
    for own in (labels, np.where(noise, 1 - labels, labels)):
        pyrite.audit(labels, scores=scores, kind="logits", data=(inputs, own))
    with pytest.raises(pyrite.PyriteError, match="pass the samples in the order of the scores"):
        pyrite.audit(labels, scores=scores, kind="logits", data=(inputs[order], labels.to_numpy()[order]))


def test_scores_of_samples_that_were_trained_on_are_named() -> None:
    """A forest has learned a quarter of wrong labels, and prefers all of them."""
    inputs, true = load_breast_cancer(return_X_y=True)
    labels = np.where(np.random.default_rng(0).random(len(true)) < 0.25, 1 - true, true)
    forest = RandomForestClassifier(20, random_state=0, bootstrap=False).fit(inputs, labels)
    fitted = pyrite.audit(labels, scores=forest.predict_proba(inputs), kind="probabilities")
    assert any("an audit needs scores out of sample" in warning for warning in fitted.warnings)
    held_out = cross_val_predict(forest, inputs, labels, method="predict_proba")
    found = pyrite.audit(labels, scores=held_out, kind="probabilities")
    assert not any("out of sample" in warning for warning in found.warnings)


def test_labels_that_are_corrected_in_place() -> None:
    labels, scores, _ = rows()
    mine = labels.to_numpy().copy()
    found = pyrite.audit(mine, scores=scores, kind="logits")
    mine[:] = 0
    np.testing.assert_array_equal(found.labels, labels)
    with pytest.raises(pyrite.PyriteError, match="decisions are a Series: pass a dict"):
        found.reviewed(pd.Series({3: "keep"}))  # type: ignore[arg-type]


def test_a_column_of_row_numbers_is_no_class() -> None:
    scores = pd.DataFrame(np.random.default_rng(0).normal(size=(90, 3)), columns=["ant", "bee", "cow"])
    with pytest.raises(pyrite.PyriteError, match="'id' of the scores numbers the rows"):
        pyrite.audit(["ant", "bee", "cow"] * 30, scores=scores.assign(id=range(90)), kind="logits")


@pytest.mark.parametrize("seed", range(4))
def test_what_must_not_matter(seed: int) -> None:
    """Scale, numbers added to rows, the order of rows and of classes: alone and together."""
    random = np.random.default_rng(seed)
    count, samples = int(random.integers(2, 7)), 300
    true = random.integers(0, count, samples)
    scores = random.normal(size=(samples, count)) * 10.0 ** random.uniform(-2, 2)
    scores[np.arange(samples), true] += 2.5 * scores.std()
    labels = np.where(random.random(samples) < 0.2, random.integers(0, count, samples), true)
    first = pyrite.audit(labels, scores=scores, kind="logits")
    rows, classes = random.permutation(samples), random.permutation(count)
    new_labels = np.argsort(classes)[labels[rows]]
    changed = scores[rows][:, classes]
    scale, shift = 10.0 ** random.uniform(-12, 12), random.normal(0, 100 * scores.std(), (samples, 1))
    for values in (changed, changed * scale, changed + shift, (changed + shift) * scale):
        close(first, pyrite.audit(new_labels, scores=values, kind="logits"), rows, classes)


def test_a_temperature_does_not_matter_to_probabilities() -> None:
    scores, labels, _ = cosine_like(400)
    logs = np.log(np.exp(40 * scores) / np.exp(40 * scores).sum(1, keepdims=True))
    warm = np.exp(logs / 4) / np.exp(logs / 4).sum(1, keepdims=True)
    one = pyrite.audit(labels, scores=np.exp(logs), kind="probabilities")
    other = pyrite.audit(labels, scores=warm, kind="probabilities")
    same = np.arange(400)
    close(one, other, same, np.arange(5))
    close(one, pyrite.audit(labels, scores=40 * scores, kind="logits"), same, np.arange(5))


@pytest.mark.parametrize(
    "scores",
    [
        np.zeros((60, 3)),
        np.full((60, 3), 1e308) * [1, -1, 1],
        np.eye(3)[np.arange(60) % 3] * 5e-324,
        np.eye(3)[np.arange(60) % 3] * 1.7e308,
        np.where(np.arange(60)[:, None] == 7, 1e300, 1.0) * np.eye(3)[np.arange(60) % 3],
        (np.arange(180).reshape(60, 3) % 7).astype(np.uint8),
    ],
)
def test_extreme_scores_are_finite_answers(scores: npt.NDArray[Any]) -> None:
    with np.errstate(all="raise", under="ignore"):
        found = pyrite.audit(np.arange(60) % 3, scores=scores, kind="logits")
    assert np.isfinite(found.score).all()
    assert found.can_tell == np.isfinite(found.noise_rate)


def test_many_classes_with_three_rows_each() -> None:
    """200 classes; docs/performance.md has the time of more."""
    random, classes = np.random.default_rng(0), 200
    true = np.arange(3 * classes) % classes
    labels = np.where(random.random(len(true)) < 0.2, random.integers(0, classes, len(true)), true)
    scores = random.normal(size=(len(true), classes)) + 6 * np.eye(classes)[true]
    found = pyrite.audit(labels, scores=scores, kind="logits")
    assert found.noise_rate == pytest.approx((labels != true).mean(), abs=0.05)
    assert ((labels != true)[found.ranking[:100]]).mean() > 0.9


# --- labels ---------------------------------------------------------------------------------------------------------

LABELS = np.arange(60) % 3


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        (np.ma.masked_equal(LABELS, 2), "labels is masked at index 2: leave out samples without a label"),
        (np.where(LABELS == 1, np.nan, LABELS), "labels is nan at index 1: leave out samples without a label"),
        (LABELS.astype(float), "labels has the dtype float64"),
        (np.where(LABELS == 2, -1, LABELS), "labels is -1 at index 2, but must be 0 or more"),
        (np.array(["nan"] * 60), "the label at index "),
        (LABELS.astype(object), "labels has the dtype object"),
        (LABELS == 1, "labels has the dtype bool"),
        (LABELS.reshape(2, 30), "there are 60 rows of scores but 2 labels"),
    ],
)
def test_labels_that_are_none(labels: Any, said: str) -> None:
    with pytest.raises(ValueError) as error:
        pyrite.audit(labels, scores=np.eye(3)[LABELS], kind="logits")
    assert str(error.value).startswith(said)


def test_masked_scores() -> None:
    scores = np.ma.masked_equal(np.eye(3)[LABELS], 1)
    with pytest.raises(ValueError, match="scores are masked in row 0: every class needs a score"):
        pyrite.audit(LABELS, scores=scores, kind="logits")
    plain = np.ma.masked_array(np.eye(3)[LABELS], mask=False)
    assert pyrite.audit(np.ma.masked_array(LABELS, mask=False), scores=plain, kind="logits").can_tell


def test_too_few_are_refused_before_training(tmp_path: Path) -> None:
    np.savez(tmp_path / "few.npz", x=np.random.default_rng(0).normal(size=(40, 4)), y=np.arange(40) % 3)
    refused(type_in("audit", tmp_path / "few.npz", "--out", tmp_path / "run"), "there are 40 samples")
    refused(type_in("audit", "digits", "--samples", 20, "--out", tmp_path / "run"), "there are 20 samples")
    assert not (tmp_path / "run").exists()


# --- runs that are not whole ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("whole") / "run"
    options = {"model": "mlp(hidden=[8])", "epochs": 3, "samples": 300, "validation": 0.3, "noise": "symmetric(0.2)"}
    return pyrite.train("digits", out=path, progress=False, **options).path


@pytest.fixture
def run(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "run"))


def stop_at(run: Path, lines: int, epochs: int) -> None:
    """What a kill between two files leaves: so many lines of history, so many epochs of samples, not finished."""
    history = (run / "history.jsonl").read_text().splitlines(keepends=True)
    (run / "history.jsonl").write_text("".join(history[:lines]))
    with np.load(run / "samples.npz") as archive:
        arrays = dict(archive)
    for name in ("margins", "noisy_margins"):
        arrays[name] = arrays[name][:epochs]
    np.savez(run / "samples.npz", **arrays)
    facts = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps(facts | {"finished": False}))


def test_a_killed_run(run: Path) -> None:
    stop_at(run, 2, 1)
    said = f"{run} is unfinished, 2 of 3 epochs are done: continue with pyrite train --resume {run}"
    result = type_in("audit", run, "--json")
    assert result.exit_code == 0, result.output
    assert said in json.loads(result.stdout)["warnings"]
    assert said in (run / "report.html").read_text()
    (run / "report.html").unlink()
    result = type_in("report", run)
    assert result.exit_code == 0, result.output
    assert said in result.output
    assert said in (run / "report.html").read_text()


def test_a_run_without_an_epoch(run: Path) -> None:
    for name in ("history.jsonl", "samples.npz"):
        (run / name).unlink()
    for command in ("audit", "report"):
        refused(type_in(command, run), "has not finished an epoch: pyrite train --resume")


def test_a_method_that_leaves_other_arrays(run: Path) -> None:
    np.savez(run / "method.npz", transition=np.eye(10))
    result = type_in("report", run)
    assert result.exit_code == 0, result.output
    refused(type_in("curves", "ce", run), f"{run} has no learned weighting: its method is select(")


FILES = ("recipe.toml", "labels.npz", "samples.npz", "history.jsonl", "run.json")


@pytest.mark.parametrize("damage", ["empty", "cut", "other", "missing"])
@pytest.mark.parametrize("name", FILES)
def test_damaged_files_are_named(name: str, damage: str, run: Path) -> None:
    content = (run / name).read_bytes()
    damaged = {"empty": b"", "cut": content[: len(content) * 2 // 3 - 5], "other": b"[1, 2]\x93NUMPY"}
    (run / name).unlink()
    if damage != "missing":
        (run / name).write_bytes(damaged[damage])
    if name == "history.jsonl" and damage in ("empty", "missing"):
        return refused(type_in("audit", run), "has not finished an epoch")
    if name == "samples.npz" and damage == "missing":
        return refused(type_in("audit", run), "has not finished an epoch")
    if name == "recipe.toml" and damage == "missing":
        return refused(type_in("audit", run))  # then it is no run
    refused(type_in("report" if damage == "cut" else "audit", run), str(run / name))


def test_files_of_other_runs_are_refused(run: Path) -> None:
    with np.load(run / "samples.npz") as archive:
        arrays = dict(archive)
    np.savez(run / "samples.npz", **arrays | {"visits": arrays["visits"][:-1]})
    refused(type_in("audit", run), str(run / "samples.npz"), "does not belong to")
    np.savez(run / "samples.npz", **arrays | {"class_margins": arrays["class_margins"][:, 1:]})
    refused(type_in("audit", run), "other classes")


# --- readers of run files, on any bytes -----------------------------------------------------------------------------

READERS = {
    "labels.npz": lambda path: read_npz(path, "given"),
    "run.json": lambda path: read_json(path, classes=list),
    "history.jsonl": lambda path: read_history(path, "epoch"),
    "model.safetensors": read_weights,
}
ANY_BYTES = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def read_or_refuse(name: str, content: bytes, folder: Path) -> None:
    path = folder / name
    path.write_bytes(content)
    with suppress(ValueError):
        READERS[name](path)
        return
    with pytest.raises(ValueError) as error:
        READERS[name](path)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", READERS)
@ANY_BYTES
@given(content=strategies.binary(max_size=300))
def test_random_bytes(name: str, tmp_path: Path, content: bytes) -> None:
    read_or_refuse(name, content, tmp_path)


@pytest.mark.parametrize("name", READERS)
@ANY_BYTES
@given(data=strategies.data())
def test_cut_and_changed_files(name: str, whole: Path, tmp_path: Path, data: strategies.DataObject) -> None:
    content = bytearray((whole / name).read_bytes())
    content = content[: data.draw(strategies.integers(0, len(content)))]
    if content and data.draw(strategies.booleans()):
        # Headers are at the beginning and the end.
        place = data.draw(strategies.integers(0, min(400, len(content) - 1)))
        content[place if data.draw(strategies.booleans()) else -1 - place] = data.draw(strategies.integers(0, 255))
    read_or_refuse(name, bytes(content), tmp_path)


# --- names that a spreadsheet would run -----------------------------------------------------------------------------


@given(strategies.text(alphabet="'=+-@\t\r\n\uff1dab 1.e", max_size=6))
def test_cells_are_read_back_without_loss(name: str) -> None:
    cell = to_cell(name)
    assert from_cell(cell) == name
    assert is_number(cell) or not cell.startswith(("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d"))


def is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text)) and text.strip() == text and "_" not in text
    except ValueError:
        return False


@given(strategies.floats(allow_nan=False, allow_infinity=False))
def test_numbers_in_cells_are_numbers(value: float) -> None:
    """pandas reads them as such, and no spreadsheet runs them."""
    assert to_cell(repr(value)) == repr(value)


def test_a_class_that_is_a_formula(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    for label, shade in (("=cmd|' C'!A0", 60), ("+1-1", 180), ("'=x", 120)):
        (tmp_path / "photos" / label).mkdir(parents=True)
        for number in range(30):
            pixels = np.clip(random.normal(shade, 10, (8, 8)), 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(tmp_path / "photos" / label / f"+{number}-1.png")
    words = ["--model", "mlp(hidden=[8])", "--epochs", 2, "--out", tmp_path / "run"]
    result = type_in("audit", tmp_path / "photos", *words)
    assert result.exit_code == 0, result.output
    with (tmp_path / "run" / "suspects.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert not [cell for row in rows for name in ("path", "given", "suggested") if (cell := row[name])[0] in "=+-@"]
    data = load(str(tmp_path / "photos"))
    assert [from_cell(row["path"]) for row in rows] == [data.paths[int(row["index"])] for row in rows]
    assert len(Corrections.read(tmp_path / "run" / "suspects.csv", data)) == 90


@pytest.mark.parametrize("seed", [2, 4])
def test_clean_classes_that_overlap(seed: int, tmp_path: Path) -> None:
    """The net is wrong about a tenth of the rows or more, and every label is right."""
    inputs, labels = make_blobs(1000, centers=3, cluster_std=3, random_state=seed)
    data = Dataset("blobs", inputs, labels.astype(np.int64), ("a", "b", "c"))
    found = pyrite.audit(data, epochs=12, model="mlp(hidden=[32])", out=tmp_path / "run", progress=False)
    assert found.run is not None
    assert found.run.history[-1]["unseen_accuracy"] < 0.9
    assert found.noise_rate < 0.1
    assert found.noise_interval[0] == 0
    assert found.is_suspect.mean() < 0.12
