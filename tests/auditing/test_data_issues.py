"""Copies, near-empty classes and unreadable files, against looking at every pair."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from pyrite.auditing.issues import ClassSize, Copies, DataIssues, data_issues
from pyrite.data import Dataset, LazyImages, Unreadable, load


def by_pairs(inputs: np.ndarray, labels: np.ndarray) -> tuple[list[tuple[int, ...]], int]:
    """The groups whose labels differ, and the number of samples that repeat an earlier one, from all pairs."""
    same = np.array([[a.tobytes() == b.tobytes() for b in inputs] for a in inputs])
    groups = {tuple(np.flatnonzero(row).tolist()) for row in same}
    alike = same & (labels[:, None] == labels[None, :])
    repeated = sum(alike[i, :i].any() for i in range(len(inputs)))
    return sorted(group for group in groups if len(set(labels[list(group)])) > 1), int(repeated)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", ["images", "features", "strided"])
def test_as_by_all_pairs(kind: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyrite.auditing.issues._CHUNK", 50)  # so that copies lie in different chunks
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 3, 120)
    if kind == "images":
        inputs = rng.integers(0, 3, (120, 1, 2, 2)).astype(np.uint8)
    else:
        inputs = rng.choice(np.array([0.0, -0.0, 1.0], np.float32), (120, 8))
        inputs = np.ascontiguousarray(inputs[:, :4]) if kind == "features" else inputs[:, ::2]
    found = data_issues(Dataset("made", inputs, labels, ("a", "b", "c")))
    groups, repeated = by_pairs(inputs, labels)
    assert [copies.samples for copies in found.contradictions] == groups
    assert found.repeated == repeated
    assert len(groups) > 5
    assert repeated > 5
    for samples, names in found.contradictions:
        assert names == tuple("abc"[labels[i]] for i in samples)


def test_nothing_to_say() -> None:
    found = data_issues(Dataset("made", np.arange(40, dtype=np.float32).reshape(20, 2), np.arange(20) % 2, ("a", "b")))
    assert found == DataIssues()
    assert found.sentences() == ()


@pytest.mark.parametrize(
    ("counts", "few"), [((9, 10, 0), [("a", 9), ("c", 0)]), ((10, 10, 10), []), ((1, 40, 11), [("a", 1)])]
)
def test_near_empty_classes(counts: tuple[int, ...], few: list[tuple[str, int]]) -> None:
    labels = np.repeat(np.arange(3), counts)
    inputs = np.arange(2 * len(labels), dtype=np.float32).reshape(-1, 2)
    found = data_issues(Dataset("made", inputs, labels, ("a", "b", "c")))
    assert found.near_empty == tuple(ClassSize(*entry) for entry in few)


def test_lazy_images_are_read_once_and_once_as_thumbnails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    for label in ("cat", "dog"):
        (tmp_path / label).mkdir()
        for number in range(12):
            pixels = rng.integers(0, 256, (6, 6), np.uint8)
            Image.fromarray(pixels).save(tmp_path / label / f"{number:02}.png")
    same = Image.open(tmp_path / "cat" / "03.png")
    same.save(tmp_path / "dog" / "07.bmp")  # another file, the same pixels
    same.save(tmp_path / "cat" / "11.png")
    whole = (tmp_path / "dog" / "05.png").read_bytes()
    (tmp_path / "dog" / "05.png").write_bytes(whole[: len(whole) - 30])  # the header is whole: seen only when read
    (tmp_path / "dog" / "99.png").write_text("no image")
    counted: list[int] = []
    read = LazyImages.read

    def counting(self: LazyImages, rows: Any = None, **options: Any) -> Any:
        counted.extend(range(len(self)) if rows is None else rows.tolist())
        return read(self, rows, **options)

    monkeypatch.setattr(LazyImages, "read", counting)
    data = load("folder", path=str(tmp_path), lazy=True)
    found = data_issues(data)
    assert sorted(counted) == sorted(2 * [*range(len(data))])
    three = [data.paths.index(name) for name in ("cat/03.png", "cat/11.png", "dog/07.bmp")]
    assert found.contradictions == (Copies(tuple(three), ("cat", "cat", "dog")),)
    assert found.repeated == 1
    assert {Path(entry.path).name for entry in found.unreadable} == {"05.png", "99.png"}
    in_memory = data_issues(load("folder", path=str(tmp_path), lazy=False))
    assert {entry.path for entry in in_memory.unreadable} == {entry.path for entry in found.unreadable}
    assert in_memory.repeated == 1
    assert [len(copies.samples) for copies in in_memory.contradictions] == [3]


@pytest.mark.parametrize("kind", ["rows", "images", "texts"])
def test_near_copies_with_different_labels(kind: str) -> None:
    """Of 40 samples, eight occur again with small changes, four of these with another label."""
    rng = np.random.default_rng(0)
    labels = np.concatenate([np.arange(40) % 2, np.arange(8) % 2])
    labels[40:44] = 1 - labels[40:44]
    if kind == "texts":
        words = rng.choice([f"word{number}" for number in range(300)], (40, 12))
        again = words[:8].copy()
        again[:, 5] = "changed"
        texts = [" ".join(row) for row in (*words, *again)]
        data = load(texts, label=["ab"[label] for label in labels])
    else:
        shape = (40, 6) if kind == "rows" else (40, 3, 16, 16)
        first = rng.normal(size=shape) if kind == "rows" else rng.integers(0, 250, shape)
        again = first[:8] + (1e-6 if kind == "rows" else 1)
        both = np.concatenate([first, again]).astype(np.float32 if kind == "rows" else np.uint8)
        data = Dataset("made", both, labels, ("a", "b"))
    found = data_issues(data)
    assert found.near_copies == tuple(
        Copies((row, 40 + row), tuple("ab"[labels[place]] for place in (row, 40 + row))) for row in range(4)
    )
    assert not found.contradictions
    assert not found.repeated
    assert found.sentences()[0] == "4 groups of near copies have different labels, such as 0 (a) and 40 (b)"
    assert not data_issues(data, np.zeros(48, np.int64)).near_copies


def test_words_and_json() -> None:
    found = DataIssues(
        contradictions=(Copies((3, 5, 9), ("cat", "cat", "dog")), Copies((4, 6), ("dog", "cat"))),
        repeated=1,
        near_empty=tuple(ClassSize(name, 2) for name in "abcdef"),
        unreadable=(Unreadable("x.png", "x.png: cut off"),),
    )
    assert found.sentences() == (
        "2 inputs occur more than once with different labels, in 5 samples, such as 3 (cat) and 9 (dog)",
        "1 sample repeats the input and label of an earlier one",
        "6 classes have fewer than 10 samples: 'a' (2), 'b' (2), 'c' (2), 'd' (2), 'e' (2), ...",
        "1 file could not be read, such as x.png: cut off",
    )
    assert json.loads(json.dumps(found.summary())) == {
        "contradictions": [
            {"samples": [3, 5, 9], "labels": ["cat", "cat", "dog"]},
            {"samples": [4, 6], "labels": ["dog", "cat"]},
        ],
        "near_copies": [],
        "repeated": 1,
        "near_empty": [{"name": name, "samples": 2} for name in "abcdef"],
        "unreadable": [{"path": "x.png", "reason": "x.png: cut off"}],
    }
