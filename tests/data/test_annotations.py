"""Labels of several annotators: columns, long tables, tables beside files, arrays with gaps, and bad ones."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
from PIL import Image

from pyrite.data import annotation_numbers, load
from pyrite.errors import PyriteError

WIDE = "size,first,second,third\n1,cat,cat,\n2,dog,,cat\n3,dog,dog,dog\n4,emu,dog,cat\n"
LONG = (
    "id,who,size,class\na,ann,1,cat\na,bob,1,cat\nb,ann,2,dog\nb,cy,2,cat\n"
    "c,ann,3,dog\nc,bob,3,dog\nc,cy,3,dog\nd,ann,4,emu\nd,bob,4,dog\nd,cy,4,cat\n"
)
LABELS = [[0, 0, -1], [1, -1, 0], [1, 1, 1], [2, 1, 0]]


@pytest.fixture
def written(tmp_path: Path) -> Any:
    def write(name: str, text: str) -> str:
        (tmp_path / name).write_text(text)
        return str(tmp_path / name)

    return write


def test_columns_and_long_tables_are_the_same_data(written: Any) -> None:
    wide = load(written("wide.csv", WIDE), label="first, second,third")
    long = load(written("long.csv", LONG), label="class", sample="id", annotator="who")
    for data in (wide, long):
        assert data.annotations is not None
        assert data.annotations.labels.tolist() == LABELS
        assert data.classes == ("cat", "dog", "emu")
        # The most frequent label; of equal ones the class that is more frequent among all: cat 4, dog 5, emu 1.
        assert data.labels.tolist() == [0, 1, 1, 1]
        assert data.columns == ("size",)
        assert np.asarray(data.inputs)[:, 0].tolist() == [1, 2, 3, 4]
    assert wide.annotations is not None
    assert long.annotations is not None
    assert (wide.annotations.names, long.annotations.names) == (("first", "second", "third"), ("ann", "bob", "cy"))
    assert long.paths == ("a", "b", "c", "d")


def test_a_test_part_is_read_in_the_same_way(written: Any) -> None:
    data = load(written("wide.csv", WIDE), label="first,second,third", test=written("test.csv", WIDE))
    assert data.test is not None
    assert data.test.labels.tolist() == [0, 1, 1, 1]


@pytest.mark.parametrize("gap", [None, np.nan, -1])
def test_arrays_have_gaps(gap: Any) -> None:
    labels = [[gap if value < 0 else value for value in row] for row in LABELS]
    for given in (labels, np.array(labels, object if gap is None else float), pandas.DataFrame(labels)):
        assert annotation_numbers(given).labels.tolist() == LABELS
        data = load(np.arange(8.0).reshape(4, 2), label=given)
        assert data.annotations is not None
        assert data.annotations.labels.tolist() == LABELS
    masked = np.ma.array(np.maximum(LABELS, 0), mask=np.array(LABELS) < 0)
    assert annotation_numbers(masked).labels.tolist() == LABELS


def test_frames_take_names_of_columns_and_tables_of_labels() -> None:
    frame = pandas.DataFrame({"size": [1, 2, 3, 4], "one": ["a", "b", None, "b"], "two": ["a", "a", "b", None]})
    for data in (
        load(frame, label=["one", "two"]),
        load(frame, label="one,two"),
        load(frame[["size"]], label=frame[["one", "two"]]),
    ):
        assert data.annotations is not None
        assert data.annotations.labels.tolist() == [[0, 0], [1, 0], [-1, 1], [1, -1]]
        assert data.annotations.names == ("one", "two")
        assert data.columns == ("size",)
    texts = load(["red", "green", "blue", "grey"], label=frame[["one", "two"]])
    assert texts.annotations is not None
    assert texts.annotations.names == ("one", "two")


@pytest.mark.parametrize("long", [False, True])
def test_a_table_labels_the_files_of_a_folder(tmp_path: Path, written: Any, long: bool) -> None:
    photos = tmp_path / "photos"
    (photos / "more").mkdir(parents=True)
    for name in ("b.png", "a.png", "more/c.png", "d.png", "unlabelled.png"):
        Image.new("RGB", (8, 8)).save(photos / name)
    (photos / "d.png").write_bytes(b"no image")
    if long:
        rows = "a.png,ann,cat\nb.png,ann,dog\na.png,bob,cat\nmore/c.png,bob,cat\nd.png,ann,cat\n"
        options = {"label": written("long.csv", "file,who,label\n" + rows), "sample": "file", "annotator": "who"}
    else:
        rows = "file,ann,bob\nb.png,dog,\nd.png,cat,\nmore/c.png,,cat\na.png,cat,cat\n"
        options = {"label": written("wide.csv", rows)}
    data = load(str(photos), **options)
    assert data.paths == ("a.png", "b.png", "more/c.png")
    assert data.annotations is not None
    assert data.annotations.labels.tolist() == [[0, 0], [1, -1], [-1, 0]]
    assert "1 files" in data.notes[0]
    assert len(data.unreadable) == 1


def test_a_table_labels_texts_too(tmp_path: Path, written: Any) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    for name in ("one.txt", "two.txt"):
        (notes / name).write_text(name)
    data = load(str(notes), label=written("labels.csv", "file,label\ntwo.txt,good\none.txt,bad\n"))
    assert data.labels.tolist() == [0, 1]
    assert data.annotations is None


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        (WIDE + "5,,,\n", {"label": "first,second,third"}, "no annotator labels sample 4"),
        (WIDE, {"label": "first,forth"}, "no column is called 'forth'"),
        (WIDE, {"label": "first,first"}, "cannot have another role"),
        (WIDE.replace("third", "third,none").replace("\n1,cat,cat,", "\n1,cat,cat,,"), {}, "cells"),
        (LONG, {"label": "class", "annotator": "who"}, "sample names none"),
        (LONG + "a,ann,1,dog\n", {"label": "class", "sample": "id", "annotator": "who"}, "'a' twice, as 'cat' and as"),
        (LONG + "e,,1,dog\n", {"label": "class", "sample": "id", "annotator": "who"}, "the cell is empty"),
        ("id,who,size,class\na,ann,1,cat\nb,ann,2,dog\n", {"label": "class", "sample": "id", "annotator": "who"},
         "there is one annotator, 'ann'"),
    ],
)  # fmt: skip
def test_bad_tables_are_refused_in_a_sentence(written: Any, text: str, options: Any, message: str) -> None:
    with pytest.raises(PyriteError, match=message):
        load(written("bad.csv", text), **options)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([[0], [1]], "one annotator, '1'"),
        ([[0, 1], [-1, -1]], "sample 1 has no label"),
        ([[0, -1], [1, -1]], "annotator '2' has no labels"),
        ([[0, 0.5], [1, 1]], "labels is 0.5 at index"),
        ([[0, 1], [1]], "cannot be read|must have one column"),
    ],
)
def test_bad_arrays_are_refused_in_a_sentence(labels: Any, message: str) -> None:
    with pytest.raises(PyriteError, match=message):
        annotation_numbers(labels)


def test_annotators_who_always_or_never_agree() -> None:
    one = np.arange(60) % 3
    with pytest.raises(PyriteError, match="always agree, in 60 pairs"):
        annotation_numbers(np.stack([one, one], 1)).check_agreement()
    with pytest.raises(PyriteError, match="never agree, in 60 pairs"):
        annotation_numbers(np.stack([one, (one + 1) % 3], 1)).check_agreement()
    other = np.where(np.arange(60) < 10, (one + 1) % 3, one)
    (copied,) = annotation_numbers(np.stack([one, other, other], 1)).check_agreement()
    assert copied == "2 and 3 always agree, on 60 samples: one may be a copy, and counts twice"
    apart = np.where(np.arange(60)[:, None] % 2 == [0, 1], one[:, None], -1)
    assert "no sample has labels of two" in annotation_numbers(apart).check_agreement()[0]
    assert not annotation_numbers(np.stack([one, other], 1)).check_agreement()
