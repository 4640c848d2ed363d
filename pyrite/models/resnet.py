"""Residual nets: those of He et al. for CIFAR and for ImageNet, and wide residual nets."""

from abc import ABC
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from itertools import pairwise
from typing import Annotated, ClassVar, Literal, final

from torch import Tensor, nn
from torch.nn.functional import dropout, pad, relu

from pyrite.checks import Count, number, require, whole_number
from pyrite.models.architecture import Architecture, Shape
from pyrite.models.layers import average_places, conv, he_weights

# From this height and width on, the large stem, which divides both by four, leaves enough for three more halvings.
_LARGE = 96


@dataclass(frozen=True, repr=False)
class _CifarResnet(Architecture, ABC):
    """Three groups of blocks with ``width``, 2 and 4 times as many channels; shortcuts have no weights (option A).

    The paper's width is 16.
    """

    smallest: ClassVar[int | None] = 4
    any_size: ClassVar[bool] = True
    averages: ClassVar[bool] = True
    depth: ClassVar[int]

    width: Count = 16

    def parts(self, shape: Shape, classes: int) -> tuple[nn.Module, nn.Module]:
        def block(before: int, after: int, stride: int) -> nn.Module:
            return _Residual(_two(before, after, stride), _Padded(after - before, stride))

        width = self.width
        stem = [conv(shape[0], width), nn.BatchNorm2d(width), nn.ReLU()]
        blocks = _blocks(block, width, (width, 2 * width, 4 * width), 3 * [(self.depth - 2) // 6])
        return he_weights(nn.Sequential(*stem, *blocks, *average_places())), nn.Linear(4 * width, classes)


@final
class Resnet20(_CifarResnet):
    """Residual net for CIFAR, 20 layers, 0.27 million parameters. He et al., 2016."""

    depth = 20


@final
class Resnet32(_CifarResnet):
    """Residual net for CIFAR, 32 layers, 0.46 million parameters. He et al., 2016."""

    depth = 32


@final
class Resnet44(_CifarResnet):
    """Residual net for CIFAR, 44 layers, 0.66 million parameters. He et al., 2016."""

    depth = 44


@final
class Resnet56(_CifarResnet):
    """Residual net for CIFAR, 56 layers, 0.85 million parameters. He et al., 2016."""

    depth = 56


@final
class Resnet110(_CifarResnet):
    """Residual net for CIFAR, 110 layers, 1.7 million parameters. He et al., 2016."""

    depth = 110


@dataclass(frozen=True, repr=False)
class _ImagenetResnet(Architecture, ABC):
    """Four groups of blocks with 64, 128, 256 and 512 channels, 3, 4, 6 and 3 blocks."""

    smallest: ClassVar[int | None] = 8
    any_size: ClassVar[bool] = True
    averages: ClassVar[bool] = True
    expansion: ClassVar[int]

    _: KW_ONLY
    # Large: a 7 x 7 convolution and a pooling that divide height and width by four, as for 224 x 224; small: a 3 x 3
    # convolution that keeps them, as for 32 x 32; auto: large for images from 96 on.
    stem: Literal["auto", "small", "large"] = "auto"

    def parts(self, shape: Shape, classes: int) -> tuple[nn.Module, nn.Module]:
        layers = _two if self.expansion == 1 else _bottleneck

        def block(before: int, width: int, stride: int) -> nn.Module:
            inside, after, shortcut = layers(before, width, stride), self.expansion * width, nn.Sequential()
            if before != after or stride > 1:  # option B of the paper
                shortcut.extend([conv(before, after, stride, 1), nn.BatchNorm2d(after)])
            return _Residual(inside, shortcut)

        large = self.stem == "large" or (self.stem == "auto" and min(shape[1:]) >= _LARGE)
        stem = [conv(shape[0], 64, 2, 7) if large else conv(shape[0], 64), nn.BatchNorm2d(64), nn.ReLU()]
        halving = [nn.MaxPool2d(3, 2, 1)] if large else []
        blocks = _blocks(block, 64, (64, 128, 256, 512), (3, 4, 6, 3), self.expansion)
        body = he_weights(nn.Sequential(*stem, *halving, *blocks, *average_places()))
        return body, nn.Linear(512 * self.expansion, classes)


@final
class Resnet34(_ImagenetResnet):
    """Residual net of 34 layers: 21.3 million parameters for CIFAR-10, 21.8 for ImageNet. He et al., 2016."""

    expansion = 1


@final
class Resnet50(_ImagenetResnet):
    """Residual net of 50 layers: 23.5 million parameters for CIFAR-10, 25.6 for ImageNet. He et al., 2016.

    The stride of a block is in its 3 x 3 convolution, as in most code and unlike the paper, where it is in the 1 x 1
    before.
    """

    expansion = 4


@final
@dataclass(frozen=True, repr=False)
class WRN(Architecture):
    """Wide residual net of any depth 6n + 4 and any width; ``wrn(depth=28, width=10)`` has 36.5 million parameters.

    Zagoruyko & Komodakis, 2016.
    """

    smallest: ClassVar[int | None] = 4
    any_size: ClassVar[bool] = True
    averages: ClassVar[bool] = True

    depth: Annotated[int, partial(whole_number, least=10)] = 28
    width: Count = 10
    dropout: Annotated[float, partial(number, least=0, below=1)] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        require((self.depth - 4) % 6 == 0, "depth", self.depth, "6n + 4: 10, 16, 22, 28, 34, 40, ...")

    @property
    def _widths(self) -> tuple[int, int, int]:
        return 16 * self.width, 32 * self.width, 64 * self.width

    def least_weights(self, shape: Shape, classes: int) -> int:
        blocks = (self.depth - 4) // 6
        return sum(9 * after * (before + (2 * blocks - 1) * after) for before, after in pairwise((16, *self._widths)))

    def parts(self, shape: Shape, classes: int) -> tuple[nn.Module, nn.Module]:
        def block(before: int, after: int, stride: int) -> nn.Module:
            return _WideBlock(before, after, stride, self.dropout or 0.0)

        widths = self._widths
        blocks = _blocks(block, 16, widths, 3 * [(self.depth - 4) // 6])
        layers = [conv(shape[0], 16), *blocks, nn.BatchNorm2d(widths[-1]), nn.ReLU(), *average_places()]
        return he_weights(nn.Sequential(*layers)), nn.Linear(widths[-1], classes)


def _blocks(
    block: Callable[[int, int, int], nn.Module],
    before: int,
    widths: Sequence[int],
    counts: Sequence[int],
    expansion: int = 1,
) -> list[nn.Module]:
    """Groups of blocks, one for each width; every group except the first starts by halving the image."""
    blocks = []
    for group, (width, count) in enumerate(zip(widths, counts, strict=True)):
        for place in range(count):
            blocks.append(block(before, width, 2 if group and not place else 1))
            before = width * expansion
    return blocks


@final
class _Residual(nn.Module):
    """Layers whose output is added to a shortcut, then ReLU."""

    def __init__(self, layers: Sequence[nn.Module], shortcut: nn.Module) -> None:
        super().__init__()
        self.layers, self.shortcut = nn.Sequential(*layers), shortcut

    def forward(self, x: Tensor) -> Tensor:
        return relu(self.layers(x) + self.shortcut(x))


def _two(before: int, width: int, stride: int) -> list[nn.Module]:
    """Two 3 x 3 convolutions."""
    return [conv(before, width, stride), nn.BatchNorm2d(width), nn.ReLU(), conv(width, width), nn.BatchNorm2d(width)]


def _bottleneck(before: int, width: int, stride: int) -> list[nn.Module]:
    """A 3 x 3 convolution between two of 1 x 1, the last of which is four times as wide."""
    layers = [conv(before, width, kernel=1), nn.BatchNorm2d(width), nn.ReLU(), conv(width, width, stride)]
    return [*layers, nn.BatchNorm2d(width), nn.ReLU(), conv(width, 4 * width, kernel=1), nn.BatchNorm2d(4 * width)]


@final
class _Padded(nn.Module):
    """A shortcut without weights (option A of the paper): new channels are zero, and strides skip positions."""

    def __init__(self, channels: int, stride: int) -> None:
        super().__init__()
        self.channels, self.stride = channels, stride

    def forward(self, x: Tensor) -> Tensor:
        if not self.channels:
            return x
        around = (0, 0, 0, 0, self.channels // 2, self.channels - self.channels // 2)
        return pad(x[:, :, :: self.stride, :: self.stride], around)


@final
class _WideBlock(nn.Module):
    """Norm, ReLU and convolution, twice. Where sizes change, the shortcut is a convolution of the normalised input."""

    def __init__(self, before: int, after: int, stride: int, drop: float) -> None:
        super().__init__()
        self.drop = drop
        self.first_norm, self.first = nn.BatchNorm2d(before), conv(before, after, stride)
        self.second_norm, self.second = nn.BatchNorm2d(after), conv(after, after)
        self.shortcut = conv(before, after, stride, 1) if before != after or stride > 1 else None

    def forward(self, x: Tensor) -> Tensor:
        active = relu(self.first_norm(x))
        out: Tensor = relu(self.second_norm(self.first(active)))
        if self.drop:
            out = dropout(out, self.drop, self.training)
        out = self.second(out)
        return out + (x if self.shortcut is None else self.shortcut(active))
