"""MentorNet: a mentor weights every sample by its loss; it is predefined, or trained on a run with known labels."""

from collections.abc import Mapping
from typing import Any, Final, final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from pyrite.checks import number
from pyrite.criterion import Loss
from pyrite.data import Batch
from pyrite.errors import PyriteError
from pyrite.methods.context import Context
from pyrite.methods.mentor import features_of, read_lesson, train_mentor
from pyrite.methods.method import Method
from pyrite.methods.noise_rate import NoiseRateTrainer, check_loss
from pyrite.methods.step import Step

__all__ = ["Mentornet"]

PREDEFINED: Final = "predefined"
_RECORDED: Final = 2000  # samples whose losses are saved to train other mentors: enough for three inputs


@final
class Mentornet(Method):
    """Every sample's loss ℓ is multiplied by a weight v that a mentor gives it.

    The threshold λ is a running mean of the ``percentile`` of the losses in a batch. The predefined mentor is
    v = 1 for ℓ ≤ λ, falling linearly to 0 at ℓ = (1 + width) λ. A data-driven mentor is a small network of ℓ, ℓ − λ and
    the fraction of the run that is over. Losses are divided by the sum of the weights.

    Args:
        mentor: ``"predefined"``, or the folder of a finished run of ``mentornet`` on data whose true labels are known:
            a network learns there which labels are right, and gives the weights here.
        percentile: of the losses, as a fraction. If None it is 1 minus the noise rate, which is estimated from the
            margins after a fifth of the epochs, from 3 to 10; until then all samples count.
        decay: the fraction of λ that is kept from one batch to the next.
        width: the width of the falling part, in multiples of λ; with 0, samples count or do not.
        burn_in: the fraction of the epochs in which all samples count.
        loss: what the net is trained with; cross entropy if None.

    >>> str(Mentornet(percentile=0.6))
    "mentornet(mentor='predefined', percentile=0.6)"

    Jiang et al., 2018 ("MentorNet: learning data-driven curriculum for very deep neural networks on corrupted labels").
    """

    def __init__(
        self,
        mentor: str = PREDEFINED,
        *,
        percentile: float | None = 0.7,
        decay: float = 0.5,
        width: float = 1.0,
        burn_in: float = 0.2,
        loss: Loss | None = None,
    ) -> None:
        if not isinstance(mentor, str) or not mentor:
            raise PyriteError(f"mentor is {mentor!r}, but must be '{PREDEFINED}' or the folder of a run")
        if percentile is not None:
            number("percentile", percentile, least=0, most=1)
        number("decay", decay, least=0, below=1)
        number("burn_in", burn_in, least=0, most=1)
        number("width", width, least=0)
        check_loss(loss)
        self.mentor, self.percentile, self.decay, self.width = mentor, percentile, decay, width
        self.burn_in, self.loss = burn_in, loss

    def start(self, context: Context) -> "MentornetTrainer":
        return MentornetTrainer(self, context)


@final
class MentornetTrainer(NoiseRateTrainer):
    whole_batch = True
    saved = (*NoiseRateTrainer.saved, "threshold", "past_losses", "past_thresholds")
    seen: Tensor

    def __init__(self, method: Mentornet, context: Context) -> None:
        super().__init__(context, method.loss, None if method.percentile is None else 1 - method.percentile)
        self.method, self.epoch = method, 1
        self.mentor = None
        if method.mentor != PREDEFINED:
            self.mentor = train_mentor(read_lesson(method.mentor)).to(context.device)
        self.threshold = float("nan")  # until the first batch
        trained_on = np.flatnonzero(context.labels.cpu().numpy() >= 0)
        self.recorded = trained_on[:: max(1, -(-len(trained_on) // _RECORDED))]
        # The loss of every sample when it was last seen, and what is recorded of them after every epoch.
        self.register_buffer("seen", torch.full((context.samples,), torch.nan, device=context.device))
        self.past_losses, self.past_thresholds = self.seen.new_zeros(0, len(self.recorded)), list[float]()

    def weights(self, batch: Batch, losses: Tensor | None) -> Tensor:
        assert losses is not None
        losses = losses.double()
        now = float(losses.cpu().quantile(1 - (self.noise_rate or 0.0)))
        decay = self.method.decay if self.threshold == self.threshold else 0.0
        self.threshold = decay * self.threshold + (1 - decay) * now if decay else now
        epochs = self.context.epochs
        if self.noise_rate is None or self.epoch <= round(self.method.burn_in * epochs):
            return torch.ones_like(losses)
        if self.mentor is not None:
            logits: Tensor = self.mentor(features_of(losses, self.threshold, self.epoch / epochs))
            return logits.sigmoid()
        over, width = losses - self.threshold, self.method.width * self.threshold
        return (1 - over / width).clamp(0, 1) if width > 0 else (over <= 0).double()

    def after_step(self, step: Step) -> None:
        assert step.losses is not None
        self.seen[step.index] = step.losses.to(self.seen.dtype)

    def end_epoch(self) -> None:
        super().end_epoch()
        self.past_losses = torch.cat([self.past_losses, self.seen[None, self.recorded]])
        self.past_thresholds = [*self.past_thresholds, self.threshold]

    def facts(self) -> Mapping[str, float]:
        known = {} if self.threshold != self.threshold else {"loss_threshold": self.threshold}
        return known | ({} if self.is_given else dict(super().facts()))

    def arrays(self) -> Mapping[str, npt.NDArray[np.floating[Any]]]:
        """Losses of some samples after every epoch, and the threshold: another mentor can be trained on them."""
        if not self.past_thresholds:
            return {}
        return {
            "mentor_index": self.recorded.astype(np.float64),
            "mentor_losses": self.past_losses.cpu().numpy(),
            "mentor_thresholds": np.array(self.past_thresholds),
        }
