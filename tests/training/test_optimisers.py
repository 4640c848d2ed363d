"""Optimisers are torch's, with the settings that are spelled."""

from typing import Any

import pytest
import torch
from torch import nn

from pyrite.training.optimisers import OPTIMISERS, SGD, Adam


@pytest.mark.parametrize(
    ("spec", "kind", "settings"),
    [
        ("sgd", torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 5e-4, "dampening": 0}),
        ("sgd(0.02, momentum=0)", torch.optim.SGD, {"lr": 0.02, "momentum": 0, "nesterov": False}),
        ("sgd(nesterov=False)", torch.optim.SGD, {"momentum": 0.9, "nesterov": False}),
        ("adam", torch.optim.Adam, {"lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0}),
        ("adam(lr=0.01, eps=0.1, betas=[0.5, 0.9])", torch.optim.Adam, {"lr": 0.01, "betas": (0.5, 0.9), "eps": 0.1}),
        ("adamw", torch.optim.AdamW, {"lr": 1e-3, "weight_decay": 0.01}),
        ("adamw(weight_decay=0.2)", torch.optim.AdamW, {"weight_decay": 0.2}),
    ],
)
def test_settings_arrive_at_torch(spec: str, kind: type, settings: dict[str, Any]) -> None:
    weight = nn.Parameter(torch.zeros(2))
    built = OPTIMISERS.read(spec).build([weight])
    assert type(built) is kind
    (group,) = built.param_groups
    assert {name: group[name] for name in settings} == settings
    assert group["params"][0] is weight


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("spec", ["sgd(lr=0.1)", "sgd(lr=0.1, momentum=0)", "adam(lr=0.1)", "adamw(lr=0.1)"])
def test_steps_are_those_of_torchs_plain_loop(spec: str, layout: torch.memory_format) -> None:
    """Also where a weight gets its first gradient later than others, and where gradients have another layout."""
    described, draws = OPTIMISERS.read(spec), torch.Generator().manual_seed(0)
    shapes = (4, 3, 5, 5), (7, 2, 3, 3)
    ours, theirs = (
        [nn.Parameter(torch.ones(shape).contiguous(memory_format=layout)) for shape in shapes] for _ in range(2)
    )
    options = dict(vars(described)) | ({"nesterov": False} if "momentum=0" in spec else {})
    pairs = [(ours, described.build(ours)), (theirs, type(described).makes(theirs, **options, foreach=False))]
    assert bool(pairs[0][1].param_groups[0]["fused"]) is (layout is torch.contiguous_format)
    for step in range(3):
        gradients = [torch.randn(shape, generator=draws) for shape in shapes]
        for weights, optimiser in pairs:
            weights[0].grad = gradients[0].clone()
            weights[1].grad = gradients[1].clone() if step else None
            optimiser.step()
    for own, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(own, other, rtol=1e-6, atol=1e-6)


def test_spelling() -> None:
    for spec in (
        "sgd(lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.0005)",
        "adam(lr=0.01, betas=(0.9, 0.999), eps=0.1, weight_decay=0.0)",
        "adamw(lr=0.001, betas=(0.9, 0.99), eps=1e-08, weight_decay=0.01)",
    ):
        assert str(OPTIMISERS.read(spec)) == spec
        assert OPTIMISERS.read(str(OPTIMISERS.read(spec))) == OPTIMISERS.read(spec)
    assert repr(Adam()) == "Adam(lr=0.001, betas=(0.9, 0.999), eps=1e-08, weight_decay=0.0)"
    own = SGD(lr=0.3)
    assert OPTIMISERS.read(own) is own
    assert set(OPTIMISERS) == {"sgd", "adam", "adamw"}


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("sgdd", "unknown optimiser 'sgdd': did you mean 'sgd'"),
        ("sgd(rate=1)", r"unexpected keyword argument 'rate'; the signature is sgd\(lr=0.1, momentum=0.9"),
        ("sgd(lr=-1)", "lr is -1, but must be a number from 0 to"),
        ("sgd(lr=1e999)", "lr is inf"),
        ("sgd(lr='fast')", "lr is 'fast'"),
        ("sgd(momentum=-0.1)", "momentum is -0.1"),
        ("adam(betas=[0.9])", r"betas is \[0.9\], but must be two numbers"),
        ("adam(betas=[0.9, 1.0])", r"betas\[1\] is 1.0, but must be a number at least 0 and below 1"),
        ("sgd(momentum=2)", "momentum is 2, but must be a number at least 0 and below 1"),
        ("sgd(nesterov=5)", "nesterov is 5, but must be True or False"),
        ("sgd(lr=True)", "lr is True, but must be a number from 0"),
        ("adam(betas=[0.9, 'a'])", r"betas\[1\] is 'a', but must be a number"),
        ("adam(betas=0.9)", "betas is 0.9"),
        ("adam(eps=-1)", "eps is -1"),
    ],
)
def test_what_is_no_optimiser(spec: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        OPTIMISERS.read(spec)
