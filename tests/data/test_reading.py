"""New samples for a model are read as its training data were."""

import json

import numpy as np
import pandas
import pytest
from PIL import Image

from pyrite.data import Dataset, LazyImages, Records, describe, load, read_like

TABLE = "age,city,when,member,note,label\n31,Oslo,2020-01-02,true,a first note of four,x\n,Rome,,false,,y\n"


@pytest.fixture
def described(tmp_path):
    (tmp_path / "train.csv").write_text(TABLE)
    data = load(tmp_path / "train.csv", ignore="note")
    return describe(data)


def test_without_labels_in_another_order_and_format(tmp_path, described):
    assert described["columns"] == {"age": "number", "city": "category", "when": "date", "member": "boolean"}
    path = tmp_path / "new.csv"
    path.write_text("\ufeffmember;when;more;age;city;who\nTRUE;03.04.2021;1;1,5;Bonn;ada\n;;2;;;bob\n")
    samples = read_like(path, described, name="who")
    assert isinstance(samples.inputs, Records)
    assert samples.inputs.cells(0) == ("1.5", "Bonn", "2021-04-03", "true")
    assert samples.inputs.cells(1) == ("", "", "", "")
    assert samples.names == ("ada", "bob")
    frame = pandas.DataFrame({"age": [1.5], "city": ["Bonn"], "when": ["2021-04-03"], "member": [True]})
    for same in (frame, frame.astype({"when": "datetime64[s]"})):  # pandas reads the dates of a CSV file as texts
        assert read_like(same, described).inputs.cells(0) == samples.inputs.cells(0)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("city,when,member\nOslo,,true\n", "there is no column 'age'; the model was trained on 'age', 'city'"),
        ("age,city,when,member\nold,Oslo,,true\n", "row 1 (line 2), column 'age': 'old' is not a number"),
        ("age,city,when,member\n1,Oslo,soon,true\n", "column 'when': 'soon' is not a date"),
        ("age,city,when,member\n1,Oslo,,maybe\n", "column 'member': 'maybe' is neither true nor false"),
    ],
)
def test_other_columns_and_cells_of_another_kind(tmp_path, described, refused, text, said):
    (tmp_path / "new.csv").write_text(text)
    assert said in refused(read_like, tmp_path / "new.csv", described)


def test_dates_and_decimals_are_read_as_in_training_where_the_new_file_leaves_a_doubt(tmp_path):
    (tmp_path / "a.csv").write_text("day;price;label\n3/31/2020;1,5;a\n4/1/2020;2,5;b\n")
    described = json.loads(json.dumps(describe(load(tmp_path / "a.csv"))))
    (tmp_path / "b.csv").write_text("day;price\n3/4/2021;1,234\n")
    assert read_like(tmp_path / "b.csv", described).inputs.cells(0) == ("2021-03-04", "1.234")


def test_plain_numbers_have_no_gaps(tmp_path, refused):
    (tmp_path / "a.csv").write_text("x,z,label\n1,2,a\n3,4,b\n")
    described = describe(load(tmp_path / "a.csv"))
    (tmp_path / "b.csv").write_text("z,x\n2,1\n")
    assert read_like(tmp_path / "b.csv", described).inputs.tolist() == [[1, 2]]
    assert read_like(np.array([[5, 6]]), described).inputs.tolist() == [[5, 6]]
    (tmp_path / "b.csv").write_text("z,x\n2,\n")
    assert "column 'x': the number is missing, and none was missing in training" in refused(
        read_like, tmp_path / "b.csv", described
    )
    assert "samples of shape (3,), but the model expects (2,)" in refused(read_like, np.zeros((1, 3)), described)


def test_texts_and_images(tmp_path, refused):
    described = describe(load(["one", "two"], label=[0, 1]))
    (tmp_path / "a.txt").write_text("three")
    assert read_like(["four"], described).inputs.texts() == ["four"]
    assert read_like(tmp_path / "a.txt", described).inputs.texts() == ["three"]
    assert read_like(tmp_path, described).names == ("a.txt",)
    for number in range(2):
        Image.fromarray(np.full((6, 5), 100 * number, np.uint8)).save(tmp_path / f"{number}.png")
    (tmp_path / "bad.png").write_bytes(b"no image")
    data = Dataset("grey", LazyImages(tmp_path, ["0.png", "1.png"], (4, 4), 1), np.array([0, 1]), ("a", "b"))
    samples = read_like(tmp_path, describe(data))
    assert samples.inputs.shape == (2, 1, 4, 4)
    assert samples.names == ("0.png", "1.png")
    assert [Path.rpartition("/")[2] for Path, _ in samples.unreadable] == ["bad.png"]
    assert "there is no file or folder" in refused(read_like, tmp_path / "none", describe(data))
    (tmp_path / "a.csv").write_text("x\n1\n")
    assert "takes images, not a table" in refused(read_like, tmp_path / "a.csv", describe(data))
