"""A recipe says everything, and can be read again."""

import math
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import pyrite
from pyrite.data import Dataset, load
from pyrite.processes import fast_bfloat16
from pyrite.training import Recipe, resolve


def made(shape: tuple[int, ...], test: bool) -> Dataset:
    images = len(shape) == 3
    inputs = np.zeros((6, *shape), np.uint8 if images else np.float32)
    part = Dataset("part", inputs, np.arange(6) % 2, ("a", "b"))
    return Dataset("made", inputs, np.arange(6) % 2, ("a", "b"), test=part if test else None)


def test_resolved_leaves_nothing_open() -> None:
    recipe = Recipe.make(data="digits").resolved(load("digits"))
    assert recipe.model_dump() == {
        "data": "digits",
        "label": "",
        "text": "",
        "ignore": "",
        "name": "",
        "features": "none",
        "method": "auto",
        "noise": "",
        "corrections": "",
        "drop_suspects": 0.0,
        "model": "fast_cnn",
        "epochs": 30,
        "iterations": None,
        "batch_size": 128,
        "optimiser": "sgd(lr=0.2, momentum=0.9, nesterov=True, weight_decay=0.0005)",
        "schedule": "linear(warmup=6.0)",
        "clip": 0.0,
        "accumulate": 1,
        "augment": "none",
        "grow": 1.0,
        "mirror": False,
        "samples": None,
        "validation": 0.05,
        "keep": "best",
        "precision": "float32",
        "compile": False,
        "checkpoint_every": 0,
        "seed": 0,
        "device": "cpu",
    }
    assert recipe.resolved(load("digits")) == recipe


@pytest.mark.parametrize(
    ("values", "rate", "clip"),
    [
        ({"model": "mlp"}, 0.1 / (0.5 * math.exp(2)), 1.0),  # the largest weight is exp(T/4)/2
        ({"model": "resnet20"}, 0.1, 1.0),
        ({"model": "fast_cnn"}, 0.2 / (0.5 * math.exp(2)), 1.0),
        ({"model": "resnet20", "clip": 0.0}, 0.1 / (0.5 * math.exp(2)), 0.0),  # nothing else bounds the step
        ({"model": "resnet20", "method": "erm(4*ce)"}, 0.025, 0.0),
        ({"model": "resnet20", "method": "elr"}, 0.1 / pyrite.methods.method("elr").largest_weight, 1.0),
    ],
)
def test_the_rate_of_strong_losses(values: dict[str, Any], rate: float, clip: float) -> None:
    recipe = Recipe.make(data="digits", **{"method": "erm(imae(T=8))", **values}).resolved(load("digits"))
    assert float(recipe.optimiser.partition("lr=")[2].partition(",")[0]) == pytest.approx(rate, rel=0.01)
    assert recipe.clip == clip


def test_every_spec_is_written_in_full() -> None:
    values: dict[str, Any] = {
        "noise": "symmetric(0.4)",
        "model": "mlp(hidden=[4])",
        "optimiser": "adam(0.01)",
        "schedule": "steps([2])",
        "augment": "crop_flip",
        "method": "erm(ce(weight=[1,1,1,1,1,1,1,1,1,2]))",
    }
    recipe = Recipe.make(data="digits", **values).resolved(load("digits"))
    assert recipe.noise == "symmetric(rate=0.4)"
    assert recipe.model == "mlp(hidden=(4,))"
    assert recipe.optimiser == "adam(lr=0.01, betas=(0.9, 0.999), eps=1e-08, weight_decay=0.0)"
    assert recipe.schedule == "steps(at=(2,), factor=0.1, by='epoch')"
    assert recipe.augment == "crop_flip(pad=4, flip='alternate', edge='zeros', place='random')"
    assert recipe.method.endswith("1.0, 2.0]))")
    assert recipe.resolved(load("digits")) == recipe


@pytest.mark.parametrize(
    ("shape", "test", "model", "augment", "validation"),
    [
        ((4,), True, "mlp", "none", 0.05),
        ((4,), False, "mlp", "none", 0.1),
        ((1, 28, 28), True, "fast_cnn", "crop_flip(pad=1, flip='none', edge='reflect', place='random')", 0.05),
        ((3, 32, 32), True, "fast_cnn", "crop_flip(pad=2, flip='alternate', edge='reflect', place='random')", 0.05),
    ],
)
def test_what_suits_the_data(shape: tuple[int, ...], test: bool, model: str, augment: str, validation: float) -> None:
    recipe = Recipe.make(data="made").resolved(made(shape, test))
    assert (recipe.model, recipe.augment, recipe.validation) == (model, augment, validation)
    rate = pyrite.training.recipe.architecture(model).learning_rate
    assert f"lr={rate}," in recipe.optimiser


def test_toml_round_trip(tmp_path: Path) -> None:
    odd = 'a "quoted" \\ name\nwith é and 日本'
    recipe = Recipe.make(data=odd, noise="symmetric(0.4)", clip=0.1 + 0.2, validation=0.1, compile=True, seed=2**60)
    assert tomllib.loads(recipe.to_toml()) == recipe.model_dump(exclude_none=True)
    path = tmp_path / "recipe.toml"
    path.write_text(recipe.to_toml(), encoding="utf-8")
    assert Recipe.make(**Recipe.read(path)) == recipe


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"epoch": 3}, "a recipe has no 'epoch': did you mean 'epochs'"),
        ({"qqqq": 3}, "a recipe has no 'qqqq': there are: accumulate, augment"),
        ({"epochs": "3"}, "epochs is '3': input should be a valid integer"),
        ({"epochs": 0}, "epochs is 0: input should be greater than or equal to 1"),
        ({"batch_size": 1.5}, "batch_size is 1.5"),
        ({"clip": -1.0}, "clip is -1.0"),
        ({"clip": float("nan")}, "clip is nan"),
        ({"validation": 1.0}, "validation is 1.0: input should be less than 1"),
        ({"precision": "half"}, "precision is 'half'"),
        ({"seed": -1}, "seed is -1"),
        ({"samples": -1}, "samples is -1"),
        ({"checkpoint_every": -1}, "checkpoint_every is -1"),
        ({"compile": 1}, "compile is 1"),
    ],
)
def test_what_is_no_recipe(values: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said) as error:
        Recipe.make(data="digits", **values)
    assert "\n" not in str(error.value)
    with pytest.raises(ValueError, match="data is missing"):
        Recipe.make()


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"loss": "gcee"}, "unknown loss 'gcee': did you mean 'gce'"),
        ({"method": "ermm(ce)"}, "unknown method 'ermm'"),
        ({"noise": "symetric(0.4)"}, "unknown noise 'symetric': did you mean 'symmetric'"),
        ({"model": "mlpp"}, "unknown model 'mlpp': did you mean 'mlp'"),
        ({"optimiser": "sgdd"}, "unknown optimiser 'sgdd': did you mean 'sgd'"),
        ({"schedule": "cosin"}, "unknown schedule 'cosin': did you mean 'cosine'"),
        ({"augment": "cropflip"}, "unknown augmentation 'cropflip': did you mean 'crop_flip'"),
        ({"loss": "ce", "method": "erm(mae)"}, "method and loss are both given: write the loss into the method"),
        ({"loss": "ce(reduction='none')"}, "training takes the mean, so leave out reduction"),
        ({"lr": 0.1, "optimiser": "sgd(lr=0.2)"}, r"lr is given twice: alone, and in the optimiser 'sgd\(lr=0.2\)'"),
        ({"lr": 0.1, "optimiser": "sgd(0.2)"}, "lr is given twice"),
        ({"lr": 0.1, "optimiser": pyrite.training.optimisers.SGD()}, "lr is given twice"),
        ({"lr": -0.1}, "lr is -0.1: input should be greater than or equal to 0"),
        ({"config": "/nowhere/run.toml"}, "cannot read /nowhere/run.toml"),
    ],
)
def test_what_cannot_be_resolved(values: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        resolve("digits", **values)


def test_data_is_needed_and_known() -> None:
    with pytest.raises(ValueError, match="data is missing: a name such as 'digits', a folder of images, or a file"):
        resolve()
    with pytest.raises(ValueError, match="did you mean 'digits'"):
        resolve("digit")


def test_options_come_before_the_file(tmp_path: Path) -> None:
    config = tmp_path / "run.toml"
    config.write_text(
        "data = 'digits'\nepochs = 3\nmethod = 'erm(ce)'\noptimiser = 'sgd(lr=0.5, momentum=0.3)'\nseed = 4\n"
    )
    plan = resolve(config=config)
    recipe = plan.recipe
    assert (recipe.epochs, recipe.method, recipe.seed, plan.data.name) == (3, "erm(ce)", 4, "digits")
    changed = resolve(config=config, epochs=5, loss="mae", lr=0.25, seed=None).recipe
    assert (changed.epochs, changed.method, changed.seed) == (5, "erm(mae)", 4)
    assert changed.optimiser == "sgd(lr=0.25, momentum=0.3, nesterov=True, weight_decay=0.0005)"
    assert resolve("digits", lr=0.3).recipe.optimiser.startswith("sgd(lr=0.3, momentum=0.9")
    assert resolve("digits", lr=0.3, optimiser="adam").recipe.optimiser.startswith("adam(lr=0.3, betas")
    config.write_text("epochs = \n")
    with pytest.raises(ValueError, match=f"cannot read {config}"):
        resolve("digits", config=config)


def test_objects_instead_of_texts() -> None:
    given = resolve(
        "digits",
        loss=pyrite.GCE(q=0.5),
        noise=pyrite.noise_model("symmetric(0.2)"),
        optimiser=pyrite.training.optimisers.SGD(lr=0.3),
    ).recipe
    assert given == resolve("digits", loss="gce(q=0.5)", noise="symmetric(0.2)", optimiser="sgd(lr=0.3)").recipe
    assert resolve("digits", method=pyrite.ERM(pyrite.CE())).recipe.method == "erm(ce)"


@pytest.mark.parametrize("fast", [True, False])
def test_bfloat16_where_convolutions_take_the_time(fast: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyrite.training.recipe.fast_bfloat16", lambda device: fast)
    sides = {side: made((3, side, side), test=True) for side in (16, 24)}
    features = made((3,), test=True)
    assert Recipe.make(data="made").resolved(sides[24]).precision == ("bfloat16" if fast else "float32")
    assert Recipe.make(data="made", precision="float32").resolved(sides[24]).precision == "float32"
    assert Recipe.make(data="made").resolved(sides[16]).precision == "float32"
    assert Recipe.make(data="made").resolved(features).precision == "float32"
    assert Recipe.make(data="made", model="resnet20").resolved(sides[24]).precision == "float32"
    assert Recipe.make(data="made", method="meta_weight").resolved(sides[24]).precision == "float32"


@pytest.mark.parametrize(("capabilities", "fast"), [({"avx512_bf16": True}, True), ({"amx_bf16": False}, False)])
def test_what_is_fast_at_bfloat16(capabilities: dict[str, bool], fast: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: capabilities, raising=False)
    assert fast_bfloat16("cpu") is fast
    monkeypatch.delattr(torch.cpu, "get_capabilities", raising=False)  # of newer versions of torch
    assert not fast_bfloat16("cpu")
    assert not fast_bfloat16("meta")
