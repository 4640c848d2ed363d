"""The default net for images: small, and fast to train on a CPU."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import ClassVar, final

import torch
from torch import Tensor, nn

from pyrite.checks import number
from pyrite.models.architecture import Architecture, check_widths
from pyrite.models.network import Shape
from pyrite.models.whitening import Whitening

__all__ = ["FastCNN"]


@final
@dataclass(frozen=True, repr=False)
class FastCNN(Architecture):
    """The default for images, in the manner of the CIFAR speed-runs: whitening, then two convolutions per width.

    There are no residual connections: convolutions are initialised as the identity on their input channels. Then GELU,
    batch norm, global max pooling, and scores that are scaled down, so that margins start small.

    >>> str(FastCNN()), str(FastCNN(widths=[16, 32]))
    ('fast_cnn', 'fast_cnn(widths=(16, 32))')

    Jordan, 2024 ("94% on CIFAR-10 in 3.29 seconds on a single GPU"), at smaller widths.
    """

    smallest: ClassVar[int | None] = 4
    any_size: ClassVar[bool] = True  # from half the size that it was built for

    widths: Sequence[int] = field(default=(32, 64, 128), kw_only=True)
    scale: float = field(default=1 / 9, kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "widths", check_widths("widths", self.widths))
        number("scale", self.scale, above=0)

    @property
    def rate(self) -> float:
        return 0.2

    def least_weights(self, shape: Shape, classes: int) -> int:
        return sum(9 * after * (before + after) for before, after in pairwise((1, *self.widths)))

    def parts(self, shape: Shape, classes: int) -> tuple[nn.Module, nn.Module]:
        whitening = Whitening(shape[0])
        height, width = (side - whitening.patch + 1 for side in shape[1:])
        layers: list[nn.Module] = [whitening, nn.GELU()]
        for before, after in pairwise([whitening.out_channels, *self.widths]):
            # Halved only while the side is above 3: images of 32 x 32 end at 3 x 3, images of 8 x 8 at 3 x 3 too.
            pool = (2 if height > 3 else 1, 2 if width > 3 else 1)
            height, width = height // pool[0], width // pool[1]
            layers += [_dirac(before, after), *([nn.MaxPool2d(pool)] if max(pool) > 1 else [])]
            layers += [nn.BatchNorm2d(after), nn.GELU(), _dirac(after, after), nn.BatchNorm2d(after), nn.GELU()]
        return nn.Sequential(*layers, _Maximum()), _Scaled(self.widths[-1], classes, self.scale)


def _dirac(before: int, after: int) -> nn.Conv2d:
    """A convolution that starts as the identity in its first channels; the others have random weights."""
    layer = nn.Conv2d(before, after, 3, padding=1, bias=False)
    nn.init.dirac_(layer.weight.data[:before])
    return layer


@final
class _Maximum(nn.Module):
    """Global max pooling."""

    def forward(self, inputs: Tensor) -> Tensor:
        return inputs.amax((2, 3))


@final
class _Scaled(nn.Module):
    """A linear layer without bias whose scores are multiplied by a constant."""

    def __init__(self, features: int, classes: int, scale: float) -> None:
        super().__init__()
        self.linear = nn.Linear(features, classes, bias=False)
        self.scale = scale

    def forward(self, features: Tensor) -> Tensor:
        return torch.mul(self.linear(features), self.scale)
