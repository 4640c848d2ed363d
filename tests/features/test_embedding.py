"""Embeddings of nets that were trained elsewhere: against those nets, with and without the cache."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from efficientnet_lite_pytorch import EfficientNet
from PIL import Image
from torch import Tensor, nn

import pyrite
from pyrite.data import Dataset, LazyImages
from pyrite.features import Encoder, OwnModule, State, embedding, encoder
from pyrite.features.embedding import EfficientnetLite2 as EncoderLite2
from pyrite.models import EfficientnetLite0, EfficientnetLite2
from pyrite.training import defaults, resolve

NET = "efficientnet_lite0(size=32)"
SMALL: dict[str, Any] = {"features": NET, "epochs": 2, "samples": 200, "model": "mlp(hidden=[16])"}


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PYRITE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def embedded(spec: str | Encoder, inputs: Any) -> npt.NDArray[Any]:
    described = encoder(spec)
    assert described is not None
    return described.fit(inputs, np.arange(len(inputs))).transform(inputs)


def pictures(count: int = 40, channels: int = 3, side: int = 32) -> npt.NDArray[np.uint8]:
    return np.random.default_rng(0).integers(0, 256, (count, channels, side, side)).astype(np.uint8)


class Counting(nn.Module):
    """The mean of each channel; counts how often it is called."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0
        self.factor = nn.Parameter(torch.ones(()))

    def forward(self, inputs: Tensor) -> Tensor:
        assert not self.training
        self.calls += 1
        return self.factor * inputs.mean((2, 3))


@pytest.mark.parametrize("net", [EfficientnetLite0, EfficientnetLite2])
def test_embeddings_are_those_of_the_other_package(
    cache: Path, net: type[EfficientnetLite0 | EfficientnetLite2]
) -> None:
    name = str(net())
    other = EfficientNet.from_name(name.replace("_", "-"), image_size=32).eval()
    other.load_state_dict(net.source.weights())
    with torch.inference_mode():
        places = other.extract_features((torch.from_numpy(pictures()).float() - 127) / 128)
    assert np.allclose(embedded(f"{name}(size=32)", pictures()), places.mean((2, 3)).numpy(), atol=1e-4)


def test_grey_images_are_grey_colours(cache: Path) -> None:
    grey = pictures(channels=1)
    assert np.array_equal(embedded(NET, grey), embedded(NET, np.repeat(grey, 3, 1)))


@pytest.fixture
def cached(cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache, for an encoder that counts what it computes."""
    monkeypatch.setattr(OwnModule, "cached", True)
    return cache


def test_what_was_embedded_once_is_read_again(cached: Path) -> None:
    net = Counting()
    first = embedded(OwnModule(net), pictures(600))
    assert np.allclose(first, pictures(600).mean((2, 3)) / 255, atol=1e-6)
    assert len(list(cached.rglob("*.npz"))) == 2
    calls = net.calls
    assert np.array_equal(embedded(OwnModule(net), pictures(600)), first)
    assert net.calls == calls
    embedded(OwnModule(net), pictures(600)[::-1].copy())  # other samples
    assert net.calls > calls
    with torch.no_grad():
        net.factor += 1  # other weights
    assert np.allclose(embedded(OwnModule(net), pictures(600)), 2 * first)


@pytest.mark.parametrize("damage", [lambda old: b"", lambda old: old[:-40], lambda old: old.replace(b"rows", b"cows")])
def test_a_damaged_cache_is_as_none(cached: Path, damage: Callable[[bytes], bytes]) -> None:
    first = embedded(OwnModule(Counting()), pictures())
    (file,) = cached.rglob("*.npz")
    file.write_bytes(damage(file.read_bytes()))
    assert np.array_equal(embedded(OwnModule(Counting()), pictures()), first)


def test_a_cache_that_cannot_be_written_is_not_needed(cached: Path) -> None:
    cached.write_text("a file where the folder should be")
    assert len(embedded(OwnModule(Counting()), pictures())) == 40


def test_files_of_images_and_one_that_cannot_be_read(cache: Path, tmp_path: Path) -> None:
    for number, pixels in enumerate(pictures(34)):
        Image.fromarray(pixels.transpose(1, 2, 0)).save(tmp_path / f"{number}.png")
    (tmp_path / "7.png").write_bytes(b"no image")
    lazy = LazyImages(tmp_path, [f"{number}.png" for number in range(34)], 32)
    rows = embedded(OwnModule(Counting()), lazy)
    assert np.isnan(rows[7]).all()
    kept = np.delete(np.arange(34), 7)
    assert np.array_equal(rows[kept], embedded(OwnModule(Counting()), pictures(34)[kept]))


def test_what_a_net_may_not_return(cache: Path) -> None:
    with pytest.raises(ValueError, match=r"returns \(40, 3, 32, 32\) for 40 samples"):
        embedded(OwnModule(nn.Identity()), pictures())
    with pytest.raises(ValueError, match="not finite for sample 0"):
        embedded(OwnModule(nn.Sequential(nn.Flatten(), nn.Threshold(1.0, float("nan")))), pictures())


def test_other_weights_than_at_training_are_refused() -> None:
    described = encoder(NET)
    assert described is not None
    with pytest.raises(ValueError, match="have changed since the run was trained"):
        described.restore(State({}, {"weights": "others"}))


@pytest.mark.parametrize(
    ("data", "spec", "words"),
    [
        ("blobs", NET, "requires images, but blobs has plain numbers"),
        ("digits", "efficientnet_lite0(size=7)", "size is 7"),
        ("digits", "efficientnet_lit0", "did you mean 'efficientnet_lite0'"),
    ],
)
def test_bad_features_are_refused_before_anything_is_made(data: str, spec: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=words):
        pyrite.train(data, features=spec, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_embeddings_have_defaults_of_their_own() -> None:
    config = pyrite.training.resolve("digits", features=NET, method="erm(ce)").config
    assert (str(config.model), config.augment) == ("mlp(hidden=(64,))", None)
    assert "lr=0.01," in str(config.optimiser)
    given = pyrite.training.resolve("digits", features=nn.Flatten(), loss="ce").config
    assert (given.model, given.optimiser) == (config.model, config.optimiser)


def test_a_run_on_embeddings(cache: Path, tmp_path: Path) -> None:
    run = pyrite.train("digits", out=tmp_path / "run", **SMALL)
    assert str(run.config.features) == NET
    test = pyrite.data.load("digits").test
    assert test is not None
    again = pyrite.Run.load(tmp_path / "run")
    right = (again.scores(test.inputs).argmax(1) == test.labels).mean()
    assert right == pytest.approx(run.table["final_test_accuracy"])
    assert again.model(torch.zeros(1, 1280)).shape == (1, 10)


def test_only_samples_that_are_used_are_embedded(cache: Path, tmp_path: Path) -> None:
    class Seen(nn.Flatten):
        seen = 0

        def forward(self, input: Tensor) -> Tensor:
            Seen.seen += len(input)
            return super().forward(input)

    pyrite.train("digits", out=tmp_path / "run", **SMALL | {"features": Seen()})
    assert Seen.seen == 200 + 360  # digits has 360 images to test on


def test_a_net_of_ones_own_is_passed_again(cache: Path, tmp_path: Path) -> None:
    options = SMALL | {"features": nn.Flatten()}
    pyrite.train("digits", out=tmp_path / "whole", **options)
    assert 'features = {python = "Flatten"}' in (tmp_path / "whole" / "recipe.toml").read_text()
    done = iter([False] * 2)
    pyrite.train("digits", out=tmp_path / "run", stop=lambda: next(done, True), **options)
    with pytest.raises(ValueError, match="given in Python: Flatten: pass it again as features"):
        pyrite.train(resume=tmp_path / "run")
    pyrite.train(resume=tmp_path / "run", features=nn.Flatten())
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("whole", "run")]
    assert weights[0] == weights[1]
    with pytest.raises(ValueError, match=r"run\.model takes their outputs"):
        pyrite.Run.load(tmp_path / "run").scores(pictures())
    with pytest.raises(ValueError, match="features is 3"):
        pyrite.train("digits", features=3, out=tmp_path / "other")  # type: ignore[arg-type]


def test_fine_tuning_normalises_as_the_weights_expect(tmp_path: Path) -> None:
    net = "efficientnet_lite0(size=32, pretrained=True)"
    run = pyrite.train("digits", model=net, samples=40, epochs=1, batch_size=20, out=tmp_path / "run")
    assert str(run.config.model) == net
    assert str(run.config.optimiser).startswith("adamw(lr=0.0007,")
    assert str(run.config.method) == "self_corrected(at=0, momentum=0.7)"
    assert run.facts["mean"] == [127 / 255]
    assert run.facts["std"] == [128 / 255]
    test = pyrite.data.load("digits").test
    assert test is not None
    right = (pyrite.Run.load(tmp_path / "run").scores(test.inputs).argmax(1) == test.labels).mean()
    assert right == pytest.approx(run.table["final_test_accuracy"])


def many_colours(count: int, side: int = 32) -> Dataset:
    pixels = np.broadcast_to(np.zeros((1, 3, side, side), np.uint8), (count, 3, side, side))
    return Dataset("colours", pixels, np.arange(count) % 3, ("a", "b", "c"))


def test_many_colour_images_are_learned_by_fine_tuning() -> None:
    config = resolve(many_colours(20_000), fine_tune=True).config
    assert str(config.model) == "efficientnet_lite0(size=96, pretrained=True)"
    assert str(config.method) == "self_corrected(at=0, momentum=0.7)"
    assert (config.epochs, config.batch_size) == (4, 32)
    given = resolve(many_colours(20_000), fine_tune=True, epochs=7, batch_size=64, optimiser="sgd(lr=0.1)").config
    assert (given.epochs, given.batch_size, given.optimiser.lr) == (7, 64, 0.1)


def test_runs_that_are_compared_have_one_net() -> None:
    assert str(resolve(many_colours(20_000)).config.model) == "fast_cnn"


def test_photographs_are_embedded_also_for_a_length_in_minutes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(defaults, "fitting", lambda job, *_, **__: {"model": job.config.model, "epochs": 3})
    config = resolve(many_colours(30, side=64), minutes=1).config
    assert (str(config.features), str(config.model), config.epochs) == (
        "efficientnet_lite2(size=160)", "mlp(hidden=(64,))", 3,
    )  # fmt: skip


@pytest.mark.parametrize(("seconds", "size"), [(301, 160), (299, 128), (150, 112), (20, 64), (0.1, 64)])
def test_the_size_of_embedded_photographs_is_the_largest_that_fits(
    seconds: float, size: int, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a simulated clock: an image takes a second, and the first ones ten, in which the net is built."""
    clock, data = SimpleNamespace(now=0.0), many_colours(300, side=64)

    def embed(self: object, images: npt.NDArray[Any]) -> npt.NDArray[Any]:
        clock.now += len(images) * (1.0 if clock.now else 10.0)
        return np.zeros((len(images), 2), np.float32)

    monkeypatch.setattr(EncoderLite2, "embed", embed)
    monkeypatch.setattr(embedding, "perf_counter", lambda: clock.now)
    assert EncoderLite2().within(data, None, seconds) == EncoderLite2(size=size)
    assert EncoderLite2().within(data, 150, seconds / 2) == EncoderLite2(size=size)
    assert clock.now < 80 + 0.04 * seconds + 2 * 16
    EncoderLite2().fit(data.inputs, np.arange(300)).transform(data.inputs)  # and now they are in the cache
    assert EncoderLite2().within(data, None, seconds) == EncoderLite2()


def test_embedding_within_some_minutes_is_announced_before_it_begins(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fitting(job: Any, *_: object, **__: object) -> dict[str, Any]:
        assert (
            capsys.readouterr().err == f"embedding 30 images with the pretrained net {job.config.features}; "
            "--features none trains from scratch\n"
        )
        return {"model": job.config.model, "epochs": 3}

    monkeypatch.setattr(EncoderLite2, "within", lambda self, *_: EncoderLite2(size=112))
    monkeypatch.setattr(defaults, "fitting", fitting)
    config = resolve(many_colours(30, side=64), minutes=1, shown=True).config
    assert str(config.features) == "efficientnet_lite2(size=112)"
    named = resolve(many_colours(30, side=64), minutes=1, features="efficientnet_lite2", shown=True).config
    assert str(named.features) == "efficientnet_lite2(size=160)"


@pytest.mark.parametrize(
    ("data", "settings"),
    [
        (many_colours(19_999), {}),
        (many_colours(20_000, side=31), {}),
        (many_colours(20_000), {"loss": "gce"}),
        (many_colours(20_000), {"samples": 300}),
    ],
)
def test_other_images_are_learned_from_scratch(data: Dataset, settings: dict[str, Any]) -> None:
    config = resolve(data, fine_tune=True, **settings).config
    assert (str(config.model), config.epochs, config.batch_size) == ("fast_cnn", 30, 128)
