"""Label Studio: an audit goes out as tasks with predictions, and its JSON export comes back as corrections."""

import json
from pathlib import Path

import numpy as np
import pandas
import pytest

import pyrite
from pyrite.data import load
from pyrite.data.corrections import Corrections
from pyrite.integrations import write_label_studio


@pytest.fixture
def table(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    true = np.arange(600) % 3
    given = np.where(np.arange(600) % 12 == 0, (true + 1) % 3, true)
    frame = pandas.DataFrame(
        {"x": true + 0.2 * rng.normal(size=600), "kind": np.array(["cat", "dog", "emu & co"])[given]}
    )
    frame.to_csv(tmp_path / "t.csv", index=False)
    return tmp_path / "t.csv"


def annotate(task: dict[str, object], name: str | None, **more: object) -> dict[str, object]:
    """As Label Studio exports a task that was annotated; without a name, it was skipped."""
    choice = {"from_name": "label", "to_name": "sample", "type": "choices", "origin": "manual"}
    result = [] if name is None else [choice | {"id": "aB3", "value": {"choices": [name]}}]
    return task | {"id": 7, "annotations": [{"id": 1, "result": result, "was_cancelled": name is None, **more}]}


def test_there_and_back(table: Path, tmp_path: Path) -> None:
    data = load(table, label="kind")
    true = np.arange(600) % 3
    scores = 8 * np.eye(3)[true] + np.random.default_rng(1).normal(size=(600, 3))
    audit = pyrite.audit(data.labels, scores=scores, kind="logits", classes=data.classes)
    tasks = json.loads(write_label_studio(audit, tmp_path / "tasks.json", data=data).read_text())
    assert len(tasks) == audit.is_suspect.sum() > 30
    assert "given: $given" in (tmp_path / "tasks.xml").read_text()
    assert "emu &amp; co" in (tmp_path / "tasks.xml").read_text()
    row = int(audit.ranking[0])
    first = tasks[0]
    assert first["data"]["index"] == row
    assert first["data"]["text"].startswith("x: ")
    (prediction,) = first["predictions"]
    assert prediction["score"] == pytest.approx(audit.likelihoods[row, 0], abs=1e-4)
    assert prediction["result"][0]["value"]["choices"] == [audit.classes[audit.suggested[row]]]
    suggested = [task["predictions"][0]["result"][0]["value"]["choices"][0] for task in tasks]
    done = [annotate(task, name) for task, name in zip(tasks[:-3], suggested, strict=False)]
    done += [
        annotate(tasks[-3], tasks[-3]["data"]["given"]),
        annotate(tasks[-2], None),
        tasks[-1] | {"annotations": []},
    ]
    (tmp_path / "export.json").write_text(json.dumps(done))
    found = Corrections.read(tmp_path / "export.json", data)
    decisions = dict(zip(found.index.tolist(), found.decision, strict=True))
    assert decisions[tasks[-3]["data"]["index"]] == "keep"
    assert decisions[tasks[-2]["data"]["index"]] == "unsure"
    assert tasks[-1]["data"]["index"] not in decisions  # nobody looked at it
    np.testing.assert_array_equal(found.new[:-2], true[found.index[:-2]])
    after = audit.reviewed(found)
    assert after.review is not None
    run = pyrite.train(table, label="kind", corrections=tmp_path / "export.json", model="linear", epochs=1,
                       out=tmp_path / "run", progress=False)  # fmt: skip
    assert run.facts["corrected"] == len(done) - 3


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[{}]", "task 1: not a task of Label Studio"),
        ("[", "not a JSON file"),
        (json.dumps([annotate({"data": {"index": 3, "given": "emu & co"}}, "cat")]), "belongs to other data"),
        (json.dumps([annotate({"data": {"index": 3, "given": "cat"}}, "cow")]), "new is 'cow', which is not a class"),
    ],
)
def test_a_file_of_something_else(content: str, message: str, table: Path, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(content)
    with pytest.raises(pyrite.PyriteError, match=message):
        Corrections.read(tmp_path / "a.json", load(table, label="kind"))


def test_images_without_files_are_refused(tmp_path: Path) -> None:
    data = load("digits")
    audit = pyrite.audit(data.labels, scores=8 * np.eye(10)[data.labels], kind="logits")
    with pytest.raises(pyrite.PyriteError, match="holds images without files"):
        write_label_studio(audit, tmp_path / "a.json", data=data, only_suspects=False)


def test_samples_beside_scores(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    labels, scores = np.arange(90) % 3, random.normal(size=(90, 3))
    scores[np.arange(90), labels] += 2
    rows = pandas.DataFrame({"time": 1.7e9 + np.arange(90)})
    audit = pyrite.audit(labels, scores=scores, kind="logits", data=rows)
    tasks = json.loads(write_label_studio(audit, tmp_path / "tasks.json", only_suspects=False).read_text())
    assert {task["data"]["index"]: task["data"]["text"] for task in tasks} == {
        row: f"time: {1_700_000_000 + row}" for row in range(90)
    }
