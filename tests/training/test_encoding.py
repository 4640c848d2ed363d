"""Runs on samples that are not numbers: features are fitted to the training part, saved, and used again."""

import json
from pathlib import Path

import numpy as np
import pytest

import pyrite
from pyrite.data import Column, Dataset, Part, Records, texts
from pyrite.features import read_state
from tests.features.examples import make_table, make_texts

QUICK = {"epochs": 4, "model": "mlp(hidden=[8])", "progress": False}


def people(count: int = 200) -> Dataset:
    table = make_table(count)
    size = table.column("size").values + 3 * (np.arange(count) % 2)
    columns = [Column("size", "number", size), *table.columns[1:]]
    return Dataset("people", Records(columns), np.arange(count) % 2, ("a", "b"), notes=("a note",))


def test_features_are_those_of_the_training_part(tmp_path: Path) -> None:
    data = people()
    run = pyrite.train(data, out=tmp_path / "run", validation=0.3, **QUICK)
    assert str(run.config.features) == "table(categories=40, text_size=30)"
    train = run.labels["part"] == Part.TRAIN
    assert 0 < (~train).sum() < 100
    fill = read_state(tmp_path / "run" / "features.npz").facts["columns"][0]["fill"]
    sizes = data.inputs.columns[0].values
    assert fill == np.nanmedian(sizes[train]) != np.nanmedian(sizes)
    numbers = run.features.transform(data.inputs)
    assert run.facts["shape"] == [numbers.shape[1]]
    np.testing.assert_allclose(run.facts["mean"], numbers[train].mean(0), rtol=1e-9, atol=1e-9)
    assert run.facts["notes"] == ["a note"]


def test_scores_of_raw_samples_are_those_that_were_measured(tmp_path: Path) -> None:
    data = people()
    run = pyrite.train(data, out=tmp_path / "run", validation=0.3, **QUICK)
    held = run.labels["part"] == Part.VALIDATION
    right = pyrite.Run.load(run.path).scores(data.inputs[held]).argmax(1) == data.labels[held]
    assert right.mean() == run.history[run.epoch - 1]["validation_accuracy"]
    with pytest.raises(ValueError, match="trained on plain images or numbers"):
        pyrite.train("blobs", out=tmp_path / "plain", **QUICK).scores(data.inputs)


def test_a_resumed_run_ends_with_the_same_bytes(tmp_path: Path) -> None:
    data = people()
    whole = pyrite.train(data, out=tmp_path / "whole", **QUICK)
    steps = iter(range(1000))
    part = pyrite.train(data, out=tmp_path / "part", stop=lambda: next(steps) >= 3, **QUICK)
    assert not part.finished
    pyrite.train(data, resume=tmp_path / "part", progress=False)
    for name in ("features.npz", "model.safetensors", "samples.npz"):
        assert (tmp_path / "part" / name).read_bytes() == (whole.path / name).read_bytes(), name
    changed = Dataset("people", Records([Column("size", "number", np.arange(200.0)), *data.inputs.columns[1:]]),
                      data.labels, data.classes)  # fmt: skip
    with pytest.raises(ValueError, match="the inputs of people are not those"):
        pyrite.train(changed, resume=tmp_path / "part", progress=False)


def test_the_test_part_is_only_transformed(tmp_path: Path) -> None:
    data = people()
    first, second = (Dataset("people", data.inputs[rows], data.labels[rows], data.classes) for rows in
                     (np.arange(150), np.arange(150, 200)))  # fmt: skip
    run = pyrite.train(
        Dataset("people", first.inputs, first.labels, data.classes, test=second), out=tmp_path / "run", **QUICK
    )
    right = run.scores(second.inputs).argmax(1) == second.labels
    assert right.mean() == run.history[-1]["test_accuracy"]


def test_texts_have_a_linear_net_and_one_scale(tmp_path: Path) -> None:
    data = Dataset("mail", make_texts(200), np.arange(200) % 2, ("good", "bad"))
    run = pyrite.train(data, out=tmp_path / "run", epochs=10, noise="symmetric(0.2)", progress=False)
    assert (str(run.config.features), str(run.config.model)) == ("tfidf(size=300)", "linear")
    assert len(set(run.facts["std"])) == 1
    assert run.history[-1]["recovered"] > 0.9
    assert run.scores(texts(["good great fine", "awful rude"])).argmax(1).tolist() == [0, 1]


def test_noise_that_depends_on_the_samples(tmp_path: Path) -> None:
    run = pyrite.train(people(), out=tmp_path / "run", noise="instance(0.3)", **QUICK)
    assert 0.1 < (run.labels["given"] != run.labels["true"]).mean() < 0.5


def test_features_that_do_not_suit_the_data() -> None:
    with pytest.raises(ValueError, match=r"features is tfidf.*, which requires text, but digits has images"):
        pyrite.train("digits", features="tfidf")
    with pytest.raises(ValueError, match="unknown features 'tf_idf': did you mean 'tfidf'"):
        pyrite.train("digits", features="tf_idf")


def test_the_column_of_the_labels_is_announced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "cars.csv"
    path.write_text("power,origin\n" + "".join(f"{number},{'ab'[number % 2]}\n" for number in range(40)))
    pyrite.train(path, loss="ce", epochs=1, out=tmp_path / "run", progress=True)
    assert capsys.readouterr().err.startswith("labels in 'origin'; columns: 1 number; 'pyrite check' prints them all\n")


def test_label_names_the_column_in_recipes(tmp_path: Path) -> None:
    rows = "".join(f"{row % 2 + row / 1000},{row},{'ab'[row % 2]}\n" for row in range(60))
    (tmp_path / "a.csv").write_text("size,number,kind\n" + rows)
    run = pyrite.train(tmp_path / "a.csv", ignore="number", out=tmp_path / "run", **QUICK)
    assert (run.config.label, run.config.ignore) == ("kind", "number")
    assert run.facts["inputs"]["columns"] == {"size": "number"}
    assert (run.facts["inputs"]["kind"], run.facts["inputs"]["label"]) == ("numbers", "kind")
    assert pyrite.Run.load(tmp_path / "run").dataset().columns == ("size",)
    again = pyrite.train(config=tmp_path / "run" / "recipe.toml", out=tmp_path / "again", progress=False)
    assert json.dumps(again.history) == json.dumps(run.history)
    with pytest.raises(ValueError, match="label is 'kind', but the labels of digits are in no column"):
        pyrite.train(pyrite.data.load("digits"), label="kind")


def test_damaged_features_are_named(tmp_path: Path) -> None:
    run = pyrite.train(people(), out=tmp_path / "run", **QUICK)
    (run.path / "features.npz").write_bytes(b"PK")
    with pytest.raises(ValueError, match=r"features\.npz: not a complete \.npz file"):
        pyrite.Run.load(run.path).scores(people().inputs)
