"""What is particular to one net."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from pyrite.models import (
    WRN,
    BNInception,
    FastCNN,
    architecture,
)
from tests.models.counting import hollow


@pytest.mark.parametrize(
    ("shape", "poolings"),
    [((3, 32, 32), 3), ((1, 28, 28), 3), ((1, 8, 8), 1), ((1, 4, 4), 0), ((3, 64, 32), 3), ((1, 5, 40), 3)],
)
def test_the_default_net_adapts_to_the_size(shape: tuple[int, ...], poolings: int) -> None:
    net = FastCNN().build(shape, 10, seed=0)
    assert sum(isinstance(layer, nn.MaxPool2d) for layer in net.modules()) == poolings
    assert net(torch.zeros(2, *shape)).shape == (2, 10)
    assert net.embed(torch.zeros(2, *shape)).shape == (2, 128)


def test_convolutions_of_the_default_net_begin_as_the_identity() -> None:
    net = FastCNN().build((3, 32, 32), 10, seed=0)
    convolutions = [layer for layer in net.modules() if isinstance(layer, nn.Conv2d)]
    image = torch.randn(1, 24, 5, 5, generator=torch.Generator().manual_seed(0))
    assert torch.equal(convolutions[0](image)[:, :24], image)
    assert len(convolutions) == 6


def test_the_scale_scales_the_scores() -> None:
    inputs = torch.randn(2, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    one, half = (FastCNN(scale=scale).build((1, 8, 8), 3, seed=0).eval()(inputs) for scale in (1.0, 0.5))
    assert torch.allclose(one, 2 * half)


def test_stems() -> None:
    def places(stem: str, side: int) -> int:
        net = hollow(f"resnet34(stem={stem!r})", (3, side, side), 2).eval()
        out: Tensor = net.body[:-2](torch.zeros(1, 3, side, side, device="meta"))  # type: ignore[index]
        return out.shape[-1]

    assert places("small", 32) == places("auto", 32) == 4
    assert places("large", 32) == 1
    assert places("auto", 96) == 3
    with pytest.raises(ValueError, match="stem is 'tiny'"):
        architecture("resnet34(stem='tiny')")


def test_inception_at_the_sizes_of_its_paper_and_at_odd_ones() -> None:
    net = BNInception().build((3, 224, 224), 5, seed=0).eval()
    blocks: nn.Module = net.body[:-2]  # type: ignore[index]
    with torch.inference_mode():
        assert blocks(torch.zeros(1, 3, 224, 224)).shape == (1, 1024, 7, 7)
        assert net.embed(torch.zeros(1, 3, 97, 61)).shape == (1, 1024)
    # Figure 5 of the paper: seven blocks average over neighbours, the last takes their maximum.
    assert sum(isinstance(layer, nn.AvgPool2d) for layer in net.modules()) == 7
    assert [layer.stride for layer in blocks[-1].modules() if isinstance(layer, nn.MaxPool2d)] == [1]  # type: ignore[index]
    small = BNInception(embedding=16).build((3, 32, 32), 5, seed=0)
    assert small.embed(torch.zeros(2, 3, 32, 32)).shape == (2, 16)
    assert architecture("bninception(embedding=16)") == BNInception(embedding=16)


def test_shortcuts_of_the_cifar_nets_have_no_weights() -> None:
    net = architecture("resnet20").build((3, 8, 8), 2, seed=0).eval()
    body: nn.Sequential = net.body  # type: ignore[assignment]
    with torch.no_grad():
        for name, weight in body.named_parameters():
            if ".layers.4." in name:
                weight.zero_()  # what is left of a block is its shortcut
    images = torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    # Of 8 x 8 places every fourth is left in the end, of 64 channels the 16 in the middle.
    expected = torch.zeros(2, 64)
    expected[:, 24:40] = body[:3](images)[:, :, ::4, ::4].mean((2, 3))
    assert torch.allclose(net.embed(images), expected, atol=1e-6)


def test_shortcuts_of_wide_blocks_see_what_was_normalised() -> None:
    block: nn.Module = architecture("wrn(depth=10, width=2)").build((3, 8, 8), 2, seed=0).eval().body[1]  # type: ignore[index]
    with torch.no_grad():
        block.second.weight.zero_()  # type: ignore[union-attr]
    assert block(torch.full((1, 16, 8, 8), -1.0)).abs().max() == 0  # ReLU has taken it all away
    assert block(torch.ones(1, 16, 8, 8)).abs().max() > 0.1


@pytest.mark.parametrize(
    ("spec", "shape", "variance"),
    [
        # He et al., 2015: 2 / fan-out keeps the size of gradients, 2 / fan-in that of features.
        ("resnet20", (3, 8, 8), {"Conv2d": lambda before, after: 2 / after}),
        ("wrn(depth=10, width=2)", (3, 8, 8), {"Conv2d": lambda before, after: 2 / after}),
        ("resnet34", (3, 8, 8), {"Conv2d": lambda before, after: 2 / after}),
        ("bninception", (3, 32, 32), {"Conv2d": lambda before, after: 2 / after}),
        ("mlp", (30,), {"Linear": lambda before, after: 2 / before}),
        # Ma et al., 2020, public code: He's for convolutions, for the others Glorot & Bengio, 2010.
        ("cnn8", (3, 16, 16), {"Conv2d": lambda i, o: 2 / i, "Linear": lambda i, o: 2 / (i + o)}),
    ],
)
def test_initial_variances(spec: str, shape: tuple[int, ...], variance: dict[str, Callable[[int, int], float]]) -> None:
    body, seen = architecture(spec).build(shape, 10, seed=0).body, set()
    for layer in body.modules():
        kind = type(layer).__name__
        if kind not in variance or layer.weight.numel() < 4000:
            continue
        seen.add(kind)
        after, before, *kernel = layer.weight.shape
        expected = variance[kind](before * math.prod(kernel), after * math.prod(kernel))
        # The variance of n normal numbers has a relative standard error of sqrt(2 / n); of uniform ones, a smaller one.
        assert layer.weight.var().item() == pytest.approx(expected, rel=5 * math.sqrt(2 / layer.weight.numel()))
    assert seen == set(variance)


def test_dropout_acts_in_training_only() -> None:
    net = WRN(depth=10, width=1, dropout=0.5).build((1, 8, 8), 2, seed=0)
    inputs = torch.randn(4, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        assert not torch.equal(net(inputs), net(inputs))
    net.eval()
    assert torch.equal(net(inputs), net(inputs))
