"""Sparse over-parameterisation: numbers of each sample take up what its label adds to the prediction."""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Final, final

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid, one_hot

from pyrite.checks import NotNegative
from pyrite.data import Batch
from pyrite.methods.method import Context, Method, Step, Trainer
from pyrite.methods.past_predictions import class_balance, divergence
from pyrite.soft_margin import wide, widened

_FIRST: Final = 1e-8  # u and v at the beginning, as in the paper


@final
@dataclass(repr=False, eq=False)
class SOP(Method):
    """Cross entropy of p + s, where s is u² at the label and −v² at every other class; u and v belong to the sample.

    Negative numbers of p + s become 0, and the rest is normalised. Plain SGD trains u with this loss, and v with the
    squared distance of the one-hot prediction plus s from the label. Early training hardly changes u and v. Later u
    explains labels that contradict the prediction, so that the net need not fit them.

    With ``consistency=0.9, balance=0.1`` this is SOP+.

    Liu et al., 2022 ("Robust training under label noise by over-parameterization").
    """

    lr_u: NotNegative = 10  # the learning rate of u, constant
    lr_v: NotNegative = 10  # the learning rate of v, constant
    _: KW_ONLY
    consistency: NotNegative = 0  # the factor of KL(p ‖ p'), with p' for another random view of the sample
    balance: NotNegative = 0  # the factor of KL(uniform ‖ mean p of the batch)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.largest_weight = 1 + self.consistency + self.balance

    def start(self, context: Context) -> "SOPTrainer":
        return SOPTrainer(self, context)


def rest(log_p: Tensor, labels: Tensor, v: Tensor) -> Tensor:
    """The sum over all classes but the label of max(p − v², 0)."""
    return (log_p.exp() - v.square()).clamp(min=0).scatter(1, labels.unsqueeze(1), 0.0).sum(1)


def over_parameterised(log_p: Tensor, labels: Tensor, u: Tensor, v: Tensor) -> Tensor:
    """Cross entropy of max(p + s, 0), normalised, for each row.

    The fraction of the label is the sigmoid of log(p_y + u²) − log of the rest. Both are computed from
    log-probabilities, so neither small p_y nor small rests are lost.

    >>> log_p = torch.tensor([[0.25, 0.75]]).log()
    >>> over_parameterised(log_p, torch.tensor([0]), torch.tensor([0.5]), torch.tensor([[0.0, 0.5]]))
    tensor([0.6931])
    """
    own = torch.logaddexp(log_p.gather(1, labels.unsqueeze(1)).squeeze(1), 2 * u.abs().log())
    least = torch.finfo(log_p.dtype).tiny  # where nothing of the rest is left, the loss and its gradient are 0
    return -logsigmoid(own - rest(log_p, labels, v).clamp(min=least).log())


@final
class SOPTrainer(Trainer):
    """Steps of the net on predictions with s added, and steps of u and v."""

    u: Tensor
    v: Tensor

    def __init__(self, method: SOP, context: Context) -> None:
        self.whole_batch = method.balance > 0
        super().__init__(context)
        self.method = method
        ones = torch.ones(context.samples, context.classes, dtype=self.learner.dtype, device=context.device)
        self.register_buffer("u", _FIRST * ones[:, 0])
        self.register_buffer("v", _FIRST * ones)

    def losses(self, scores: Tensor, batch: Batch) -> Tensor:
        log_p = widened(scores).log_softmax(1)
        u, v = self.u[batch.index].to(log_p), self.v[batch.index].to(log_p)
        losses = over_parameterised(log_p, batch.labels, u, v)
        if self.method.consistency:
            own = self.own(len(batch.inputs)) if self.whole_batch else slice(None)
            second = self.learner.scores(self.context.batches.again(batch.index[own]))
            second = self.spread(second, own) if self.whole_batch else second
            losses = losses + self.method.consistency * divergence(log_p.detach().exp(), widened(second).log_softmax(1))
        if self.method.balance:
            uniform = log_p.new_full((log_p.shape[1],), 1 / log_p.shape[1])
            losses = losses + self.method.balance * class_balance(log_p, uniform)
        return losses.to(scores.dtype)

    def after_step(self, step: Step) -> None:
        """A step of u and v by the gradient of the mean over the batch, at the prediction before the net's step."""
        log_p = widened(step.scores).log_softmax(1)
        u, v, labels = self.u[step.index].to(log_p), self.v[step.index].to(log_p), step.labels
        others, own = rest(log_p, labels, v), log_p.gather(1, labels.unsqueeze(1)).squeeze(1).exp() + u.square()
        predicted, classes = one_hot(log_p.argmax(1), log_p.shape[1]), torch.arange(log_p.shape[1], device=v.device)
        rate_u, rate_v = self.method.lr_u / step.divisor, self.method.lr_v / step.divisor
        # The derivatives by u and v. Above 1, u² and v² would have no effect, as in the authors' code.
        u = u + rate_u * 2 * u * others / (own * (own + others))
        v = v + rate_v * 4 * v * (predicted - v.square()) * (classes != labels.unsqueeze(1))
        self.u[step.index], self.v[step.index] = u.clamp(-1, 1).to(self.u), v.clamp(-1, 1).to(self.v)

    def facts(self) -> Mapping[str, float]:
        """The fraction of training samples of which u² explains more than half of the label."""
        trained_on = self.context.labels >= 0
        return {"explained_by_u": float(wide(self.u[trained_on].square() > 0.5).mean())}

    def arrays(self) -> Mapping[str, Tensor]:
        return {"u": self.u}
