"""The epoch whose model is saved: the rule by hand, and the weights that a run leaves."""

import json
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from scipy.stats import binom
from torch import Tensor, nn

import pyrite
from pyrite.data import load
from pyrite.exports import model_card
from pyrite.methods import ERM, CrossFit, Method, Staged, Step, Trainer
from pyrite.training import Record, resolve
from pyrite.training.evaluation import BestEpoch
from pyrite.training.run_folder import pack, unpack
from tests.children import differing

# Cross entropy learns wrong labels by heart, so that late epochs are worse.
SPOILT: dict[str, Any] = {"loss": "ce", "model": "mlp(hidden=[64])", "samples": 300, "noise": "symmetric(0.4)"}
SPOILT |= {"epochs": 10, "validation": 0.3, "lr": 0.1, "batch_size": 20, "schedule": "linear"}


class Weights:
    """The weights of all nets that predict, after every epoch."""

    def __init__(self) -> None:
        self.epochs: list[list[dict[str, Tensor]]] = []

    @contextmanager
    def watch(self, folder: Path, record: Record) -> Iterator[None]:
        self.record = record
        yield

    def after_step(self, step: Step) -> None:
        pass

    def after_epoch(self, epoch: int) -> None:
        assert self.record.evaluation is not None
        nets = self.record.evaluation.trainer.predictors
        self.epochs.append([{name: value.clone() for name, value in net.state_dict().items()} for net in nets])


@pytest.fixture(scope="module")
def spoilt(tmp_path_factory: pytest.TempPathFactory) -> tuple[pyrite.Run, Weights]:
    weights = Weights()
    out = tmp_path_factory.mktemp("spoilt") / "run"
    return pyrite.train("digits", out=out, observers=[weights], **SPOILT), weights


def after_epochs(*hits: Iterable[object]) -> BestEpoch:
    best, net = BestEpoch(), nn.Linear(1, 1)
    for epoch, row in enumerate(hits, 1):
        with torch.no_grad():
            net.weight.fill_(epoch)
        best.after_epoch(epoch, np.array([int(hit) for hit in row]) == 1, [net])
    return best


@pytest.mark.parametrize(
    ("hits", "best", "chosen"),
    [
        (["1110", "1110"], 2, 2),  # of equals the later
        (["1111", "1110"], 1, 2),  # better by 1, and the standard error is 1
        (["1111", "1100"], 1, 1),  # by 2, and it is 1.4
        (["11110", "00011"], 1, 2),  # by 2, but on five labels the two differ: 2.2
        (["0000", "1111", "1100", "0011"], 2, 2),
        (["1100", "1111", "1110"], 2, 3),
        (["1"], 1, 1),
    ],
)
def test_the_rule(hits: list[str], best: int, chosen: int) -> None:
    found = after_epochs(*hits)
    assert (found.epoch, found.last, found.chosen) == (best, len(hits), chosen)
    net = nn.Linear(1, 1)
    found.restore([net])
    assert net.weight.item() == best  # a copy: training went on


def test_the_standard_error_is_that_of_a_fair_coin() -> None:
    """If two models are as good, each label on which they differ is a coin toss; 1 − 2 heads is what one gains."""
    rng = np.random.default_rng(0)
    decided = set()
    for share in rng.uniform(0.45, 0.75, size=40):
        first, last = rng.random(200) < share, rng.random(200) < 0.5
        found = after_epochs(first, last)
        error = 2 * binom(int(np.sum(first != last)), 0.5).std() / 200
        beaten = first.mean() - last.mean() > error
        assert found.chosen == (1 if beaten else 2)
        decided.add(beaten)
    assert decided == {True, False}


def test_nets_of_another_kind_begin_anew() -> None:
    """The second stage of a method may predict with two nets, or with an average of the first one's weights."""
    for later in ([nn.Linear(1, 1), nn.Linear(1, 1)], [nn.Sequential(nn.Linear(1, 1))]):
        best = after_epochs("1111", "1110")
        best.after_epoch(3, np.array([True, False, False, False]), later)
        assert (best.epoch, best.chosen) == (3, 3)
        best.restore(later)


def test_the_best_epoch_is_saved(spoilt: tuple[pyrite.Run, Weights]) -> None:
    """By what the recorded weights of every epoch predict, worked out here."""
    run, weights = spoilt
    held = np.flatnonzero(run.labels["part"] == 1)
    inputs, given = load("digits").inputs[held], run.labels["given"][held]
    hits = []
    for (epoch,) in weights.epochs:
        run.model.load_state_dict(epoch)
        hits.append(run.scores(inputs).argmax(1) == given)
    del run.model
    counts = [int(hit.sum()) for hit in hits]
    assert [count / len(held) for count in counts] == [line["validation_accuracy"] for line in run.history]
    best = max(range(len(counts)), key=lambda epoch: (counts[epoch], epoch))
    assert counts[best] - counts[-1] > np.sum(hits[best] != hits[-1]) ** 0.5
    assert run.epoch == best + 1 < len(run.history)
    for name, epoch in (("model", best), ("last", -1)):
        found = load_file(run.path / f"{name}.safetensors")
        assert all(torch.equal(found[key], value) for key, value in weights.epochs[epoch][0].items())
    accuracies = {"validation_accuracy": counts[best] / 90, "last_validation_accuracy": counts[-1] / 90}
    assert run.facts["saved"] == {"epoch": best + 1, "best_epoch": best + 1, **accuracies}


def test_all_figures_are_of_the_model_that_is_saved(spoilt: tuple[pyrite.Run, Weights]) -> None:
    run, data = pyrite.Run.load(spoilt[0].path), load("digits")
    assert data.test is not None
    line, last = run.history[run.epoch - 1], run.history[-1]
    tested = run.predict(data.test.inputs).labels == data.test.labels
    assert run.table["final_test_accuracy"] == line["test_accuracy"] == tested.mean() != last["test_accuracy"]
    for name in ("validation_accuracy", "memorised", "clean_accuracy", "alpha"):
        assert run.table[name] == line[name] != last[name]
    rows = np.flatnonzero(run.labels["part"] == 0)
    predicted = run.scores(data.inputs[rows]).argmax(1)
    true = run.labels["true"][rows]
    assert run.table["final_train_accuracy"] == np.mean(predicted == run.labels["given"][rows])
    right = np.concatenate([predicted == true, tested])
    assert run.table["final_hybrid_accuracy"] == pytest.approx(right.mean(), abs=1e-12)
    assert run.table["final_memorised"] < last["memorised"] - 0.3


def test_keep_last_is_the_same_training(spoilt: tuple[pyrite.Run, Weights], tmp_path: Path) -> None:
    run = spoilt[0]
    last = pyrite.train("digits", out=tmp_path / "run", keep="last", **SPOILT)
    assert last.history == run.history
    assert (last.path / "model.safetensors").read_bytes() == (run.path / "last.safetensors").read_bytes()
    assert not (last.path / "last.safetensors").exists()
    assert (last.epoch, last.choice, last.facts["saved"]) == (10, "", {"epoch": 10})


def after(steps: int) -> Callable[[], bool]:
    answers = chain(repeat(False, steps - 1), [True])
    return lambda: next(answers)


def test_a_resumed_run_chooses_the_same(spoilt: tuple[pyrite.Run, Weights], tmp_path: Path) -> None:
    """Stopped before and after the epoch that is saved, and once in the middle of an epoch; 11 steps are an epoch."""
    best = spoilt[0].epoch
    run = pyrite.train("digits", out=tmp_path / "run", stop=after(3), **SPOILT)
    for steps in (11 * (best - 1), 22):
        run = pyrite.train(resume=run.path, stop=after(steps))
    assert (run.epoch, run.choice) == (best + 1, "")
    run = pyrite.train(resume=run.path)
    assert differing(spoilt[0].path, run.path) == []
    assert run.facts["saved"] == spoilt[0].facts["saved"]
    again = pyrite.train(resume=run.path)  # it is finished
    assert differing(spoilt[0].path, again.path) == []


def test_several_nets_and_stages(tmp_path: Path) -> None:
    """Two nets whose weights are those of the same epoch, though a later stage predicts with others."""
    for method in ("cross_fit(erm(ce))", "staged(erm(ce), erm(ce), at=0.5, restart=True)"):
        weights = Weights()
        options = {name: value for name, value in SPOILT.items() if name != "loss"} | {"method": method}
        run = pyrite.train("digits", out=tmp_path / method[:5], observers=[weights], **options)
        assert run.epoch < 10
        chosen = weights.epochs[run.epoch - 1]
        saved = load_file(run.path / "model.safetensors")
        prefixes = [""] if len(chosen) == 1 else [f"nets.{number}." for number in range(len(chosen))]
        for prefix, net in zip(prefixes, chosen, strict=True):
            assert all(torch.equal(saved[prefix + name], value) for name, value in net.items())
        data = load("digits").test
        assert data is not None
        right = np.mean(pyrite.Run.load(run.path).scores(data.inputs).argmax(1) == data.labels)
        assert right == run.table["final_test_accuracy"]


def test_a_net_of_your_own_has_the_saved_weights(spoilt: tuple[pyrite.Run, Weights], tmp_path: Path) -> None:
    net = pyrite.build_model(SPOILT["model"], (1, 8, 8), classes=10, seed=0)
    run = pyrite.train("digits", out=tmp_path / "run", **SPOILT | {"model": net})
    assert run.epoch == spoilt[0].epoch < 10
    saved = load_file(spoilt[0].path / "model.safetensors")
    assert all(torch.equal(saved[name], value) for name, value in net.state_dict().items())


def test_what_is_said(spoilt: tuple[pyrite.Run, Weights], tmp_path: Path) -> None:
    run = spoilt[0]
    own, last = (100 * run.history[epoch - 1]["validation_accuracy"] for epoch in (run.epoch, 10))
    said = f"epoch {run.epoch} of 10, the best: it predicts {own:.1f} % of held-out labels"
    assert run.choice == f"{said}; the last epoch predicts {last:.1f} %"
    assert f"| saved | {run.choice} |" in model_card(run)
    short = pyrite.train("digits", out=tmp_path / "run", **SPOILT | {"epochs": 2})
    own = 100 * short.history[1]["validation_accuracy"]
    assert short.choice == f"epoch 2 of 2, the best: it predicts {own:.1f} % of held-out labels"


def test_the_last_is_saved_if_the_best_may_be_chance(tmp_path: Path) -> None:
    run = pyrite.train("digits", out=tmp_path / "run", **SPOILT | {"loss": "gce(q=0.7)"})
    best = max(run.history, key=lambda line: (line["validation_accuracy"], line["epoch"]))
    assert run.epoch == 10 > best["epoch"]
    own = 100 * run.history[-1]["validation_accuracy"]
    assert run.choice == (
        f"epoch 10 of 10, the last: it predicts {own:.1f} % of held-out labels; epoch {best['epoch']} predicts "
        f"{100 * best['validation_accuracy']:.1f} %, which is not significantly more"
    )
    assert not (run.path / "last.safetensors").exists()


@pytest.mark.parametrize("saved", [3, {}, {"epoch": "3"}, {"epoch": 11}, {"epoch": 0}, {"epoch": 3, "best_epoch": 12}])
def test_a_choice_that_cannot_be(saved: object, spoilt: tuple[pyrite.Run, Weights], tmp_path: Path) -> None:
    shutil.copytree(spoilt[0].path, tmp_path / "run")
    path = tmp_path / "run" / "run.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"saved": saved}))
    with pytest.raises(ValueError, match=r"run\.json"):
        _ = pyrite.Run.load(tmp_path / "run").table


def test_a_run_whose_folder_is_gone_says_so(spoilt: tuple[pyrite.Run, Weights], tmp_path: Path) -> None:
    shutil.copytree(spoilt[0].path, tmp_path / "run")
    run = pyrite.Run.load(tmp_path / "run")
    assert run.epoch == spoilt[0].epoch
    shutil.rmtree(tmp_path / "run")
    for name in ("epoch", "choice", "table", "facts"):
        with pytest.raises(ValueError, match=r"run\.json is missing"):
            getattr(run, name)


@pytest.mark.parametrize("stopped", [False, True])
def test_runs_from_before_the_setting(stopped: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A recipe of an earlier version has the defaults of that version: such a run saved the last model."""
    options = SPOILT | {"epochs": 3}
    run = pyrite.train("digits", out=tmp_path / "old", keep="last", stop=after(3 if stopped else 100), **options)
    lines = (run.path / "recipe.toml").read_text().splitlines(keepends=True)
    (run.path / "recipe.toml").write_text("".join(line for line in lines if not line.startswith("keep")))
    facts, path = json.loads((run.path / "run.json").read_text()), run.path / "state" / "state.safetensors"
    del facts["recipe"]["keep"]
    (run.path / "run.json").write_text(json.dumps(facts))
    path.write_bytes(pack(unpack(path) | {"recipe": facts["recipe"]}))
    monkeypatch.setattr("pyrite.training.config.VERSION", 2)
    earlier = replace(pyrite.settings.SETTINGS["keep"], earlier={1: "last"})
    monkeypatch.setitem(pyrite.settings.SETTINGS, "keep", earlier)  # type: ignore[arg-type]
    assert resolve("digits").config.keep == "best"
    old = pyrite.train(resume=run.path) if stopped else pyrite.Run.load(run.path)
    assert old.finished
    assert (old.config.keep, old.epoch, old.choice) == ("last", 3, "")
    data = load("digits").test
    assert data is not None
    assert np.mean(old.scores(data.inputs).argmax(1) == data.labels) == old.history[-1]["test_accuracy"]


class Wants(Method):
    """Cross entropy that wants samples held out."""

    def __init__(self, held_out: float = 0.25) -> None:
        self.share = held_out

    @property
    def held_out(self) -> float:
        return self.share

    def start(self, context: pyrite.Context) -> Trainer:
        return ERM(pyrite.CE()).start(context)


def test_a_method_may_want_samples_held_out() -> None:
    data, plain = load("digits"), ERM(pyrite.CE())
    for method in (Wants(), CrossFit(Wants()), Staged(plain, Wants()), Staged(Wants(), Wants(0.1))):
        assert resolve(data, method=method).config.validation == 0.25
    assert resolve(data, method=plain).config.validation == 0.0
    assert resolve(data, method=Wants(), validation=0.0).config.validation == 0.0
    assert resolve(replace(data, test=None), method=Wants()).config.validation == 0.1
    assert resolve(replace(data, validation=data.test), method=Wants()).config.validation == 0.0
    with pytest.raises(ValueError, match="held_out is 1, but must be a number"):
        resolve(data, method=Wants(1))


def test_growing_images_are_predicted_at_the_size_of_training(tmp_path: Path) -> None:
    """The model of an epoch with smaller images is measured on images of that size, and never saved."""
    pixels, labels = np.random.default_rng(0).integers(0, 256, (60, 3, 24, 24), np.uint8), np.arange(60) % 3
    test = pyrite.Dataset("test", pixels[40:], labels[40:], tuple("abc"))
    data = pyrite.Dataset("noise", pixels[:40], labels[:40], tuple("abc"), test)
    weights = Weights()
    options = {"model": "fast_cnn(widths=[4, 4, 4])", "epochs": 3, "validation": 0.5, "mirror": False}
    run = pyrite.train(data, out=tmp_path / "run", observers=[weights], precision="float32", progress=False, **options)
    assert run.epoch == 3  # the only one with whole images
    mean, std = (torch.tensor(run.facts[name]).view(-1, 1, 1) for name in ("mean", "std"))
    inputs = (torch.from_numpy(pixels[40:]).float() / 255 - mean) / std
    net = pyrite.build_model(options["model"], (3, 24, 24), 3, seed=0).eval()
    for epoch, (states, side) in enumerate(zip(weights.epochs, (12, 18, 24), strict=True)):
        net.load_state_dict(states[0])
        shown = nn.functional.interpolate(inputs, size=side, mode="bilinear", antialias=True)
        right = (net(shown).argmax(1).numpy() == labels[40:]).mean()
        assert run.history[epoch]["test_accuracy"] == pytest.approx(right)
