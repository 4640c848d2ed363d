"""Corrections and rankings are read back whole, and refused where they do not fit the data."""

import csv
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from pyrite.auditing import Audit
from pyrite.data import Corrections, Dataset, load

HOSTILE = (
    'a,"b"',
    "two\nlines",
    "carriage\r\nreturn",
    "<script>alert('x')</script>",
    " spaces ",
    "Käse, 猫",
    "=1+1",
    "'",
)
COLUMNS = ["index", "path", "old", "new", "score", "decision"]


def made(classes: tuple[str, ...] = ("cat", "dog", "bird"), count: int = 12) -> Dataset:
    return Dataset("made", np.zeros((count, 2), np.float32), np.arange(count) % len(classes), classes)


def exported(rows: list[list[Any]], columns: list[str] = COLUMNS, end: str = "\r\n") -> bytes:
    """As RFC 4180 has it: quotes where they are needed, doubled inside, CRLF."""
    text = io.StringIO()
    csv.writer(text, lineterminator=end).writerows([columns, *rows])
    return text.getvalue().encode()


def read(content: bytes, data: Dataset | None = None) -> Corrections:
    return Corrections.parse(content, "fixed.csv", data or made())


# --- read back ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_hostile_names_come_back_exactly(end: str, bom: bytes, tmp_path: Path) -> None:
    data = made(HOSTILE, 40)
    rng = np.random.default_rng(0)
    order = rng.permutation(40)[:30]
    expected = {}
    rows = []
    for number in order.tolist():
        old, decision = HOSTILE[number % 8], ["keep", "relabel", "drop", "unsure"][rng.integers(4)]
        target = int(rng.integers(8))
        new = {"keep": old, "relabel": HOSTILE[target]}.get(decision, "")
        score = "" if number % 3 == 0 else repr(float(rng.random()))
        rows.append([number, "", old, new, score, decision])
        label = target if decision == "relabel" else number % 8
        expected[number] = (label, decision, float(score) if score else None)
    (tmp_path / "fixed.csv").write_bytes(bom + exported(rows, end=end))
    found = Corrections.read(tmp_path / "fixed.csv", data)
    assert found.index.tolist() == order.tolist()
    for index, new, decision, score in zip(
        found.index.tolist(), found.new.tolist(), found.decision, found.wrong_probability.tolist(), strict=True
    ):
        assert (new, decision, None if np.isnan(score) else score) == expected[index]
    labels = found.applied(data.labels)
    for index in range(40):
        assert labels[index] == (expected[index][0] if index in expected else index % 8)
    assert data.labels.tolist() == (np.arange(40) % 8).tolist()  # not in place
    assert found.dropped().tolist() == sorted(i for i, row in expected.items() if row[1] == "drop")
    assert found.relabelled.tolist() == sorted(i for i, row in expected.items() if row[0] != i % 8)
    assert len(found.relabelled) > 3


def test_suspects_are_dropped_but_for_what_a_person_decided() -> None:
    rows: list[list[Any]] = [
        [0, "", "cat", "cat", 0.99, "keep"],
        [1, "", "dog", "cat", 0.99, "relabel"],
        [2, "", "bird", "", 0.1, "drop"],
        [3, "", "cat", "", 0.9, "unsure"],
        [4, "", "dog", "", 0.8999, "unsure"],
        [5, "", "bird", "", "", "unsure"],
    ]
    found = read(exported(rows))
    assert found.dropped().tolist() == [2]
    assert found.dropped(0.9).tolist() == [2, 3]
    assert found.dropped(0.5).tolist() == [2, 3, 4]
    assert found.decided
    assert repr(found) == "<corrections of 6 samples: 1 keep, 1 relabel, 1 drop, 3 unsure>"


def an_audit(data: Dataset, score: np.ndarray, paths: tuple[str, ...] = (), can_tell: bool = True) -> Audit:
    count, classes = len(data), len(data.classes)
    return Audit(
        labels=data.labels, classes=data.classes, index=np.arange(count), score=score,
        choices=np.stack([(data.labels + 1) % classes, data.labels], 1), likelihoods=np.full((count, 2), 0.5),
        threshold=0.5, noise_rate=0.3, noise_rate_error=0.1, matrix=np.eye(classes), matrix_error=np.eye(classes),
        paths=paths, evidence={"margin": score, "new": -score}, can_tell=can_tell,
    )  # fmt: skip


@pytest.mark.parametrize("classes", [HOSTILE, ("cat", "dog")])
def test_the_ranking_of_an_audit(classes: tuple[str, ...], tmp_path: Path) -> None:
    data = made(classes, 200)
    audit = an_audit(data, np.random.default_rng(1).normal(0, 3, 200))
    found = Corrections.read(audit.to_csv(tmp_path / "suspects.csv"), data)
    assert found.index.tolist() == audit.ranking.tolist()
    np.testing.assert_allclose(found.wrong_probability, audit.wrong_probability[audit.ranking], rtol=1e-5)
    assert not found.decided
    assert not len(found.dropped())
    assert not len(found.relabelled)
    assert (found.applied(data.labels) == data.labels).all()
    likely = np.flatnonzero(audit.wrong_probability >= 0.9)
    assert found.dropped(0.9).tolist() == likely.tolist()
    assert 5 < len(likely) < 100
    assert repr(found) == "<corrections of 200 samples: none decided>"


def test_an_audit_that_cannot_tell_drops_nothing(tmp_path: Path) -> None:
    data = made(count=60)
    path = an_audit(data, np.linspace(-9, 9, 60), can_tell=False).to_csv(tmp_path / "suspects.csv")
    found = Corrections.read(path, data)
    assert np.isnan(found.wrong_probability).all()
    assert not len(found.dropped(0.1))


@pytest.mark.parametrize("lazy", [True, False])
def test_paths(lazy: bool, tmp_path: Path) -> None:
    for label in ("a", "b"):
        (tmp_path / "photos" / label).mkdir(parents=True)
        for number in range(3):
            Image.new("L", (4, 4), number).save(tmp_path / "photos" / label / f"{number}, x.png")
    data = load("folder", path=str(tmp_path / "photos"), lazy=lazy)
    assert data.paths == tuple(f"{label}/{number}, x.png" for label in "ab" for number in range(3))
    content = exported([[4, data.paths[4], "b", "a", 0.7, "relabel"]])
    assert read(content, data).applied(data.labels).tolist() == [0, 0, 0, 1, 0, 1]
    assert len(read(exported([[4, "", "b", "a", 0.7, "relabel"]]), data)) == 1  # a hand-written file may have none
    with pytest.raises(ValueError, match=r"line 2: sample 4 is the file 'b/0, x.png' here, but 'b/1, x.png' in photos"):
        read(exported([[4, data.paths[3], "b", "a", 0.7, "relabel"]]), data)
    audit = an_audit(data, np.arange(6.0), data.paths)
    assert Corrections.read(audit.to_csv(tmp_path / "s.csv"), data).index.tolist() == [5, 4, 3, 2, 1, 0]


def test_a_name_that_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    Image.new("L", (4, 4)).save(tmp_path / "a" / "0.png")
    Image.new("L", (4, 4)).save(tmp_path / "b" / "0.png")
    (tmp_path / "a" / "0.png").rename(tmp_path / "a" / b"\xff.png".decode("utf-8", "surrogateescape"))
    data = load("folder", path=str(tmp_path), lazy=True)
    assert data.paths == ("a/\\udcff.png", "b/0.png")
    assert data.inputs[[0, 1]].shape == (2, 1, 4, 4)  # and is still found


def test_paths_are_as_many_as_samples() -> None:
    with pytest.raises(ValueError, match="made has 2 samples but 1 paths"):
        Dataset("made", np.zeros((2, 2), np.float32), np.arange(2), ("a", "b"), paths=("a",))


# --- refused --------------------------------------------------------------------------------------------------------

GOOD: list[Any] = [0, "", "cat", "dog", 0.5, "relabel"]


def with_cell(column: str, value: object) -> list[Any]:
    return [value if name == column else cell for name, cell in zip(COLUMNS, GOOD, strict=True)]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "^fixed.csv is empty: it has no header"),
        (b"\n\n", "^fixed.csv is empty: it has no header"),
        (exported([]), "fixed.csv: the file has no rows below the header"),
        (b"\x89PNG\r\n\x1a\n\x00", "fixed.csv, line 1: not a CSV file in UTF-8"),
        (exported([GOOD]) + b"\xff,", "fixed.csv, line 3: not a CSV file in UTF-8"),
        (exported([GOOD]) + b'1,"a"b,', "fixed.csv, line 3: not a CSV file"),
        (exported([GOOD]) + b'1,"a\n', "fixed.csv, line 3: not a CSV file"),
        (b"<html>\n<body>", "line 1: no column is called 'index'; corrections have index, path, old, new"),
        (exported([], ["index", "old", "decision"]), "line 1: no column is called 'new'"),
        (exported([], ["index", "path", "given"]), "line 1: no column is called 'wrong_probability'"),
        (exported([], [*COLUMNS, "new"]), "line 1: two columns are called 'new'"),
        (exported([[1, 2]]), "line 2: 2 cells, but 6 columns"),
        (exported([with_cell("index", "-1")]), "line 2: index is '-1', which is not the number of a sample"),
        (exported([with_cell("index", "1.0")]), "line 2: index is '1.0', which is not"),
        (exported([with_cell("index", "")]), "line 2: index is '', which is not"),
        (exported([with_cell("index", "\u0661")]), "line 2: index is '\u0661', which is not"),
        (exported([with_cell("index", 12)]), "line 2: index is 12, but made has 12 samples, counted from 0"),
        (exported([with_cell("index", "9" * 5000)]), "line 2: index is 9{30}, but made has 12 samples"),
        (exported([GOOD, with_cell("index", 3), GOOD]), "line 4: sample 0 appears twice, first in line 2"),
        (
            exported([with_cell("old", "dog")]),
            "line 2: sample 0 has the label 'dog' here, but 'cat' in made: the file belongs to other data",
        ),
        (exported([with_cell("new", "brid")]), "line 2: new is 'brid', which is not a class: did you mean 'bird'"),
        (exported([with_cell("new", "xyz")]), "'xyz', which is not a class: there are: bird, cat, dog"),
        (exported([with_cell("new", "")]), "line 2: new is '', which is not a class"),
        (exported([with_cell("decision", "relable")]), "line 2: decision is 'relable': did you mean 'relabel'"),
        (exported([with_cell("decision", "")]), "decision is '': there are: drop, keep, relabel, unsure"),
        (exported([with_cell("decision", "keep")]), "the decision is keep, but new is 'dog': use relabel to change it"),
        (exported([with_cell("decision", "drop")]), "the decision is drop, but new is 'dog'"),
        (exported([with_cell("score", "1.5")]), "line 2: '1.5' is not a probability from 0 to 1"),
        (exported([with_cell("score", "high")]), "line 2: 'high' is not a probability"),
        (exported([with_cell("score", "inf")]), "line 2: 'inf' is not a probability"),
        (
            exported([[0, "dog", 0.5]], ["index", "given", "wrong_probability"]),
            "line 2: sample 0 has the label 'dog' here, but 'cat' in made",
        ),
    ],
)
def test_refused(content: bytes, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        read(content)


def test_the_line_is_where_the_record_begins() -> None:
    data = made(("two\nlines", "b"), 8)
    good = [0, "", "two\nlines", "two\nlines", "", "keep"]
    with pytest.raises(ValueError, match="line 5: sample 2 has the label 'b'"):
        read(exported([good, [2, "", "b", "two\nlines", "", "relabel"]]), data)


def test_two_classes_of_one_name() -> None:
    data = Dataset("made", np.zeros((3, 2), np.float32), np.arange(3), ("a", "b", "a"))
    assert read(exported([[2, "", "a", "b", "", "relabel"]]), data).applied(data.labels).tolist() == [0, 1, 1]
    with pytest.raises(ValueError, match="line 2: new is 'a', and two classes have this name"):
        read(exported([[1, "", "b", "a", "", "relabel"]]), data)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"missing\.csv: no such file"):
        Corrections.read(tmp_path / "missing.csv", made())
    with pytest.raises(ValueError, match="it is not a file"):
        Corrections.read(tmp_path, made())
