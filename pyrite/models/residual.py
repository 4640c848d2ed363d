"""Residual nets for small images: those of He et al. for CIFAR, and wide residual nets."""

from abc import ABC
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, final

from torch import Tensor, nn
from torch.nn.functional import dropout, pad, relu

from pyrite.checks import number, whole_number
from pyrite.errors import PyriteError
from pyrite.models.architecture import Architecture
from pyrite.models.layers import average_places, conv, he_weights
from pyrite.models.network import Shape

__all__ = ["WRN", "Resnet20", "Resnet32", "Resnet44", "Resnet56", "Resnet110"]


@dataclass(frozen=True, repr=False)
class CifarResnet(Architecture, ABC):
    """Three groups of blocks with ``width``, 2 and 4 times as many channels; shortcuts have no weights (option A).

    The paper's width is 16.
    """

    smallest: ClassVar[int | None] = 4
    any_size: ClassVar[bool] = True
    averages: ClassVar[bool] = True
    depth: ClassVar[int]

    width: int = 16

    def __post_init__(self) -> None:
        whole_number("width", self.width, 1)

    def parts(self, shape: Shape, classes: int) -> tuple[nn.Module, nn.Module]:
        width = self.width
        stem = [conv(shape[0], width), nn.BatchNorm2d(width), nn.ReLU()]
        groups = _groups(_Block, (width, width, 2 * width, 4 * width), (self.depth - 2) // 6)
        return he_weights(nn.Sequential(*stem, *groups, *average_places())), nn.Linear(4 * width, classes)


@final
@dataclass(frozen=True, repr=False)
class Resnet20(CifarResnet):
    """Residual net for CIFAR, 20 layers, 0.27 million parameters. He et al., 2016."""

    depth: ClassVar[int] = 20


@final
@dataclass(frozen=True, repr=False)
class Resnet32(CifarResnet):
    """Residual net for CIFAR, 32 layers, 0.46 million parameters. He et al., 2016."""

    depth: ClassVar[int] = 32


@final
@dataclass(frozen=True, repr=False)
class Resnet44(CifarResnet):
    """Residual net for CIFAR, 44 layers, 0.66 million parameters. He et al., 2016."""

    depth: ClassVar[int] = 44


@final
@dataclass(frozen=True, repr=False)
class Resnet56(CifarResnet):
    """Residual net for CIFAR, 56 layers, 0.85 million parameters. He et al., 2016."""

    depth: ClassVar[int] = 56


@final
@dataclass(frozen=True, repr=False)
class Resnet110(CifarResnet):
    """Residual net for CIFAR, 110 layers, 1.7 million parameters. He et al., 2016."""

    depth: ClassVar[int] = 110


@final
@dataclass(frozen=True, repr=False)
class WRN(Architecture):
    """Wide residual net of any depth 6n + 4 and any width; ``wrn(depth=28, width=10)`` has 36.5 million parameters.

    >>> str(WRN(depth=16, width=4))
    'wrn(depth=16, width=4)'

    Zagoruyko & Komodakis, 2016.
    """

    smallest: ClassVar[int | None] = 4
    any_size: ClassVar[bool] = True
    averages: ClassVar[bool] = True

    depth: int = 28
    width: int = 10
    dropout: float | None = None

    def __post_init__(self) -> None:
        whole_number("depth", self.depth, 10)
        whole_number("width", self.width, 1)
        if (self.depth - 4) % 6:
            raise PyriteError(f"depth is {self.depth}, but must be 6n + 4: 10, 16, 22, 28, 34, 40, ...")
        if self.dropout is not None:
            number("dropout", self.dropout, least=0, below=1)

    def least_weights(self, shape: Shape, classes: int) -> int:
        blocks = (self.depth - 4) // 6
        return sum(9 * after * (before + (2 * blocks - 1) * after) for before, after in pairwise(self._widths))

    @property
    def _widths(self) -> tuple[int, int, int, int]:
        return 16, 16 * self.width, 32 * self.width, 64 * self.width

    def parts(self, shape: Shape, classes: int) -> tuple[nn.Module, nn.Module]:
        widths = self._widths

        def block(before: int, after: int, stride: int) -> nn.Module:
            return _WideBlock(before, after, stride, self.dropout or 0.0)

        groups = _groups(block, widths, (self.depth - 4) // 6)
        tail = [nn.BatchNorm2d(widths[-1]), nn.ReLU(), *average_places()]
        return he_weights(nn.Sequential(conv(shape[0], 16), *groups, *tail)), nn.Linear(widths[-1], classes)


@final
class _Block(nn.Module):
    """Two convolutions and a shortcut without weights: new channels are zero, and strides skip positions."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.stride, self.grow = stride, after - before
        self.first, self.first_norm = conv(before, after, stride), nn.BatchNorm2d(after)
        self.second, self.second_norm = conv(after, after), nn.BatchNorm2d(after)

    def forward(self, x: Tensor) -> Tensor:
        out = self.second_norm(self.second(relu(self.first_norm(self.first(x)))))
        if self.grow:
            x = pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, self.grow // 2, self.grow - self.grow // 2))
        return relu(out + x)


@final
class _WideBlock(nn.Module):
    """Norm, ReLU and convolution, twice. Where sizes change, the shortcut is a convolution of the normalised input."""

    def __init__(self, before: int, after: int, stride: int, rate: float) -> None:
        super().__init__()
        self.rate = rate
        self.first_norm, self.first = nn.BatchNorm2d(before), conv(before, after, stride)
        self.second_norm, self.second = nn.BatchNorm2d(after), conv(after, after)
        self.shortcut = conv(before, after, stride, 1) if before != after or stride > 1 else None

    def forward(self, x: Tensor) -> Tensor:
        active = relu(self.first_norm(x))
        out: Tensor = relu(self.second_norm(self.first(active)))
        if self.rate:
            out = dropout(out, self.rate, self.training)
        out = self.second(out)
        return out + (x if self.shortcut is None else self.shortcut(active))


def _groups(block: Callable[[int, int, int], nn.Module], widths: tuple[int, ...], count: int) -> list[nn.Module]:
    """``count`` blocks of each width after the first; every group except the first starts by halving the image."""
    blocks = []
    for group, (before, after) in enumerate(pairwise(widths)):
        blocks += [block(before, after, 2 if group else 1)]
        blocks += [block(after, after, 1) for _ in range(count - 1)]
    return blocks
