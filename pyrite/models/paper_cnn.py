"""The two plain CNNs of papers on robust losses: four layers for MNIST, eight for CIFAR-10."""

from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, final

from torch import nn

from pyrite.models.architecture import Architecture
from pyrite.models.layers import conv
from pyrite.models.network import Shape

__all__ = ["CNN4", "CNN8"]


@final
@dataclass(frozen=True, repr=False)
class CNN4(Architecture):
    """Four layers for MNIST: 3 x 3 convolutions to 32 and 64 channels, each halved, then 128 features.

    Ma et al., 2020 ("Normalized loss functions for deep learning with noisy labels"), and papers that compare with it.
    """

    smallest: ClassVar[int | None] = 4

    def parts(self, shape: Shape, classes: int) -> tuple[nn.Module, nn.Module]:
        return _parts(shape, classes, groups=((32,), (64,)), features=128)


@final
@dataclass(frozen=True, repr=False)
class CNN8(Architecture):
    """Eight layers for CIFAR-10: two 3 x 3 convolutions to 64, 128 and 196 channels each, halved, then 256 features.

    Ma et al., 2020 ("Normalized loss functions for deep learning with noisy labels"), and papers that compare with it.
    """

    smallest: ClassVar[int | None] = 8

    def parts(self, shape: Shape, classes: int) -> tuple[nn.Module, nn.Module]:
        return _parts(shape, classes, groups=((64, 64), (128, 128), (196, 196)), features=256)


def _parts(
    shape: Shape, classes: int, groups: tuple[tuple[int, ...], ...], features: int
) -> tuple[nn.Module, nn.Module]:
    channels, height, width = shape
    layers: list[nn.Module] = []
    for group in groups:
        for before, after in pairwise((channels, *group)):
            layers += [conv(before, after), nn.BatchNorm2d(after), nn.ReLU()]
        layers.append(nn.MaxPool2d(2))
        channels, height, width = group[-1], height // 2, width // 2
    # The public code has biases before its batch norms, which cancel them; here there are none.
    layers += [nn.Flatten(), nn.Linear(channels * height * width, features, bias=False), nn.BatchNorm1d(features)]
    body, head = nn.Sequential(*layers, nn.ReLU()), nn.Linear(features, classes)
    for layer in (*body.modules(), head):
        if isinstance(layer, nn.Conv2d):
            nn.init.kaiming_uniform_(layer.weight, nonlinearity="relu")
        elif isinstance(layer, nn.Linear):
            nn.init.xavier_uniform_(layer.weight)
    return body, head
