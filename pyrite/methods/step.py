"""What observers see of one step of training."""

from dataclasses import dataclass
from functools import cached_property
from typing import Final, final

import torch
from torch import Tensor

from pyrite.data import Batch
from pyrite.soft_margin import margins, row_margin

__all__ = ["Step"]

_FEW: Final = 256  # classes up to which the margins of all cost about as much as that of one


@final
@dataclass(frozen=True, eq=False)
class Step:
    """One step on a batch, as observers see it. Margins and weights are computed when they are first used.

    Attributes:
        index: the numbers of this process's samples; every tensor here has one row for each of them.
        labels: their given labels.
        scores: what the model gave them before the step.
        gradient: the derivative of the objective (a mean over all processes) with respect to the scores.
        loss: the mean loss of the whole batch, over all processes.
        denominator: what that mean was divided by: the number of samples, or the sum of their weights.
        learning_rate: that of the step.
        trust: what the method multiplied each sample's loss by; None if it does not weight samples.
        unseen: scores of nets that are not trained on the sample; None if the method has no such net.
        losses: the loss of each sample before it was weighted; None if the method has no loss per sample.
    """

    index: Tensor
    labels: Tensor
    scores: Tensor
    gradient: Tensor
    loss: float
    denominator: float
    learning_rate: float
    trust: Tensor | None = None
    unseen: Tensor | None = None
    losses: Tensor | None = None

    @cached_property
    def margin(self) -> Tensor:
        """Δ of the given label; with few classes it is taken from ``margins``, which observers need anyway."""
        if self.scores.shape[1] <= _FEW:
            return self.margins.gather(1, self.labels.unsqueeze(1)).squeeze(1)
        return row_margin(self.scores, self.labels).to(self.scores.dtype)

    @cached_property
    def margins(self) -> Tensor:
        """Δ of every class as if it were the label."""
        return margins(self.scores)

    @cached_property
    def weight(self) -> Tensor:
        """The weight of each sample: half the L1 norm of the gradient of its loss with respect to its scores.

        For a curve this is w(Δ), because ∇L = −w ∇Δ and the L1 norm of ∇Δ is 2.
        """
        return self.gradient.abs().sum(1, dtype=torch.float64) * (self.denominator / 2)

    @property
    def prediction(self) -> Tensor:
        """The class with the highest score."""
        return self.scores.argmax(1)

    @classmethod
    def empty(cls, batch: Batch, learning_rate: float) -> "Step":
        """The step of a batch in which no sample counts."""
        nothing = torch.zeros((0, 2), dtype=torch.float64)
        return cls(batch.index[:0], batch.labels[:0], nothing, nothing, 0.0, 0.0, learning_rate)
