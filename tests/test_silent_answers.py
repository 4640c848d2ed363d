"""Answers that were once wrong without a word: each test is one of them, tried as a user would."""

import json
import threading
from collections.abc import Iterator
from decimal import Decimal
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars
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
from pyrite.data import images
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
        pyrite.compare(frame, ["mae", "ce"], **options)
    assert not (tmp_path / "runs" / "mae-0").exists()  # or it would be of other data than the others


def own_loss(code: str = "power", power: float = 2.0) -> nn.Module:
    """A loss of the user, as a notebook defines it again; its name is always the same."""
    forward = {
        "power": lambda self, scores, labels: (1 - scores.softmax(1).gather(1, labels[:, None])[:, 0]) ** self.power,
        "times": lambda self, scores, labels: (1 - scores.softmax(1).gather(1, labels[:, None])[:, 0]) * self.power,
    }
    loss: nn.Module = type("Own", (nn.Module,), {"forward": forward[code]})()
    loss.power = power  # type: ignore[assignment]
    return loss


def own_net(width: int) -> Any:
    """A function that makes a net."""
    return lambda shape, classes: nn.Sequential(nn.Linear(shape[0], width), nn.ReLU(), nn.Linear(width, classes))


def registered(smoothing: float) -> str:
    """The name of a loss that is registered again, as in a notebook."""

    def own_name() -> pyrite.Loss:
        return pyrite.loss(nn.CrossEntropyLoss(label_smoothing=smoothing))

    pyrite.register("own_name", own_name)
    return "own_name"


OWN: dict[str, tuple[str, Any, Any]] = {
    "value": ("loss", own_loss, lambda: own_loss(power=3.0)),
    "code": ("loss", own_loss, lambda: own_loss("times")),
    "argument": (
        "loss",
        lambda: nn.CrossEntropyLoss(reduction="none"),
        lambda: nn.CrossEntropyLoss(reduction="none", label_smoothing=0.1),
    ),
    "tensor": (
        "loss",
        lambda: pyrite.loss(nn.CrossEntropyLoss(), weight=[1.0, 2.0]),
        lambda: pyrite.loss(nn.CrossEntropyLoss(), weight=[2.0, 1.0]),
    ),
    "registered": ("loss", lambda: registered(0.0), lambda: registered(0.1)),
    "closure": ("model", lambda: own_net(4), lambda: own_net(5)),
    "weights": ("features", lambda: nn.Linear(2, 2), lambda: nn.Linear(2, 2)),
}


@pytest.mark.parametrize("way", OWN)
def test_a_run_of_another_object_is_not_its_own(way: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    request.addfinalizer(lambda: pyrite.LOSSES.pop("own_name", None))
    setting, first, other = OWN[way]
    frame = table().drop(columns="city") if setting == "features" else table()
    options: dict[str, Any] = {"epochs": 1, "label": "label", "out": tmp_path / "run", "progress": False}
    options |= {} if setting == "model" else {"model": "mlp(hidden=[4])"}
    made = first()
    audit = pyrite.audit(frame, **options | {setting: made})
    again = pyrite.audit(frame, **options | {setting: made if setting == "features" else first()})
    np.testing.assert_array_equal(audit.score, again.score)
    with pytest.raises(pyrite.PyriteError, match=r"other values or other code|have changed"):
        pyrite.audit(frame, **options | {setting: other()})


def test_a_run_is_continued_with_its_own_loss(tmp_path: Path) -> None:
    options: dict[str, Any] = {"epochs": 2, "label": "label", "model": "mlp(hidden=[4])", "progress": False}
    stopped = pyrite.train(table(), loss=own_loss(), out=tmp_path / "run", stop=lambda: True, **options)
    assert not stopped.finished
    with pytest.raises(pyrite.PyriteError, match=r"run was begun with another method: .* has other values"):
        pyrite.train(table(), resume=tmp_path / "run", loss=own_loss(power=3.0))
    assert pyrite.train(table(), resume=tmp_path / "run", loss=own_loss()).finished


def test_a_run_of_other_noise_is_not_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    np.savetxt("m.csv", np.full((10, 10), 0.02) + 0.8 * np.eye(10), delimiter=",")
    settings: dict[str, Any] = SMALL | {"noise": "matrix(file='m.csv')", "model": "mlp(hidden=[4])"}
    compare, tune = settings | {"out": "runs"}, settings | {"out": "search", "trials": 1}
    for _ in range(2):
        pyrite.compare("digits", ["ce"], **compare)
        pyrite.tune("digits", ["ce"], **tune)
    np.savetxt("m.csv", np.full((10, 10), 0.08) + 0.2 * np.eye(10), delimiter=",")
    with pytest.raises(pyrite.PyriteError, match=r"gives other labels than when .* was begun"):
        pyrite.compare("digits", ["ce"], **compare)
    with pytest.raises(pyrite.PyriteError, match="holds a search with other noise"):
        pyrite.tune("digits", ["ce"], **tune)


def test_noisy_labels_do_not_overwrite_the_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    np.savez("noisy.npz", x=np.arange(40.0).reshape(20, 2), y=np.arange(20) % 2)
    before = Path("noisy.npz").read_bytes()
    done = CliRunner().invoke(app, ["corrupt", "noisy.npz", "--noise", "symmetric(0.2)"])
    assert "noisy.npz is the input and would be overwritten" in str(done.exception)
    assert Path("noisy.npz").read_bytes() == before


def test_an_audit_does_not_overwrite_its_labels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("s.npy", np.eye(2)[np.arange(60) % 2])
    table(60).to_csv("suspects.csv", index=False)
    before = Path("suspects.csv").read_bytes()
    words = ["--scores", "s.npy", "--labels", "suspects.csv", "--label", "label", "--classes", "no,yes", "--out", "."]
    done = CliRunner().invoke(app, ["audit", *words, "--kind", "logits"])
    assert "suspects.csv is the input and would be overwritten" in str(done.exception)
    assert Path("suspects.csv").read_bytes() == before


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


def two_columns(rows: int = 400) -> pd.DataFrame:
    """A label that one column gives, and another column that is far from it."""
    random = np.random.default_rng(1)
    good = random.normal(size=rows)
    return pd.DataFrame({"good": good, "bad": random.normal(5, 3, rows), "label": np.where(good > 0, "yes", "no")})


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[pyrite.Run, pd.DataFrame]:
    """A run on the table of two columns."""
    out = tmp_path_factory.mktemp("trained") / "run"
    options: dict[str, Any] = {"label": "label", "model": "mlp(hidden=[8])", "epochs": 8, "progress": False}
    return pyrite.train(two_columns(), out=out, **options), two_columns()


def test_columns_are_matched_by_their_names(trained: tuple[pyrite.Run, pd.DataFrame], tmp_path: Path) -> None:
    run, frame = trained
    expected = run.predict(frame).probabilities
    turned = frame[["label", "bad", "good"]]
    turned.to_csv(tmp_path / "r.csv", index=False)
    data = pyrite.data.load(turned, label="label")
    records = pyrite.data.Records(
        pyrite.data.Column(name, "number", turned[name].to_numpy()) for name in ("bad", "good")
    )
    for samples in (f"csv({str(tmp_path / 'r.csv')!r})", data, records):
        np.testing.assert_array_equal(run.predict(samples).probabilities, expected)
    with pytest.raises(pyrite.PyriteError, match="there is no column 'good'"):
        run.predict(pyrite.data.load(frame.drop(columns="good"), label="label"))


@pytest.mark.parametrize(("cell", "number"), [("5.400", 5400), ("5,4", 5.4), ("5.43", 5.43), ("5", 5)])
@pytest.mark.parametrize("other", ["1.25", "a"])
def test_the_decimal_mark_is_that_of_training(cell: str, number: float, other: str, tmp_path: Path) -> None:
    """Unless the numbers of a column that was trained on show another."""
    (tmp_path / "a.csv").write_text("price;label\n3.888,51;x\n1,5;y\n")
    (tmp_path / "b.csv").write_text(f"price;other\n{cell};{other}\n")
    described = pyrite.data.describe(pyrite.data.load(tmp_path / "a.csv"))
    assert pyrite.data.read_like(tmp_path / "b.csv", described).inputs.tolist() == [[number]]
    (tmp_path / "b.csv").write_text(f"price;label\n{cell};x\n")
    data = pyrite.data.load(tmp_path / "a.csv", test=str(tmp_path / "b.csv"))
    assert data.test is not None
    assert data.test.inputs.tolist() == [[number]]


def _weights(path: Path, cells: list[str]) -> Path:
    path.write_text("weight;label\n" + "".join(f"{cell};{'xy'[place % 2]}\n" for place, cell in enumerate(cells)))
    return path


@pytest.mark.parametrize(
    ("trained", "was"),
    [(["70 kg", "80 kg"], "was 'kg'"), (["70,5 kg", "80,2 kg"], "was 'kg'"), (["70", "80"], "there was none")],
)
def test_another_unit_is_another_number(trained: list[str], was: str, tmp_path: Path) -> None:
    """154 lb are 70 kg, not 154."""
    data = pyrite.data.load(_weights(tmp_path / "a.csv", trained))
    described = pyrite.data.describe(data)
    other = _weights(tmp_path / "b.csv", ["154 lb", "160 lb"])
    with pytest.raises(pyrite.PyriteError, match=f"column 'weight': the unit is 'lb', but {was} in training"):
        pyrite.data.read_like(other, described)
    with pytest.raises(pyrite.PyriteError, match="the unit is 'lb'"):
        pyrite.data.load(tmp_path / "a.csv", test=str(other))
    same = _weights(tmp_path / "c.csv", [trained[0], "81"])
    assert pyrite.data.read_like(same, described).inputs[1].tolist() == [81]
    assert pyrite.data.read_like(same, described).notes == ()


def test_a_unit_that_is_gone_is_noted(tmp_path: Path) -> None:
    """Excel stores 12 % as 0.12."""
    shares = [f"{2.5 * share} %" for share in range(40)]
    _weights(tmp_path / "a.csv", shares)
    run = pyrite.train(tmp_path / "a.csv", model="linear", epochs=1, out=tmp_path / "run", progress=False)
    assert run.predict(tmp_path / "a.csv").notes == ()
    (note,) = run.predict(pd.DataFrame({"weight": [0.12, 0.5]})).notes
    assert note.startswith("the column 'weight' had the unit '%' in training, and has none here")
    with pytest.raises(pyrite.PyriteError, match="no column is called 'wieght'"):
        run.predict(tmp_path / "a.csv", name="wieght")


def test_random_items_are_noted_in_predictions(tmp_path: Path) -> None:
    class Noisy(torch.utils.data.Dataset[Any]):
        def __len__(self) -> int:
            return 40

        def __getitem__(self, row: int) -> Any:
            return torch.randn(3), row % 2

    run = pyrite.train(Noisy(), model="linear", epochs=1, out=tmp_path / "run", progress=False)
    assert any("draws random numbers" in note for note in run.predict(Noisy()).notes)


def test_units_of_some_cells_are_noted(tmp_path: Path) -> None:
    data = pyrite.data.load(_weights(tmp_path / "a.csv", ["70", "80.5", "154 lb"]))
    assert data.inputs.ravel().tolist() == [70, 80.5, 154]
    assert any("has the unit 'lb' in 1 of 3 cells" in note for note in data.notes)
    data = pyrite.data.load(_weights(tmp_path / "b.csv", ["70 kg", "80 kg", "154 lb"]))
    assert dict(data.schema.columns) == {"weight": "category"}
    assert any("several units, kg, lb, and is read as category" in note for note in data.notes)


@pytest.mark.parametrize("late", ["1,5", "1.234,5", "-0,25"])
def test_a_decimal_comma_may_come_late(late: str, tmp_path: Path) -> None:
    rows = [f"{number};{1 + number % 900}.000;{'xy'[number % 2]}" for number in range(1500)]
    (tmp_path / "a.csv").write_text("a;b;label\n" + "\n".join([*rows, f"{late};3.000;x"]))
    inputs = pyrite.data.load(tmp_path / "a.csv").inputs
    assert inputs[-1].tolist() == [float(late.replace(".", "").replace(",", ".")), 3000]


def test_texts_of_several_columns_in_another_order(tmp_path: Path) -> None:
    texts = [[f"{word} number {row % 5}" for row in range(40)] for word in ("alpha", "beta")]
    columns = [pyrite.data.Column(name, "text", np.array(own, object)) for name, own in zip("ab", texts, strict=True)]
    data = pyrite.Dataset("t", pyrite.data.Records(columns), np.arange(40) % 5 // 3, ("no", "yes"))
    run = pyrite.train(data, features="tfidf", epochs=1, out=tmp_path / "run", progress=False)
    turned = pyrite.data.Records(columns[::-1])
    np.testing.assert_array_equal(run.scores(turned), run.scores(data.inputs))
    np.testing.assert_array_equal(run.predict(turned).probabilities, run.predict(data).probabilities)
    with pytest.raises(pyrite.PyriteError, match="there is no column 'b'"):
        run.scores(pyrite.data.Records(columns[:1]))


BERLIN = pd.Series(pd.date_range("1969-12-30 23:30:00.7", periods=40, freq="7h", tz="Europe/Berlin"))
ZONED: dict[str, Any] = {
    "pandas": lambda when: when,
    "objects": lambda when: when.astype(object),
    "datetimes": lambda when: pd.Series([time.to_pydatetime() for time in when], dtype=object),
    "zones": lambda when: pd.Series(
        [time.tz_convert(("UTC", "Asia/Tokyo")[row % 2]) for row, time in enumerate(when)], dtype=object
    ),
    "arrow": lambda when: when.astype("timestamp[ns, tz=Europe/Berlin][pyarrow]"),
    "utc": lambda when: when.dt.tz_convert("UTC").dt.tz_localize(None),
}
WAYS: dict[str, Any] = {
    "frame": lambda frame, folder: frame,
    "polars": lambda frame, folder: polars.from_pandas(frame),
    "csv": lambda frame, folder: [frame.to_csv(folder / "t.csv", index=False), folder / "t.csv"][1],
    "parquet": lambda frame, folder: [frame.to_parquet(folder / "t.parquet"), folder / "t.parquet"][1],
}


# polars has no column of several zones.
@pytest.mark.parametrize(("form", "way"), sorted({*product(ZONED, WAYS)} - {("zones", "polars")}))
def test_one_instant_is_one_number(form: str, way: str, tmp_path: Path) -> None:
    frame = pd.DataFrame({"when": ZONED[form](BERLIN), "label": ["x", "y"] * 20})
    column = pyrite.data.load(WAYS[way](frame, tmp_path), label="label").inputs.columns[0]
    assert column.kind == "date"
    np.testing.assert_array_equal(column.values, BERLIN.dt.tz_convert("UTC").dt.tz_localize(None).to_numpy("M8[us]"))


LARGE = [2**60 + number for number in range(40)]
LARGE_TYPES: dict[str, Any] = {
    **{name: lambda values, name=name: pd.Series(values, dtype=name) for name in ("Int64", "UInt64", "int64[pyarrow]")},
    "objects": lambda values: pd.Series(values, dtype=object),
    "decimals": lambda values: pd.Series([value if value is None else Decimal(value) for value in values]),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("gap", [False, True])
@pytest.mark.parametrize("kind", LARGE_TYPES)
def test_whole_numbers_that_become_one(kind: str, gap: bool, way: str, tmp_path: Path) -> None:
    values = LARGE_TYPES[kind]([None, *LARGE[1:]] if gap else LARGE)
    frame = pd.DataFrame({"x": values, "z": range(40), "label": ["x", "y"] * 20})
    with pytest.raises(pyrite.PyriteError, match="differ by less than float64 resolves"):
        pyrite.data.load(WAYS[way](frame, tmp_path), label="label")


NO_LABELS: dict[str, tuple[Any, str]] = {
    "none": ([None, "a", "b", "a"], "missing"),
    "none among numbers": ([0, 1, None, 1], "missing"),
    "series": (polars.Series(["a", None, "b", "a"]), "missing"),
    "nullable": (pd.Series([0, 1, None, 1], dtype="Int64"), "missing"),
    "masked": (np.ma.MaskedArray([0, 1, 0, 1], [True, False, False, False]), "masked"),
    "infinite": ([np.inf, 1.0, 0.0, 1.0], "infinite"),
    "three dimensions": (np.zeros((4, 2, 2)), r"the shape \(4, 2, 2\)"),
    "lists": ([["a"], ["b"], ["a"], ["b"]], "one annotator"),
    "digits": ([10**5000, 1, 1, 10**5000], "4,300 digits|texts or whole numbers"),
}


@pytest.mark.parametrize("name", NO_LABELS)
@pytest.mark.parametrize(
    "data",
    [np.arange(8.0).reshape(4, 2), pd.DataFrame({"a": [1.0, 2, 3, 4]}), ["one", "two", "three", "four"]],
    ids=["array", "frame", "texts"],
)
def test_labels_that_are_none(data: Any, name: str) -> None:
    labels, problem = NO_LABELS[name]
    with pytest.raises(pyrite.PyriteError, match=problem):
        pyrite.data.load(data, label=labels)


def test_a_class_may_be_called_none() -> None:
    assert pyrite.data.load(np.arange(4.0)[:, None], label=["None", "a", "None", "NA"]).classes == ("NA", "None", "a")


GREY = np.arange(64).reshape(8, 8)


@pytest.mark.parametrize("suffix", ["png", "pgm", "tiff"])
def test_16_bits_are_scaled(suffix: str, tmp_path: Path) -> None:
    for label in ("cat", "dog"):
        (tmp_path / label).mkdir()
        path = tmp_path / label / f"a.{suffix}"
        if suffix == "pgm":
            path.write_bytes(b"P5 8 8 65535\n" + (GREY * 1000).astype(">u2").tobytes())
        else:
            Image.fromarray((GREY * 1000).astype(np.uint16)).save(path)
    inputs = pyrite.data.load(tmp_path).inputs
    assert inputs.shape == (2, 1, 8, 8)
    np.testing.assert_array_equal(inputs[0, 0], GREY * 1000 // 256)


@pytest.mark.parametrize(("dtype", "kind"), [("f4", "floating-point"), ("i4", "whole")])
def test_pixels_of_unknown_range_are_refused(dtype: str, kind: str, tmp_path: Path) -> None:
    for label in ("cat", "dog"):
        (tmp_path / label).mkdir()
        Image.fromarray((GREY / 63).astype(np.uint8)).save(tmp_path / label / "b.png")
        Image.fromarray((GREY * 1000).astype(dtype)).save(tmp_path / label / "a.tiff")
    left_out = pyrite.data.load(tmp_path).unreadable
    assert len(left_out) == 2
    assert f"a.tiff: pixels are {kind}" in left_out[0].reason


def test_long_cells_and_names_and_zero_bytes(tmp_path: Path) -> None:
    """They are read, kept in a run and read again, in a ranking too."""
    long = "word " * 30_000
    frame = pd.DataFrame({
        "id": ["n" * 100_000, *(f"{row}\0" for row in range(1, 60))],
        "text": [long, *(f"some text \0 number{row % 7}" for row in range(1, 60))],
        "label": ["x", "y"] * 30,
    })  # fmt: skip
    frame.to_csv(tmp_path / "t.csv", index=False)
    assert pyrite.data.load(tmp_path / "t.csv", text="text").inputs.texts()[0] == long.strip()
    options: dict[str, Any] = {"label": "label", "text": "text", "name": "id", "epochs": 1, "progress": False}
    found = pyrite.audit(frame, out=tmp_path / "run", **options)
    assert found.run.labels["path"].tolist() == frame["id"].tolist()
    assert (tmp_path / "run" / "labels.npz").stat().st_size < 200_000
    assert len(pyrite.Run.load(tmp_path / "run").predict(frame)) == 60
    found.to_csv(tmp_path / "suspects.csv")
    corrections = pyrite.data.Corrections.read(tmp_path / "suspects.csv", pyrite.data.load(frame, **{
        name: value for name, value in options.items() if name in ("label", "text", "name")
    }))  # fmt: skip
    assert len(corrections.index) == 60


@pytest.mark.parametrize("label", ["array:y", "tensor:y", "text:array:y"])
def test_a_label_column_that_is_called_like_a_part_of_the_state(label: str, tmp_path: Path) -> None:
    table().rename(columns={"label": label}).to_csv(tmp_path / "t.csv", index=False)
    asked = iter([False, True])
    options: dict[str, Any] = {"epochs": 3, "model": "mlp(hidden=[4])", "progress": False, "out": tmp_path / "run"}
    pyrite.train(tmp_path / "t.csv", label=label, stop=lambda: next(asked, True), **options)
    assert len(pyrite.train(resume=tmp_path / "run").history) == 3


@pytest.mark.parametrize("values", [[10**400] * 20, [None, *[-(10**400)] * 19]])
def test_numbers_beyond_float64(values: list[Any], tmp_path: Path) -> None:
    frame = pd.DataFrame({"x": pd.Series(values, dtype=object), "label": ["a", "b"] * 10})
    with pytest.raises(pyrite.PyriteError, match=r"column 'x': the number is larger than float64 holds"):
        pyrite.data.load(frame, label="label")
    frame.to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(pyrite.PyriteError, match=r"column 'x': '-?1000+' is not a number"):
        pyrite.data.load(tmp_path / "t.csv", label="label")


@pytest.mark.parametrize("cell", [[1, 2], {"a": 1}], ids=["lists", "structs"])
def test_cells_of_several_values(cell: Any) -> None:
    frame = polars.DataFrame({"x": [cell] * 20, "z": range(20), "label": ["a", "b"] * 10})
    with pytest.raises(pyrite.PyriteError, match=r"column .x.: .* is neither a number, a date nor a text"):
        pyrite.data.load(frame, label="label")
    assert pyrite.data.load(frame, label="label", ignore="x").columns == ("z",)


def test_no_rows(trained: tuple[pyrite.Run, pd.DataFrame]) -> None:
    run, frame = trained
    for nothing in (frame[:0], polars.from_pandas(frame[:0]), np.zeros((0, 2)), []):
        with pytest.raises(pyrite.PyriteError, match=r"no rows|no samples|nothing|empty"):
            run.predict(nothing)


def test_one_image_is_predicted_without_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Image.fromarray(GREY.astype(np.uint8)).save(tmp_path / "one.png")
    data = pyrite.Dataset("grey", np.zeros((4, 1, 8, 8), np.uint8), np.arange(4) % 2, ("a", "b"))
    monkeypatch.setattr("os.walk", lambda *_, **__: pytest.fail("the folder is walked"))
    assert pyrite.data.read_like(tmp_path / "one.png", pyrite.data.describe(data)).names == ("one.png",)


def test_names_do_not_reach_the_terminal_as_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    evil = "\x1b[2Jyes\x9b1m"
    frame = table().replace({"label": {"yes": evil}}).assign(name=[f"\x1b]0;{row}\x07" for row in range(120)])
    frame.to_csv("t.csv", index=False)
    audit = CliRunner().invoke(app, [*WORDS, "--name", "name"])
    predict = CliRunner().invoke(app, ["predict", "run", "t.csv"])
    shown = CliRunner().invoke(app, ["corrupt", "t.csv", "--noise", "symmetric(0.2)", "--per-class"])
    for done in (audit, predict, shown):
        assert done.exit_code == 0, done.exception
        assert not {"\x1b", "\x9b", "\x07"} & {*done.output}
    assert "\\x1b[2Jyes" in predict.output
    assert pyrite.data.load("t.csv").classes == (evil, "no")


@pytest.mark.parametrize("mark", [";", "\t", ","])
def test_corrections_that_a_spreadsheet_has_saved(mark: str, tmp_path: Path) -> None:
    data = pyrite.data.load(np.arange(8.0).reshape(4, 2), label=["a", "b", "a", "b"])
    cells = [["index", "path", "old", "new", "score", "decision"], ["1", "", "b", "a", "0,93", "relabel"]]
    cells[1][4] = "0.93" if mark == "," else "0,93"
    (tmp_path / "c.csv").write_text("\ufeff" + "\r\n".join(map(mark.join, cells)) + "\r\n", encoding="utf-8")
    read = pyrite.data.Corrections.read(tmp_path / "c.csv", data)
    assert read.applied(data.labels).tolist() == [0, 0, 0, 1]
    assert read.wrong_probability.tolist() == [0.93]


def test_large_images_are_decoded_by_one_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory that a thread has freed is not free for others."""
    threads: list[Any] = []
    plain = images.to_pixels
    monkeypatch.setattr(images, "to_pixels", lambda *given: threads.append(threading.current_thread()) or plain(*given))
    for number, side in enumerate([8, 10, 8, 10]):
        Image.fromarray(np.full((side, side), number, np.uint8)).save(tmp_path / f"{number}.png")
    monkeypatch.setattr(images, "_LARGE", 64)
    pixels, good, _ = images.LazyImages(tmp_path, [f"{number}.png" for number in range(4)], 8, 1).read(threads=4)
    assert good.all()
    assert pixels[:, 0, 0, 0].tolist() == [0, 1, 2, 3]
    assert sum(thread is threading.main_thread() for thread in threads) == 2


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", ["Int64", "int64[pyarrow]", "object"])
def test_whole_numbers_as_names_labels_and_categories_are_exact(kind: str, way: str, tmp_path: Path) -> None:
    names = pd.Series([None, *LARGE[1:]], dtype=kind)
    labels = pd.Series([2**60, 2**60 + 1] * 20, dtype=kind)
    frame = pd.DataFrame({"id": names, "z": range(40), "label": labels})
    data = pyrite.data.load(WAYS[way](frame, tmp_path), label="label", name="id")
    assert data.paths == ("", *map(str, LARGE[1:]))
    assert data.classes == (str(2**60), str(2**60 + 1))
    texts = pd.DataFrame({"id": [str(2**60), str(2**60 + 1)] * 20, "label": ["a", "b"] * 20})
    described = pyrite.data.describe(pyrite.data.load(texts, label="label"))
    assert pyrite.data.read_like(WAYS[way](frame, tmp_path), described).inputs.cells(1) == (str(LARGE[1]),)


def test_a_truth_value_is_none_of_other_numbers() -> None:
    frame = pd.DataFrame({"x": [True, False] * 20, "z": [1.0, None] * 20, "label": ["a", "b"] * 20})
    described = pyrite.data.describe(pyrite.data.load(frame, label="label"))
    assert pyrite.data.read_like(frame.assign(x=frame.x * 1.0), described).inputs.cells(0)[0] == "true"
    with pytest.raises(pyrite.PyriteError, match=r"row 1, column 'x': 5 is neither true nor false"):
        pyrite.data.read_like(frame.assign(x=5), described)


def test_float_labels_beyond_int64() -> None:
    assert pyrite.data.load(np.arange(4.0)[:, None], label=[1e300, 1.0, 1e300, 1.0]).classes == ("1.0", "1e+300")


@pytest.mark.parametrize("role", ["ignore", "name", "group"])
def test_texts_that_have_another_role_are_not_learned_from(role: str) -> None:
    datasets = pytest.importorskip("datasets")
    remarks = [f"customer {row} wrote {row * 7} words of text" for row in range(40)]
    data = datasets.Dataset.from_dict({"x": np.arange(40.0), "remark": remarks, "label": ["a", "b"] * 20})
    assert pyrite.data.load(data, label="label").columns == ("remark",)
    assert pyrite.data.load(data, label="label", **{role: "remark"}).columns == ("x",)
    with pytest.raises(pyrite.PyriteError, match="text and ignore both name the column 'remark'"):
        pyrite.data.load(data, label="label", text="remark", ignore="remark")
