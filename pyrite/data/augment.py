"""Random crops, flips and colours for a whole batch at once, and images that are smaller in the first epochs."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any, Final, Literal, NamedTuple, final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.functional import interpolate, pad as zero_pad

from pyrite.checks import number, whole_number
from pyrite.draws import Stream, order, uniforms
from pyrite.errors import PyriteError
from pyrite.spec import HasSpec

_COLOURS: Final = {"brightness": 1.0, "contrast": 1.0, "saturation": 1.0, "hue": 0.5}  # and the largest changes
_GREY: Final = (0.299, 0.587, 0.114)  # how bright red, green and blue look: ITU-R BT.601
_WHOLE_AFTER: Final = 2 / 3  # of the run; the last third is trained on whole images, as those that are predicted are


class Draws(NamedTuple):
    """The position of the crop of each image, whether it is mirrored, and how its colours are changed."""

    top: Tensor
    left: Tensor
    mirrored: Tensor | None
    colour: Tensor | None = None

    def at(self, rows: Any) -> "Draws":
        """The draws of some images."""
        return Draws(*(part if part is None else part[rows] for part in self))  # type: ignore[arg-type]

    def moved(self, device: torch.device) -> "Draws":
        """The draws on a device."""
        return Draws(*(part if part is None else part.to(device) for part in self))  # type: ignore[arg-type]


def crop_and_flip(images: Tensor, rows: Tensor, draws: Draws, size: tuple[int, int]) -> Tensor:
    """``images[rows]``, each cropped to ``size`` at its own position, and mirrored or not."""
    # All possible crops are a view of the images, so that one indexing gives the whole batch without other copies.
    crops = images.unfold(2, size[0], 1).unfold(3, size[1], 1)[rows, :, draws.top, draws.left]
    return crops if draws.mirrored is None else crops.where(~draws.mirrored[:, None, None, None], crops.flip(-1))


def _amounts(name: str, jitter: object) -> tuple[float, ...]:
    if not isinstance(jitter, list | tuple) or len(jitter) != len(_COLOURS):
        raise PyriteError(f"{name} is {jitter!r}, but must be four numbers: {', '.join(_COLOURS)}")
    limits = zip(_COLOURS.items(), jitter, strict=True)
    return tuple(float(number(f"{name}: {colour}", n, least=0, most=most)) for (colour, most), n in limits)


@final
@dataclass(repr=False, eq=False)
class CropFlip(HasSpec):
    """Random crops, horizontal flips and colour jitter of images.

    Args:
        pad: the number of pixels added on each side before cropping.
        crop: the height and width of the crop; by default the size of the image.
        flip: ``"alternate"`` mirrors a random half of the samples in one epoch and the other half in the next, so two
            epochs contain each image and its mirror image; ``"random"`` draws in each epoch; ``"none"`` never mirrors.
        edge: the padding: ``"zeros"`` (black) or ``"reflect"``.
        place: the position of the crop: ``"random"``, or ``"centre"`` as for testing.
        jitter: the ranges of brightness, contrast, saturation and hue: ``[0.4, 0.4, 0.4, 0.2]`` multiplies the first
            three by factors from 0.6 to 1.4 and rotates the hue by up to a fifth of the circle. None disables jitter.

    >>> str(CropFlip(pad=2))
    "crop_flip(pad=2, flip='alternate', edge='zeros', place='random')"

    Alternating flips: Jordan, 2024.
    """

    pad: Annotated[int, partial(whole_number, least=0, wanted="a whole number of pixels, 0 or more")] = 4
    crop: Annotated[int, partial(whole_number, least=1, wanted="a whole number of pixels, 1 or more")] | None = None
    flip: Literal["alternate", "random", "none"] = "alternate"
    edge: Literal["zeros", "reflect"] = "zeros"
    place: Literal["random", "centre"] = "random"
    jitter: Annotated[Sequence[float], _amounts] | None = None

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
        rows, columns = (np.pad(np.arange(side), self.pad, mode="reflect") for side in images.shape[2:])
        return images[:, :, rows][:, :, :, columns]

    def draw(
        self, height: int, width: int, index: npt.NDArray[np.int64], count: int, seed: int, epoch: int, view: int = 0
    ) -> Draws:
        """Draw the transformations of an epoch in which sample ``index[i]`` of ``count`` samples is at position i.

        Every ``view`` of the epoch has other draws.
        """
        key = (epoch, view) if view else (epoch,)
        size, mirrored = self.size(height, width), None
        positions = [side + 2 * self.pad - cut + 1 for side, cut in zip((height, width), size, strict=True)]
        if self.place == "centre":
            top, left = (torch.full((len(index),), possible // 2) for possible in positions)
        else:
            drawn = uniforms(seed, Stream.CROP, 2 * len(index), *key).reshape(2, -1)
            top, left = (torch.from_numpy((u * n).astype(np.int64)) for u, n in zip(drawn, positions, strict=True))
        if self.flip == "random":
            mirrored = torch.from_numpy(uniforms(seed, Stream.FLIP, len(index), *key) < 0.5)
        elif self.flip == "alternate":
            # Which half is mirrored first depends on the sample, not on its position in the epoch.
            mirrored = torch.from_numpy(order(seed, Stream.FLIP, count)[index] % 2 == (epoch + view) % 2)
        colour = None if self.jitter is None else draw_colours(self.jitter, len(index), seed, *key)
        return Draws(top, left, mirrored, colour)


def draw_colours(jitter: Sequence[float], count: int, seed: int, *key: int) -> Tensor:
    """Three factors and a turn of the hue for every image of an epoch."""
    drawn = torch.from_numpy(uniforms(seed, Stream.COLOUR, 4 * count, *key).reshape(count, 4))
    return (torch.tensor([1.0, 1.0, 1.0, 0.0]) + (2 * drawn - 1) * torch.tensor(jitter)).float()


def jittered(images: Tensor, colour: Tensor) -> Tensor:
    """Images, with numbers from 0 to 255, whose brightness, contrast, saturation and hue are changed, in this order."""
    brightness, contrast, saturation, hue = (part.view(-1, 1, 1, 1) for part in colour.unbind(1))
    bright = (images * brightness).clamp(0, 255)
    coloured = images.shape[1] == 3
    weights = torch.tensor(_GREY if coloured else 1.0, device=images.device).view(1, -1, 1, 1)
    middle = (bright * weights).sum(1, keepdim=True).mean((2, 3), keepdim=True)
    images = (middle + (bright - middle) * contrast).clamp(0, 255)
    if not coloured:  # a grey image has neither saturation nor hue
        return images
    grey = (images * weights).sum(1, keepdim=True)
    return _turned((grey + (images - grey) * saturation).clamp(0, 255), hue)


def _turned(images: Tensor, turn: Tensor) -> Tensor:
    """Images whose hue is turned, as a fraction of the circle; saturation and value of HSV stay."""
    value, largest = images.max(1, keepdim=True)
    spread = value - images.amin(1, keepdim=True)
    red, green, blue = images.split(1, 1)
    safe = spread.clamp(min=1e-6)
    sixths = torch.stack([(green - blue) / safe, 2 + (blue - red) / safe, 4 + (red - green) / safe])
    hue = sixths.gather(0, largest[None])[0] + 6 * turn
    # Each colour falls from the value by the spread where the hue is far from it.
    places = (torch.tensor([5.0, 3.0, 1.0], device=images.device).view(1, 3, 1, 1) + hue) % 6
    return value - spread * torch.minimum(places, 4 - places).clamp(0, 1)


@final
@dataclass(frozen=True)
class Growth:
    """The sides of images by epoch: the fraction ``first`` of each at first, then along a line to the whole image.

    >>> growth = Growth(first=0.5, epochs=12)
    >>> [growth.side(32, epoch) for epoch in range(12)]
    [16, 18, 20, 22, 24, 26, 28, 30, 32, 32, 32, 32]

    Tan & Le, 2021 ("EfficientNetV2"), train on growing images.
    """

    first: float
    epochs: int
    rising: int = field(init=False)  # epochs with smaller images; the last one always has whole images

    def __post_init__(self) -> None:
        number("first", self.first, above=0, most=1)
        object.__setattr__(self, "rising", int(_WHOLE_AFTER * whole_number("epochs", self.epochs, 1) + 1e-9))

    def side(self, whole: int, epoch: int) -> int:
        """Of images with a side of ``whole`` pixels, in an epoch counted from 0; an even number until it is whole."""
        if epoch >= self.rising:
            return whole
        fraction = self.first + (1 - self.first) * epoch / self.rising
        return min(whole, max(2, 2 * round(fraction * whole / 2)))

    def resized(self, images: Tensor, epoch: int) -> Tensor:
        """A batch of images as an epoch shows them: each pixel is a mean over those that it replaces."""
        size = [self.side(whole, epoch) for whole in images.shape[2:]]
        if size == list(images.shape[2:]):
            return images
        return interpolate(images, size=size, mode="bilinear", antialias=True).to(memory_format=torch.contiguous_format)
