"""Early-learning regularisation: predictions are kept near their own running mean, so that labels that disagree
with it are not memorised."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, final

import torch
from torch import Tensor

from pyrite.checks import NotNegative, number
from pyrite.data import Batch
from pyrite.methods.method import Context, Method, Step, Trainer
from pyrite.soft_margin import row_margins, wide, widened


@final
@dataclass(repr=False, eq=False)
class ELR(Method):
    """Cross entropy plus ``coefficient`` times log(1 − ⟨p, t⟩), where t is a running mean of the sample's p.

    Before each step t becomes momentum · t + (1 − momentum) · p; it begins at 0 and has no gradient.

    Liu et al., 2020 ("Early-learning regularization prevents memorization of noisy labels").
    """

    coefficient: NotNegative = 3  # λ, the factor of the regulariser
    momentum: Annotated[float, partial(number, least=0, below=1)] = 0.7  # β, of the running mean at each visit

    def __post_init__(self) -> None:
        super().__post_init__()
        # Half the L1 norm of p − e_y + λ (q − p), with distributions p and q, is at most max(1, λ). With t = p the
        # regulariser raises the score of the leading class with λ/2, however certain it is.
        self.largest_weight, self.needs_clipping = max(1.0, self.coefficient), self.coefficient > 0

    def start(self, context: Context) -> "ELRTrainer":
        return ELRTrainer(self, context)


def elr_penalty(scores: Tensor, complement: Tensor) -> Tensor:
    """log(1 − ⟨p, t⟩) of each row, from scores and 1 − t.

    As the probabilities sum to 1 it is the logarithm of Σ p_c (1 − t_c). All terms are positive, and those of all
    classes but one are near p_c, so nothing cancels and nothing is clamped: the gradient is q − p, with q in proportion
    to p (1 − t).

    >>> elr_penalty(torch.tensor([[0.0, 0.0]]), torch.tensor([[0.25, 0.75]]))
    tensor([-0.6931])
    """
    return (scores.log_softmax(1) + complement.to(scores).log()).logsumexp(1)


@final
class ELRTrainer(Trainer):
    """Cross entropy with a regulariser towards the remembered predictions."""

    complement: Tensor

    def __init__(self, method: ELR, context: Context) -> None:
        super().__init__(context)
        self.method = method
        # 1 − t in place of t: a probability that rounds to 1 would leave nothing of it.
        ones = torch.ones(context.samples, context.classes, dtype=self.learner.dtype, device=context.device)
        self.register_buffer("complement", ones)

    def losses(self, scores: Tensor, batch: Batch) -> Tensor:
        complement = self._updated(scores.detach(), batch.index)
        return super().losses(scores, batch) + self.method.coefficient * elr_penalty(widened(scores), complement)

    def after_step(self, step: Step) -> None:
        self.complement[step.index] = self._updated(step.scores, step.index).to(self.complement.dtype)

    def _updated(self, scores: Tensor, index: Tensor) -> Tensor:
        """1 − t after an update of the running mean with these scores."""
        rest = torch.sigmoid(-row_margins(widened(scores)))
        return self.method.momentum * self.complement[index].to(rest) + (1 - self.method.momentum) * rest

    def facts(self) -> Mapping[str, float]:
        """The fraction of training samples whose running mean is largest for the given label."""
        given = self.context.labels
        return {"target_is_label": float(wide((self.complement.argmin(1) == given)[given >= 0]).mean())}
