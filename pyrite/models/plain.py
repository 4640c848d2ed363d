"""Nets without shortcuts: for features, and convolutional nets."""

from abc import ABC
from dataclasses import KW_ONLY, dataclass
from functools import partial
from itertools import pairwise
from math import prod
from typing import Annotated, ClassVar, Final, final

import torch
from torch import Tensor, nn

from pyrite.checks import Count, flag, number, whole_number
from pyrite.models.architecture import Architecture, Shape, Widths
from pyrite.models.layers import TableInputs, Whitening, average_places, conv, he_weights

_Limit = Annotated[float, partial(number, wanted="a number above 0, or None", above=0)]


@final
@dataclass(frozen=True, repr=False)
class MLP(Architecture):
    """A multilayer perceptron with ReLU, for features; images are flattened."""

    _: KW_ONLY
    hidden: Widths = (256, 256)
    norm: Annotated[bool, flag] = True  # whether a batch norm follows each hidden layer
    limit: _Limit | None = None  # squash features smoothly to (-limit, limit)
    # Add an encoding of each feature by this number of quantile bins, for tables with jumps; 0 for none.
    bins: Annotated[int, partial(whole_number, least=0)] = 0
    # Whether a batch norm follows the last hidden units too. They are never negative, so that without it a step moves
    # all samples to the most frequent class more than it separates them; a loss that gives up samples far on the wrong
    # side, such as mae, then never separates them.
    centred: Annotated[bool, flag] = False

    def least_weights(self, shape: Shape, classes: int) -> int:
        return sum(before * after for before, after in pairwise((prod(shape) * (1 + self.bins), *self.hidden, classes)))

    def parts(self, shape: Shape, classes: int) -> tuple[nn.Module, nn.Module]:
        layers: list[nn.Module] = [nn.Flatten()]
        width = prod(shape)
        if self.bins or self.limit is not None:
            layers.append(TableInputs(width, self.limit, self.bins))
            width *= 1 + self.bins
        for before, after in pairwise((width, *self.hidden)):
            linear = nn.Linear(before, after, bias=not self.norm)
            nn.init.kaiming_normal_(linear.weight, nonlinearity="relu")
            layers += [linear, nn.BatchNorm1d(after), nn.ReLU()] if self.norm else [linear, nn.ReLU()]
        layers += [nn.BatchNorm1d(self.hidden[-1])] if self.centred else []
        return nn.Sequential(*layers), nn.Linear(self.hidden[-1], classes)


@final
class Linear(Architecture):
    """One layer without hidden units: logistic regression with any loss. It starts near zero."""

    learning_rate: ClassVar[float] = 0.02

    def least_weights(self, shape: Shape, classes: int) -> int:
        return prod(shape) * classes

    def parts(self, shape: Shape, classes: int) -> tuple[nn.Module, nn.Module]:
        head = nn.Linear(prod(shape), classes)
        nn.init.normal_(head.weight, std=1e-3)  # methods with two nets need two that differ
        nn.init.zeros_(head.bias)
        return nn.Flatten(), head


@final
@dataclass(frozen=True, repr=False)
class FastCNN(Architecture):
    """The default for images of 16 pixels or more, similar to the CIFAR speed-run nets.

    Whitening is followed by two convolutions per width.

    There are no residual connections: convolutions are initialised as the identity on their input channels; further
    channels have random weights. Batch norm and GELU follow each convolution. The maximum over all positions is the
    embedding. Scores are scaled down, so initial margins are small.

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
            first, second = conv(before, after), conv(after, after)
            nn.init.dirac_(first.weight.data[:before])
            nn.init.dirac_(second.weight.data)
            layers += [first, *([nn.MaxPool2d(pool)] if max(pool) > 1 else []), nn.BatchNorm2d(after), nn.GELU()]
            layers += [second, nn.BatchNorm2d(after), nn.GELU()]
        head = _Scaled(self.widths[-1], classes, bias=False)
        head.scale = self.scale
        return nn.Sequential(*layers, _Maximum()), head


@final
class _Maximum(nn.Module):
    """Global max pooling."""

    def forward(self, inputs: Tensor) -> Tensor:
        return inputs.amax((2, 3))


@final
class _Scaled(nn.Linear):
    """A linear layer whose scores are multiplied by a constant."""

    scale: float

    def forward(self, features: Tensor) -> Tensor:
        return super().forward(features) * self.scale


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
    """Four layers: the default for images with a side below 16 pixels.

    3 x 3 convolutions to 32 and 64 channels, each with pooling, are followed by 128 features.

    Ma et al., 2020 ("Normalized loss functions for deep learning with noisy labels"), and papers that compare with it.
    """

    smallest: ClassVar[int | None] = 4
    groups = ((32,), (64,))
    features = 128


@final
class CNN8(_PlainCNN):
    """Eight layers for CIFAR-10: two 3 x 3 convolutions each to 64, 128 and 196 channels, with pooling, then 256
    features.

    Ma et al., 2020, as ``CNN4``.
    """

    smallest: ClassVar[int | None] = 8
    groups = ((64, 64), (128, 128), (196, 196))
    features = 256


# Channels of the branches of each block: 1 x 1; 1 x 1 and 3 x 3; 1 x 1 and twice 3 x 3; pooling.
# Figure 5 of the paper. It prints 576 channels after 4c and 4d and 1,024 after 4e, but the branches add up to 608, 608
# and 1,056, as in published weights.
_BLOCKS: Final = (
    (64, 64, 64, 64, 96, 32),  # 3a
    (64, 64, 96, 64, 96, 64),
    (0, 128, 160, 64, 96, 0),  # 3c and 4e halve the image
    (224, 64, 96, 96, 128, 128),  # 4a
    (192, 96, 128, 96, 128, 128),
    (160, 128, 160, 128, 160, 128),
    (96, 128, 192, 160, 192, 128),
    (0, 128, 192, 192, 256, 0),
    (352, 192, 320, 160, 224, 128),  # 5a
    (352, 192, 320, 192, 224, 128),  # 5b takes the maximum where the others average
)


@final
@dataclass(frozen=True, repr=False)
class BNInception(Architecture):
    """GoogLeNet V2, or BN-Inception: 11.3 million parameters for ImageNet. Ioffe & Szegedy, 2015."""

    smallest: ClassVar[int | None] = 32
    any_size: ClassVar[bool] = True
    averages: ClassVar[bool] = True

    # The size of the embedding, which an additional linear layer computes. By default there is no such layer, and the
    # embedding is the 1,024 channels averaged over all positions.
    embedding: Count | None = None

    def parts(self, shape: Shape, classes: int) -> tuple[nn.Module, nn.Module]:
        layers: list[nn.Module] = [_unit(shape[0], 64, 2, 7), _halving()]
        layers += [_unit(64, 64, kernel=1), _unit(64, 192), _halving()]
        channels = 192
        for widths in _BLOCKS:
            layers.append(_Inception(channels, *widths, last=widths is _BLOCKS[-1]))
            channels = widths[0] + widths[2] + widths[4] + (widths[5] or channels)
        layers += average_places()
        if self.embedding is not None:
            layers.append(nn.Linear(channels, self.embedding))
        return he_weights(nn.Sequential(*layers)), nn.Linear(self.embedding or channels, classes)


@final
class _Inception(nn.Module):
    """Parallel branches whose channels are concatenated."""

    def __init__(
        self, channels: int, single: int, before_one: int, one: int, before_two: int, two: int, pooled: int, last: bool
    ) -> None:
        super().__init__()
        stride = 1 if single else 2
        first = nn.Sequential(_unit(channels, before_one, kernel=1), _unit(before_one, one, stride))
        second = nn.Sequential(_unit(channels, before_two, kernel=1), _unit(before_two, two), _unit(two, two, stride))
        if single:
            pool = nn.MaxPool2d(3, 1, 1) if last else nn.AvgPool2d(3, 1, 1)
            after_pool = nn.Sequential(pool, _unit(channels, pooled, kernel=1))
            self.branches = nn.ModuleList([_unit(channels, single, kernel=1), first, second, after_pool])
        else:
            self.branches = nn.ModuleList([first, second, _halving()])

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([branch(x) for branch in self.branches], 1)


def _unit(before: int, after: int, stride: int = 1, kernel: int = 3) -> nn.Sequential:
    return nn.Sequential(conv(before, after, stride, kernel), nn.BatchNorm2d(after), nn.ReLU())


def _halving() -> nn.MaxPool2d:
    # Padded, so that odd sizes are rounded as by the parallel convolutions with stride 2.
    return nn.MaxPool2d(3, 2, 1)
