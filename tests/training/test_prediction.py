"""Predictions for new samples: the scores of the run, from everything samples may come in."""

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from scipy.special import softmax

import pyrite
from tests import children

SMALL: dict[str, Any] = {"model": "mlp(hidden=[16])", "epochs": 2}


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> pyrite.Run:
    return pyrite.train("digits", samples=300, out=tmp_path_factory.mktemp("digits") / "run", **SMALL)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> pyrite.Run:
    folder = tmp_path_factory.mktemp("table")
    rows = [f"{i % 7},{'red' if i % 2 else 'blue'},{'=yes' if i % 2 else 'no'}" for i in range(80)]
    (folder / "some.csv").write_text("\n".join(["size,colour,label", *rows]))
    longer = SMALL | {"epochs": 20, "loss": "ce", "batch_size": 20}
    return pyrite.train(folder / "some.csv", out=folder / "run", **longer)


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_probabilities_are_the_softmax_of_the_scores(digits: pyrite.Run, tmp_path: Path) -> None:
    test = pyrite.data.load("digits").test
    assert test is not None
    found = digits.predict(test.inputs)
    assert np.allclose(found.probabilities, softmax(digits.scores(test.inputs), 1), atol=1e-6)
    assert np.mean(found.labels == test.labels) == pytest.approx(digits.table["final_test_accuracy"])
    assert found.predicted[:3] == [digits.classes[label] for label in found.labels[:3]]
    assert sum(found.counts().values()) == len(found) == 360
    rows = rows_of(found.to_csv(tmp_path / "new" / "predictions.csv"))
    assert [row["predicted"] for row in rows] == found.predicted
    for row, each in zip(rows, found.probabilities, strict=True):
        assert float(row["probability"]) == pytest.approx(each.max(), rel=1e-5)
        assert [float(row[f"probability of {name}"]) for name in digits.classes] == pytest.approx(each, rel=1e-5)


def test_a_folder_without_classes(digits: pyrite.Run, tmp_path: Path) -> None:
    images = np.asarray(pyrite.data.load("digits").inputs[:4])
    (tmp_path / "new" / "more").mkdir(parents=True)
    for name, pixels in zip(("a.png", "b.png", "=c.png", "more/d.png"), images, strict=True):
        Image.fromarray(pixels[0]).save(tmp_path / "new" / name)
    (tmp_path / "new" / "e.png").write_bytes(b"no image")
    out = tmp_path / "out.csv"
    words = ("predict", str(digits.path), str(tmp_path / "new"), "--out", str(out))
    code, said = children.run(*words, log=tmp_path / "log")
    assert code == 0
    assert "skipped 1 unreadable file;" in said
    rows = rows_of(out)
    assert [row["sample"] for row in rows] == ["'=c.png", "a.png", "b.png", "more/d.png"]
    expected = digits.predict(images[[2, 0, 1, 3]]).predicted
    assert [row["predicted"] for row in rows] == expected


def test_a_table_without_labels(table: pyrite.Run, tmp_path: Path) -> None:
    (tmp_path / "new.csv").write_text("colour,id,size\nred,x1,3\nblue,x2,\ngreen,x3,2\n")
    found = table.predict(tmp_path / "new.csv", name="id")
    assert found.names == ("x1", "x2", "x3")
    assert found.predicted[:2] == ["=yes", "no"]  # a gap and a colour that was not seen are taken
    rows = rows_of(found.to_csv(tmp_path / "out.csv"))
    assert rows[0]["predicted"] == "'=yes"
    words = ("predict", str(table.path), str(tmp_path / "new.csv"), "--out", str(tmp_path / "out.csv"))
    code, output = children.run(*words, log=tmp_path / "log")
    assert code == 0, output
    assert output.splitlines()[:2] == [
        "pyrite: 'size' is missing in 1 of 3 rows, but never or hardly ever in the training part",
        "pyrite: the category 'green' of 'colour', in 1 of 3 rows, was not in the training part",
    ]


def test_frames_and_texts(table: pyrite.Run, tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"size": [3.0, 2.0], "colour": ["red", "blue"]})
    assert table.predict(frame).predicted == ["=yes", "no"]
    data = pyrite.Dataset("words", pyrite.data.texts(["good", "bad"] * 30), np.arange(60) % 2, ("yes", "no"))
    run = pyrite.train(data, out=tmp_path / "run", **SMALL | {"epochs": 20, "loss": "ce", "batch_size": 20})
    assert run.predict(["bad", "good"]).predicted == ["no", "yes"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("colour\nred\n", "there is no column 'size'; the model was trained on 'size', 'colour'"),
        ("size,colour\nmany,red\n", "many"),
        ("", "new.csv"),
    ],
)
def test_other_columns_are_one_sentence(table: pyrite.Run, text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "new.csv").write_text(text)
    words = ("predict", str(table.path), str(tmp_path / "new.csv"), "--out", str(tmp_path / "out.csv"))
    code, output = children.run(*words, log=tmp_path / "log")
    assert code == 2
    assert said in output
    assert "Traceback" not in output
    assert not (tmp_path / "out.csv").exists()


def test_samples_of_another_shape(digits: pyrite.Run) -> None:
    with pytest.raises(ValueError, match="but the model expects"):
        digits.predict(np.zeros((2, 1, 9, 9), np.uint8))
    with pytest.raises(ValueError, match="there is no file or folder"):
        digits.predict("nothing")


def test_scores_of_images_of_another_scale_are_refused(digits: pyrite.Run) -> None:
    """From 0 to 1 and from 0 to 255 have one type."""
    pixels = pyrite.data.load("digits").inputs[:4]
    for scale in (1, 255):
        with pytest.raises(pyrite.PyriteError, match=r"inputs has images of float32, but .* bytes from 0 to 255"):
            digits.scores((pixels / scale).astype(np.float32))
