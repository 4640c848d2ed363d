"""GoogLeNet V2, the net of the video retrieval experiments."""

from dataclasses import dataclass
from typing import ClassVar, Final, final

import torch
from torch import Tensor, nn

from pyrite.checks import Count
from pyrite.models.architecture import Architecture, Shape
from pyrite.models.layers import average_places, conv, he_weights

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
