"""Nets for features: the default, and a linear model."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import prod
from typing import ClassVar, final

from torch import nn

from pyrite.checks import flag, number, whole_number
from pyrite.models.architecture import Architecture, Shape, check_widths
from pyrite.models.layers import TableInputs


@final
@dataclass(frozen=True, repr=False)
class MLP(Architecture):
    """Layers of hidden units with ReLU, for features; an image is flattened to a row of pixels.

    Args:
        hidden: the number of units of each hidden layer.
        norm: whether a batch norm follows each hidden layer.
        limit: squash features smoothly to (-limit, limit); None for no limit.
        bins: add an encoding of each feature by this number of quantile bins, for tables with jumps; 0 for none.

    >>> str(MLP(hidden=[64, 32]))
    'mlp(hidden=(64, 32))'
    """

    hidden: Sequence[int] = field(default=(256, 256), kw_only=True)
    norm: bool = field(default=True, kw_only=True)
    limit: float | None = field(default=None, kw_only=True)
    bins: int = field(default=0, kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "hidden", check_widths("hidden", self.hidden))
        flag("norm", self.norm)
        if self.limit is not None:
            number("limit", self.limit, "a number above 0, or None", above=0)
        whole_number("bins", self.bins, 0)

    def least_weights(self, shape: Shape, classes: int) -> int:
        return sum(before * after for before, after in pairwise((prod(shape) * (1 + self.bins), *self.hidden, classes)))

    def parts(self, shape: Shape, classes: int) -> tuple[nn.Module, nn.Module]:
        layers: list[nn.Module] = [nn.Flatten()]
        width = prod(shape)
        if self.bins or self.limit is not None:
            layers.append(TableInputs(width, self.limit, self.bins))
            width *= 1 + self.bins
        for before, after in pairwise((width, *self.hidden)):
            linear = nn.Linear(before, after, bias=not self.norm)
            nn.init.kaiming_normal_(linear.weight, nonlinearity="relu")
            layers += [linear, nn.BatchNorm1d(after), nn.ReLU()] if self.norm else [linear, nn.ReLU()]
        return nn.Sequential(*layers), nn.Linear(self.hidden[-1], classes)


@final
class Linear(Architecture):
    """One layer without hidden units: logistic regression with any loss. It starts near zero.

    >>> str(Linear())
    'linear'
    """

    learning_rate: ClassVar[float] = 0.02

    def least_weights(self, shape: Shape, classes: int) -> int:
        return prod(shape) * classes

    def parts(self, shape: Shape, classes: int) -> tuple[nn.Module, nn.Module]:
        head = nn.Linear(prod(shape), classes)
        nn.init.normal_(head.weight, std=1e-3)  # methods with two nets need two that differ
        nn.init.zeros_(head.bias)
        return nn.Flatten(), head
