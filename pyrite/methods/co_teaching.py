"""Co-teaching: two nets, each of which learns from the samples whose loss is small for the other."""

import math
from collections.abc import Mapping
from typing import final

import numpy as np
import torch
from torch import Tensor

from pyrite.checks import whole_number
from pyrite.criterion import Loss
from pyrite.data import Batch
from pyrite.methods.method import Context, Method
from pyrite.methods.noise_rate import NoiseRateTrainer, check_loss, check_rate


@final
class CoTeaching(Method):
    """Two nets that see the same batches. Each is trained on the samples that have the smallest losses for the other.

    The fraction of a batch that is left out, the forget rate, grows linearly from 0 to the noise rate. Both nets
    predict.

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

    def start(self, context: Context) -> "CoTeachingTrainer":
        return CoTeachingTrainer(self, context)


@final
class CoTeachingTrainer(NoiseRateTrainer):
    """Two nets, each of which chooses the samples of the other."""

    whole_batch = True
    saved = (*NoiseRateTrainer.saved, "forget_rate")

    def __init__(self, method: CoTeaching, context: Context) -> None:
        super().__init__(context, method.loss, method.rate, nets=2)
        self.ramp = method.ramp or min(10, max(1, context.epochs // 3))
        self.forget_rate = 0.0

    def begin_epoch(self, epoch: int) -> None:
        super().begin_epoch(epoch)
        self.forget_rate = self.ramped_noise_rate(self.ramp)

    def weights(self, batch: Batch, losses: Tensor | None) -> Tensor:
        """Each net learns from the samples that have small losses for the other."""
        assert losses is not None
        first, second = (with_small_loss(row, batch.index, 1 - self.forget_rate) for row in losses)
        return torch.stack([second, first])

    def facts(self) -> Mapping[str, float]:
        return {"forget_rate": self.forget_rate, **super().facts()}


def with_small_loss(losses: Tensor, index: Tensor, fraction: float) -> Tensor:
    """1 for samples whose losses are among the smallest of a batch, else 0; at least one is 1.

    Of equal losses, that of the sample with the lower number comes first, so that exactly the fraction is chosen, and
    the same samples on any number of processes.
    """
    values, numbers = losses.double().cpu().numpy(), index.cpu().numpy()
    count = max(1, math.floor(fraction * len(values) + 1e-9))  # (1 - 0.9) * 10 is a little less than 1
    chosen = torch.zeros_like(losses)
    chosen[torch.from_numpy(np.lexsort((numbers, values))[:count]).to(losses.device)] = 1
    return chosen
