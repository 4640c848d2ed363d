"""A loss that moves from cross entropy towards absolute error while labels are learned."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Final, final

import torch
from scipy.optimize import brentq
from torch import Tensor
from torch.nn.functional import softplus

from pyrite.checks import NotNegative, number
from pyrite.curves import GCE
from pyrite.data import Batch, Batches
from pyrite.draws import Stream, order
from pyrite.methods.method import Context, Method, Step, Trainer
from pyrite.soft_margin import row_margin, wide, wide_dtype

_PER_EPOCH: Final = 4  # times that the exponent changes in an epoch
_ENOUGH: Final = 500  # held-out samples: their mean probability is known to 0.02, and they cost little
_KEPT: Final = 0.5  # where every epoch shows the same inputs
_LARGEST: Final = 2.5  # that losses are multiplied by
_LEAST: Final = 1e-3  # generalised cross entropy with this exponent is cross entropy to three digits

_Positive = Annotated[float, partial(number, above=0, most=1)]


@final
@dataclass(repr=False, eq=False)
class Curriculum(Method):
    """Generalised cross entropy with an exponent q that adapts to how much the net has learned and memorised.

    A label of probability p has the weight p^q (1 - p), p^q times that of cross entropy. Some times per epoch q becomes
    the larger of

    - ``gain`` times the mean p of the labels that were trained on, minus that of held-out labels: a net that has
      memorised nothing gives both the same;
    - the largest exponent for which the mean of p^q is at least ``keep``: labels lose weight once others are learned.

    Losses are divided by the mean of p^q, or by 0.4 if that is less, so that training is as fast as with cross entropy
    and no learning rate has to change. With ``keep=1`` training is cross entropy until something is memorised.
    """

    # The fraction of the weights of cross entropy that is always kept. By default 1 where images are augmented, so that
    # they are learned slowly and memorised late, and samples are held out; 0.5 elsewhere.
    keep: _Positive | None = None
    gain: NotNegative = 4  # the exponent per difference of the mean probabilities
    most: _Positive = 1  # the largest exponent; 1 is absolute error

    held_out = 0.05

    def resolve_defaults(self, *, augmented: bool, held_out: bool, pretrained: bool = False) -> "Curriculum":
        return replace(self, keep=self.keep or (1 if augmented and held_out else _KEPT))

    def start(self, context: Context) -> "CurriculumTrainer":
        augmented, held_out = context.batches.augment is not None, context.held_out is not None
        return CurriculumTrainer(self.resolve_defaults(augmented=augmented, held_out=held_out), context)


def largest_exponent(log_p: Tensor, keep: float, most: float) -> float:
    """The largest q up to ``most`` for which the mean of p^q is at least ``keep``; 0 if ``keep`` is 1.

    >>> round(largest_exponent(torch.full((3,), -math.log(10.0)), keep=0.5, most=1), 3)
    0.301
    """

    def excess(q: float) -> float:  # falls with q, from 1 - keep at q = 0
        return float((q * log_p).exp().mean()) - keep

    if keep == 1 or not len(log_p):
        return 0.0
    return most if excess(most) >= 0 else float(brentq(excess, 0.0, most))


@final
class CurriculumTrainer(Trainer):
    """Gradient steps on a loss whose exponent is set some times per epoch."""

    saved = (*Trainer.saved, "q", "scale", "seen", "steps")

    def __init__(self, method: Curriculum, context: Context) -> None:
        super().__init__(context, GCE(q=1.0))
        assert method.keep is not None
        self.method, self.keep = method, method.keep
        self.held_out = context.held_out
        if self.held_out is not None:
            drawn = order(context.seed, Stream.HELD_OUT, len(self.held_out.index))[:_ENOUGH]
            self.held_out = self.held_out.in_order(index=self.held_out.index[drawn])
        self.every = max(1, context.steps_per_epoch // _PER_EPOCH)
        self.seen = torch.zeros(
            0, dtype=wide_dtype(context.device), device=context.device
        )  # log p since the exponent was set
        self.steps = 0
        # As if all classes were equally likely.
        self.q = min(method.most, -math.log(self.keep) / math.log(context.classes))
        self.scale = min(context.classes**self.q, _LARGEST)

    @property
    def q(self) -> float:
        """The exponent as it is now."""
        return float(self.loss.q)  # type: ignore[arg-type]

    @q.setter
    def q(self, value: float) -> None:
        self.loss.q = max(value, _LEAST)  # type: ignore[assignment]

    def losses(self, scores: Tensor, batch: Batch) -> Tensor:
        losses: Tensor = self.scale * super().losses(scores, batch)
        return losses

    def after_step(self, step: Step) -> None:
        self.seen = torch.cat([self.seen, -softplus(-wide(step.margin))])
        self.steps += 1
        if self.steps % self.every:
            return
        # Set the exponent by the labels that were trained on since the last time, and by held-out labels now.
        seen = self.seen.cpu().double()
        learned = largest_exponent(seen, self.keep, self.method.most)
        memorised = 0.0
        if self.held_out is not None:
            memorised = float(seen.exp().mean()) - self._unseen(self.held_out)
        self.q = max(learned, min(self.method.most, self.method.gain * memorised))
        self.scale = min(1 / float((self.q * seen).exp().mean()), _LARGEST)
        self.seen = self.seen[:0]

    def _unseen(self, held_out: Batches) -> float:
        """The mean probability of held-out labels, for images of the size that the net is trained on now."""
        epoch = self.context.batches.epoch
        scores = self.context.evaluate(partial(self.predict, epoch=epoch), held_out).cpu()
        known = ~scores.isnan().any(1)
        p = torch.sigmoid(row_margin(scores[known], held_out.labels[known]))
        return float(p.sum() / max(len(p), 1))

    def facts(self) -> Mapping[str, float]:
        return {"exponent": self.q}
