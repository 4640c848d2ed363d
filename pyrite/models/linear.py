"""A linear model."""

from dataclasses import dataclass
from math import prod
from typing import ClassVar, final

from torch import nn

from pyrite.models.architecture import Architecture
from pyrite.models.network import Shape

__all__ = ["Linear"]


@final
@dataclass(frozen=True, repr=False)
class Linear(Architecture):
    """One layer without hidden units: logistic regression with any loss. It starts near zero.

    >>> str(Linear())
    'linear'
    """

    rate: ClassVar[float] = 0.02

    def least_weights(self, shape: Shape, classes: int) -> int:
        return prod(shape) * classes

    def parts(self, shape: Shape, classes: int) -> tuple[nn.Module, nn.Module]:
        head = nn.Linear(prod(shape), classes)
        nn.init.normal_(head.weight, std=1e-3)  # methods with two nets need two that differ
        nn.init.zeros_(head.bias)
        return nn.Flatten(), head
