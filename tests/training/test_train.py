"""``pyrite.train``: what it measures, against the same worked out apart; what it takes and what it leaves."""

import gc
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import pyrite
from pyrite.data import Dataset, load
from pyrite.methods import Step

SMALL: dict[str, Any] = {"model": "mlp(hidden=[16])", "epochs": 3, "samples": 300, "noise": "symmetric(0.4)"}


class Records:
    """Every step, and the weights after every epoch."""

    def __init__(self) -> None:
        self.epochs: list[list[Step]] = [[]]

    def after_step(self, step: Step) -> None:
        self.epochs[-1].append(step)

    def after_epoch(self, epoch: int) -> None:
        assert len(self.epochs) == epoch
        self.epochs.append([])


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[pyrite.Run, Records]:
    records = Records()
    out = tmp_path_factory.mktemp("recorded") / "run"
    loss = "ce(weight=[1, 2, 1, 2, 1, 2, 1, 2, 1, 2])"
    run = pyrite.train("digits", loss=loss, validation=0.2, batch_size=50, out=out, observers=[records], **SMALL)
    return run, records


def test_a_validation_part_is_measured_if_nothing_is_held_out(tmp_path: Path) -> None:
    data = load("digits")
    part = Dataset("other", data.inputs[:100], (data.labels[:100] + 1) % 10, data.classes)
    with_part = replace(data, validation=part)
    run = pyrite.train(with_part, model="mlp(hidden=[32])", epochs=5, loss="ce", out=tmp_path / "run")
    right = np.mean(run.scores(part.inputs).argmax(1) == part.labels)
    assert run.history[run.epoch - 1]["validation_accuracy"] == pytest.approx(right)
    assert right < 0.2 < run.table["final_test_accuracy"]  # its labels are all wrong, and were not trained on
    held_out = pyrite.train(with_part, out=tmp_path / "held out", **SMALL | {"validation": 0.2})
    assert (held_out.labels["part"] == 1).sum() == 60


@pytest.mark.parametrize("method", ["erm(ce)", "select(erm(ce), elr)", "co_teaching", "meta_weight(mae, size=128)"])
def test_nets_of_a_run_are_freed_when_it_ends(method: str, tmp_path: Path) -> None:
    """Not when Python looks for cycles of references: several runs of large nets would be in memory until then."""
    options: dict[str, Any] = {"method": method, "model": "mlp(hidden=[4])", "epochs": 2, "samples": 400}
    pyrite.train("digits", out=tmp_path / "first", **options)  # what is made once stays

    def layers() -> int:
        return sum(issubclass(type(each), nn.Linear) for each in gc.get_objects())

    gc.collect()
    gc.disable()
    try:
        before = layers()
        pyrite.train("digits", out=tmp_path / "second", **options)
        assert layers() == before
    finally:
        gc.enable()


@pytest.mark.parametrize(("iterations", "epochs", "steps"), [(3, 1, 3), (7, 2, 4), (12, 2, 6), (13, 3, 5)])
def test_a_length_in_iterations(iterations: int, epochs: int, steps: int, tmp_path: Path) -> None:
    records = Records()
    options = SMALL | {
        "epochs": None,
        "batch_size": 50,
        "iterations": iterations,
        "validation": 0.0,
    }  # 300 samples: six steps are an epoch
    run = pyrite.train("digits", out=tmp_path / "run", observers=[records], **options)
    assert run.config.epochs == epochs == len(run.history)
    assert [len(taken) for taken in records.epochs[:-1]] == [steps] * epochs  # at most one step per epoch too many
    first = [int(index) for step in records.epochs[0] for index in step.index]
    assert len(set(first)) == len(first) == 50 * steps
    assert str(run.config.schedule) == f"linear(warmup={epochs / 5})"
    if epochs > 1:
        assert {int(index) for step in records.epochs[1] for index in step.index} != set(first) or steps == 6
    longer = pyrite.train("digits", config=tmp_path / "run" / "recipe.toml", epochs=4, out=tmp_path / "longer")
    assert (longer.config.epochs, longer.config.iterations) == (4, None)
    with pytest.raises(ValueError, match="both given"):
        pyrite.train("digits", out=tmp_path / "other", **options | {"epochs": 2})


def test_history_is_what_the_steps_say(recorded: tuple[pyrite.Run, Records]) -> None:
    run, records = recorded
    given, true, part = (run.labels[name] for name in ("given", "true", "part"))
    assert [line["epoch"] for line in run.history] == [1, 2, 3]
    for line, steps in zip(run.history, records.epochs, strict=False):
        index = torch.cat([step.index for step in steps]).numpy()
        prediction = torch.cat([step.prediction for step in steps]).numpy()
        margin = torch.cat([step.margin for step in steps]).numpy()
        assert sorted(index) == np.flatnonzero(part == 0).tolist()
        wrong = given[index] != true[index]
        counted = np.where(given[index] % 2 == 0, 1.0, 2.0)
        losses = np.logaddexp(0, -margin.astype(np.float64))  # cross entropy is log(1 + exp(-margin))
        assert line["loss"] == pytest.approx((losses * counted).sum() / counted.sum(), rel=1e-5)
        assert line["train_accuracy"] == pytest.approx(np.mean(prediction == given[index]))
        assert line["clean_accuracy"] == pytest.approx(np.mean((prediction == given[index])[~wrong]))
        assert line["memorised"] == pytest.approx(np.mean((prediction == given[index])[wrong]))
        assert line["recovered"] == pytest.approx(np.mean((prediction == true[index])[wrong]))
        assert line["margin_size"] == pytest.approx(np.median(np.abs(margin)))
        assert 0.2 < wrong.mean() < 0.6


def test_samples_are_what_the_steps_say(recorded: tuple[pyrite.Run, Records]) -> None:
    run, records = recorded
    count = len(run.labels["given"])
    margins, weights = np.full((3, count), np.nan), np.full((3, count), np.nan)
    agrees = np.zeros((3, count), int)
    for epoch, steps in enumerate(records.epochs[:3]):
        for step in steps:
            index = step.index.numpy()
            margins[epoch, index], weights[epoch, index] = step.margin.numpy(), step.weight.numpy()
            agrees[epoch, index] = step.prediction.numpy() == run.labels["given"][index]
    trained = run.labels["part"] == 0
    samples = run.samples
    assert (samples["visits"] == np.where(trained, 3, 0)).all()
    np.testing.assert_allclose(samples["margin_mean"][trained], margins[:, trained].mean(0), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(samples["margin_variance"][trained], margins[:, trained].var(0), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(samples["weight_mean"][trained], weights[:, trained].mean(0), rtol=1e-9)
    np.testing.assert_array_equal(samples["last_margin"][trained], margins[2, trained])
    np.testing.assert_array_equal(samples["agreements"], agrees.sum(0))
    assert np.isnan(samples["margin_mean"][~trained]).all()
    assert samples["margins"].sum(1).tolist() == [240, 240, 240]


def test_parts_of_the_data(recorded: tuple[pyrite.Run, Records]) -> None:
    run, _ = recorded
    data = load("digits")
    assert np.bincount(run.labels["part"]).tolist() == [240, 60, len(data) - 300]
    assert np.array_equal(run.labels["true"], data.labels)
    noisy = pyrite.corrupt(data.labels, "symmetric(0.4)", 10, 0)
    assert np.array_equal(run.labels["given"], noisy.given)
    used = run.labels["part"] < 2
    # Every class keeps its share, to a sample.
    shares = np.bincount(run.labels["given"][used], minlength=10) / 300
    assert np.abs(shares - np.bincount(noisy.given, minlength=10) / len(data)).max() <= 1 / 300


def test_a_run_can_be_used(recorded: tuple[pyrite.Run, Records]) -> None:
    """Loaded again, its model gives the accuracies that were measured."""
    run = pyrite.Run.load(recorded[0].path)
    assert run.finished
    assert run.config == recorded[0].config
    assert run.history == recorded[0].history
    data, line = load("digits"), run.history[run.epoch - 1]
    assert data.test is not None
    predicted = run.scores(data.test.inputs).argmax(1)
    assert float(np.mean(predicted == data.test.labels)) == line["test_accuracy"]
    held = np.flatnonzero(run.labels["part"] == 1)
    validated = run.scores(data.inputs[held], batch_size=7).argmax(1)
    assert float(np.mean(validated == run.labels["given"][held])) == line["validation_accuracy"]
    scores, given = torch.tensor(run.scores(data.inputs[held])).double(), torch.tensor(run.labels["given"][held])
    followed = scores.softmax(1)[torch.arange(len(held)), given]
    assert line["validation_mae"] == pytest.approx(float((2 - 2 * followed).mean()), rel=1e-6)
    assert line["validation_ce"] == pytest.approx(float(-followed.log().mean()), rel=1e-6)
    assert not run.model.training
    assert run.classes == data.classes
    assert repr(run) == f"<run {run.path}: {run.config.method} on digits, 3 epochs>"
    best = max(line["test_accuracy"] for line in run.history)
    assert run.table["best_test_accuracy"] == best
    assert run.table["final_test_accuracy"] == line["test_accuracy"]
    assert run.table["memorised"] == line["memorised"]


def test_the_final_model_on_the_training_samples(recorded: tuple[pyrite.Run, Records]) -> None:
    """Counted here from the predictions of the saved model; not those made while training, which differ."""
    run, data = pyrite.Run.load(recorded[0].path), load("digits")
    assert data.test is not None
    rows = np.flatnonzero(run.labels["part"] == 0)
    given, true = run.labels["given"][rows], run.labels["true"][rows]
    predicted, tested = run.scores(data.inputs[rows]).argmax(1), run.scores(data.test.inputs).argmax(1)
    hits = np.sum(predicted == true) + np.sum(tested == data.test.labels)
    expected = {
        "final_train_accuracy": np.mean(predicted == given),
        "final_clean_accuracy": np.mean((predicted == given)[given == true]),
        "final_memorised": np.mean((predicted == given)[given != true]),
        "final_recovered": np.mean((predicted == true)[given != true]),
        "final_intact_accuracy": np.mean(predicted == true),
        "final_hybrid_accuracy": hits / (len(rows) + len(data.test)),
    }
    assert {name: run.table[name] for name in expected} == pytest.approx(expected)
    assert run.facts["final_model"] == pytest.approx(expected)
    assert run.table["final_memorised"] != run.table["memorised"]
    line = run.history[run.epoch - 1]
    assert (run.table["alpha"], run.table["snr"]) == (line["alpha"], line["snr"])


@pytest.mark.parametrize("options", [{"model": "fast_cnn(widths=[4, 4, 4])"}, {"precision": "float64"}])
def test_other_runs_can_be_used(options: dict[str, Any], tmp_path: Path) -> None:
    run = pyrite.train("digits", out=tmp_path / "run", **{**SMALL, "epochs": 1, **options})
    data = load("digits").test
    assert data is not None
    scores = pyrite.Run.load(run.path).scores(data.inputs)
    assert scores.dtype == (np.float64 if "precision" in options else np.float32)
    assert float(np.mean(scores.argmax(1) == data.labels)) == run.history[-1]["test_accuracy"]


def test_every_name_of_the_history_is_explained(recorded: tuple[pyrite.Run, Records]) -> None:
    page = (Path(__file__).parents[2] / "docs" / "diagnostics.md").read_text()
    assert [name for name in recorded[0].history[0] if f"`{name}`" not in page] == []


def test_what_a_run_leaves(recorded: tuple[pyrite.Run, Records]) -> None:
    run, _ = recorded
    names = {
        "recipe.toml",
        "labels.npz",
        "history.jsonl",
        "samples.npz",
        "model.safetensors",
        "run.json",
        "state",
    }
    assert {path.name for path in run.path.iterdir()} == names
    facts = run.facts
    assert (facts["finished"], facts["seed"], facts["processes"], facts["warnings"]) == (True, 0, 1, [])
    assert facts["seconds"] > 0
    assert facts["versions"]["torch"] == torch.__version__
    lines = (run.path / "history.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == run.history


def test_without_truth_what_needs_it_is_unknown(tmp_path: Path) -> None:
    """And without a test part a tenth is held out."""
    rows = np.random.default_rng(0)
    inputs = rows.normal(size=(200, 4)).astype(np.float32)
    np.savez(tmp_path / "data.npz", x=inputs, y=(inputs[:, 0] > 0).astype(int))
    run = pyrite.train(tmp_path / "data.npz", model="mlp(hidden=[8])", epochs=2, out=tmp_path / "run")
    unknown = ("test_accuracy", "clean_accuracy", "memorised", "recovered", "hybrid_accuracy", "snr", "noisy_weight")
    for line in run.history:
        assert [name for name in unknown if line[name] is not None] == []
        assert line["validation_accuracy"] is not None
        assert line["train_accuracy"] is not None
        assert line["alpha"] is not None
    assert "true" not in run.labels
    assert "noisy_margins" not in run.samples
    assert (run.labels["part"] == 1).sum() == 20
    assert run.table["final_test_accuracy"] is None
    assert run.table["best_test_accuracy"] is None


def test_a_set_that_knows_its_own_truth(tmp_path: Path) -> None:
    """Human noise: given and true are the set's. Further noise would replace what is wrong already, and is refused."""
    rows = np.random.default_rng(0)
    inputs, true = rows.normal(size=(90, 4)).astype(np.float32), np.arange(90) % 3
    given = np.where(rows.random(90) < 0.3, (true + 1) % 3, true)
    data = Dataset("human", inputs, given, ("a", "b", "c"), true=true)
    options: dict[str, Any] = {"model": "mlp(hidden=[8])", "epochs": 1}
    run = pyrite.train(data, out=tmp_path / "a", **options)
    assert np.array_equal(run.labels["given"], given)
    assert np.array_equal(run.labels["true"], true)
    assert run.history[0]["memorised"] is not None
    with pytest.raises(ValueError, match=r"human already has wrong labels \(\d+ of 90\)"):
        pyrite.train(data, out=tmp_path / "b", noise="symmetric(0.5)", **options)


class Own(nn.Module):
    """A net of a user's."""

    def __init__(self, seed: int = 3) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.layer = nn.Linear(4, 2)

    def forward(self, inputs: Tensor) -> Tensor:
        scores: Tensor = self.layer(inputs)
        return scores


def test_data_and_net_of_your_own(tmp_path: Path) -> None:
    inputs = np.random.default_rng(0).normal(size=(60, 4)).astype(np.float32)
    data = Dataset("mine", inputs, (inputs[:, 0] > 0).astype(np.int64), ("no", "yes"))
    model = Own()
    options: dict[str, Any] = {"epochs": 2, "batch_size": 20, "validation": 0.0}
    whole = pyrite.train(data, model=model, out=tmp_path / "whole", **options)
    assert str(whole.config.data) == "mine"
    assert 'model = {python = "Own"}' in (whole.path / "recipe.toml").read_text()
    assert not torch.equal(model.layer.weight, Own().layer.weight)  # it is trained in place
    with pytest.raises(ValueError, match=r"the net was given in Python: Own: load .*model.safetensors into it"):
        _ = whole.model

    asked = iter([False, True])
    out = tmp_path / "stopped"
    pyrite.train(data, model=Own(), out=out, stop=lambda: next(asked), **options)
    with pytest.raises(ValueError, match=r"the data was given in Python: mine: pass it again"):
        pyrite.train(resume=out, model=Own())
    with pytest.raises(ValueError, match=r"the model of .* was given in Python: Own: pass it again as model"):
        pyrite.train(data, resume=out)
    again = Own(seed=8)  # its weights come from the folder
    assert pyrite.train(data, model=again, resume=out).history == whole.history
    assert torch.equal(again.layer.weight, model.layer.weight)
    other = Dataset("mine", inputs, 1 - data.labels, ("no", "yes"))
    with pytest.raises(ValueError, match="the labels of mine are not those in"):
        pyrite.train(other, model=Own(), resume=out)


def test_a_validation_part_of_its_own_is_no_evidence_about_the_training_samples(tmp_path: Path) -> None:
    rows = np.random.default_rng(0)
    x, y = rows.normal(size=(90, 4)).astype(np.float32), np.arange(90) % 3
    test, own = Dataset("test", x[:5], y[:5], ("a", "b", "c")), Dataset("own", x[30:], y[30:], ("a", "b", "c"))
    runs = [
        pyrite.train(
            Dataset("mine", x[:30], y[:30], ("a", "b", "c"), test, validation=part),
            out=tmp_path / name, loss="ce", model="mlp(hidden=[8])", epochs=2, batch_size=10, keep="last",
        )
        for name, part in (("with", own), ("without", None))
    ]  # fmt: skip
    assert runs[0].history[-1]["validation_accuracy"] is not None
    assert sorted(runs[0].samples) == sorted(runs[1].samples)
    for name, values in runs[1].samples.items():
        np.testing.assert_array_equal(runs[0].samples[name], values, err_msg=name)


def test_global_random_state_is_left_as_it_was(tmp_path: Path) -> None:
    before = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    model = "wrn(depth=10, width=1, dropout=0.3)"
    pyrite.train("digits", **{**SMALL, "model": model, "epochs": 1, "samples": 100}, out=tmp_path / "run")
    assert torch.equal(torch.get_rng_state(), before[0])
    assert np.array_equal(np.random.get_state()[1], before[1])  # noqa: NPY002


def test_a_lone_last_sample(tmp_path: Path) -> None:
    """257 samples: a batch norm cannot take the last alone, so it waits for another epoch."""
    run = pyrite.train("digits", **{**SMALL, "validation": 0.0, "samples": 257}, out=tmp_path / "a")
    assert run.samples["visits"].sum() == 3 * 256
    bare = pyrite.train(
        "digits",
        **{**SMALL, "validation": 0.0, "samples": 257, "model": "mlp(hidden=[8], norm=False)"},
        out=tmp_path / "b",
    )
    assert bare.samples["visits"].sum() == 3 * 257
    # In two pieces the last 3 samples would be 2 and 1.
    pieces = pyrite.train("digits", **{**SMALL, "validation": 0.0, "samples": 259}, accumulate=2, out=tmp_path / "c")
    assert pieces.samples["visits"].sum() == 3 * 256


def test_what_cannot_be_trained(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="samples is 99999, but digits has 1437"):
        pyrite.train("digits", samples=99999, out=tmp_path / "a")
    with pytest.raises(ValueError, match="device is 'cudda', which is not available"):
        pyrite.train("digits", device="cudda", out=tmp_path / "a")
    if not torch.cuda.is_available():
        with pytest.raises(ValueError, match="device is 'cuda', which is not available"):
            pyrite.train("digits", device="cuda", out=tmp_path / "a")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    with pytest.raises(ValueError, match=r"full is not empty: choose another folder$"):
        pyrite.train("digits", out=tmp_path / "full")
    with pytest.raises(ValueError, match=r"file is not empty: choose another folder$"):
        pyrite.train("digits", out=tmp_path / "full" / "file")
    (tmp_path / "full" / "recipe.toml").touch()
    with pytest.raises(ValueError, match=r"not empty: choose another folder, or continue with --resume .*full$"):
        pyrite.train("digits", out=tmp_path / "full")
    with pytest.raises(ValueError, match="accumulate is 2, but peer"):
        pyrite.train("digits", loss="peer(ce)", accumulate=2, out=tmp_path / "a", **SMALL)
    assert not (tmp_path / "a").exists()


def test_nan_stops_and_the_last_checkpoint_is_good(tmp_path: Path) -> None:
    out = tmp_path / "run"
    options = {**SMALL, "model": "mlp(hidden=[8], norm=False)", "schedule": "steps(at=[1], factor=1e30)"}
    with pytest.raises(pyrite.RunFailed, match=r"in batch \d of 3 of epoch 2, at learning rate 1e\+29. Try a learning"):
        pyrite.train("digits", loss="ce", out=out, **options)
    left = pyrite.Run.load(out)
    assert len(left.history) == 1
    assert not left.finished
    with pytest.raises(pyrite.RunFailed, match="of epoch 2"):  # again, from the checkpoint
        pyrite.train(resume=out)


def test_divergence_is_noticed(tmp_path: Path) -> None:
    """A rate that jumps after two epochs throws a bounded loss off without a NaN."""
    options = {**SMALL, "samples": 1437, "epochs": 4, "noise": "", "schedule": "steps(at=[3], factor=3e4)"}
    run = pyrite.train("digits", loss="mae", out=tmp_path / "run", **options)
    assert len(run.facts["warnings"]) == 1
    assert "the run diverged: it followed" in run.facts["warnings"][0]


def test_without_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    run = pyrite.train("digits", **{**SMALL, "epochs": 1, "samples": 50}, out=tmp_path / "run")
    assert run.facts["git"] is None


def test_a_folder_named_after_the_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run = pyrite.train("digits", **{**SMALL, "epochs": 1, "samples": 50})
    assert run.path.parent == Path("runs")
    assert os.listdir("runs") == [run.path.name]


def test_not_a_run(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"is not a run: it has no recipe.toml$"):
        pyrite.Run.load(tmp_path)
    (tmp_path / "ce-0").mkdir()
    (tmp_path / "ce-0" / "recipe.toml").touch()  # of a comparison or a search
    with pytest.raises(ValueError, match=r"it contains 1 run: pass one of them, such as .*ce-0$"):
        pyrite.Run.load(tmp_path)


def test_what_makes_a_net(tmp_path: Path) -> None:
    """A factory is called with shape and classes; the weights it draws belong to the seed; a resume needs it again."""

    def small(shape: tuple[int, ...], classes: int) -> nn.Module:
        return nn.Sequential(nn.Flatten(), nn.Linear(int(np.prod(shape)), classes))

    options: dict[str, Any] = {"samples": 200, "epochs": 2, "noise": "symmetric(0.2)"}
    first, second = (pyrite.train("digits", model=small, out=tmp_path / name, **options) for name in "ab")
    assert first.history == second.history
    assert first.config.to_dict()["model"] == {"python": "small"}
    stopped = pyrite.train("digits", model=small, out=tmp_path / "c", stop=lambda: True, **options)
    with pytest.raises(ValueError, match="pass it again as model"):
        pyrite.train(resume=stopped.path)
    assert pyrite.train(model=small, resume=stopped.path).history == first.history


def test_a_net_is_not_passed_from_loss_to_loss(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="a network that all runs would share"):
        pyrite.compare("digits", ["ce", "mae"], out=tmp_path, model=nn.Linear(64, 10))


def test_batches_in_which_nothing_counts(tmp_path: Path) -> None:
    """Every label ignored but one class: many batches of two have none that counts, and the run goes on."""
    kept = [0.0] * 9 + [1.0]
    for number, loss in enumerate((f"ce(weight={kept})", "ce(ignore_index=3)")):
        run = pyrite.train("digits", loss=loss, samples=60, batch_size=2, epochs=1, model="mlp(norm=False)",
                           out=tmp_path / str(number))  # fmt: skip
        assert run.history[0]["loss"] > 0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"loss": "ce(weight=[1.0, 2.0])"}, "weight has 2 numbers, but there are"),
        ({"clip": float("inf")}, "clip is inf"),
        ({"noise": "symmetric(0.4)", "samples": 10**6}, "samples is 1000000"),
    ],
)
def test_numbers_that_cannot_be(options: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=said):
        pyrite.train("digits", epochs=1, out=tmp_path / "run", **options)


def test_numbers_of_numpy_and_a_path_from_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = np.random.default_rng(0)
    np.savez(tmp_path / "d.npz", x=rows.normal(size=(60, 4)).astype(np.float32), y=np.arange(60) % 3)
    monkeypatch.chdir(tmp_path)
    options: dict[str, Any] = {"epochs": np.int64(2), "batch_size": np.int64(20), "model": "mlp(hidden=[4])"}
    stopped = pyrite.train("d.npz", out=tmp_path / "run", stop=lambda: True, **options)
    monkeypatch.chdir("/")
    assert pyrite.train(resume=stopped.path).finished
    np.savez(tmp_path / "d.npz", x=rows.normal(size=(60, 4)).astype(np.float32), y=np.arange(60) % 3)
    with pytest.raises(ValueError, match=r"the inputs of .* are not those of"):
        pyrite.train(resume=stopped.path)


def test_runs_that_begin_in_the_same_second_have_folders_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("time.strftime", lambda form: "runs/now")
    runs = [pyrite.train("digits", samples=50, epochs=1, model="mlp(hidden=[4])") for _ in range(2)]
    assert [run.path.name for run in runs] == ["now", "now-2"]
