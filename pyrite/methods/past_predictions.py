"""Targets from past predictions: early-learning regularisation, and joint optimisation of weights and labels."""

import math
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Annotated, Literal, final

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid, one_hot

from pyrite.checks import Count, NotNegative, number
from pyrite.data import Batch
from pyrite.methods.method import Context, Method, RunPart, Step, Trainer
from pyrite.methods.staged import Stages
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


@final
@dataclass(repr=False, eq=False)
class Joint(Method):
    """Optimise soft labels and weights at a constant learning rate, then train from scratch on the soft labels.

    In the first stage the loss of a batch is KL(label ‖ p) + α KL(prior ‖ mean p) + β H(p). From ``begin`` on, each
    epoch ends with the soft label of every sample replaced by the mean of its predictions in the last ``window``
    epochs. The second stage minimises KL(label ‖ p) with the recipe's schedule.

    Tanaka et al., 2018.
    """

    alpha: NotNegative = 1.2  # the factor of the class prior, which keeps the labels from becoming all the same
    beta: NotNegative = 0.8  # the factor of the entropy, which keeps the soft labels from staying as they are
    _: KW_ONLY
    at: RunPart = 0.625  # the fraction of the run that the first stage takes
    # The fraction of the first stage after which labels change.
    begin: Annotated[float, partial(number, wanted="a fraction of the stage, from 0 to 1", least=0, most=1)] = 0.35
    window: Count = 10  # the number of epochs over which predictions are averaged
    prior: Literal["given", "uniform"] = "given"  # the frequencies of the classes

    def start(self, context: Context) -> Stages:
        return Stages(
            self, context, self.at, lambda stage, known: SoftLabels(stage, known["soft_labels"]),
            first=lambda stage: JointTrainer(self, stage),
            estimate=lambda first: {"soft_labels": first.get_buffer("labels")},
        )  # fmt: skip


def divergence(labels: Tensor, log_p: Tensor) -> Tensor:
    """KL(labels ‖ p) of each row. A label of 0 needs no probability."""
    return (torch.xlogy(labels, labels) - torch.where(labels > 0, labels * log_p, 0.0)).sum(1)


def class_balance(log_p: Tensor, prior: Tensor) -> Tensor:
    """KL(prior ‖ mean of p over a batch), from log-probabilities."""
    log_mean = log_p.logsumexp(0) - math.log(len(log_p))
    return divergence(prior.unsqueeze(0), log_mean.unsqueeze(0)).squeeze(0)


def joint_objective(scores: Tensor, labels: Tensor, prior: Tensor, alpha: float, beta: float) -> Tensor:
    """The mean over a batch of KL(label ‖ p) + β H(p), plus α KL(prior ‖ mean of p).

    >>> even = torch.zeros(2, 2)
    >>> joint_objective(even, torch.eye(2), torch.tensor([0.5, 0.5]), alpha=1, beta=1)
    tensor(1.3863)
    """
    log_p = logsigmoid(row_margins(widened(scores)))
    labels, prior = labels.to(log_p), prior.to(log_p)
    entropy = -(log_p.exp() * log_p).sum(1)
    own = (divergence(labels, log_p) + beta * entropy).mean()
    return (own + alpha * class_balance(log_p, prior)).to(scores.dtype)


class SoftLabels(Trainer):
    """Steps on KL(label ‖ p) with a soft label for every sample. In the second stage the labels stay."""

    labels: Tensor

    def __init__(self, context: Context, labels: Tensor | None = None) -> None:
        super().__init__(context)
        given = one_hot(context.labels.clamp(min=0), context.classes).to(self.learner.dtype)
        self.register_buffer("labels", given if labels is None else labels.to(given), persistent=labels is None)

    def losses(self, scores: Tensor, batch: Batch) -> Tensor:
        log_p = logsigmoid(row_margins(widened(scores)))
        return divergence(self.labels[batch.index].to(log_p), log_p)

    def facts(self) -> Mapping[str, float]:
        """The fraction of training samples whose label is no longer the given one."""
        given = self.context.labels
        return {"relabelled": float(wide((self.labels.argmax(1) != given)[given >= 0]).mean())}


@final
class JointTrainer(SoftLabels):
    """The first stage, in which labels change."""

    whole_batch = True
    recent: Tensor

    def __init__(self, method: Joint, context: Context) -> None:
        super().__init__(context)
        # With a falling learning rate the net would memorise wrong labels before they change.
        self.learner.factor_at = lambda step: 1.0
        self.method, self.prior = method, context.class_frequencies
        if method.prior == "uniform":
            self.prior = torch.full_like(self.prior, 1 / context.classes)
        self.begin = min(max(1, round(method.begin * context.epochs)), context.epochs)
        # Samples that are not seen in an epoch, such as those of a last batch that is dropped, keep their labels.
        self.register_buffer("recent", self.labels.repeat(min(method.window, context.epochs), 1, 1))

    def losses(self, scores: Tensor, batch: Batch) -> Tensor:
        labels = self.labels[batch.index]
        return len(scores) * joint_objective(scores, labels, self.prior, self.method.alpha, self.method.beta)

    def after_step(self, step: Step) -> None:
        self.recent[(self.epoch - 1) % len(self.recent), step.index] = step.scores.softmax(1)

    def end_epoch(self) -> None:
        if self.epoch >= self.begin:
            self.labels.copy_(self.recent[: self.epoch].mean(0))
