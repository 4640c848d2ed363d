"""Random brightness, contrast, saturation and hue, for a whole batch at once."""

from collections.abc import Sequence
from typing import Final

import torch
from torch import Tensor

from pyrite.checks import number
from pyrite.draws import Stream, uniforms
from pyrite.errors import PyriteError

__all__ = ["check_jitter", "draw_colours", "jittered"]

_NAMES: Final = ("brightness", "contrast", "saturation", "hue")
_GREY: Final = (0.299, 0.587, 0.114)  # how bright red, green and blue look: ITU-R BT.601


def check_jitter(jitter: object) -> tuple[float, ...]:
    """The amounts as numbers; a ValueError if they are not four."""
    if isinstance(jitter, str) or not isinstance(jitter, Sequence) or len(jitter) != len(_NAMES):
        raise PyriteError(f"jitter is {jitter!r}, but must be four numbers: {', '.join(_NAMES)}")
    most = (1.0, 1.0, 1.0, 0.5)
    limits = zip(_NAMES, jitter, most, strict=True)
    return tuple(float(number(f"jitter: {name}", amount, least=0, most=limit)) for name, amount, limit in limits)


def draw_colours(jitter: Sequence[float], count: int, seed: int, epoch: int) -> Tensor:
    """Three factors and a turn of the hue for every image of an epoch."""
    drawn = torch.from_numpy(uniforms(seed, Stream.COLOUR, 4 * count, epoch).reshape(count, 4))
    return (torch.tensor([1.0, 1.0, 1.0, 0.0]) + (2 * drawn - 1) * torch.tensor(jitter)).float()


def jittered(images: Tensor, colour: Tensor) -> Tensor:
    """Images, with numbers from 0 to 255, whose brightness, contrast, saturation and hue are changed, in this order.

    A grey image has neither saturation nor hue.
    """
    brightness, contrast, saturation, hue = (part.view(-1, 1, 1, 1) for part in colour.unbind(1))
    bright = (images * brightness).clamp(0, 255)
    middle = _grey(bright).mean((2, 3), keepdim=True)
    images = (middle + (bright - middle) * contrast).clamp(0, 255)
    if images.shape[1] != 3:
        return images
    grey = _grey(images)
    return _turned((grey + (images - grey) * saturation).clamp(0, 255), hue)


def _grey(images: Tensor) -> Tensor:
    if images.shape[1] != 3:
        return images
    weights = torch.tensor(_GREY, device=images.device).view(1, 3, 1, 1)
    return (images * weights).sum(1, keepdim=True)


def _turned(images: Tensor, turn: Tensor) -> Tensor:
    """Images whose hue is turned, as a share of the circle; saturation and value of HSV stay."""
    value, largest = images.max(1, keepdim=True)
    spread = value - images.amin(1, keepdim=True)
    red, green, blue = images.split(1, 1)
    safe = spread.clamp(min=1e-6)
    sixths = torch.stack([(green - blue) / safe, 2 + (blue - red) / safe, 4 + (red - green) / safe])
    hue = sixths.gather(0, largest[None])[0] + 6 * turn
    # Each colour falls from the value by the spread where the hue is far from it.
    places = (torch.tensor([5.0, 3.0, 1.0], device=images.device).view(1, 3, 1, 1) + hue) % 6
    return value - spread * torch.minimum(places, 4 - places).clamp(0, 1)
