"""What is particular to one net, and the door to them all."""

import json

import pytest
import torch
from torch import Tensor, nn
from typer.testing import CliRunner

import pyrite
from pyrite.cli.app import app
from pyrite.models import (
    MLP,
    MODELS,
    WRN,
    Architecture,
    BNInception,
    FastCNN,
    Network,
    Whitening,
    architecture,
    build_model,
    default_architecture,
    embed,
)
from tests.models.counting import hollow


def correlated(count: int, channels: int, side: int, seed: int = 0) -> Tensor:
    """Noise that is smoothed over neighbours and channels, so that its patches are far from white."""
    drawn = torch.randn(count, channels, side + 2, side + 2, generator=torch.Generator().manual_seed(seed))
    smooth = nn.functional.avg_pool2d(drawn, 3, 1)
    return smooth + smooth.mean(1, keepdim=True) + 0.05 * drawn[:, :, 1:-1, 1:-1]


@pytest.mark.parametrize("channels", [1, 3])
def test_whitened_patches_are_uncorrelated_and_of_variance_one(channels: int) -> None:
    images = correlated(512, channels, 12)
    layer = Whitening(channels)
    layer.fit(images, seed=0)
    out = layer(images).detach()
    half = 4 * channels
    assert torch.allclose(out[:, :half], -out[:, half:], atol=1e-6)
    rows = out[:, :half].permute(0, 2, 3, 1).reshape(-1, half).double()
    covariance = (rows - rows.mean(0)).T @ (rows - rows.mean(0)) / len(rows)
    # Variances are a little below 1 by what is added to them; the smallest are lowered most.
    assert (covariance - torch.diag(covariance.diag())).abs().max() < 1e-3
    assert covariance.diag().max() < 1
    assert covariance.diag().min() > 0.9


def test_whitening_does_not_depend_on_units_or_order_but_the_seed_chooses() -> None:
    images = correlated(3000, 1, 6)
    first, again, other, scaled = (Whitening(1) for _ in range(4))
    first.fit(images, seed=0)
    again.fit(images, seed=0)
    other.fit(images, seed=1)
    scaled.fit(255 * images, seed=0)
    assert torch.equal(first.filters, again.filters)
    assert not torch.equal(first.filters, other.filters)
    assert torch.allclose(first.filters, other.filters, atol=0.2)
    assert torch.allclose(first.filters, 255 * scaled.filters, atol=1e-4)


def test_whitening_is_frozen_and_its_bias_is_not() -> None:
    net = FastCNN().build((3, 16, 16), 4, seed=0, inputs=correlated(64, 3, 16))
    names = [name for name, _ in net.named_parameters()]
    assert "body.0.bias" in names
    assert "body.0.filters" not in names
    assert "body.0.filters" in net.state_dict()
    general = FastCNN().build((3, 16, 16), 4, seed=0)
    differing = [key for key, value in net.state_dict().items() if not torch.equal(value, general.state_dict()[key])]
    assert differing == ["body.0.filters"]


def test_the_general_filters_are_near_those_of_images() -> None:
    # The first is the mean of a patch over all pixels and channels, as it is for photographs.
    first = Whitening(3).filters[0].flatten()
    assert torch.nn.functional.cosine_similarity(first, torch.ones(12), dim=0).abs() > 0.999


@pytest.mark.parametrize(
    ("images", "words"),
    [
        (torch.zeros(4, 1, 8, 8), "one colour"),
        (torch.full((4, 1, 8, 8), torch.nan), "NaN"),
        (torch.zeros(4, 3, 8, 8), r"\(4, 3, 8, 8\)"),
        (torch.zeros(0, 1, 8, 8), r"\(0, 1, 8, 8\)"),
        (torch.zeros(4, 8), r"\(4, 8\)"),
    ],
)
def test_images_that_cannot_be_whitened(images: Tensor, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        FastCNN().build((1, 8, 8), 10, seed=0, inputs=images)


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


@pytest.mark.parametrize(
    "spec",
    ["wrn(depth=16, width=4)", "wrn(depth=16, width=1, dropout=0.3)", "mlp(hidden=(9,))", "mlp(norm=False)",
     "fast_cnn(widths=(8, 16))", "fast_cnn(scale=0.5)", "resnet50(stem='large')", "bninception(embedding=64)"],
)  # fmt: skip
def test_spelling_goes_both_ways(spec: str) -> None:
    assert str(architecture(spec)) == spec
    assert architecture(str(architecture(spec))) == architecture(spec)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("resnet21", "unknown model 'resnet21': did you mean"),
        ("wrn(depth=27)", "depth is 27, but must be 6n"),
        ("wrn(depth=4)", "depth is 4"),
        ("wrn(width=0)", "width is 0"),
        ("wrn(dropout=1)", "dropout is 1"),
        ("resnet20(depth=3)", "resnet20: .*it is called as"),
        ("mlp(hidden=[])", r"hidden is \[\]"),
        ("mlp(hidden=[8, 0])", r"hidden\[1\] is 0"),
        ("mlp(hidden='8')", "hidden is '8'"),
        ("mlp(norm=1)", "norm is 1"),
        ("fast_cnn(widths=8)", "widths is 8"),
        ("fast_cnn(scale=0)", "scale is 0"),
        ("bninception(embedding=0)", "embedding is 0"),
        ("resnet20 + resnet32", "a model is neither added nor multiplied"),
        ("7", "plain value"),
    ],
)
def test_what_cannot_be_read_is_said(spec: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        architecture(spec)


def test_shortcuts_of_the_cifar_nets_have_no_weights() -> None:
    net = architecture("resnet20").build((3, 8, 8), 2, seed=0).eval()
    body: nn.Sequential = net.body  # type: ignore[assignment]
    with torch.no_grad():
        for name, weight in body.named_parameters():
            if "second_norm" in name:
                weight.zero_()  # what is left of a block is its shortcut
    images = correlated(2, 3, 8)
    # Of 8 x 8 places every fourth is left in the end, of 64 channels the 16 in the middle.
    expected = torch.zeros(2, 64)
    expected[:, 24:40] = body[:3](images)[:, :, ::4, ::4].mean((2, 3))
    assert torch.allclose(net.embed(images), expected, atol=1e-6)


def test_dropout_acts_in_training_only() -> None:
    net = WRN(depth=10, width=1, dropout=0.5).build((1, 8, 8), 2, seed=0)
    inputs = torch.randn(4, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        assert not torch.equal(net(inputs), net(inputs))
    net.eval()
    assert torch.equal(net(inputs), net(inputs))


def test_defaults() -> None:
    assert default_architecture((3, 32, 32)) == FastCNN()
    assert default_architecture((1, 3, 40)) == MLP()
    assert default_architecture((20,)) == MLP()
    net = build_model(None, (1, 8, 8), 10, seed=0)
    assert isinstance(net, Network)
    assert isinstance(net.body[0], Whitening)  # type: ignore[index]


class Own(nn.Module):
    """Scores only."""

    def __init__(self, shape: tuple[int, ...], classes: int) -> None:
        super().__init__()
        self.layer = nn.Linear(shape[0], classes)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.layer(inputs)


def test_a_module_of_ones_own_comes_back_untouched() -> None:
    own = Own((4,), 2)
    assert build_model(own, (4,), 2, seed=0) is own
    with pytest.raises(ValueError, match="Own has no method embed"):
        embed(own, torch.zeros(1, 4))


def test_embeddings_of_a_module_of_ones_own() -> None:
    class Embedding(Own):
        def embed(self, inputs: Tensor) -> Tensor:
            return 2 * inputs

    class Words(Own):
        """The layer of that name is a table, and no embeddings of the inputs."""

        def __init__(self, shape: tuple[int, ...], classes: int) -> None:
            super().__init__(shape, classes)
            self.embed = nn.Embedding(10, 4)

    assert torch.equal(embed(Embedding((4,), 2), torch.ones(1, 4)), torch.full((1, 4), 2.0))
    with pytest.raises(ValueError, match="Words has no method embed"):
        embed(Words((4,), 2), torch.zeros(1, 4, dtype=torch.long))


def test_a_factory_is_called_with_shape_and_classes_and_a_seed_of_its_own() -> None:
    state = torch.get_rng_state()
    first, again, other = (build_model(Own, [4], 3, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), state)
    assert isinstance(first, Own)
    assert torch.equal(first.layer.weight, again.layer.weight)
    assert not torch.equal(first.layer.weight, other.layer.weight)
    assert first.layer.weight.shape == (3, 4)


def test_what_is_no_model_is_refused() -> None:
    with pytest.raises(ValueError, match="gave a int"):
        build_model(lambda shape, classes: 7, (4,), 2, seed=0)  # type: ignore[arg-type, return-value]
    with pytest.raises(ValueError, match="model is 7"):
        build_model(7, (4,), 2, seed=0)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="model is 7"):
        architecture(7)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="classes is 1"):
        build_model(Own, (4,), 1, seed=0)


def test_public_names_and_the_list() -> None:
    assert pyrite.MODELS is MODELS
    assert pyrite.build_model is build_model
    assert pyrite.Network is Network
    assert pyrite.Architecture is Architecture
    assert pyrite.models.embed is embed
    shown = CliRunner().invoke(app, ["list", "models", "--json"])
    assert shown.exit_code == 0
    assert [row["name"] for row in json.loads(shown.stdout)] == list(MODELS)
