"""Optimisers and learning-rate schedules by their spec strings: ``sgd(lr=0.1)``, ``cosine(warmup=1)``."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from types import SimpleNamespace
from typing import Annotated, Any, ClassVar, Literal, final

import torch
from torch import nn

from pyrite.checks import flag, is_number, number, require
from pyrite.errors import PyriteError
from pyrite.spec import HasSpec, Registry, build, lookup

_LARGEST = 1e30  # float32, in which weights are, ends at 3e38
_Size = Annotated[float, partial(number, least=0, most=_LARGEST)]
_Decay = Annotated[float, partial(number, least=0, below=1)]


def _two_decays(name: str, value: Any) -> tuple[float, float]:
    require(isinstance(value, list | tuple) and len(value) == 2, name, value, "two numbers")
    first, second = (number(f"{name}[{place}]", each, least=0, below=1) for place, each in enumerate(value))
    return first, second


@dataclass(frozen=True, repr=False)
class Optimiser(HasSpec, ABC):
    """A description of an optimiser. ``str(optimiser)`` is the text that builds it again."""

    makes: ClassVar[Callable[..., torch.optim.Optimizer]]
    """torch's optimiser, whose arguments have the names of the fields."""

    lr: _Size

    def build(self, weights: Sequence[nn.Parameter]) -> torch.optim.Optimizer:
        """torch's optimiser of these weights."""
        options = dict(vars(self))
        if options.get("momentum") == 0:
            options["nesterov"] = False  # which torch refuses without momentum
        # One kernel for all weights. On GPUs it can skip a step without a wait for the device, on MPS it cannot; on the
        # CPU it assumes that gradients are laid out as weights, which is certain only if these are contiguous.
        fused = all(
            weight.is_floating_point()
            and weight.device.type != "mps"
            and (weight.device.type != "cpu" or weight.is_contiguous())
            for weight in weights
        )
        optimiser = type(self).makes(weights, **options, fused=fused or None)
        if options.get("momentum"):  # without it, the kernel fails if the first gradients come in different steps
            for weight in weights:
                optimiser.state[weight]["momentum_buffer"] = torch.zeros_like(weight)
        return optimiser


@final
@dataclass(frozen=True, repr=False)
class SGD(Optimiser):
    """Stochastic gradient descent with momentum.

    >>> str(SGD())
    'sgd(lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.0005)'
    """

    makes = torch.optim.SGD

    lr: _Size = 0.1
    momentum: _Decay = 0.9
    nesterov: Annotated[bool, flag] = True
    weight_decay: _Size = 5e-4


@dataclass(frozen=True, repr=False)
class Adam(Optimiser):
    """Adam; ``eps`` is what the IMAE paper calls delta."""

    makes: ClassVar[Callable[..., torch.optim.Optimizer]] = torch.optim.Adam

    lr: _Size = 1e-3
    betas: Annotated[tuple[float, float], _two_decays] = (0.9, 0.999)
    eps: _Size = 1e-8
    weight_decay: _Size = 0.0


@final
@dataclass(frozen=True, repr=False)
class Adamw(Adam):
    """Adam with decoupled weight decay."""

    makes = torch.optim.AdamW

    weight_decay: _Size = 0.01


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

    warmup: Annotated[float, partial(number, wanted="a number of epochs, 0 or more", least=0)] = field(
        default=0.0, kw_only=True
    )

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
    """Cosine decay from the full learning rate to 0."""

    def after_warmup(self, progress: float, epoch: float, step: int) -> float:
        return (1 + math.cos(math.pi * progress)) / 2


@final
@dataclass(frozen=True, repr=False)
class Linear(Schedule):
    """Linear decay from the full learning rate to 0."""

    def after_warmup(self, progress: float, epoch: float, step: int) -> float:
        return 1 - progress


def _places(name: str, value: Any) -> tuple[int, ...]:
    if not isinstance(value, list | tuple) or not value or not all(is_number(place) and place > 0 for place in value):
        raise PyriteError(f"{name} is {value!r}, but must be a list of epochs or iterations, such as [40, 80]")
    if any(later <= earlier for earlier, later in pairwise(value)):
        raise PyriteError(f"{name} is {value!r}, but must be in ascending order")
    return tuple(value)


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

    at: Annotated[Sequence[int], _places] = ()
    factor: Annotated[float, partial(number, above=0)] = 0.1
    by: Literal["epoch", "iteration"] = "epoch"

    def after_warmup(self, progress: float, epoch: float, step: int) -> float:
        now = epoch if self.by == "epoch" else step
        return float(self.factor ** sum(now >= place for place in self.at))


SCHEDULES: Registry[Schedule] = Registry(
    "schedule", {"constant": Constant, "cosine": Cosine, "linear": Linear, "steps": Steps}, Schedule, "cosine"
)
