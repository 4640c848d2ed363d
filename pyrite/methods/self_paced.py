"""Self-paced learning: first the samples with small losses, then more and more of the others."""

from collections.abc import Mapping
from typing import final

import numpy as np
import torch
from torch import Tensor

from pyrite.checks import number
from pyrite.criterion import Loss
from pyrite.data import Batch
from pyrite.errors import PyriteError
from pyrite.methods.method import Context, Method, Step
from pyrite.methods.noise_rate import NoiseRateTrainer, check_loss


@final
class SelfPaced(Method):
    """In every epoch the fraction of the samples with the smallest losses is trained on, and the fraction grows.

    After a warm-up on all samples (a fifth of the epochs, from 3 to 10) the fraction grows linearly from ``first`` to
    ``last`` over the rest of the run. The samples are chosen at the beginning of an epoch, by the loss that each
    had when it was last seen.

    Args:
        first: the fraction after the warm-up; at most ``last``.
        last: the fraction in the last epoch. If None it is 1 minus the noise rate, which is estimated from the margins
            when the warm-up ends.
        loss: what samples are compared by, and what the net is trained with; cross entropy if None.

    >>> str(SelfPaced(last=0.7))
    'self_paced(first=0.5, last=0.7)'

    Kumar et al., 2010 ("Self-paced learning for latent variable models").
    """

    def __init__(self, first: float = 0.5, last: float | None = None, *, loss: Loss | None = None) -> None:
        for name, fraction in (("first", first), ("last", last)):
            if fraction is not None:
                number(name, fraction, above=0, most=1)
        if last is not None and last < first:
            raise PyriteError(f"last is {last}, but must not be below first, which is {first}")
        check_loss(loss)
        self.first, self.last, self.loss = first, last, loss

    def start(self, context: Context) -> "SelfPacedTrainer":
        return SelfPacedTrainer(self, context)


@final
class SelfPacedTrainer(NoiseRateTrainer):
    """The samples with small losses, more of them in every epoch."""

    saved = (*NoiseRateTrainer.saved, "fraction")
    seen: Tensor
    chosen: Tensor

    def __init__(self, method: SelfPaced, context: Context) -> None:
        super().__init__(context, method.loss, None if method.last is None else 1 - method.last)
        self.first = method.first
        every = torch.ones(context.samples, dtype=torch.float64, device=context.device)
        self.register_buffer("seen", every * torch.inf)  # the loss of every sample when it was last seen
        self.register_buffer("chosen", every)
        self.fraction = 1.0

    def begin_epoch(self, epoch: int) -> None:
        super().begin_epoch(epoch)
        if epoch <= self.warm_up:
            return
        last = 1 - (self.noise_rate or 0.0)
        first = min(self.first, last)
        progress = (epoch - self.warm_up - 1) / max(1, self.context.epochs - self.warm_up - 1)
        self.fraction = first + (last - first) * progress
        self.chosen = with_smallest(self.seen, self.fraction)

    def weights(self, batch: Batch, losses: Tensor | None) -> Tensor:
        return self.chosen[batch.index]

    def after_step(self, step: Step) -> None:
        assert step.losses is not None
        self.seen[step.index] = step.losses.double()

    def facts(self) -> Mapping[str, float]:
        return {"share_trained_on": self.fraction, **super().facts()}


def with_smallest(losses: Tensor, fraction: float) -> Tensor:
    """1 for the fraction of the finite losses that is smallest, else 0. Of equal ones the first is taken first."""
    values = losses.double().cpu().numpy()
    count = max(1, round(fraction * int(np.isfinite(values).sum())))
    chosen = torch.zeros_like(losses, dtype=torch.float64)
    chosen[torch.from_numpy(values.argsort(kind="stable")[:count]).to(losses.device)] = 1
    return chosen
