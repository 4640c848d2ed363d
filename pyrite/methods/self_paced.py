"""Self-paced learning: first the samples with small losses, then more and more of the others."""

from collections.abc import Mapping
from typing import Any, final

import numpy as np
import torch
from torch import Tensor

from pyrite.checks import number
from pyrite.criterion import Loss
from pyrite.curves import CE
from pyrite.data import Batch
from pyrite.errors import PyriteError
from pyrite.methods.context import Context
from pyrite.methods.descent import descend
from pyrite.methods.memory import Memory
from pyrite.methods.meta_gradient import per_sample
from pyrite.methods.method import Method, Trainer
from pyrite.methods.noise_rate import NoiseRate, check_loss
from pyrite.methods.step import Step

__all__ = ["SelfPaced"]


@final
class SelfPaced(Method):
    """In every epoch the share of the samples with the smallest losses is trained on, and the share grows.

    After a warm-up on all samples (a fifth of the epochs, from 3 to 10) the share grows linearly from ``first`` to
    ``last`` over the rest of the run. The samples are chosen at the beginning of an epoch, by the loss that each
    had when it was last seen.

    Args:
        first: the share after the warm-up; at most ``last``.
        last: the share in the last epoch. If None it is 1 minus the noise rate, which is estimated from the margins
            when the warm-up ends.
        loss: what samples are compared by, and what the net is trained with; cross entropy if None.

    >>> str(SelfPaced(last=0.7))
    'self_paced(first=0.5, last=0.7)'

    Kumar et al., 2010 ("Self-paced learning for latent variable models").
    """

    def __init__(self, first: float = 0.5, last: float | None = None, *, loss: Loss | None = None) -> None:
        for name, share in (("first", first), ("last", last)):
            if share is not None:
                number(name, share, above=0, most=1)
        if last is not None and last < first:
            raise PyriteError(f"last is {last}, but must not be below first, which is {first}")
        check_loss(loss)
        self.first, self.last, self.loss = first, last, loss

    def start(self, context: Context) -> "_SelfPaced":
        return _SelfPaced(self, context)


@final
class _SelfPaced(Trainer):
    def __init__(self, method: SelfPaced, context: Context) -> None:
        self.method, self.context = method, context
        self.learners = [context.make_learner()]
        self.loss = per_sample(method.loss or CE())
        self.noise_rate = NoiseRate(None if method.last is None else 1 - method.last, context)
        self.losses = Memory(torch.full((len(context.labels),), torch.inf, dtype=torch.float64, device=context.device))
        self.chosen = torch.ones(len(context.labels), dtype=torch.float64, device=context.device)
        self.share = 1.0

    def begin_epoch(self, epoch: int) -> None:
        self.noise_rate.begin_epoch(epoch)
        warm_up, last = self.noise_rate.warm_up, self._last()
        if epoch <= warm_up:
            return
        first = min(self.method.first, last)
        progress = (epoch - warm_up - 1) / max(1, self.context.epochs - warm_up - 1)
        self.share = first + (last - first) * progress
        self.chosen = with_smallest(self.losses.rows, self.share)

    def _last(self) -> float:
        return 1 - (self.noise_rate.value or 0.0)

    def step(self, batch: Batch) -> Step:
        def cost(scores: Tensor, piece: Batch) -> Tensor:
            losses: Tensor = self.loss(scores, piece.labels)
            return losses * self.chosen[piece.index].to(losses.dtype)

        chosen = self.chosen[batch.index]
        step = descend(self.learners[0], batch, cost, chosen.sum(), chosen)
        if step.denominator:
            self.losses.write(step.index, self.loss(step.scores, step.labels))
        return step

    def end_epoch(self) -> None:
        self.noise_rate.end_epoch(self)

    def facts(self) -> Mapping[str, float]:
        return {"share_trained_on": self.share, **self.noise_rate.facts()}

    def state_dict(self) -> dict[str, Any]:
        own = {"losses": self.losses.state_dict(), "chosen": self.chosen, "share": self.share}
        return {**super().state_dict(), **own, "noise_rate": self.noise_rate.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict(state)
        self.losses.load_state_dict(state["losses"])
        self.chosen.copy_(state["chosen"])
        self.share = state["share"]
        self.noise_rate.load_state_dict(state["noise_rate"])


def with_smallest(losses: Tensor, share: float) -> Tensor:
    """1 for the share of the finite losses that is smallest, else 0. Of equal ones the first is taken first."""
    values = losses.double().cpu().numpy()
    count = max(1, round(share * int(np.isfinite(values).sum())))
    chosen = torch.zeros_like(losses, dtype=torch.float64)
    chosen[torch.from_numpy(values.argsort(kind="stable")[:count]).to(losses.device)] = 1
    return chosen
