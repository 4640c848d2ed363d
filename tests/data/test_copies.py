"""Copies, near copies and groups: found among real samples and made ones, and never on both sides of a split."""

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
from PIL import Image
from sklearn.datasets import load_breast_cancer, load_digits, load_wine

import pyrite
from pyrite.data import LazyImages, split, texts
from pyrite.data.copies import COMMON, copy_groups, joined_groups

WORDS = [f"{first}{middle}{last}" for first in "bdfgk" for middle in ("ar", "el", "in", "o") for last in "mnprst"]


def sentences(count: int, length: int = 12) -> list[str]:
    random = np.random.default_rng(0)
    return [" ".join(random.choice(WORDS, length)) for _ in range(count)]


def one_word_changed(text: str) -> str:
    return " ".join(["another", *text.split()[1:]])


def twins(inputs: Any) -> npt.NDArray[np.bool_]:
    """Whether each sample of the first half has its twin of the second half in its group, and nobody else."""
    groups = copy_groups(inputs)
    half = len(groups) // 2
    same: npt.NDArray[np.bool_] = groups[:half] == groups[half:]
    return same & (np.bincount(groups)[groups[:half]] == 2)


@pytest.mark.parametrize("load", [load_breast_cancer, load_wine])
@pytest.mark.parametrize("jitter", [0, 1e-6, 1e-3])
def test_rows(load: Any, jitter: float) -> None:
    rows, random = load().data, np.random.default_rng(0)
    assert len(np.unique(copy_groups(rows))) == len(rows)  # real ones are no copies
    assert twins(np.concatenate([rows, rows + jitter * rows.std(0) * random.normal(size=rows.shape)])).all()


def test_rows_of_many_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(0)
    rows = random.normal(size=(60, 3)) @ random.normal(size=(3, 1500)) + random.normal(size=(60, 1500))
    sizes, eigh = [], np.linalg.eigh
    monkeypatch.setattr(np.linalg, "eigh", lambda matrix: sizes.append(len(matrix)) or eigh(matrix))  # type: ignore[func-returns-value]
    assert len(np.unique(copy_groups(rows))) == len(rows)
    assert twins(np.concatenate([rows, rows + 1e-3 * random.normal(size=rows.shape)])).all()
    assert sizes == [60, 120]  # and not 1500, whose third power is hours for 16,000 columns


def test_images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyrite.data.copies._TOGETHER", 150)
    images, random = load_digits().images[:400], np.random.default_rng(0)
    pixels = np.kron(images[:, None] * 15, np.ones((1, 3, 2, 2))).astype(np.uint8)
    assert len(np.unique(copy_groups(pixels))) == 400
    noisy = np.clip(pixels + random.normal(0, 3, pixels.shape), 0, 255).astype(np.uint8)
    assert twins(np.concatenate([pixels, noisy])).all()
    for number, image in enumerate(pixels[:100]):
        picture = Image.fromarray(image.transpose(1, 2, 0))
        picture.save(tmp_path / f"{number:03}.png")
        picture.save(tmp_path / f"{number:03}.jpg", quality=95)
    names = [f"{number:03}.{kind}" for kind in ("png", "jpg") for number in range(100)]
    assert twins(LazyImages(tmp_path, names, 16)).mean() > 0.95


def test_images_that_cannot_be_read_are_no_copies_of_each_other(tmp_path: Path) -> None:
    random, names = np.random.default_rng(0), [f"{number:02}.png" for number in range(40)]
    for number, name in enumerate(names):
        Image.fromarray(random.integers(256, size=(16, 16, 3), dtype=np.uint8)).save(tmp_path / name)
        if number < 3:  # a header that is fine, and pixels that are not there
            whole = (tmp_path / name).read_bytes()
            (tmp_path / name).write_bytes(whole[: len(whole) // 3])
    assert len(np.unique(copy_groups(LazyImages(tmp_path, names, 16)))) == 40


@pytest.mark.parametrize("change", [str, str.upper, lambda text: f"  {text}!", one_word_changed])
def test_texts(change: Any) -> None:
    given = sentences(300)
    assert len(np.unique(copy_groups(texts(given)))) == 300
    assert twins(texts(given + [change(text) for text in given])).mean() > 0.9
    assert len(copy_groups(texts(["", "!", ""]))) == 3


def test_texts_without_words_are_no_copies() -> None:
    assert len(np.unique(copy_groups(texts(["\U0001f600", "\U0001f621", "!!!", "\U0001f600", "a film"])))) == 4


def test_records_with_gaps_and_categories() -> None:
    random = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"a": random.normal(size=200), "b": random.normal(size=200), "label": np.resize(["x", "y"], 200)}
    )
    frame["city"] = random.choice(["Oslo", "Rome", "Bern"], 200)
    frame.loc[::7, "a"] = np.nan
    assert len(np.unique(pyrite.data.load(frame).kept_together)) >= 198  # two numbers may be close by chance
    both = pd.concat([frame, frame.assign(b=frame.b + 1e-6)], ignore_index=True)
    assert twins(pyrite.data.load(both).inputs).mean() > 0.97
    moved = pd.concat([frame, frame.assign(city=frame.city.map({"Oslo": "Rome", "Rome": "Bern", "Bern": "Oslo"}))])
    assert len(np.unique(pyrite.data.load(moved.reset_index(drop=True)).kept_together)) >= 396


def test_a_value_that_many_share_is_no_copy() -> None:
    rows = np.random.default_rng(0).normal(size=(100, 3))
    rows[: COMMON - 1], rows[COMMON : 2 * COMMON] = rows[0], rows[COMMON]
    sizes = np.bincount(copy_groups(rows))
    assert sorted(sizes)[-2:] == [1, COMMON - 1]


def test_minus_zero_is_zero() -> None:
    assert copy_groups(np.array([[0.0], [1.0], [-0.0]])).tolist() == [0, 1, 0]


def test_groups_join_copies() -> None:
    rows = np.random.default_rng(0).normal(size=(6, 2))
    rows[3] = rows[0]
    assert joined_groups(copy_groups(rows), np.array([0, 1, 2, 3, 3, 4])).tolist() == [0, 1, 2, 0, 0, 3]


@pytest.mark.parametrize("seed", range(5))
def test_a_split_leaves_groups_whole(seed: int) -> None:
    random = np.random.default_rng(seed)
    labels, groups = random.integers(0, 3, 900), random.integers(0, 200, 900)
    parts = split(labels, meta=0.1, validation=0.2, test=0.3, seed=seed, groups=groups)
    each = [parts.train, parts.meta, parts.validation, parts.test]
    assert np.array_equal(np.sort(np.concatenate(each)), np.arange(900))
    assert sum(len(np.unique(groups[part])) for part in each) == len(np.unique(groups))
    for part, wanted in zip(each, (0.4, 0.1, 0.2, 0.3), strict=True):
        assert len(part) / 900 == pytest.approx(wanted, abs=0.05)
    alone = split(labels, meta=0.1, validation=0.2, seed=seed, groups=np.arange(900))
    assert np.array_equal(alone.validation, split(labels, meta=0.1, validation=0.2, seed=seed).validation)
    with pytest.raises(pyrite.PyriteError, match="too few groups: 2"):
        split(labels, meta=0, validation=0.9, seed=0, groups=groups % 2)


def patients() -> pd.DataFrame:
    """Four rows of each of 100 patients, whose numbers give them away, and whose labels are drawn by patient."""
    random = np.random.default_rng(0)
    who = np.repeat(np.arange(100), 4)
    own, label = 3 * random.normal(size=(100, 8)), random.permutation(np.resize([0, 1], 100))
    frame = pd.DataFrame(own[who] + 0.3 * random.normal(size=(400, 8)), columns=list("abcdefgh"))
    return frame.assign(patient=[f"p{number}" for number in who], label=np.where(label[who], "yes", "no"))


@pytest.mark.parametrize("how", ["column", "array"])
def test_patients_are_held_out_as_a_whole(how: str, tmp_path: Path) -> None:
    frame = patients()
    options: dict[str, Any] = {"group": "patient"}
    if how == "array":
        options = {"group": frame.patient.tolist(), "ignore": "patient"}
    data = pyrite.data.load(frame, label="label", **options)
    assert data.columns == tuple("abcdefgh")
    accuracy = {}
    for name, given in (("alone", {"ignore": "patient"}), ("whole", options)):
        run = pyrite.train(
            frame,
            label="label",
            loss="ce",
            model="mlp(hidden=[64])",
            epochs=60,
            validation=0.3,
            out=tmp_path / name,
            **given,
        )
        accuracy[name] = run.history[-1]["validation_accuracy"]
        held_out = frame.patient[run.labels["part"] == pyrite.data.Part.VALIDATION]
        rest = frame.patient[run.labels["part"] == pyrite.data.Part.TRAIN]
        assert {*held_out}.isdisjoint(rest) == (name == "whole")
    assert accuracy["alone"] > 0.8  # patients are recognised
    assert accuracy["whole"] < 0.7  # and labels cannot be predicted otherwise
    trainer_of = pyrite.audit(
        frame, label="label", model="mlp(hidden=[8])", epochs=2, out=tmp_path / "audit", **options
    )
    assert len(trainer_of) == 400


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"group": "patents"}, "no column is called 'patents'"),
        ({"group": "label"}, "cannot have another role"),
        ({"group": ["a"] * 400, "ignore": "patient"}, "fewer than two groups"),
        ({"group": ["a", "b"], "ignore": "patient"}, "400 samples but 2 groups"),
        ({"group": ["a", "b"] * 199 + [None] * 2, "ignore": "patient"}, "no group in row 399"),
        ({"group": [1.0, 2.0] * 199 + [np.nan] * 2, "ignore": "patient"}, "no group in row 399"),
    ],
)
def test_what_is_no_group(options: dict[str, Any], words: str) -> None:
    with pytest.raises(pyrite.PyriteError, match=words):
        pyrite.data.load(patients(), label="label", **options)


def test_an_empty_group() -> None:
    frame = patients()
    frame.loc[3, "patient"] = None
    with pytest.raises(pyrite.PyriteError, match="no group in row 4"):
        pyrite.data.load(frame, label="label", group="patient")


def noisy_table(copies: int) -> pd.DataFrame:
    rows, labels = load_breast_cancer(return_X_y=True, as_frame=True)
    wrong = np.random.default_rng(1).random(len(labels)) < 0.25
    frame = rows.assign(label=np.where(wrong, 1 - labels, labels))
    return pd.concat([frame] * copies, ignore_index=True)


def test_copies_do_not_hide_wrong_labels(tmp_path: Path) -> None:
    found = [pyrite.audit(noisy_table(copies), epochs=15, out=tmp_path / str(copies)) for copies in (1, 4)]
    assert found[1].noise_rate == pytest.approx(found[0].noise_rate, abs=0.03)


def test_a_test_part_that_repeats_training_samples(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    rows, few = random.normal(size=(200, 3)), random.integers(0, 2, size=(200, 3)).astype(float)
    labels = np.arange(200) % 2

    def found(inputs: Any, train: slice, test: slice) -> tuple[str, ...]:
        parts = {name: (inputs[some], labels[some]) for name, some in (("train", train), ("test", test))}
        return pyrite.data.load(parts).warnings

    assert found(rows, slice(150), slice(150, 200)) == ()
    assert found(few, slice(150), slice(150, 200)) == ()  # independent rows of three bits repeat
    assert "50 of 50 samples of the test part are training samples too" in found(rows, slice(200), slice(150, 200))[0]
    sentence = "10 of 60 samples of the test part are training samples too: results on them are not out of sample"
    assert found(sentences(200), slice(150), slice(140, 200)) == (sentence,)
    pd.DataFrame(rows).assign(label=labels).to_csv(tmp_path / "a.csv", index=False)
    path = tmp_path / "a.csv"
    run = pyrite.train(f'csv("{path}", test="{path}")', epochs=1, out=tmp_path / "run", progress=False)
    assert "200 of 200 samples of the test part" in run.facts["notes"][0]
    assert "200 of 200 samples of the test part" in pyrite.audit(run).warnings[0]
    for number, place in enumerate(product(("train", "test"), labels[:10])):
        file = tmp_path / "images" / place[0] / f"class {place[1]}" / f"{number}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((40, 40), 10 * (number % 10), np.uint8)).save(file)
    for lazy in (True, False):
        assert "10 of 10" in pyrite.data.load(str(tmp_path / "images"), lazy=lazy).warnings[0]
