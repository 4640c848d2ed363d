"""Learning-rate schedules by their spec strings: ``cosine(warmup=1)``."""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal, final

from pyrite.checks import is_number, number, one_of
from pyrite.errors import PyriteError
from pyrite.spec import HasSpec, Registry

__all__ = ["SCHEDULES", "Constant", "Cosine", "Linear", "Schedule", "Steps"]


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
