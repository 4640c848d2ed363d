"""Convolutional nets without shortcuts: the default for images, and the two plain nets of papers on robust losses."""

from abc import ABC
from dataclasses import KW_ONLY, dataclass
from functools import partial
from itertools import pairwise
from typing import Annotated, ClassVar, final

import torch
from torch import Tensor, nn

from pyrite.checks import number
from pyrite.models.architecture import Architecture, Shape, Widths
from pyrite.models.layers import Whitening, conv


@final
@dataclass(frozen=True, repr=False)
class FastCNN(Architecture):
    """The default for images, similar to the CIFAR speed-run nets: whitening, then two convolutions per width.

    There are no residual connections: convolutions are initialised as the identity on their input channels. Then GELU,
    batch norm, global max pooling, and scores that are scaled down, so that margins start small.

    Jordan, 2024 ("94% on CIFAR-10 in 3.29 seconds on a single GPU"), at smaller widths.
    """

    smallest: ClassVar[int | None] = 4
    any_size: ClassVar[bool] = True  # from half the size that it was built for
    learning_rate: ClassVar[float] = 0.2

    _: KW_ONLY
    widths: Widths = (32, 64, 128)
    scale: Annotated[float, partial(number, above=0)] = 1 / 9

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
    layer = conv(before, after)
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
        self.linear, self.scale = nn.Linear(features, classes, bias=False), scale

    def forward(self, features: Tensor) -> Tensor:
        return torch.mul(self.linear(features), self.scale)


class _PlainCNN(Architecture, ABC):
    """Groups of 3 x 3 convolutions, each followed by a halving, then a hidden layer of features."""

    groups: ClassVar[tuple[tuple[int, ...], ...]]
    features: ClassVar[int]

    def parts(self, shape: Shape, classes: int) -> tuple[nn.Module, nn.Module]:
        channels, height, width = shape
        layers: list[nn.Module] = []
        for group in self.groups:
            for before, after in pairwise((channels, *group)):
                layers += [conv(before, after), nn.BatchNorm2d(after), nn.ReLU()]
            layers.append(nn.MaxPool2d(2))
            channels, height, width = group[-1], height // 2, width // 2
        # The public code has biases before its batch norms, which cancel them; here there are none.
        last = nn.Linear(channels * height * width, self.features, bias=False)
        body = nn.Sequential(*layers, nn.Flatten(), last, nn.BatchNorm1d(self.features), nn.ReLU())
        head = nn.Linear(self.features, classes)
        for layer in (*body.modules(), head):
            if isinstance(layer, nn.Conv2d):
                nn.init.kaiming_uniform_(layer.weight, nonlinearity="relu")
            elif isinstance(layer, nn.Linear):
                nn.init.xavier_uniform_(layer.weight)
        return body, head


@final
class CNN4(_PlainCNN):
    """Four layers for MNIST: 3 x 3 convolutions to 32 and 64 channels, each halved, then 128 features.

    Ma et al., 2020 ("Normalized loss functions for deep learning with noisy labels"), and papers that compare with it.
    """

    smallest: ClassVar[int | None] = 4
    groups = ((32,), (64,))
    features = 128


@final
class CNN8(_PlainCNN):
    """Eight layers for CIFAR-10: two 3 x 3 convolutions to 64, 128 and 196 channels each, halved, then 256 features.

    Ma et al., 2020, as ``CNN4``.
    """

    smallest: ClassVar[int | None] = 8
    groups = ((64, 64), (128, 128), (196, 196))
    features = 256
