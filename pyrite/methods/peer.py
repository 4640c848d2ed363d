"""Peer loss with a factor that grows over the run."""

from typing import final

from pyrite.checks import number
from pyrite.criterion import Loss, bare
from pyrite.curves import CE
from pyrite.losses import Peer
from pyrite.methods.context import Context
from pyrite.methods.method import Method
from pyrite.methods.scheduled import Ramp, ScheduledLoss, check_shares

__all__ = ["ScheduledPeer"]


@final
class ScheduledPeer(Method):
    """A loss less α times the loss of another sample's scores under a third sample's label; α grows from 0.

    Args:
        loss: cross entropy by default.
        alpha: the last α.
        warmup: the share of the run in which α is 0.
        ramp: the share of the run in which it grows.

    >>> str(ScheduledPeer())
    'peer(ce, alpha=1, warmup=0.06, ramp=0.94)'

    Liu & Guo, 2020.
    """

    def __init__(self, loss: Loss | None = None, alpha: float = 1, warmup: float = 0.06, ramp: float = 0.94) -> None:
        self.loss = bare(CE() if loss is None else loss)
        self.alpha = number("alpha", alpha, least=0)
        self.warmup, self.ramp = check_shares(warmup, ramp)

    @property
    def largest_weight(self) -> float:
        """A sample's scores have a gradient as its own and one as another sample's peer, α times as large."""
        return 1 + self.alpha

    @property
    def needs_clipping(self) -> bool:
        return self.alpha > 0

    def start(self, context: Context) -> ScheduledLoss:
        plan = Ramp(0.0, self.alpha, self.warmup, self.ramp)
        return ScheduledLoss(context, Peer(self.loss), "alpha", lambda epoch: plan.at(epoch, context.epochs))
