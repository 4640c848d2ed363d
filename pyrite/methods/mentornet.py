"""MentorNet: a mentor weights every sample by its loss; it is predefined, or trained on a run with known labels."""

from collections.abc import Mapping
from typing import Any, Final, final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from pyrite.checks import number
from pyrite.criterion import Loss
from pyrite.curves import CE
from pyrite.data import Batch
from pyrite.errors import PyriteError
from pyrite.methods.context import Context
from pyrite.methods.descent import backward_step
from pyrite.methods.memory import Memory
from pyrite.methods.mentor import features_of, read_lesson, train_mentor
from pyrite.methods.meta_gradient import per_sample
from pyrite.methods.method import Method, Trainer
from pyrite.methods.noise_rate import NoiseRate, check_loss
from pyrite.methods.step import Step
from pyrite.processes import all_gather

__all__ = ["Mentornet"]

PREDEFINED: Final = "predefined"
_RECORDED: Final = 2000  # samples whose losses are saved to train other mentors: enough for three inputs


@final
class Mentornet(Method):
    """Every sample's loss ℓ is multiplied by a weight v that a mentor gives it.

    The threshold λ is a running mean of the ``percentile`` of the losses in a batch. The predefined mentor is
    v = 1 for ℓ ≤ λ, falling linearly to 0 at ℓ = (1 + width) λ. A data-driven mentor is a small network of ℓ, ℓ − λ and
    the share of the run that is over. Losses are divided by the sum of the weights.

    Args:
        mentor: ``"predefined"``, or the folder of a finished run of ``mentornet`` on data whose true labels are known:
            a network learns there which labels are right, and gives the weights here.
        percentile: of the losses, as a share. If None it is 1 minus the noise rate, which is estimated from the
            margins after a fifth of the epochs, from 3 to 10; until then all samples count.
        decay: the share of λ that is kept from one batch to the next.
        width: the width of the falling part, in multiples of λ; with 0, samples count or do not.
        burn_in: the share of the epochs in which all samples count.
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

    def start(self, context: Context) -> "_Mentored":
        return _Mentored(self, context)


@final
class _Mentored(Trainer):
    def __init__(self, method: Mentornet, context: Context) -> None:
        self.method, self.epochs = method, context.epochs
        self.learners = [context.make_learner()]
        if (pieces := self.learners[0].accumulate) > 1:
            raise PyriteError(f"accumulate is {pieces}, but mentornet compares the losses of whole batches: leave it 1")
        self.loss = per_sample(method.loss or CE())
        self.noise_rate = NoiseRate(None if method.percentile is None else 1 - method.percentile, context)
        self.mentor = (
            None if method.mentor == PREDEFINED else train_mentor(read_lesson(method.mentor)).to(context.device)
        )
        self.threshold = float("nan")  # until the first batch
        self.epoch = 1
        trained_on = np.flatnonzero(context.labels.cpu().numpy() >= 0)
        self.recorded = trained_on[:: max(1, -(-len(trained_on) // _RECORDED))]
        self.losses = Memory(torch.full((len(context.labels),), torch.nan, device=context.device))
        self.past: list[tuple[Tensor, float]] = []

    def begin_epoch(self, epoch: int) -> None:
        self.epoch = epoch
        self.noise_rate.begin_epoch(epoch)

    def step(self, batch: Batch) -> Step:
        learner = self.learners[0]
        if not sum(all_gather(len(batch.labels))):
            learner.skip()
            return Step.empty(batch, learner.learning_rate)
        scores = learner.scores(learner.ready(batch.inputs))
        losses = self.loss(scores, batch.labels)
        self._update_threshold(torch.cat(all_gather(losses.detach().double().cpu())))
        weights = self._weights(losses.detach().double())
        step = backward_step(learner, batch, scores, losses * weights.to(losses.dtype), weights.sum(), weights)
        self.losses.write(batch.index, losses)
        return step

    def _update_threshold(self, losses: Tensor) -> None:
        """Move the threshold towards the percentile of the losses of all processes."""
        share = 1.0 if self.noise_rate.value is None else 1 - self.noise_rate.value
        now = float(losses.quantile(share))
        if now - now == 0:  # finite; if not, the step fails, and the threshold is still good
            decay = self.method.decay if self.threshold == self.threshold else 0.0
            self.threshold = decay * self.threshold + (1 - decay) * now if decay else now

    def _weights(self, losses: Tensor) -> Tensor:
        if self.noise_rate.value is None or self.epoch <= round(self.method.burn_in * self.epochs):
            return torch.ones_like(losses)
        if self.mentor is not None:
            logits: Tensor = self.mentor(features_of(losses, self.threshold, self.epoch / self.epochs))
            return logits.sigmoid()
        over, width = losses - self.threshold, self.method.width * self.threshold
        return (1 - over / width).clamp(0, 1) if width > 0 else (over <= 0).double()

    def end_epoch(self) -> None:
        self.noise_rate.end_epoch(self)
        self.past.append((self.losses.rows[self.recorded].cpu(), self.threshold))

    def facts(self) -> Mapping[str, float]:
        known = {} if self.threshold != self.threshold else {"loss_threshold": self.threshold}
        return known | (dict(self.noise_rate.facts()) if self.method.percentile is None else {})

    def arrays(self) -> Mapping[str, npt.NDArray[np.floating[Any]]]:
        """Losses of some samples after every epoch, and the threshold: another mentor can be trained on them."""
        if not self.past:
            return {}
        losses, thresholds = zip(*self.past, strict=True)
        return {
            "mentor_index": self.recorded.astype(np.float64),
            "mentor_losses": torch.stack(losses).numpy(),
            "mentor_thresholds": np.array(thresholds),
        }

    def state_dict(self) -> dict[str, Any]:
        own = {"threshold": str(self.threshold), "epoch": self.epoch, "losses": self.losses.state_dict()}
        own |= {} if self.mentor is None else {"mentor": self.mentor.state_dict()}
        return {**super().state_dict(), **own, "noise_rate": self.noise_rate.state_dict(), "past": dict(self.arrays())}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict(state)
        self.threshold, self.epoch = float(state["threshold"]), state["epoch"]
        self.losses.load_state_dict(state["losses"])
        self.noise_rate.load_state_dict(state["noise_rate"])
        if self.mentor is not None:
            self.mentor.load_state_dict(state["mentor"])
        past = state["past"]
        if past:
            rows = torch.from_numpy(past["mentor_losses"])
            self.past = list(zip(rows, past["mentor_thresholds"].tolist(), strict=True))
