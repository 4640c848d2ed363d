"""Crop and flip for a whole batch at once."""

from collections.abc import Sequence
from typing import Literal, NamedTuple, final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.functional import pad as zero_pad

from pyrite.checks import one_of, whole_number
from pyrite.data.colour import check_jitter, draw_colours
from pyrite.draws import Stream, order, uniforms
from pyrite.errors import PyriteError
from pyrite.spec import construct

__all__ = ["CropFlip", "Draws", "crop_and_flip"]


class Draws(NamedTuple):
    """The position of the crop of each image, whether it is mirrored, and how its colours are changed."""

    top: Tensor
    left: Tensor
    mirrored: Tensor | None
    colour: Tensor | None = None

    def at(self, rows: slice | Tensor) -> "Draws":
        """The draws of these samples."""
        return Draws(*(None if drawn is None else drawn[rows] for drawn in self))  # type: ignore[arg-type]


def crop_and_flip(images: Tensor, rows: Tensor, draws: Draws, size: tuple[int, int]) -> Tensor:
    """``images[rows]``, each cropped to ``size`` at its own position, and mirrored or not.

    All possible crops are a view of the images, so that one indexing operation gives the whole batch, without a loop
    and without copying anything else.
    """
    windows = images.unfold(2, size[0], 1).unfold(3, size[1], 1)
    crops = windows[rows, :, draws.top, draws.left]
    if draws.mirrored is None:
        return crops
    return torch.where(draws.mirrored[:, None, None, None], crops.flip(-1), crops)


@final
class CropFlip:
    """Random crops and horizontal flips of images, and random colours.

    Args:
        pad: the number of pixels added on each side before cropping.
        crop: the height and width of the crop; by default those of the image.
        flip: ``"alternate"`` mirrors a random half of the samples in one epoch and the other half in the next, so
            that two epochs show each image both ways; ``"random"`` draws again in each epoch; ``"none"``.
        edge: the padding: ``"zeros"`` (black) or ``"reflect"``.
        place: the position of the crop: ``"random"``, or ``"centre"`` as for testing.
        jitter: by how much brightness, contrast, saturation and hue vary: ``[0.4, 0.4, 0.4, 0.2]`` multiplies the first
            three by a number from 0.6 to 1.4, and turns the hue by up to a fifth of the circle. By default not at all.

    Alternating flips: Jordan, 2024.
    """

    def __init__(
        self,
        pad: int = 4,
        crop: int | None = None,
        flip: Literal["alternate", "random", "none"] = "alternate",
        edge: Literal["zeros", "reflect"] = "zeros",
        place: Literal["random", "centre"] = "random",
        jitter: Sequence[float] | None = None,
    ) -> None:
        for name, value, least in (("pad", pad, 0), ("crop", crop, 1)):
            if value is not None:
                whole_number(name, value, wanted=f"a whole number of pixels, {least} or more", least=least)
        for name, word, known in (
            ("flip", flip, ("alternate", "random", "none")),
            ("edge", edge, ("zeros", "reflect")),
            ("place", place, ("random", "centre")),
        ):
            one_of(name, word, known)
        self.pad, self.crop, self.flip, self.edge, self.place = pad, crop, flip, edge, place
        self.jitter = None if jitter is None else check_jitter(jitter)

    def __repr__(self) -> str:
        return construct(self)

    def size(self, height: int, width: int) -> tuple[int, int]:
        """Height and width of a crop of images of this size."""
        size = (height, width) if self.crop is None else (self.crop, self.crop)
        if size[0] > height + 2 * self.pad or size[1] > width + 2 * self.pad:
            raise PyriteError(f"crop is {self.crop}: images are {height} x {width} with {self.pad} added on each side")
        if self.pad > max(height, width):
            raise PyriteError(f"pad is {self.pad}: images of {height} x {width} would be cut away whole")
        if self.edge == "reflect" and self.pad >= min(height, width):
            raise PyriteError(f"pad is {self.pad}: images of {height} x {width} are too small to reflect that far")
        return size

    def padded(self, images: Tensor) -> Tensor:
        """The images with padding on each side."""
        if self.pad == 0:
            return images
        if self.edge == "zeros":
            return zero_pad(images, (self.pad,) * 4)
        rows, columns = (_reflected(side, self.pad, images.device) for side in images.shape[2:])
        return images[:, :, rows][:, :, :, columns]

    def draw(self, height: int, width: int, index: npt.NDArray[np.int64], count: int, seed: int, epoch: int) -> Draws:
        """The draws of an epoch in which sample ``index[i]`` of a data set of ``count`` samples is at position i."""
        size = self.size(height, width)
        positions = [side + 2 * self.pad - cut + 1 for side, cut in zip((height, width), size, strict=True)]
        if self.place == "centre":
            top, left = (torch.full((len(index),), possible // 2) for possible in positions)
        else:
            drawn = uniforms(seed, Stream.CROP, 2 * len(index), epoch).reshape(2, -1)
            top, left = (torch.from_numpy((u * n).astype(np.int64)) for u, n in zip(drawn, positions, strict=True))
        mirrored = self._mirrored(index, count, seed, epoch)
        colour = None if self.jitter is None else draw_colours(self.jitter, len(index), seed, epoch)
        return Draws(top, left, None if mirrored is None else torch.from_numpy(mirrored), colour)

    def _mirrored(
        self, index: npt.NDArray[np.int64], count: int, seed: int, epoch: int
    ) -> npt.NDArray[np.bool_] | None:
        if self.flip == "none":
            return None
        if self.flip == "random":
            return uniforms(seed, Stream.FLIP, len(index), epoch) < 0.5
        # Which half is mirrored first depends on the sample, not on its position in the epoch.
        half: npt.NDArray[np.bool_] = order(seed, Stream.FLIP, count)[index] % 2 == epoch % 2
        return half


def _reflected(side: int, pad: int, device: torch.device) -> Tensor:
    place = torch.arange(-pad, side + pad, device=device).abs()
    return (side - 1) - ((side - 1) - place).abs()
