"""The first layer of the default net: computed, and frozen."""

import pytest
import torch
from torch import Tensor, nn

from pyrite.models import (
    FastCNN,
    Whitening,
)


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


def test_whitening_does_not_depend_on_units_but_the_seed_chooses_the_images() -> None:
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
