"""Where labels are wrong, leaks, and scores as people have them."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import pyrite
from pyrite.auditing import ColumnModels, columns as audit_columns, columns_of, find_leaks
from pyrite.data import Column, Dataset, Records
from tests.children import run

NAMES = ["lamp", "chair", "table"]


def made(bad: bool, rows: int = 2000, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """A table with 8 % wrong labels, half of them in the region Online if it is bad; given and true labels."""
    random = np.random.default_rng(seed)
    true = random.integers(3, size=rows)
    frame = pd.DataFrame(random.normal(size=(3, 5))[true] * 2 + random.normal(size=(rows, 5)), columns=list("abcde"))
    frame["region"] = np.array(["North", "South", "Online", *"ABCDEFG"], object)[random.integers(10, size=rows)]
    frame["day"] = pd.Timestamp("2024-01-01") + pd.to_timedelta(random.integers(0, 300, size=rows), unit="D")
    inside = (frame["region"] == "Online").to_numpy()
    rate = np.where(inside, 0.4, 0.044) if bad else np.full(rows, 0.08)
    given = np.where(random.random(rows) < rate, (true + random.integers(1, 3, size=rows)) % 3, true)
    return frame, given, true


def scores_of(true: np.ndarray[Any, Any], seed: int = 1) -> pd.DataFrame:
    return pd.DataFrame(4 * np.eye(3)[true] + np.random.default_rng(seed).normal(size=(len(true), 3)), columns=NAMES)


def test_a_bad_category_is_named_with_given_scores() -> None:
    frame, given, true = made(bad=True)
    audit = pyrite.audit(np.array(NAMES)[given], scores=scores_of(true), kind="logits", metadata=frame)
    first = audit.slices[0]
    assert first.name == "region = Online"
    assert len(audit.slices) == 1
    inside = (frame["region"] == "Online").to_numpy()
    np.testing.assert_array_equal(first.rows, np.flatnonzero(inside))
    assert first.labels == inside.sum()
    assert first.interval[0] < (given != true)[inside].mean() < first.interval[1]
    assert "above all where region = Online (" in audit.sentence
    assert audit.summary()["slices"][0]["conditions"] == ["region = Online"]


def test_nothing_is_named_without_one() -> None:
    frame, given, true = made(bad=False)
    assert not pyrite.audit(given, scores=scores_of(true), kind="logits", metadata=frame).slices


def test_pairs_periods_and_ranges_are_named() -> None:
    frame, _, true = made(bad=False, rows=6000)
    random = np.random.default_rng(3)
    both = ((frame["region"] == "North") & (frame["day"] >= "2024-09-01")).to_numpy()
    high = (frame["a"] > np.quantile(frame["a"], 0.9)).to_numpy()
    for inside, start in ((both, "region = North and day from 2024-09"), (high, "a from ")):
        wrong = random.random(6000) < np.where(inside, 0.6, 0.02)
        audit = pyrite.audit(
            np.where(wrong, (true + 1) % 3, true), scores=scores_of(true), kind="logits", metadata=frame
        )
        assert audit.slices[0].name.startswith(start) or set(audit.slices[0].conditions) >= {"region = North"}
        found = np.isin(np.arange(6000), np.concatenate([one.rows for one in audit.slices]))
        assert (found & inside).sum() > 0.6 * inside.sum()


def test_models_that_see_the_column_do_not_hide_it() -> None:
    """A flexible model learns that labels are wrong in the region; the audit of the table names it all the same."""
    frame, given, _ = made(bad=True)
    options: Any = {"progress": False, "epochs": 8}
    audit = pyrite.audit(frame, np.array(NAMES)[given], **options)
    assert audit.slices[0].name == "region = Online"
    assert not audit.leaks


def test_the_search_ends_when_the_minutes_are_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frame, given, _ = made(bad=True)
    data, clock = frame.assign(label=np.array(NAMES)[given]), audit_columns.perf_counter
    monkeypatch.setattr(audit_columns, "perf_counter", lambda: clock() + 60)
    found = pyrite.audit(data, label="label", minutes=0.05, out=tmp_path / "run", progress=False)
    assert not found.slices
    assert found.warnings[-1] == (
        f"the time was up before all groups of samples were searched for wrong labels: pyrite audit {tmp_path / 'run'} "
        "searches the rest"
    )
    later = pyrite.audit(found.run)
    assert later.slices[0].name == "region = Online"
    assert not later.warnings


def test_a_leak_is_named_and_a_good_column_is_not() -> None:
    frame, given, true = made(bad=False)
    columns = [Column(name, "number", frame[name].to_numpy()) for name in "abcde"]
    good, leak = (Column(name, "category", np.array(NAMES, object)[values]) for name, values in
                  (("good", true), ("leak", given)))  # fmt: skip
    models = ColumnModels(Records([*columns, good, leak]), given, 3)
    found = find_leaks(models)
    assert [one.column for one in found] == ["leak"]
    assert found[0].contradicted == pytest.approx((given != true).sum(), rel=0.2)
    assert not find_leaks(ColumnModels(Records([*columns, good]), given, 3))


def test_scores_and_labels_in_tables(tmp_path: Path) -> None:
    frame, given, true = made(bad=True)
    scores = scores_of(true)
    names = np.array(NAMES)[given]
    frame.assign(kind=names).to_csv(tmp_path / "t.csv", index=False)
    scores.to_csv(tmp_path / "s.csv", index=False)
    scores[["chair", "table", "lamp"]].assign(id=range(2000)).to_parquet(tmp_path / "s.parquet")
    np.save(tmp_path / "s.npy", scores.to_numpy())
    expected = pyrite.audit(given, scores=scores.to_numpy(), kind="logits").score
    chosen = ["--classes", ",".join(NAMES)]
    for file, more in (("s.csv", []), ("s.parquet", chosen), ("s.npy", chosen)):
        table, out = str(tmp_path / "t.csv"), str(tmp_path / "out")
        words = [
            "audit",
            "--scores",
            str(tmp_path / file),
            *more,
            "--labels",
            table,
            "--label",
            "kind",
            "--data",
            table,
        ]
        code, output = run(*words, "--kind", "logits", "--out", out, log=tmp_path / "log")
        assert code == 0, output
        assert "region = Online" in output
        found = pd.read_csv(tmp_path / "out" / "suspects.csv").sort_values("index")
        np.testing.assert_allclose(found["score"], expected, rtol=1e-4, atol=1e-4)
        assert found["given"].tolist() == names.tolist()
        assert found["region"].tolist() == frame["region"].tolist()
    page = (tmp_path / "out" / "report.html").read_text()
    assert 'id="where"' in page
    assert "region = Online" in page


@pytest.mark.parametrize(
    ("labels", "changes", "said"),
    [
        (["lamp", "sofa"] * 100, {}, "'sofa' is not one of the classes of the scores, 'lamp', 'chair', 'table'"),
        (["lamp", ""] * 100, {}, "the label at index 1 is missing: leave out samples without a label"),
        (["lamp", "chair"] * 100, {"classes": ["lamp", "sofa"]}, "scores have no column of the class 'sofa'"),
        (["lamp", "chair"] * 100, {"metadata": pd.DataFrame({"a": [1.0]})}, "metadata has 1 rows"),
        (["lamp", "chair"] * 100, {"metadata": 3}, "metadata is 3, but must be a frame, or a .csv or .parquet file"),
        (["lamp", "chair"] * 100, {"data": pd.DataFrame({"a": [1.0]})}, "data has 1 samples, but there are 200 labels"),
    ],
)  # fmt: skip
def test_bad_input_is_one_sentence(labels: list[str], changes: dict[str, Any], said: str) -> None:
    scores = scores_of(np.arange(200) % 3)
    with pytest.raises(pyrite.PyriteError, match=said):
        pyrite.audit(labels, **{"scores": scores, "kind": "logits"} | changes)


def test_probabilities_called_logits_give_a_warning() -> None:
    _, given, true = made(bad=False, rows=300)
    chances = np.exp(scores_of(true).to_numpy())
    chances /= chances.sum(1, keepdims=True)
    said = pyrite.audit(given, scores=chances, kind="logits").warnings
    assert any("look like probabilities" in one for one in said)
    assert not any("look like" in one for one in pyrite.audit(given, scores=chances, kind="probabilities").warnings)


def test_a_group_larger_than_a_fold_gives_a_warning() -> None:
    frame, given, _ = made(bad=False, rows=400)
    options: Any = {"label": "y", "group": "who", "epochs": 1, "progress": False}
    who = np.where(np.arange(400) < 250, "p", np.arange(400).astype(str))
    audit = pyrite.audit(frame.assign(y=np.array(NAMES)[given], who=who), **options)
    assert any("a group has 250 of 400 samples, more than one of 4 folds" in one for one in audit.warnings)
    assert not audit.leaks  # by models of the 150 others, columns would look like leaks
    with pytest.raises(pyrite.PyriteError, match="2 groups cannot be divided into 4 folds"):
        pyrite.audit(frame.assign(y=np.array(NAMES)[given], who=np.where(who == "p", "p", "q")), **options)


def test_folders_of_files_are_columns() -> None:
    random = np.random.default_rng(0)
    labels, shop = random.integers(2, size=50), random.choice(["shop a", "shop b"], 50)
    images = np.zeros((50, 1, 8, 8), np.uint8)
    paths = tuple(
        f"{'ab'[label]}/{where}/{place}.png" for place, (label, where) in enumerate(zip(labels, shop, strict=True))
    )
    found = columns_of(Dataset("files", images, labels, ("a", "b"), paths=paths))
    assert found is not None
    assert found.names == ("folder 2",)
    assert found.columns[0].values.tolist() == shop.tolist()


def test_labels_that_follow_a_rule_of_their_own_are_not_named() -> None:
    """A model that missed a rule disagrees with right labels; the other columns predict those, and wrong ones not."""
    random = np.random.default_rng(0)
    frame = pd.DataFrame(random.normal(size=(3000, 3)), columns=list("abc")).assign(calls=random.poisson(1.5, 3000))
    often = (frame["calls"] >= 4).to_numpy()
    usual = (frame["a"] > 0).astype(int).to_numpy()
    rule = np.where(often, frame["b"] > 0, usual)
    noise = np.where(often & (random.random(3000) < 0.5), 1 - usual, usual)
    scores = 4.0 * np.eye(2)[usual] + random.normal(size=(3000, 2))
    for labels, is_named in ((rule, False), (noise, True)):
        given = np.where(random.random(3000) < 0.03, 1 - labels, labels)
        beside = pyrite.audit(given, scores=scores, kind="logits", metadata=frame)
        assert beside.slices[0].name.startswith("calls from 4 to")  # what the columns predict is not known
        audit = pyrite.audit(given, scores=scores, kind="logits", data=frame)
        assert [one.name for one in audit.slices] == ([beside.slices[0].name] if is_named else [])


def test_copies_of_a_sample_count_once() -> None:
    random = np.random.default_rng(1)
    true = random.integers(2, size=800)
    frame = pd.DataFrame(random.normal(size=(800, 3)), columns=list("abc"))
    frame["shop"] = np.where(np.arange(800) < 30, "few", random.choice(["p", "q", "r"], 800))
    given = np.where(np.isin(np.arange(800), [*range(6), *range(30, 50)]), 1 - true, true)  # 6 of 30, and 20 of 770
    scores = 5.0 * np.eye(2)[true] + random.normal(size=(800, 2))
    frame, given, scores = pd.concat([frame] * 4), np.tile(given, 4), np.tile(scores, (4, 1))
    independent = pyrite.audit(given, scores=scores, kind="logits", metadata=frame)
    assert independent.slices[0].name == "shop = few"
    assert not pyrite.audit(given, scores=scores, kind="logits", data=frame).slices
