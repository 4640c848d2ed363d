"""Residual nets for ImageNet, with a stem for large images and one for small images."""

from abc import ABC
from dataclasses import dataclass, field
from typing import ClassVar, Literal, final

from torch import Tensor, nn
from torch.nn.functional import relu

from pyrite.checks import one_of
from pyrite.models.architecture import Architecture
from pyrite.models.layers import average_places, conv, he_weights
from pyrite.models.network import Shape

__all__ = ["Resnet34", "Resnet50"]

# From this height and width on, the large stem, which divides both by four, leaves enough for three more halvings.
_LARGE = 96


@dataclass(frozen=True, repr=False)
class ImagenetResnet(Architecture, ABC):
    """Four groups of blocks with 64, 128, 256 and 512 channels, 3, 4, 6 and 3 blocks.

    Args:
        stem: ``"large"``, a 7 x 7 convolution and a pooling that divide height and width by four, as for 224 x 224;
            ``"small"``, a 3 x 3 convolution that keeps them, as for 32 x 32; ``"auto"``, large for images from 96 on.
    """

    smallest: ClassVar[int | None] = 8
    any_size: ClassVar[bool] = True
    averages: ClassVar[bool] = True

    stem: Literal["auto", "small", "large"] = field(default="auto", kw_only=True)

    def __post_init__(self) -> None:
        one_of("stem", self.stem, ("auto", "small", "large"))

    def stem_layers(self, shape: Shape) -> list[nn.Module]:
        """The first layers, from an image to 64 channels."""
        large = self.stem == "large" or (self.stem == "auto" and min(shape[1:]) >= _LARGE)
        if not large:
            return [conv(shape[0], 64), nn.BatchNorm2d(64), nn.ReLU()]
        return [conv(shape[0], 64, 2, 7), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]


@final
@dataclass(frozen=True, repr=False)
class Resnet34(ImagenetResnet):
    """Residual net of 34 layers: 21.3 million parameters for CIFAR-10, 21.8 for ImageNet. He et al., 2016.

    >>> str(Resnet34()), str(Resnet34(stem="small"))
    ('resnet34', "resnet34(stem='small')")
    """

    def parts(self, shape: Shape, classes: int) -> tuple[nn.Module, nn.Module]:
        blocks = [_Plain(*sizes) for sizes in _plan(expansion=1)]
        body = nn.Sequential(*self.stem_layers(shape), *blocks, *average_places())
        return he_weights(body), nn.Linear(512, classes)


@final
@dataclass(frozen=True, repr=False)
class Resnet50(ImagenetResnet):
    """Residual net of 50 layers: 23.5 million parameters for CIFAR-10, 25.6 for ImageNet. He et al., 2016.

    The stride of a block is in its 3 x 3 convolution, as in most code and unlike the paper, where it is in the 1 x 1
    before.
    """

    def parts(self, shape: Shape, classes: int) -> tuple[nn.Module, nn.Module]:
        blocks = [_Bottleneck(*sizes) for sizes in _plan(expansion=4)]
        body = nn.Sequential(*self.stem_layers(shape), *blocks, *average_places())
        return he_weights(body), nn.Linear(2048, classes)


@final
class _Plain(nn.Module):
    """Two 3 x 3 convolutions with a shortcut."""

    def __init__(self, before: int, width: int, stride: int) -> None:
        super().__init__()
        self.first, self.first_norm = conv(before, width, stride), nn.BatchNorm2d(width)
        self.second, self.second_norm = conv(width, width), nn.BatchNorm2d(width)
        self.shortcut = _shortcut(before, width, stride)

    def forward(self, x: Tensor) -> Tensor:
        out = self.second_norm(self.second(relu(self.first_norm(self.first(x)))))
        return relu(out + self.shortcut(x))


@final
class _Bottleneck(nn.Module):
    """A 3 x 3 convolution between two of 1 x 1, the last of which is four times as wide, with a shortcut."""

    def __init__(self, before: int, width: int, stride: int) -> None:
        super().__init__()
        self.first, self.first_norm = conv(before, width, kernel=1), nn.BatchNorm2d(width)
        self.second, self.second_norm = conv(width, width, stride), nn.BatchNorm2d(width)
        self.third, self.third_norm = conv(width, 4 * width, kernel=1), nn.BatchNorm2d(4 * width)
        self.shortcut = _shortcut(before, 4 * width, stride)

    def forward(self, x: Tensor) -> Tensor:
        out = relu(self.first_norm(self.first(x)))
        out = relu(self.second_norm(self.second(out)))
        return relu(self.third_norm(self.third(out)) + self.shortcut(x))


def _shortcut(before: int, after: int, stride: int) -> nn.Module:
    """The identity, or a 1 x 1 convolution where sizes differ (option B of the paper)."""
    if before == after and stride == 1:
        return nn.Identity()
    return nn.Sequential(conv(before, after, stride, 1), nn.BatchNorm2d(after))


def _plan(expansion: int) -> list[tuple[int, int, int]]:
    """Input channels, width and stride of each block."""
    before, blocks = 64, []
    for group, (width, count) in enumerate(zip((64, 128, 256, 512), (3, 4, 6, 3), strict=True)):
        for number in range(count):
            blocks.append((before, width, 2 if group and not number else 1))
            before = width * expansion
    return blocks
