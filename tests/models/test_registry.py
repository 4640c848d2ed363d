"""How nets are asked for: their spec strings, the defaults, your own modules and factories."""

import json
import time

import pytest
import torch
from torch import Tensor, nn
from typer.testing import CliRunner

import pyrite
from pyrite.cli.app import app
from pyrite.models import (
    CNN4,
    MLP,
    MODELS,
    Architecture,
    FastCNN,
    Network,
    Whitening,
    architecture,
    build_model,
    default_architecture,
    embed,
)


@pytest.mark.parametrize(
    "spec",
    ["wrn(depth=16, width=4)", "wrn(depth=16, width=1, dropout=0.3)", "mlp(hidden=(9,))", "mlp(norm=False)",
     "fast_cnn(widths=(8, 16))", "fast_cnn(scale=0.5)", "resnet50(stem='large')", "bninception(embedding=64)"],
)  # fmt: skip
def test_spec_string_goes_both_ways(spec: str) -> None:
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
        ("resnet20(depth=3)", "resnet20: .*the signature is"),
        ("mlp(hidden=[])", r"hidden is \[\]"),
        ("mlp(hidden=[8, 0])", r"hidden\[1\] is 0"),
        ("mlp(hidden='8')", "hidden is '8'"),
        ("mlp(norm=1)", "norm is 1"),
        ("fast_cnn(widths=8)", "widths is 8"),
        ("fast_cnn(scale=0)", "scale is 0"),
        ("bninception(embedding=0)", "embedding is 0"),
        ("resnet20 + resnet32", "a model cannot be added or multiplied"),
        ("7", "plain value"),
    ],
)
def test_what_cannot_be_read_is_said(spec: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        architecture(spec)


def test_defaults() -> None:
    assert default_architecture((3, 32, 32)) == default_architecture((1, 16, 40)) == FastCNN()
    assert default_architecture((1, 8, 8)) == default_architecture((3, 40, 15)) == CNN4()
    assert default_architecture((1, 3, 40)) == MLP()
    assert default_architecture((20,)) == MLP()
    net = build_model(None, (1, 16, 16), 10, seed=0)
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
    with pytest.raises(ValueError, match="returned a int"):
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


@pytest.mark.parametrize(
    ("spec", "shape"),
    [
        ("mlp(hidden=(1000000000,))", (64,)),
        ("mlp(hidden=(10, 1000000000000, 1000000000000))", (64,)),
        ("mlp(bins=1000000000000)", (2,)),
        ("fast_cnn(widths=(32, 1000000))", (3, 32, 32)),
        ("wrn(depth=16, width=100000)", (3, 32, 32)),
        ("wrn(depth=60000000000004, width=1)", (3, 32, 32)),
    ],
)
def test_a_net_larger_than_memory_is_refused_before_it_is_built(spec: str, shape: tuple[int, ...]) -> None:
    started = time.monotonic()
    with pytest.raises(
        ValueError, match=r"training .* weights would take [\d,]+ GiB of memory, more than this machine has"
    ):
        build_model(spec, shape, classes=10, seed=0)
    assert time.monotonic() - started < 5


@pytest.mark.parametrize(
    "spec", [*MODELS, "mlp(hidden=(7, 9), bins=3)", "fast_cnn(widths=(8, 16))", "wrn(depth=16, width=2)"]
)
def test_the_bound_of_weights_is_below_their_number_and_near_where_widths_are_free(spec: str) -> None:
    described = architecture(spec)
    shape = (3, 64, 64) if described.smallest else (5,)
    weights = sum(weight.numel() for weight in described.build(shape, 10, 0).parameters())
    bound = described.least_weights(shape, 10)
    assert bound <= weights
    if spec.partition("(")[0] in ("mlp", "fast_cnn", "wrn"):
        assert bound > 0.6 * weights
