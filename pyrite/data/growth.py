"""Images that are smaller in the first epochs."""

from dataclasses import dataclass
from typing import Final, final

import torch
from torch import Tensor
from torch.nn.functional import interpolate

from pyrite.checks import number, whole_number

__all__ = ["Growth"]

_WHOLE_AFTER: Final = 2 / 3  # of the run; the last third is trained on whole images, as those that are predicted are


@final
@dataclass(frozen=True)
class Growth:
    """The sides of images by epoch: a share of the whole image at first, then along a line to the whole image.

    Small images cost less, and what is learned from them serves on larger ones.

    Args:
        first: the share of each side in the first epoch.
        epochs: the length of the run; images are whole after two thirds of it.

    >>> growth = Growth(first=0.5, epochs=12)
    >>> [growth.side(32, epoch) for epoch in range(12)]
    [16, 18, 20, 22, 24, 26, 28, 30, 32, 32, 32, 32]

    Tan & Le, 2021 ("EfficientNetV2"), train on growing images.
    """

    first: float
    epochs: int

    def __post_init__(self) -> None:
        number("first", self.first, above=0, most=1)
        whole_number("epochs", self.epochs, 1)

    @property
    def _rising(self) -> int:
        """Epochs with smaller images; the last one always has whole images."""
        return int(_WHOLE_AFTER * self.epochs + 1e-9)

    def is_whole(self, epoch: int) -> bool:
        """Whether images have grown, in an epoch counted from 0."""
        return epoch >= self._rising

    def side(self, whole: int, epoch: int) -> int:
        """Of images with a side of ``whole`` pixels, in an epoch counted from 0; an even number until it is whole."""
        if self.is_whole(epoch):
            return whole
        share = self.first + (1 - self.first) * epoch / self._rising
        return min(whole, max(2, 2 * round(share * whole / 2)))

    def resized(self, images: Tensor, epoch: int) -> Tensor:
        """A batch of images as an epoch shows them: each pixel is a mean over those that it replaces."""
        size = [self.side(whole, epoch) for whole in images.shape[2:]]
        if size == list(images.shape[2:]):
            return images
        return interpolate(images, size=size, mode="bilinear", antialias=True).to(memory_format=torch.contiguous_format)
