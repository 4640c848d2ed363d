"""Bootstrapping: after a warm-up the model's own prediction is part of the target."""

from typing import Literal, final

from pyrite.checks import number, one_of
from pyrite.losses import BootHard, BootSoft
from pyrite.methods.context import Context
from pyrite.methods.method import Method
from pyrite.methods.scheduled import Ramp, ScheduledLoss, check_shares

__all__ = ["Bootstrap"]

_BETA = {"hard": 0.8, "soft": 0.95}


@final
class Bootstrap(Method):
    """Cross entropy with the target β e_y + (1 − β) p (soft), or with the one-hot prediction in place of p (hard).

    Args:
        kind: ``"hard"`` or ``"soft"``.
        beta: β after the warm-up; by default 0.8 (hard) or 0.95 (soft).
        warmup: the share of the run in which β is 1, because early predictions carry no information.

    >>> str(Bootstrap("soft"))
    "bootstrap(kind='soft', beta=0.95, warmup=0.2)"

    Reed et al., 2015.
    """

    def __init__(self, kind: Literal["hard", "soft"] = "hard", beta: float | None = None, warmup: float = 0.2) -> None:
        one_of("kind", kind, _BETA)
        beta = _BETA[kind] if beta is None else beta
        self.kind = kind
        self.beta = number("beta", beta, least=0, most=1)
        self.warmup, _ = check_shares(warmup)

    def start(self, context: Context) -> ScheduledLoss:
        plan = Ramp(1.0, self.beta, self.warmup, 0.0)
        loss = BootHard() if self.kind == "hard" else BootSoft()
        return ScheduledLoss(context, loss, "beta", lambda epoch: plan.at(epoch, context.epochs))
