"""Answers that were once wrong without a word: each test is one of them, tried as a user would."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image
from sklearn.datasets import load_iris
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, NuSVC
from torch import Tensor, nn
from typer.testing import CliRunner

import pyrite
from pyrite.cli.app import app
from pyrite.features import OwnModule
from tests.children import RESULTS

SMALL: dict[str, Any] = {"samples": 200, "epochs": 2, "progress": False}


class Tied(nn.Module):
    """The weights of one layer are those of another, and one module has two names."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.head = nn.Linear(64, 64), nn.Linear(64, 64), nn.Linear(64, 10)
        self.second.weight, self.again = self.first.weight, self.head

    def forward(self, inputs: Tensor) -> Tensor:
        return self.again(torch.relu(self.second(torch.relu(self.first(inputs.flatten(1))))))


@pytest.mark.filterwarnings("ignore:.*meta")  # so few samples suffice for what is tested
@pytest.mark.parametrize("method", ["erm(gce)", "elr", "meta_weight(size=50)"])
def test_tied_weights_are_trained_saved_and_resumed(method: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    start = Tied().state_dict()

    def net() -> nn.Module:
        made = Tied()
        made.load_state_dict(start)
        return made

    options = SMALL | {"method": method, "noise": "symmetric(0.2)"}
    pyrite.train("digits", model=(whole := net()), out=tmp_path / "whole", **options)
    asked = iter([False, True])
    pyrite.train("digits", model=net(), out=tmp_path / "run", stop=lambda: next(asked, True), **options)
    pyrite.train(resume=tmp_path / "run", model=(resumed := net()))
    for name in RESULTS:
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "run" / name).read_bytes(), name
    for trained in (whole, resumed):
        assert trained.second.weight is trained.first.weight
        assert trained.again is trained.head


@pytest.mark.parametrize("missing", ["AutoModel", "AutoTokenizer"])
def test_no_code_of_a_model_is_run(missing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither after a "y" on the terminal nor without a question."""
    pytest.importorskip("transformers")
    monkeypatch.setattr("builtins.input", lambda *words: "y")
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "own.py").write_text(
        f"open({str(tmp_path / 'ran')!r}, 'w').close()\nclass Own: pass\nclass OwnConfig: pass\n"
    )
    auto = {"AutoConfig": "own.OwnConfig", missing: "own.Own"}
    (folder / "config.json").write_text(json.dumps({"model_type": "unheard_of", "auto_map": auto}))
    (folder / "tokenizer_config.json").write_text(json.dumps({"auto_map": {"AutoTokenizer": ["own.Own", None]}}))
    texts = pyrite.Dataset("texts", pyrite.data.texts(["a", "b"] * 20), np.arange(40) % 2, ("no", "yes"))
    with pytest.raises(pyrite.PyriteError, match="is not a model"):
        pyrite.train(texts, features=f"hf({str(folder)!r})", out=tmp_path / "run")
    assert not (tmp_path / "ran").exists()


class Embedded(nn.Module):
    """A linear layer, and what is made of its outputs, which no weight shows."""

    def __init__(self, sign: float) -> None:
        super().__init__()
        self.sign, self.layer = sign, nn.Linear(64, 4)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.sign * self.layer(inputs.flatten(1))


def test_embeddings_of_another_module_are_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYRITE_CACHE", str(tmp_path / "cache"))
    images = pyrite.data.load("digits").inputs[:100]
    rows = []
    for sign in (1.0, -1.0):
        torch.manual_seed(0)
        rows.append(OwnModule(Embedded(sign)).fit(images, np.arange(100)).transform(images))
    np.testing.assert_allclose(rows[0], -rows[1], rtol=1e-6)


@pytest.mark.parametrize("model", [SVC(decision_function_shape="ovo"), NuSVC(decision_function_shape="ovo")])
@pytest.mark.parametrize("piped", [False, True])
def test_scores_of_pairs_of_classes_are_refused(model: Any, piped: bool) -> None:
    X, y = load_iris(return_X_y=True)  # noqa: N806
    wrapped = make_pipeline(StandardScaler(), model) if piped else model
    with pytest.raises(pyrite.PyriteError, match="decision_function_shape='ovr'"):
        pyrite.RobustClassifier(model=wrapped).fit(X, y)
    two = y < 2
    assert pyrite.RobustClassifier(model=wrapped).fit(X[two], y[two]).score(X[two], y[two]) > 0.95


def table(rows: int = 120) -> pd.DataFrame:
    random = np.random.default_rng(0)
    numbers = random.normal(size=(rows, 2))
    labels = np.where(numbers[:, 0] + 0.1 * random.normal(size=rows) > 0, "yes", "no")
    return pd.DataFrame(
        {"a": numbers[:, 0], "b": numbers[:, 1], "city": np.resize(["Oslo", "Rome"], rows), "label": labels}
    )


def corrected(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.assign(
        label=np.where(np.arange(len(frame)) == 7, "no", np.where(frame.index == 8, "yes", frame.label))
    )


WORDS = ["audit", "t.csv", "--epochs", "2", "--model", "mlp(hidden=[4])", "--out", "run"]


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with a table and its audit."""
    folder = tmp_path_factory.mktemp("audited")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        table().to_csv("t.csv", index=False)
        assert CliRunner().invoke(app, WORDS).exit_code == 0
        yield folder
        table().to_csv("t.csv", index=False)
        assert CliRunner().invoke(app, WORDS).exit_code == 0  # read, because nothing has changed


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (corrected, "labels"),
        (lambda frame: frame[:60], "inputs and labels"),
        (lambda frame: frame.sort_values("a"), "inputs and labels"),
        (lambda frame: frame.assign(city=frame.city[::-1].to_numpy()), "inputs"),
        (lambda frame: frame.assign(b=frame.b + 1e-9), "inputs"),
        (lambda frame: frame.rename(columns={"b": "c"}), "inputs"),
    ],
    ids=["corrected", "fewer", "sorted", "category", "number", "column"],
)
def test_data_that_changed_are_not_those_of_the_run(change: Any, what: str, audited: Path) -> None:
    change(table()).to_csv("t.csv", index=False)
    for words in (WORDS, ["audit", "run"]):
        done = CliRunner().invoke(app, words)
        assert isinstance(done.exception, pyrite.PyriteError), done.output
        assert f"has changed since run was begun: other {what}." in str(done.exception)


def test_images_that_changed(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    for number in range(60):
        path = tmp_path / "photos" / ("cat", "dog")[number % 2] / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(random.integers(0, 256, (8, 8, 3)).astype(np.uint8)).save(path)
    options: dict[str, Any] = {"epochs": 1, "model": "mlp(hidden=[4])", "out": tmp_path / "run", "progress": False}
    pyrite.audit(tmp_path / "photos", **options)
    pyrite.audit(tmp_path / "photos", **options)
    path = tmp_path / "photos" / "cat" / "0.png"
    before = path.read_bytes()
    Image.fromarray(random.integers(0, 256, (8, 8, 3)).astype(np.uint8)).save(path)
    with pytest.raises(pyrite.PyriteError, match=r"photos has changed since .* was begun: other inputs\."):
        pyrite.audit(tmp_path / "photos", **options)
    path.write_bytes(before)
    pyrite.audit(tmp_path / "photos", **options)
    path.rename(tmp_path / "photos" / "dog" / "0.png")
    with pytest.raises(pyrite.PyriteError, match=r"other inputs and labels\."):
        pyrite.audit(tmp_path / "photos", **options)


@pytest.mark.parametrize("changed", ["labels", "corrections"])
def test_runs_of_a_comparison_are_those_of_its_data(changed: str, tmp_path: Path) -> None:
    frame, decisions = table(), tmp_path / "decisions.csv"
    decisions.write_text(f"index,old,new,decision\n3,{frame.label[3]},,drop\n")
    options: dict[str, Any] = {"epochs": 1, "model": "mlp(hidden=[4])", "out": tmp_path / "runs", "progress": False}
    options |= {"label": "label", "corrections": decisions}
    pyrite.compare(frame, ["ce"], **options)
    pyrite.compare(frame, ["ce"], **options)
    if changed == "labels":
        frame = corrected(frame)
    else:
        decisions.write_text(f"index,old,new,decision\n4,{frame.label[4]},,drop\n")
    with pytest.raises(pyrite.PyriteError, match="has changed since"):
        pyrite.compare(frame, ["ce"], **options)


def test_predictions_do_not_overwrite_what_is_predicted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(0)
    table = pd.DataFrame({"a": random.normal(size=80), "b": random.normal(size=80), "label": ["x", "y"] * 40})
    table.to_csv("t.csv", index=False)
    table.drop(columns="label").to_csv("u.csv", index=False)
    pyrite.train("t.csv", model="mlp(hidden=[4])", epochs=1, out="run", progress=False)
    before = Path("u.csv").read_bytes()
    for data in ("u.csv", "./u.csv", "csv('u.csv')"):
        done = CliRunner().invoke(app, ["predict", "run", data, "--out", "u.csv"])
        assert isinstance(done.exception, pyrite.PyriteError)
        assert "choose another --out" in str(done.exception)
        assert Path("u.csv").read_bytes() == before
    assert CliRunner().invoke(app, ["predict", "run", "u.csv"]).exit_code == 0
