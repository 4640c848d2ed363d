"""Audits of labels by several annotators: from scores, tables, images and runs, in Python and on the command line."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
from PIL import Image
from typer.testing import CliRunner

import pyrite
from pyrite.cli.app import app
from pyrite.errors import PyriteError
from pyrite.report.audit_page import write_audit_page
from pyrite.report.review_queue import make_queue

CLASSES = ("cat", "dog", "emu")
NAMES = ("first", "second", "third")


def drawn(samples: int, gaps: float = 0.3) -> tuple[Any, Any, Any]:
    """Labels of three annotators who are wrong in 10, 20 and 30 %, scores, and the true classes."""
    random = np.random.default_rng(0)
    true = random.integers(3, size=samples)
    wrong = random.random((samples, 3)) < (0.1, 0.2, 0.3)
    labels = np.where(wrong, (true[:, None] + random.integers(1, 3, size=wrong.shape)) % 3, true[:, None]).astype(float)
    labels[random.random(wrong.shape) < (0, gaps, gaps)] = np.nan
    return labels, 2 * np.eye(3)[true] + random.normal(size=(samples, 3)), true


@pytest.fixture(scope="module")
def by_scores() -> Any:
    labels, scores, true = drawn(800)
    frame = pandas.DataFrame(labels, columns=list(NAMES))
    return pyrite.audit(frame, scores=scores, kind="logits", classes=CLASSES), true


def test_the_consensus_is_better_than_what_annotators_agree_on(by_scores: Any) -> None:
    audit, true = by_scores
    assert (audit.suggested == true).mean() > (audit.labels == true).mean() + 0.02
    assert audit.noise_interval[0] <= (audit.labels != true).mean() <= audit.noise_interval[1]
    assert list(audit.annotators) == list(NAMES)
    for one, rate in zip(audit.annotators.values(), (0.1, 0.2, 0.3), strict=True):
        assert one.rate == pytest.approx(rate, abs=0.05)
        assert one.interval[0] < one.rate < one.interval[1]
        assert one.matrix.sum(1) == pytest.approx(1)
    assert audit.posterior[np.arange(800), audit.labels] == pytest.approx(1 - audit.wrong_probability, abs=1e-5)
    assert audit.posterior.sum(1) == pytest.approx(1, abs=1e-5)
    assert "800 consensus labels look wrong" in audit.sentence
    assert "labels of 3 annotators, from" in audit.sentence


def test_files_have_annotators_and_the_consensus(by_scores: Any, tmp_path: Path) -> None:
    audit, _ = by_scores
    found = json.loads(audit.to_json(tmp_path / "audit.json").read_text())
    assert set(found["annotators"]["second"]) == {"rate", "interval", "labels"}
    assert found["annotators"]["first"]["labels"] == 800
    assert found["label_next"][:2] == audit.index[audit.label_next[:2]].tolist()
    table = pandas.read_csv(audit.to_csv(tmp_path / "suspects.csv"))
    assert (table["consensus"] == table["suggested"]).all()
    assert table["label_gain"].max() == pytest.approx(audit.evidence["label_gain"].max(), rel=1e-4)
    # One more label is of no use where all is clear, and of most where two classes are about as likely.
    first = audit.label_next[:20]
    assert audit.likelihoods[first, 0].mean() < 0.65


def test_the_page_has_annotators_and_their_labels(by_scores: Any, tmp_path: Path) -> None:
    audit, _ = by_scores
    page = write_audit_page(audit, tmp_path / "report.html").read_text()
    for name, one in audit.annotators.items():
        assert f'<span class="name">{name}</span></th><td>{one.labels:,}</td><td><b>{100 * one.rate:.1f}' in page
    queued = make_queue(audit)
    first = int(queued.rows[0])
    words = ", ".join(
        f"{name} {CLASSES[label]}"
        for name, label in zip(NAMES, audit.annotations.labels[first], strict=True)
        if label >= 0
    )
    assert queued.data["said"][0] == words
    assert "40 to label once more" in page


def test_a_review_recalibrates_such_an_audit(by_scores: Any) -> None:
    audit, true = by_scores
    decided = {int(row): "keep" if audit.labels[row] == true[row] else "drop" for row in audit.ranking[:40]}
    after = audit.reviewed(decided)
    assert after.annotators == audit.annotators
    assert np.isfinite(after.noise_rate)


def test_gaps_are_minus_one_none_or_nan_and_names_are_numbers() -> None:
    labels, scores, _ = drawn(200)
    rates = []
    for given in (labels, np.where(np.isnan(labels), -1, labels).astype(int)):
        audit = pyrite.audit(given, scores=scores, kind="logits")
        assert list(audit.annotators) == ["1", "2", "3"]
        rates.append([one.rate for one in audit.annotators.values()])
    assert rates[0] == rates[1]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda labels: labels[:, :1], "there is one annotator"),
        (lambda labels: np.where(np.arange(200)[:, None] == 7, np.nan, labels), "sample 7 has no label"),
        (lambda labels: np.tile(labels[:, :1], 2), "always agree"),
        (lambda labels: np.stack([labels[:, 0], (labels[:, 0] + 1) % 3], 1), "never agree"),
        (lambda labels: labels + 1, "has no column|no column"),
    ],
)
def test_bad_labels_are_refused_in_a_sentence(change: Any, message: str) -> None:
    labels, scores, _ = drawn(200)
    with pytest.raises(PyriteError, match=message):
        pyrite.audit(change(labels), scores=scores, kind="logits")


def test_opposite_labels_of_a_table_are_refused_before_training() -> None:
    """The consensus of two classes in even numbers is one class for all samples."""
    first = np.resize(["cat", "dog"], 80)
    frame = pandas.DataFrame({"x": np.arange(80.0), "first": first, "second": first[::-1]})
    with pytest.raises(PyriteError, match="never agree, in 80 pairs of labels"):
        pyrite.audit(frame, label=["first", "second"])


def test_a_class_that_nobody_gives_is_a_warning() -> None:
    labels, scores, _ = drawn(200)
    wider = np.concatenate([scores, scores.min(1, keepdims=True) - 1], 1)
    audit = pyrite.audit(labels, scores=wider, kind="logits", classes=(*CLASSES, "yak"))
    assert any("'yak'" in warning for warning in audit.warnings)


def table_of(samples: int) -> tuple[Any, Any]:
    labels, scores, true = drawn(samples)
    frame = pandas.DataFrame(scores.round(3), columns=["a", "b", "c"])
    for name, own in zip(NAMES, labels.T, strict=True):
        frame[name] = [None if np.isnan(value) else CLASSES[int(value)] for value in own]
    return frame, true


def test_a_table_on_the_command_line_in_both_forms(tmp_path: Path) -> None:
    frame, true = table_of(300)
    frame.to_csv(tmp_path / "wide.csv", index=False)
    long = frame.assign(id=[f"s{row}" for row in range(300)])
    long = long.melt(id_vars=["id", "a", "b", "c"], var_name="who", value_name="class").dropna()
    long.sort_values("id", key=lambda ids: ids.str[1:].astype(int), kind="stable").to_csv(
        tmp_path / "long.csv", index=False
    )
    forms = {
        "wide": ["--label", "first,second,third"],
        "long": ["--label", "class", "--sample", "id", "--annotator", "who"],
    }
    rates = []
    for form, options in forms.items():
        out = tmp_path / form
        done = CliRunner().invoke(app, ["audit", f"{out}.csv", *options, "--out", str(out), "--epochs", "3"])
        assert done.exit_code == 0, done.output
        assert "labels are wrong" in done.output
        assert "The most useful samples to label once more" in done.output
        found = json.loads((out / "audit.json").read_text())
        rates.append([one["rate"] for one in found["annotators"].values()])
        table = pandas.read_csv(out / "suspects.csv").sort_values("index")
        assert (table["consensus"] == np.array(CLASSES)[true]).mean() > 0.85
    assert rates[0] == pytest.approx(rates[1], abs=1e-9)


def test_scores_on_the_command_line_with_a_table_of_labels(tmp_path: Path) -> None:
    labels, scores, _ = drawn(200)
    np.save(tmp_path / "scores.npy", scores)
    frame = pandas.DataFrame(labels, columns=list(NAMES)).astype("Int64")
    frame.to_csv(tmp_path / "labels.csv", index=False)
    frame[["first"]].to_csv(tmp_path / "one.csv", index=False)
    options = ["audit", "--scores", str(tmp_path / "scores.npy"), "--kind", "logits", "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(app, [*options, "--labels", str(tmp_path / "labels.csv"), "--json"])
    assert done.exit_code == 0, done.output
    assert list(json.loads(done.stdout)["annotators"]) == list(NAMES)
    done = CliRunner().invoke(app, [*options, "--labels", str(tmp_path / "one.csv"), "--json"])
    assert "annotators" not in json.loads(done.stdout)


def test_training_takes_the_consensus_as_soft_labels_and_resumes_to_the_same_bytes(tmp_path: Path) -> None:
    frame, _ = table_of(120)
    frame.to_csv(tmp_path / "data.csv", index=False)
    options: Any = {"label": "first,second,third", "method": "erm(ce)", "epochs": 4}
    whole = pyrite.train(tmp_path / "data.csv", out=tmp_path / "whole", **options)
    assert whole.annotations is not None
    assert whole.annotations.names == NAMES
    again = pyrite.train(tmp_path / "data.csv", out=tmp_path / "again", stop=Stop(2), **options)
    assert len(again.history) < 4
    again = pyrite.train(resume=tmp_path / "again")
    same = [(path / "model.safetensors").read_bytes() for path in (whole.path, again.path)]
    assert same[0] == same[1]
    one = frame.drop(columns=list(NAMES)).assign(label=[CLASSES[number] for number in whole.labels["given"]])
    hard = pyrite.train(one, method="erm(ce)", epochs=4, out=tmp_path / "hard")
    assert hard.labels["given"].tolist() == whole.labels["given"].tolist()
    assert whole.history[-1]["loss"] > hard.history[-1]["loss"]  # the entropy of soft labels is part of it


class Stop:
    """Stops a training after so many questions."""

    def __init__(self, after: int) -> None:
        self.left = after

    def __call__(self) -> bool:
        self.left -= 1
        return self.left < 0


def test_images_with_a_table_of_labels_and_noise_is_refused(tmp_path: Path) -> None:
    labels, _, true = drawn(80)
    photos = tmp_path / "photos"
    photos.mkdir()
    for row, number in enumerate(true.tolist()):
        Image.new("L", (8, 8), 100 * number).save(photos / f"{row}.png")
    frame = pandas.DataFrame(labels, columns=list(NAMES)).astype("Int64")
    frame.insert(0, "file", [f"{row}.png" for row in range(80)])
    frame.to_csv(tmp_path / "labels.csv", index=False)
    audit = pyrite.audit(photos, label=str(tmp_path / "labels.csv"), epochs=3, out=tmp_path / "run")
    assert list(audit.annotators) == list(NAMES)
    assert len(audit.paths) == 80
    assert pyrite.audit(tmp_path / "run").annotators["first"].rate == audit.annotators["first"].rate
    with pytest.raises(PyriteError, match="omit noise"):
        pyrite.train(photos, label=str(tmp_path / "labels.csv"), noise="symmetric(0.2)", epochs=1)
