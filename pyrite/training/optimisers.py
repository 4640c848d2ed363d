"""Optimisers and learning-rate schedules by their spec strings: ``sgd(lr=0.1)``, ``cosine(warmup=1)``."""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from types import SimpleNamespace
from typing import Literal, final

import torch
from torch import nn

from pyrite.checks import flag, is_number, number, one_of, require
from pyrite.errors import PyriteError
from pyrite.spec import HasSpec, Registry, build, lookup

_LARGEST = 1e30  # float32, in which weights are, ends at 3e38


@dataclass(frozen=True, repr=False)
class Optimiser(HasSpec, ABC):
    """A description of an optimiser. ``str(optimiser)`` is the text that builds it again."""

    lr: float

    @abstractmethod
    def build(self, weights: Sequence[nn.Parameter]) -> torch.optim.Optimizer:
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

    def build(self, weights: Sequence[nn.Parameter]) -> torch.optim.Optimizer:
        nesterov = self.nesterov and self.momentum > 0
        return torch.optim.SGD(
            weights, self.lr, self.momentum, weight_decay=self.weight_decay, nesterov=nesterov, fused=_fused(weights)
        )


@dataclass(frozen=True, repr=False)
class Adam(Optimiser):
    """Adam; ``eps`` is what the IMAE paper calls delta."""

    lr: float = 1e-3
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 0.0

    def build(self, weights: Sequence[nn.Parameter]) -> torch.optim.Optimizer:
        return torch.optim.Adam(weights, self.lr, self.betas, self.eps, self.weight_decay, fused=_fused(weights))


@final
@dataclass(frozen=True, repr=False)
class Adamw(Adam):
    """Adam with decoupled weight decay."""

    weight_decay: float = 0.01

    def build(self, weights: Sequence[nn.Parameter]) -> torch.optim.Optimizer:
        return torch.optim.AdamW(weights, self.lr, self.betas, self.eps, self.weight_decay, fused=_fused(weights))


def _fused(weights: Sequence[nn.Parameter]) -> bool | None:
    """On GPUs: one kernel for all weights, which can skip a step without a wait for the device."""
    return True if any(weight.device.type != "cpu" for weight in weights) else None


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


@dataclass(frozen=True, repr=False)
class Schedule(HasSpec, ABC):
    """The factor of the learning rate in each step.

    Args:
        warmup: epochs in which the rate rises linearly to its full size; 0.5 is half an epoch.
    """

    warmup: float = field(default=0.0, kw_only=True)

    def __post_init__(self) -> None:
        number("warmup", self.warmup, "a number of epochs, 0 or more", least=0)

    def factor_at(self, step: int, per_epoch: int, epochs: int) -> float:
        """The factor in step number 0, 1, ..., of ``per_epoch`` in each of ``epochs``."""
        rise, left = self.warmup * per_epoch, epochs - self.warmup
        if step < rise:
            return min(1.0, (step + 1) / rise)
        epoch = step / per_epoch
        return self.after_warmup(min(1.0, (epoch - self.warmup) / left) if left > 0 else 1.0, epoch, step)

    @abstractmethod
    def after_warmup(self, progress: float, epoch: float, step: int) -> float:
        """The factor after the warm-up; ``progress`` is from 0, when that ends, to 1, when the run ends."""


@final
@dataclass(frozen=True, repr=False)
class Constant(Schedule):
    """A constant rate."""

    def after_warmup(self, progress: float, epoch: float, step: int) -> float:
        return 1.0


@final
@dataclass(frozen=True, repr=False)
class Cosine(Schedule):
    """Half a cosine, from the full rate to 0 at the end."""

    def after_warmup(self, progress: float, epoch: float, step: int) -> float:
        return (1 + math.cos(math.pi * progress)) / 2


@final
@dataclass(frozen=True, repr=False)
class Linear(Schedule):
    """A straight line, from the full rate to 0 at the end."""

    def after_warmup(self, progress: float, epoch: float, step: int) -> float:
        return 1 - progress


@final
@dataclass(frozen=True, repr=False)
class Steps(Schedule):
    """The rate is multiplied by ``factor`` at each of the given epochs, or iterations.

    Args:
        at: numbers of epochs or iterations, in ascending order.
        factor: what the rate is multiplied by each time.
        by: what ``at`` counts: ``"epoch"`` or ``"iteration"``.

    >>> Steps(at=[40, 80]).factor_at(step=50 * 391, per_epoch=391, epochs=100)
    0.1
    """

    at: Sequence[int] = ()
    factor: float = 0.1
    by: Literal["epoch", "iteration"] = "epoch"

    def __post_init__(self) -> None:
        super().__post_init__()
        places = self.at
        if not isinstance(places, list | tuple) or not places or not all(is_number(p) and p > 0 for p in places):
            raise PyriteError(f"at is {self.at!r}, but must be a list of epochs or iterations, such as [40, 80]")
        if any(later <= earlier for earlier, later in pairwise(places)):
            raise PyriteError(f"at is {self.at!r}, but must be in ascending order")
        number("factor", self.factor, above=0)
        one_of("by", self.by, ("epoch", "iteration"))
        object.__setattr__(self, "at", tuple(places))

    def after_warmup(self, progress: float, epoch: float, step: int) -> float:
        now = epoch if self.by == "epoch" else step
        return float(self.factor ** sum(now >= place for place in self.at))


SCHEDULES: Registry[Schedule] = Registry(
    "schedule", {"constant": Constant, "cosine": Cosine, "linear": Linear, "steps": Steps}, Schedule, "cosine"
)
