"""The default for features."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import prod
from typing import final

from torch import nn

from pyrite.models.architecture import Architecture, check_widths
from pyrite.models.network import Shape

__all__ = ["MLP"]


@final
@dataclass(frozen=True, repr=False)
class MLP(Architecture):
    """Layers of hidden units with ReLU, for features; an image is taken as a row of its pixels.

    Args:
        hidden: the number of units of each hidden layer.
        norm: whether a batch norm follows each hidden layer.

    >>> str(MLP(hidden=[64, 32]))
    'mlp(hidden=(64, 32))'
    """

    hidden: Sequence[int] = field(default=(256, 256), kw_only=True)
    norm: bool = field(default=True, kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "hidden", check_widths("hidden", self.hidden))
        if not isinstance(self.norm, bool):
            raise ValueError(f"norm is {self.norm!r}, but must be True or False")

    def parts(self, shape: Shape, classes: int) -> tuple[nn.Module, nn.Module]:
        layers: list[nn.Module] = [nn.Flatten()]
        for before, after in pairwise((prod(shape), *self.hidden)):
            layers.append(nn.Linear(before, after, bias=not self.norm))
            nn.init.kaiming_normal_(layers[-1].weight, nonlinearity="relu")  # type: ignore[arg-type]
            layers += [nn.BatchNorm1d(after), nn.ReLU()] if self.norm else [nn.ReLU()]
        return nn.Sequential(*layers), nn.Linear(self.hidden[-1], classes)
