"""A loss with one coefficient that changes from epoch to epoch."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from pyrite.checks import number
from pyrite.criterion import Loss
from pyrite.data import Batch
from pyrite.methods.context import Context
from pyrite.methods.erm import ERM
from pyrite.methods.method import Trainer
from pyrite.methods.step import Step

__all__ = ["Ramp", "ScheduledLoss"]


class Ramp(NamedTuple):
    """From one value to another: constant at first, then along a line, then constant.

    Attributes:
        first: the value of the first epochs.
        last: the value of the last epochs.
        warmup: the share of the run that keeps the first value.
        ramp: the share of the run that the change takes; with 0 it is a jump.

    >>> plan = Ramp(first=0, last=2, warmup=0.1, ramp=0.4)
    >>> [plan.at(epoch, epochs=10) for epoch in range(1, 8)]
    [0.0, 0.0, 0.5, 1.0, 1.5, 2.0, 2.0]
    """

    first: float
    last: float
    warmup: float
    ramp: float

    def at(self, epoch: int, epochs: int) -> float:
        """The value in an epoch, counted from 1, of a run of so many epochs."""
        done = (epoch - 1) - self.warmup * epochs
        length = self.ramp * epochs
        # Warm-ups such as 0.1 · 30 are not whole numbers in floating point.
        share = float(done > -1e-9) if length <= 0 else min(max(done / length, 0.0), 1.0)
        return (1 - share) * self.first + share * self.last


class ScheduledLoss(Trainer):
    """Empirical risk minimisation with a loss, one coefficient of which is set at the beginning of every epoch.

    Args:
        context: what the method is started on.
        loss: the loss.
        coefficient: the name of the attribute of the loss that changes.
        value_at: its value in an epoch, counted from 1.
    """

    def __init__(self, context: Context, loss: Loss, coefficient: str, value_at: Callable[[int], float]) -> None:
        self.descent = ERM(loss).start(context)
        self.learners, self.loss = self.descent.learners, self.descent.loss
        self.coefficient, self.value_at = coefficient, value_at
        self.value = value_at(1)

    @property
    def value(self) -> float:
        """The coefficient as it is now."""
        return float(getattr(self.descent.loss, self.coefficient))

    @value.setter
    def value(self, value: float) -> None:
        setattr(self.descent.loss, self.coefficient, value)

    def begin_epoch(self, epoch: int) -> None:
        self.value = self.value_at(epoch)

    def step(self, batch: Batch) -> Step:
        return self.descent.step(batch)

    def facts(self) -> Mapping[str, float]:
        return {f"loss_{self.coefficient}": self.value}  # "alpha" is taken: the history has α_t under it

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "value": self.value}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict(state)
        self.value = state["value"]


def check_shares(warmup: float, ramp: float = 0.0) -> tuple[float, float]:
    """Shares of a run that a user gave; together they must not be more than the run."""
    warmup = number("warmup", warmup, "a share of the run, from 0 to 1", least=0, most=1)
    ramp = number("ramp", ramp, f"a share of the run, from 0 to {1 - warmup:g}", least=0, most=1 - warmup + 1e-9)
    return warmup, ramp
