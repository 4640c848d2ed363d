"""Runs, methods and plug-ins of hostile and unlucky users: the right answer, or one sentence.

``docs/testing.md`` lists what was tried.
"""

import json
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor, nn

import pyrite
from pyrite.cli.app import app
from pyrite.comparing import _slugs
from pyrite.curves import initial_margins
from pyrite.files import acquire
from tests.children import differing
from tests.test_red_team_data import refused, typed

SMALL: dict[str, Any] = {"epochs": 2, "batch_size": 40, "model": "mlp(hidden=[4])", "progress": False}
BLOBS = "blobs(classes=3, samples=120)"


def after(steps: int) -> Callable[[], bool]:
    """Stop after so many steps."""
    left = iter([False] * (steps - 1))
    return lambda: next(left, True)


# --- files of a run that is resumed ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("begun") / "run"
    return pyrite.train(BLOBS, out=path, stop=after(4), **SMALL).path


@pytest.fixture
def run(begun: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(begun, tmp_path / "run"))


@pytest.mark.parametrize("content", ["", "[1, 2]", "{}", '{"recipe": 3}', '{"recipe": {}}', '{"recipe": null}', "\0"])
@pytest.mark.parametrize("name", ["run.json", "labels.npz", "recipe.toml"])
def test_damaged_files_are_named_on_resume(name: str, content: str, run: Path) -> None:
    (run / name).write_text(content)
    assert str(run / name) in refused("train", "--resume", str(run)) or content == '{"recipe": {}}'


@pytest.mark.parametrize(
    ("name", "value"), [("classes", 3), ("classes", None), ("warnings", "x"), ("shape", 3), ("std", None)]
)
def test_facts_of_another_type_are_named(name: str, value: object, run: Path) -> None:
    facts = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps(facts | {name: value}))
    assert f"run.json (its {name!r} is not a list)" in refused("audit", str(run))


@pytest.mark.parametrize("name", ["visits", "last_margin", "last_trust", "margin_edges", "margins", "class_margins"])
def test_arrays_of_other_types_and_shapes_are_named(name: str, run: Path) -> None:
    with np.load(run / "samples.npz") as archive:
        arrays = dict(archive)
    for other in (
        np.array(1.0),
        np.full(arrays[name].shape, "x"),
        arrays[name][..., None],
        arrays[name].astype(complex),
    ):
        np.savez(run / "samples.npz", **arrays | {name: other})
        assert str(run / "samples.npz") in refused("report", str(run))


def test_a_history_of_other_values_is_named(run: Path) -> None:
    line = json.loads((run / "history.jsonl").read_text().splitlines()[0])
    (run / "history.jsonl").write_text(json.dumps(line | {"validation_accuracy": {}}) + "\n")
    assert "history.jsonl (line 1: its 'validation_accuracy' is not a number)" in refused("report", str(run))


def test_a_setting_added_to_the_recipe_is_refused(run: Path) -> None:
    with (run / "recipe.toml").open("a") as file:
        file.write("samples = 60\n")
    assert "recipe.toml was changed since the run began: samples was None and is 60" in refused(
        "train", "--resume", str(run)
    )


def test_the_state_of_another_run_is_refused(run: Path, tmp_path: Path) -> None:
    """Without run.json too, which may be removed where it is damaged."""
    other = pyrite.train(BLOBS, out=tmp_path / "other", lr=0.01, stop=after(4), **SMALL)
    shutil.copy(other.path / "state" / "state.safetensors", run / "state")
    (run / "run.json").unlink()
    assert "state.safetensors belongs to a run with a recipe other than" in refused("train", "--resume", str(run))


def test_another_net_than_the_run_began_with(tmp_path: Path) -> None:
    options = SMALL | {"model": nn.Linear(2, 3)}
    path = pyrite.train(BLOBS, out=tmp_path / "run", stop=after(2), **options).path
    with pytest.raises(ValueError, match=r"run was begun with another model: Linear has other values or other code"):
        pyrite.train(resume=path, model=nn.Linear(2, 4), progress=False)


@pytest.mark.parametrize(
    "line", ["model = 3", "samples = 'x'", "samples = 0", "seed = 'x'", "method = [1]", "epochs = 1e400", "noise = 1"]
)
@pytest.mark.parametrize("command", [("train", BLOBS), ("audit", BLOBS), ("compare", BLOBS, "ce")], ids=lambda c: c[0])
def test_configurations_of_the_wrong_types(command: tuple[str, ...], line: str, tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text(line + "\n")
    words = ("--config", str(tmp_path / "c.toml"), "--out", str(tmp_path / "out"))
    assert f"cannot read {tmp_path / 'c.toml'}: {line.split()[0]} is " in refused(*command, *words)


# --- losses that remember -------------------------------------------------------------------------------------------


class Running(nn.Module):
    """Cross entropy, divided by a running mean of itself."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.ones(()))

    def forward(self, scores: Tensor, labels: Tensor) -> Tensor:
        losses = nn.functional.cross_entropy(scores, labels, reduction="none")
        self.mean = 0.5 * self.mean + 0.5 * losses.detach().mean()
        return losses / self.mean


@pytest.mark.parametrize(
    "method", [pyrite.ERM, pyrite.methods.CoTeaching, lambda loss: pyrite.MetaWeight(loss=loss, size=20)]
)
@pytest.mark.filterwarnings("ignore:the meta set has 20 samples", "ignore:.*torch.jit.script")
def test_buffers_of_a_loss_are_resumed(method: Any, tmp_path: Path) -> None:
    def make() -> Any:
        loss = pyrite.loss(Running())
        return method(loss) if method is not pyrite.methods.CoTeaching else method(loss=loss)

    pyrite.train(BLOBS, method=make(), out=tmp_path / "whole", **SMALL)
    pyrite.train(BLOBS, method=make(), out=tmp_path / "stopped", stop=after(3), **SMALL)
    pyrite.train(resume=tmp_path / "stopped", method=make(), progress=False)
    assert differing(tmp_path / "whole", tmp_path / "stopped") == []


def test_trying_a_loss_does_not_change_it(tmp_path: Path) -> None:
    loss = Running()
    pyrite.training.resolve(BLOBS, loss=loss)
    assert float(loss.mean) == 1


@pytest.mark.parametrize(
    ("loss", "said"),
    [
        (lambda scores, labels: scores.detach().sum(1), "whose values have no gradient"),
        (lambda scores, labels: scores, "gives a value of shape (2, 3) for 2 samples"),
    ],
)
def test_losses_that_cannot_be_trained_with(loss: Any, said: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError) as error:
        pyrite.train(BLOBS, loss=loss, out=tmp_path / "run", **SMALL)
    assert said in str(error.value)
    assert not (tmp_path / "run").exists()


# --- methods and settings -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--batch-size", "1"], "a batch of the training samples has 1 sample, but mlp(hidden=(4,)) has batch norms"),
        (["--accumulate", "100"], "has 114 samples in 100 pieces, but mlp"),
        (["--method", "glc(size=119)"], "a batch of the training samples has 1 sample, but"),
        (["--method", "fine_tune(size=1)"], "a batch of the meta set has 1 sample, but"),
        (["--method", "glc(size=0)"], "size is 0, but must be a whole number, 1 or more"),
        (["--method", "glc(size=120)"], "too few samples: 120, meta 120: none are left to train on"),
        (["--method", "joint", "--epochs", "1"], "epochs is 1, but joint(alpha=1.2, beta=0.8) needs 2 or more"),
        (["--method", "meta_weight(hidden=1000000000)"], "hidden is 1000000000, but must be a whole number from 1 to"),
        (["--lr", "1e300"], "lr is 1e+300, but must be a number from 0 to 1e+30"),
        (["--device", "meta"], "device is 'meta', which is not available"),
    ],
)
def test_methods_and_settings_that_cannot_be(words: list[str], said: str, tmp_path: Path) -> None:
    data = "blobs(classes=3, samples=120)"
    noise = ["--noise", "symmetric(0.3)", "--model", "mlp(hidden=[4])", "--out", str(tmp_path / "run")]
    assert said in refused("train", data, *noise, *words)
    assert not (tmp_path / "run").exists()


def test_a_batch_of_one_where_the_net_can_take_it(tmp_path: Path) -> None:
    options = SMALL | {"batch_size": 1, "epochs": 1, "samples": 6}
    assert pyrite.train(BLOBS, out=tmp_path / "a", **options | {"model": "mlp(hidden=[4], norm=False)"}).finished
    assert pyrite.train("digits", out=tmp_path / "b", **options | {"model": "resnet20"}).finished  # 2 x 2 pixels


def test_padding_beyond_the_image() -> None:
    with pytest.raises(ValueError, match="pad is 1000000: images of 8 x 8 would be cut away whole"):
        pyrite.data.CropFlip(pad=1_000_000).size(8, 8)


def test_a_method_that_needs_true_labels_says_so(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.random.default_rng(0).normal(size=(60, 2)), y=np.arange(60) % 2)
    said = refused("train", str(tmp_path / "a.npz"), "--method", "glc(size=20)", "--out", str(tmp_path / "run"))
    assert "glc(size=20, at=0.5) requires samples with known true labels, but those of a are unknown" in said


def test_more_classes_than_can_be_simulated() -> None:
    with pytest.raises(ValueError, match="classes is 1000000000, but must be at most 100,000"):
        initial_margins(10**9)
    assert "classes is 1000000000, but must be at most 100,000 for nce" in refused(
        "check", "nce", "--classes", "1" + "0" * 9
    )


def test_no_weight_is_larger_than_the_largest() -> None:
    assert pyrite.underfitting("nce", classes=2000).hard <= 1


# --- folders that two processes write to ----------------------------------------------------------------------------


def test_an_audit_waits_for_another_that_writes(tmp_path: Path) -> None:
    np.save(tmp_path / "y.npy", np.arange(60) % 3)
    np.save(tmp_path / "s.npy", np.eye(3)[np.arange(60) % 3])
    release = acquire(tmp_path / "out" / ".writing")
    assert release is not None
    words = ["audit", "--scores", tmp_path / "s.npy", "--labels", tmp_path / "y.npy", "--kind", "logits"]
    arguments = [str(word) for word in [*words, "--out", tmp_path / "out"]]
    thread = threading.Thread(target=app, args=[arguments], kwargs={"standalone_mode": False})
    thread.start()
    thread.join(1)
    assert thread.is_alive()
    assert [path.name for path in (tmp_path / "out").iterdir()] == [".writing"]
    release()
    thread.join(60)
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"suspects.csv", "audit.json", "report.html"}


def test_no_two_runs_of_a_comparison_share_a_folder() -> None:
    names = ["peer(ce, 2)", "peer(ce)", "PEER(ce)", "peer(ce, 3)", "peer[ce]", "+".join(["0.1*ce"] * 99)]
    slugs = _slugs(names)
    assert len(set(slugs)) == len(names)
    assert max(map(len, slugs)) < 200


# --- names and plug-ins ---------------------------------------------------------------------------------------------


class Mine(pyrite.Loss):
    """Nothing."""

    def at_label(self, scores: Tensor, labels: Tensor) -> Tensor:
        return 0 * scores.sum(1)


class Wide(pyrite.Loss):
    """One number per score."""

    def at_label(self, scores: Tensor, labels: Tensor) -> Tensor:
        return scores


class Broken(pyrite.Loss):
    """Cannot be made."""

    def __init__(self) -> None:
        raise RuntimeError("built for\nanother torch")

    def at_label(self, scores: Tensor, labels: Tensor) -> Tensor:
        return scores


class Idle(pyrite.Method):
    """Starts nothing."""

    def start(self, context: Any) -> Any:
        return None


def three() -> pyrite.Dataset:
    return 3  # type: ignore[return-value]


@pytest.mark.parametrize(
    "name", ["lambda", "None", "nan", "inf", "between", "one_of", "\ufb01ne", "\xb5", "a b", "", "x\0"]
)
def test_names_that_no_spec_could_hold(name: str) -> None:
    with pytest.raises(
        ValueError,
        match="but must be a text of letters, digits and underscores, and not a reserved word",
    ):
        pyrite.register(name, Mine)


@pytest.mark.usefixtures("registries_as_before")
def test_what_plug_ins_may_do_wrong(tmp_path: Path) -> None:
    for name, thing in (("wide", Wide), ("broken", Broken), ("idle", Idle), ("three", three), ("клас", Mine)):
        pyrite.register(name, thing)
    assert str(pyrite.loss("клас")) == "клас"
    out = ("--out", str(tmp_path / "run"), "--epochs", "1")
    assert "broken cannot be created: RuntimeError: built for another torch" in refused(
        "train", BLOBS, "--loss", "broken", *out
    )
    assert "'three' makes a int, not a data set" in refused("train", "three", *out)
    assert "idle.start returned None, but must return a Trainer" in refused("train", BLOBS, "--method", "idle", *out)
    assert "gives losses of shape (120, 3) for labels of shape (120,)" in refused(
        "train", BLOBS, "--loss", "wide", *out
    )
    assert typed("list", "losses")[0] == 0


@pytest.mark.parametrize("name", ["model.safetensors", "samples.npz", "labels.npz"])
def test_a_file_of_another_run_is_refused(name: str, tmp_path: Path) -> None:
    """It fits: the same net, the same samples, another seed."""
    for seed in (0, 1):
        options = {"samples": 200, "epochs": 1, "model": "mlp(hidden=[4])", "validation": 0.4, "progress": False}
        pyrite.train("digits", seed=seed, out=tmp_path / str(seed), method="erm(ce)", **options)
    (tmp_path / "0" / name).write_bytes((tmp_path / "1" / name).read_bytes())
    run = pyrite.Run.load(tmp_path / "0")
    with pytest.raises(pyrite.PyriteError, match=f"{name} does not belong to .*run.json"):
        pyrite.audit(run) if name != "model.safetensors" else run.predict("digits")


def test_other_inputs_are_noticed_without_run_json(tmp_path: Path) -> None:
    numbers = np.random.default_rng(0).normal(size=(64, 2))
    options = {"epochs": 4, "model": "mlp(hidden=[4])", "progress": False}
    asked = iter([False] * 3)
    data = pyrite.Dataset("rows", numbers, np.arange(64) % 2, ("a", "b"))
    pyrite.train(data, out=tmp_path / "run", stop=lambda: next(asked, True), batch_size=16, **options)
    (tmp_path / "run" / "run.json").unlink()
    changed = pyrite.Dataset("rows", numbers + 1e-3, np.arange(64) % 2, ("a", "b"))
    with pytest.raises(pyrite.PyriteError, match=r"inputs of .* are not those"):
        pyrite.train(changed, resume=tmp_path / "run")


@pytest.mark.parametrize("written", [2, 3])
def test_other_inputs_are_noticed_before_the_first_step(
    written: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that was killed after its recipe and checksums, or all but the labels, were written."""
    frame = pd.DataFrame(
        {"a": np.arange(64.0) ** 2 / 7, "city": ["Oslo", "Rome"] * 32, "label": ["x", "x", "y", "y"] * 16}
    )
    left, replace = [written], os.replace

    def killed(source: Any, target: Any) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise SystemExit
        replace(source, target)

    monkeypatch.setattr(os, "replace", killed)
    options: dict[str, Any] = {"label": "label", "epochs": 1, "model": "mlp(hidden=[4])", "progress": False}
    with pytest.raises(SystemExit):
        pyrite.train(frame, out=tmp_path / "run", **options)
    monkeypatch.undo()
    assert not (tmp_path / "run" / "labels.npz").exists()
    with pytest.raises(pyrite.PyriteError, match=r"inputs of .* are not those"):
        pyrite.train(frame.assign(a=frame.a + 1), resume=tmp_path / "run")
    assert pyrite.train(frame, resume=tmp_path / "run").finished
