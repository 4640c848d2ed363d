"""Co-teaching: two nets, each of which learns from the samples whose loss is small for the other."""

import math
from collections.abc import Mapping
from typing import Any, final

import numpy as np
import torch
from torch import Tensor

from pyrite.checks import whole_number
from pyrite.criterion import Loss
from pyrite.curves import CE
from pyrite.data import Batch
from pyrite.errors import PyriteError
from pyrite.methods.context import Context
from pyrite.methods.descent import backward_step
from pyrite.methods.meta_gradient import per_sample
from pyrite.methods.method import Method, Trainer
from pyrite.methods.noise_rate import NoiseRate, check_loss, check_rate
from pyrite.methods.step import Step
from pyrite.processes import all_gather

__all__ = ["CoTeaching", "with_small_loss"]


@final
class CoTeaching(Method):
    """Two nets that see the same batches. Each is trained on the samples that have the smallest losses for the other.

    The share of a batch that is left out, the forget rate, grows linearly from 0 to the noise rate. Both nets predict.

    Args:
        rate: the noise rate. If None it is estimated from the margins of both nets after a warm-up on all samples: a
            fifth of the epochs, from 3 to 10.
        loss: what samples are compared by, and what both nets are trained with; cross entropy if None.
        ramp: the epochs over which the forget rate grows; if None 10, as in the paper, or a third of a shorter run.

    >>> str(CoTeaching(0.4))
    'co_teaching(rate=0.4)'

    Han et al., 2018 ("Co-teaching: robust training of deep neural networks with extremely noisy labels").
    """

    def __init__(self, rate: float | None = None, *, loss: Loss | None = None, ramp: int | None = None) -> None:
        check_rate("rate", rate)
        check_loss(loss)
        self.rate, self.loss = rate, loss
        self.ramp = ramp if ramp is None else whole_number("ramp", ramp, least=1)

    def start(self, context: Context) -> "_CoTeaching":
        return _CoTeaching(self, context)


@final
class _CoTeaching(Trainer):
    """Trains the two nets."""

    def __init__(self, method: CoTeaching, context: Context) -> None:
        self.learners = [context.make_learner(), context.make_learner()]
        if (pieces := self.learners[0].accumulate) > 1:
            raise PyriteError(
                f"accumulate is {pieces}, but co_teaching compares the losses of whole batches: leave it 1"
            )
        self.loss = per_sample(method.loss or CE())
        self.ramp = method.ramp or min(10, max(1, context.epochs // 3))
        self.noise_rate = NoiseRate(method.rate, context)
        self.forget_rate = 0.0

    def begin_epoch(self, epoch: int) -> None:
        self.noise_rate.begin_epoch(epoch)
        self.forget_rate = self.noise_rate.ramped(self.ramp)

    def step(self, batch: Batch) -> Step:
        if not sum(all_gather(len(batch.labels))):
            for learner in self.learners:
                learner.skip()
            return Step.empty(batch, self.learning_rate)
        scores = [learner.scores(learner.ready(batch.inputs)) for learner in self.learners]
        losses = [self.loss(rows, batch.labels) for rows in scores]
        chosen = [with_small_loss(values, batch.index, 1 - self.forget_rate) for values in losses]
        # The sum over the chosen samples is divided by their number once, in backward_step.
        steps = [
            backward_step(learner, batch, rows, values * of_other, of_other.sum(), of_other)
            for learner, rows, values, of_other in zip(self.learners, scores, losses, reversed(chosen), strict=True)
        ]
        return steps[0]

    def end_epoch(self) -> None:
        self.noise_rate.end_epoch(self)

    def facts(self) -> Mapping[str, float]:
        return {"forget_rate": self.forget_rate, **self.noise_rate.facts()}

    def state_dict(self) -> dict[str, Any]:
        own = {"noise_rate": self.noise_rate.state_dict(), "forget_rate": self.forget_rate}
        return {**super().state_dict(), **own}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict(state)
        self.noise_rate.load_state_dict(state["noise_rate"])
        self.forget_rate = state["forget_rate"]


def with_small_loss(losses: Tensor, index: Tensor, share: float) -> Tensor:
    """1 for samples whose losses are among the smallest of the batch over all processes, else 0; at least one is 1.

    Of equal losses, that of the sample with the lower number comes first, so that exactly the share is chosen, and the
    same samples on any number of processes.
    """
    parts = all_gather((losses.detach().double().cpu(), index.cpu()))
    values, numbers = (torch.cat(part).numpy() for part in zip(*parts, strict=True))
    count = max(1, math.floor(share * len(values) + 1e-9))  # (1 - 0.9) * 10 is a little less than 1
    chosen = torch.from_numpy(numbers[np.lexsort((numbers, values))[:count]])
    return torch.isin(index, chosen.to(index.device)).to(losses.dtype)
