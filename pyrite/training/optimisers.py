"""Optimisers by their spec strings: ``sgd(lr=0.1)``."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import final

import torch
from torch import nn

from pyrite.checks import flag, number, require
from pyrite.spec import HasSpec, Registry, build, lookup

__all__ = ["OPTIMISERS", "SGD", "Adam", "Adamw", "Optimiser", "states_rate"]

_LARGEST = 1e30  # float32, in which weights are, ends at 3e38


@dataclass(frozen=True, repr=False)
class Optimiser(HasSpec, ABC):
    """A description of an optimiser. ``str(optimiser)`` is the text that builds it again."""

    lr: float

    @abstractmethod
    def build(self, weights: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        """torch's optimiser of these weights."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if name == "nesterov":
                flag(name, value)
            elif name == "momentum":
                number(name, value, least=0, below=1)
            elif name == "betas":
                require(isinstance(value, list | tuple) and len(value) == 2, name, value, "two numbers")
                for place, beta in enumerate(value):
                    number(f"betas[{place}]", beta, least=0, below=1)
                object.__setattr__(self, "betas", tuple(value))
            else:
                number(name, value, least=0, most=_LARGEST)


@final
@dataclass(frozen=True, repr=False)
class SGD(Optimiser):
    """Stochastic gradient descent, with momentum unless that is 0.

    >>> str(SGD())
    'sgd(lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.0005)'
    """

    lr: float = 0.1
    momentum: float = 0.9
    nesterov: bool = True
    weight_decay: float = 5e-4

    def build(self, weights: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        nesterov = self.nesterov and self.momentum > 0
        return torch.optim.SGD(weights, self.lr, self.momentum, weight_decay=self.weight_decay, nesterov=nesterov)


@final
@dataclass(frozen=True, repr=False)
class Adam(Optimiser):
    """Adam; ``eps`` is what the IMAE paper calls delta."""

    lr: float = 1e-3
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 0.0

    def build(self, weights: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        return torch.optim.Adam(weights, self.lr, self.betas, self.eps, self.weight_decay)


@final
@dataclass(frozen=True, repr=False)
class Adamw(Optimiser):
    """Adam with decoupled weight decay."""

    lr: float = 1e-3
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 0.01

    def build(self, weights: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        return torch.optim.AdamW(weights, self.lr, self.betas, self.eps, self.weight_decay)


OPTIMISERS: Registry[Optimiser] = Registry(
    "optimiser", {"sgd": SGD, "adam": Adam, "adamw": Adamw}, Optimiser, "sgd(lr=0.1)"
)


def states_rate(spec: object) -> bool:
    """Whether an optimiser, or its spec string, sets the learning rate: as first argument or by name."""
    if not isinstance(spec, str):
        return spec is not None

    def first(lr: float | None = None, *more: object, **named: object) -> SimpleNamespace:
        return SimpleNamespace(given=lr is not None)

    name = spec.partition("(")[0].strip()
    lookup(name, OPTIMISERS, "optimiser")
    return bool(build(spec, {name: first}, "optimiser").given)
