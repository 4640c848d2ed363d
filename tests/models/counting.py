"""Parameters and multiplications of nets that have shapes but no weights: nothing is drawn or computed."""

import torch
from torch.utils.flop_counter import FlopCounterMode

from pyrite.models import Network, architecture


def hollow(spec: str, shape: tuple[int, ...], classes: int) -> Network:
    described = architecture(spec)
    with torch.device("meta"):
        return Network(*described.parts(shape, classes), shape, described.any_size)


def parameters(spec: str, shape: tuple[int, ...], classes: int) -> int:
    return sum(weight.numel() for weight in hollow(spec, shape, classes).parameters())


def multiplications(spec: str, shape: tuple[int, ...], classes: int) -> int:
    """Of convolutions and linear layers for one input. torch counts the additions as well: twice as many."""
    with FlopCounterMode(display=False) as counter:
        hollow(spec, shape, classes).eval()(torch.zeros(1, *shape, device="meta"))
    return counter.get_total_flops() // 2
