"""Nets for features: the default, and a linear model."""

from dataclasses import KW_ONLY, dataclass
from functools import partial
from itertools import pairwise
from math import prod
from typing import Annotated, ClassVar, final

from torch import nn

from pyrite.checks import flag, number, whole_number
from pyrite.models.architecture import Architecture, Shape, Widths
from pyrite.models.layers import TableInputs

_Limit = Annotated[float, partial(number, wanted="a number above 0, or None", above=0)]


@final
@dataclass(frozen=True, repr=False)
class MLP(Architecture):
    """Hidden layers with ReLU, for features; images are flattened."""

    _: KW_ONLY
    hidden: Widths = (256, 256)
    norm: Annotated[bool, flag] = True  # whether a batch norm follows each hidden layer
    limit: _Limit | None = None  # squash features smoothly to (-limit, limit)
    # Add an encoding of each feature by this number of quantile bins, for tables with jumps; 0 for none.
    bins: Annotated[int, partial(whole_number, least=0)] = 0
    # Whether a batch norm follows the last hidden units too. They are never negative, so that without it a step moves
    # all samples to the most frequent class more than it separates them; a loss that gives up samples far on the wrong
    # side, such as mae, then never separates them.
    centred: Annotated[bool, flag] = False

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
        layers += [nn.BatchNorm1d(self.hidden[-1])] if self.centred else []
        return nn.Sequential(*layers), nn.Linear(self.hidden[-1], classes)


@final
class Linear(Architecture):
    """One layer without hidden units: logistic regression with any loss. It starts near zero."""

    learning_rate: ClassVar[float] = 0.02

    def least_weights(self, shape: Shape, classes: int) -> int:
        return prod(shape) * classes

    def parts(self, shape: Shape, classes: int) -> tuple[nn.Module, nn.Module]:
        head = nn.Linear(prod(shape), classes)
        nn.init.normal_(head.weight, std=1e-3)  # methods with two nets need two that differ
        nn.init.zeros_(head.bias)
        return nn.Flatten(), head
