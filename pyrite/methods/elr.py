"""Early-learning regularisation: predictions are kept near their own running mean, so that labels that disagree
with it are not memorised."""

from collections.abc import Mapping
from typing import Any, final

import torch
from torch import Tensor

from pyrite.checks import number
from pyrite.curves import CE
from pyrite.data import Batch
from pyrite.methods.context import Context
from pyrite.methods.descent import descend
from pyrite.methods.memory import Memory
from pyrite.methods.method import Method, Trainer
from pyrite.methods.step import Step
from pyrite.soft_margin import row_margins, widened

__all__ = ["ELR", "elr_penalty"]


@final
class ELR(Method):
    """Cross entropy plus ``coefficient`` times log(1 − ⟨p, t⟩), where t is a running mean of the sample's p.

    Before each step t becomes momentum · t + (1 − momentum) · p; it begins at 0 and has no gradient.

    Args:
        coefficient: λ, the factor of the regulariser.
        momentum: β, the share of the running mean that remains at each visit of the sample.

    >>> str(ELR())
    'elr(coefficient=3, momentum=0.7)'

    Liu et al., 2020 ("Early-learning regularization prevents memorization of noisy labels").
    """

    def __init__(self, coefficient: float = 3, momentum: float = 0.7) -> None:
        self.coefficient = number("coefficient", coefficient, least=0)
        self.momentum = number("momentum", momentum, least=0, below=1)

    @property
    def largest_weight(self) -> float:
        """Half the L1 norm of p − e_y + λ (q − p), with distributions p and q, is at most max(1, λ)."""
        return max(1.0, self.coefficient)

    @property
    def needs_clipping(self) -> bool:
        """With t = p the regulariser raises the score of the leading class with λ/2, however certain it is."""
        return self.coefficient > 0

    def start(self, context: Context) -> "_Regularised":
        return _Regularised(self, context)


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
class _Regularised(Trainer):
    def __init__(self, method: ELR, context: Context) -> None:
        self.coefficient, self.momentum = method.coefficient, method.momentum
        learner = context.make_learner()
        self.learners = [learner]
        self.given = context.labels
        # 1 − t in place of t: a probability that rounds to 1 would leave nothing of it.
        ones = torch.ones(len(context.labels), context.classes, dtype=learner.dtype, device=context.device)
        self.complement = Memory(ones)
        self.loss = CE(reduction="none")

    def step(self, batch: Batch) -> Step:
        def cost(scores: Tensor, piece: Batch) -> Tensor:
            losses: Tensor = self.loss(scores, piece.labels)
            complement = self._updated(scores.detach(), piece.index)
            return losses + self.coefficient * elr_penalty(widened(scores), complement)

        share = torch.tensor(len(batch.labels), dtype=torch.float64, device=batch.labels.device)
        step = descend(self.learners[0], batch, cost, share)
        if step.denominator:  # written after the step, so that a step that fails changes nothing
            self.complement.write(step.index, self._updated(step.scores, step.index))
        return step

    def _updated(self, scores: Tensor, index: Tensor) -> Tensor:
        """1 − t after an update of the running mean with these scores."""
        rest = torch.sigmoid(-row_margins(widened(scores)))
        return self.momentum * self.complement[index].to(rest) + (1 - self.momentum) * rest

    def facts(self) -> Mapping[str, float]:
        """The share of training samples whose running mean is largest for the given label."""
        own = self.given >= 0
        first = self.complement.rows.argmin(1)
        return {"target_is_label": float((first == self.given)[own].double().mean())}

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "complement": self.complement.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict(state)
        self.complement.load_state_dict(state["complement"])
