"""The confidence regulariser of CORES with a factor that grows over the run."""

from typing import final

import torch

from pyrite.checks import number
from pyrite.criterion import Loss, bare
from pyrite.curves import CE
from pyrite.losses import Confidence
from pyrite.methods.context import Context
from pyrite.methods.method import Method
from pyrite.methods.scheduled import Ramp, ScheduledLoss, check_shares

__all__ = ["ScheduledConfidence"]


@final
class ScheduledConfidence(Method):
    """A loss less β times its mean over labels drawn as the given labels are distributed; β grows from 0.

    Args:
        loss: cross entropy by default.
        beta: the last β. Above 1 the loss rewards certainty of any class, right or wrong.
        warmup: the share of the run in which β is 0.
        ramp: the share of the run in which it grows.

    >>> str(ScheduledConfidence())
    'confidence(ce, beta=1, warmup=0.1, ramp=0.3)'

    Cheng et al., 2021 ("Learning with instance-dependent label noise: a sample sieve approach").
    """

    def __init__(self, loss: Loss | None = None, beta: float = 1, warmup: float = 0.1, ramp: float = 0.3) -> None:
        self.loss = bare(CE() if loss is None else loss)
        self.beta = number("beta", beta, least=0)
        self.warmup, self.ramp = check_shares(warmup, ramp)

    @property
    def largest_weight(self) -> float:
        """The regulariser's gradient is β times a mean of gradients of the loss."""
        return 1 + self.beta

    @property
    def needs_clipping(self) -> bool:
        return self.beta > 0

    def start(self, context: Context) -> ScheduledLoss:
        given = context.labels[context.labels >= 0]
        counts = torch.bincount(given.cpu(), minlength=context.classes).double()
        plan = Ramp(0.0, self.beta, self.warmup, self.ramp)
        loss = Confidence(self.loss, prior=counts / counts.sum())
        return ScheduledLoss(context, loss, "beta", lambda epoch: plan.at(epoch, context.epochs))
