"""A configuration has everything that decides a run, is written as its recipe, and can be read again."""

import math
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import pyrite
from pyrite.data import Dataset
from pyrite.processes import fast_bfloat16, pick_device
from pyrite.training import Config, resolve


def made(shape: tuple[int, ...], test: bool) -> Dataset:
    images = len(shape) == 3
    inputs = np.zeros((6, *shape), np.uint8 if images else np.float32)
    part = Dataset("part", inputs, np.arange(6) % 2, ("a", "b"))
    return Dataset("made", inputs, np.arange(6) % 2, ("a", "b"), test=part if test else None)


def test_an_object_that_holds_no_samples_is_named_by_its_type() -> None:
    with pytest.raises(ValueError, match="data is of type object, but must be a name, a path or samples"):
        resolve(object())  # type: ignore[arg-type]


def test_resolved_leaves_nothing_open() -> None:
    config = resolve("digits", method="erm(ce)").config
    recipe = {
        "data": "digits",
        "label": "",
        "features": "none",
        "method": "erm(ce)",
        "drop_suspects": 0.0,
        "model": "cnn4",
        "epochs": 30,
        "batch_size": 128,
        "optimiser": "sgd(lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.0005)",
        "schedule": "linear(warmup=6.0)",
        "clip": 0.0,
        "accumulate": 1,
        "augment": "none",
        "grow": 1.0,
        "mirror": False,
        "validation": 0.0,
        "keep": "best",
        "precision": "float32",
        "compile": False,
        "checkpoint_every": 0,
        "seed": 0,
        "device": "cpu",
    }
    assert config.to_dict() == recipe
    assert resolve(**{name: value for name, value in recipe.items() if name != "data"}, data="digits").config == config
    with pytest.raises(AttributeError, match="cannot be changed"):
        config.epochs = 3
    with pytest.raises(AttributeError, match="no attribute 'epoch'"):
        config.epoch  # noqa: B018


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
    config = resolve("digits", **{"method": "erm(imae(T=8))", **values}).config
    assert config.optimiser.lr == pytest.approx(rate, rel=0.01)
    assert config.clip == clip


def test_every_spec_is_written_in_full() -> None:
    values: dict[str, Any] = {
        "noise": "symmetric(0.4)",
        "model": "mlp(hidden=[4])",
        "optimiser": "adam(0.01)",
        "schedule": "steps([2])",
        "augment": "crop_flip",
        "method": "erm(ce(weight=[1,1,1,1,1,1,1,1,1,2]))",
    }
    recipe = resolve("digits", **values).config.to_dict()
    assert recipe["noise"] == "symmetric(rate=0.4)"
    assert recipe["model"] == "mlp(hidden=(4,))"
    assert recipe["optimiser"] == "adam(lr=0.01, betas=(0.9, 0.999), eps=1e-08, weight_decay=0.0)"
    assert recipe["schedule"] == "steps(at=(2,), factor=0.1, by='epoch')"
    assert recipe["augment"] == "crop_flip(pad=4, flip='alternate', edge='zeros', place='random')"
    assert recipe["method"].endswith("1.0, 2.0]))")


@pytest.mark.parametrize(
    ("shape", "test", "model", "augment", "validation"),
    [
        ((4,), True, "mlp", "none", 0.05),
        ((4,), False, "mlp", "none", 0.1),
        ((1, 40, 15), True, "cnn4", "none", 0.05),
        ((3, 16, 40), True, "fast_cnn", "crop_flip(pad=1, flip='alternate', edge='reflect', place='random')", 0.05),
        ((1, 28, 28), True, "fast_cnn", "crop_flip(pad=1, flip='none', edge='reflect', place='random')", 0.05),
        ((3, 32, 32), True, "fast_cnn", "crop_flip(pad=2, flip='alternate', edge='reflect', place='random')", 0.05),
    ],
)
def test_what_suits_the_data(shape: tuple[int, ...], test: bool, model: str, augment: str, validation: float) -> None:
    config = resolve(made(shape, test)).config
    assert (str(config.model), config.to_dict()["augment"], config.validation) == (model, augment, validation)
    assert config.optimiser.lr == config.model.learning_rate


def test_toml_round_trip(tmp_path: Path) -> None:
    odd = 'a "quoted" \\ name\nwith é and 日本'
    values = {"data": odd, "noise": "symmetric(rate=0.4)", "clip": 0.1 + 0.2, "validation": 0.1, "seed": 2**60}
    config = Config({**values, "compile": True, "features": "none", "model": lambda shape, classes: None})
    written = tomllib.loads(config.to_toml())
    assert written == config.to_dict() | {"version": 1}
    assert written | values == written
    assert written["model"] == {"python": "<lambda>"}
    path = tmp_path / "recipe.toml"
    path.write_text(config.to_toml(), encoding="utf-8")
    assert Config.load(path) == config


def test_a_truncated_recipe_is_no_recipe(tmp_path: Path) -> None:
    text, path = resolve("digits").config.to_toml(), tmp_path / "recipe.toml"
    for end in range(len(text) - 1):
        path.write_text(text[:end])
        with pytest.raises(ValueError, match=r"cannot read .*recipe\.toml"):
            Config.load(path)


def test_recipes_of_later_versions(tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text("version = 99\n")
    with pytest.raises(ValueError, match="its version is 99, but this version of pyrite reads recipes up to 1"):
        resolve("digits", config=tmp_path / "run.toml")


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"epoch": 3}, "unknown setting 'epoch': did you mean 'epochs'"),
        ({"qqqq": 3}, "unknown setting 'qqqq': there are: accumulate, annotator"),
        ({"epochs": "3"}, "epochs is '3', but must be a valid integer"),
        ({"epochs": 0}, "epochs is 0, but must be greater than or equal to 1"),
        ({"batch_size": 1.5}, "batch_size is 1.5"),
        ({"clip": -1.0}, "clip is -1.0"),
        ({"clip": float("nan")}, "clip is nan"),
        ({"validation": 1.0}, "validation is 1.0, but must be less than 1"),
        ({"precision": "half"}, "precision is 'half'"),
        ({"seed": -1}, "seed is -1"),
        ({"samples": -1}, "samples is -1"),
        ({"checkpoint_every": -1}, "checkpoint_every is -1"),
        ({"compile": 1}, "compile is 1"),
    ],
)
def test_what_is_no_recipe(values: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said) as error:
        Config({"data": "digits", **values})
    assert "\n" not in str(error.value)
    with pytest.raises(ValueError, match="data is missing"):
        Config({})


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
        ({"loss": "ce", "method": "erm(mae)"}, "method and loss are both given: pass the loss as an argument"),
        ({"loss": "ce(reduction='none')"}, "training uses the mean, so omit reduction"),
        (
            {"lr": 0.1, "optimiser": "sgd(lr=0.2)"},
            r"lr is given twice, alone and in the optimiser: omit one, or change 'sgd\(lr=0.2\)'",
        ),
        ({"lr": 0.1, "optimiser": "sgd(0.2)"}, "lr is given twice"),
        ({"lr": 0.1, "optimiser": pyrite.training.optimisers.SGD()}, "lr is given twice"),
        ({"lr": -0.1}, "lr is -0.1, but must be a number, 0 or more"),
        ({"config": "/nowhere/run.toml"}, "cannot read /nowhere/run.toml"),
    ],
)
def test_what_cannot_be_resolved(values: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        resolve("digits", **values)


def test_data_is_needed_and_known() -> None:
    with pytest.raises(
        ValueError, match="data is missing: pass a name such as 'digits', a folder of images, or a file"
    ):
        resolve()
    with pytest.raises(ValueError, match="did you mean 'digits'"):
        resolve("digit")


def test_options_come_before_the_file(tmp_path: Path) -> None:
    config = tmp_path / "run.toml"
    config.write_text(
        "data = 'digits'\nepochs = 3\nmethod = 'erm(ce)'\noptimiser = 'sgd(lr=0.5, momentum=0.3)'\nseed = 4\n"
    )
    job = resolve(config=config)
    found = job.config
    assert (found.epochs, str(found.method), found.seed, job.data.name) == (3, "erm(ce)", 4, "digits")
    changed = resolve(config=config, epochs=5, loss="mae", lr=0.25, seed=None).config
    assert (changed.epochs, str(changed.method), changed.seed) == (5, "erm(mae)", 4)
    assert str(changed.optimiser) == "sgd(lr=0.25, momentum=0.3, nesterov=True, weight_decay=0.0005)"
    assert str(resolve("digits", lr=0.3).config.optimiser).startswith("sgd(lr=0.3, momentum=0.9")
    assert str(resolve("digits", lr=0.3, optimiser="adam").config.optimiser).startswith("adam(lr=0.3, betas")
    config.write_text("loss = 'mae'\noptimizer = 'adam'\nminutes = 1\n")
    short = resolve("digits", config=config, epochs=2, lr=0.5).config
    assert (str(short.method), short.epochs, short.optimiser.lr) == ("erm(mae)", 2, 0.5)
    assert type(short.optimiser) is type(resolve("digits", optimizer="adam").config.optimiser)
    config.write_text("epochs = \n")
    with pytest.raises(ValueError, match=f"cannot read {config}"):
        resolve("digits", config=config)


def test_objects_instead_of_texts() -> None:
    given = resolve(
        "digits",
        loss=pyrite.GCE(q=0.5),
        noise=pyrite.noise_model("symmetric(0.2)"),
        optimiser=pyrite.training.optimisers.SGD(lr=0.3),
    ).config
    assert given == resolve("digits", loss="gce(q=0.5)", noise="symmetric(0.2)", optimiser="sgd(lr=0.3)").config
    assert resolve("digits", method=pyrite.ERM(pyrite.CE())).config.method == pyrite.method("erm(ce)")


@pytest.mark.parametrize("fast", [True, False])
def test_bfloat16_where_convolutions_take_the_time(fast: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyrite.training.defaults.fast_bfloat16", lambda device: fast)
    sides = {side: made((3, side, side), test=True) for side in (16, 24)}
    features = made((3,), test=True)
    assert resolve(sides[24]).config.precision == ("bfloat16" if fast else "float32")
    assert resolve(sides[24], precision="float32").config.precision == "float32"
    assert resolve(sides[16]).config.precision == "float32"
    assert resolve(features).config.precision == "float32"
    assert resolve(sides[24], model="resnet20").config.precision == "float32"
    assert resolve(sides[24], method="meta_weight").config.precision == "float32"


@pytest.mark.parametrize(("capabilities", "fast"), [({"avx512_bf16": True}, True), ({"amx_bf16": False}, False)])
def test_what_is_fast_at_bfloat16(capabilities: dict[str, bool], fast: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: capabilities, raising=False)
    assert fast_bfloat16("cpu") is fast
    monkeypatch.delattr(torch.cpu, "get_capabilities", raising=False)  # of newer versions of torch
    assert not fast_bfloat16("cpu")
    assert not fast_bfloat16("meta")


@pytest.mark.parametrize(("cuda", "mps", "device"), [(True, True, "cuda"), (False, True, "mps"), (False, False, "cpu")])
def test_the_device_is_the_accelerator_that_is_there(
    cuda: bool, mps: bool, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: cuda)
    monkeypatch.setattr("torch.backends.mps.is_available", lambda: mps)
    assert [pick_device(name) for name in ("auto", "cuda:1", "cpu")] == [device, "cuda:1", "cpu"]
    assert resolve(made((3,), test=False), model="mlp").config.device == device


def test_a_name_that_is_not_utf_8() -> None:
    with pytest.raises(pyrite.PyriteError, match=r"data is 'a\\udcff.csv', which is not UTF-8: rename the file"):
        Config({"data": "a\udcff.csv"}).to_toml()
