"""Joint optimisation: weights and labels are updated in turn, then a net is trained on the resulting labels."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, final

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid, one_hot

from pyrite.checks import number, require, whole_number
from pyrite.criterion import to_numbers
from pyrite.data import Batch
from pyrite.errors import PyriteError
from pyrite.methods.context import Context
from pyrite.methods.descent import backward_step, descend
from pyrite.methods.memory import Memory
from pyrite.methods.method import Method, Trainer
from pyrite.methods.staged import Estimate, Stage, Stages
from pyrite.methods.step import Step
from pyrite.processes import all_gather, all_reduce, rank, world_size
from pyrite.soft_margin import row_margins, widened

__all__ = ["Joint", "joint_objective"]

Prior = Literal["given", "uniform"] | Sequence[float]


@final
class Joint(Method):
    """Soft labels and weights in turn, at a constant learning rate; then training from scratch on those labels.

    In the first stage the loss of a batch is KL(label ‖ p) + α KL(prior ‖ mean p) + β H(p). From ``begin`` on, each
    epoch ends with the soft label of every sample replaced by the mean of its predictions in the last ``window``
    epochs. The second stage minimises KL(label ‖ p) with the recipe's schedule.

    Args:
        alpha: the factor of the class prior; it keeps the labels from becoming all the same.
        beta: the factor of the entropy; it keeps the soft labels from staying as they are.
        at: the share of the run that the first stage takes.
        begin: the share of the first stage after which labels change.
        window: the number of epochs over which predictions are averaged.
        prior: the distribution of the classes: ``"given"`` for that of the given labels, ``"uniform"``, or one number
            per class.

    Tanaka et al., 2018.
    """

    def __init__(
        self,
        alpha: float = 1.2,
        beta: float = 0.8,
        *,
        at: float = 0.625,
        begin: float = 0.35,
        window: int = 10,
        prior: Prior = "given",
    ) -> None:
        self.alpha = number("alpha", alpha, least=0)
        self.beta = number("beta", beta, least=0)
        self.at = number("at", at, above=0, below=1)
        self.begin = number("begin", begin, "a share of the first stage, from 0 to 1", least=0, most=1)
        self.window = whole_number("window", window, least=1)
        self.prior = _named(prior) if isinstance(prior, str) else _distribution(prior)

    def start(self, context: Context) -> Stages:
        if context.epochs < 2:
            raise PyriteError(f"epochs is {context.epochs}, but {self} needs 2 or more: one for each stage")
        early = min(max(1, round(self.at * context.epochs)), context.epochs - 1)

        def first(known: Estimate, before: Trainer | None) -> Trainer:
            return _Relabelling(self, context.stage(early))

        def estimate(trainer: Trainer) -> Estimate:
            assert isinstance(trainer, _Relabelling)
            return {"soft_labels": trainer.labels.rows}

        def then(known: Estimate, before: Trainer | None) -> Trainer:
            return _Fixed(context.stage(context.epochs - early), known["soft_labels"])

        return Stages([Stage(early, first, estimate), Stage(context.epochs - early, then)])

    def class_prior(self, context: Context) -> Tensor:
        """The distribution of the classes, in float64."""
        if self.prior == "given":
            counts = torch.bincount(context.labels[context.labels >= 0], minlength=context.classes).double()
            return counts / counts.sum()
        if self.prior == "uniform":
            return torch.full((context.classes,), 1 / context.classes, dtype=torch.float64, device=context.device)
        require(len(self.prior) == context.classes, "prior", self.prior, f"{context.classes} numbers, one per class")
        return torch.tensor(self.prior, dtype=torch.float64, device=context.device)


def _named(prior: str) -> str:
    require(prior in ("given", "uniform"), "prior", prior, "given, uniform or one number per class")
    return prior


def _distribution(prior: Sequence[float]) -> list[float]:
    values = to_numbers(prior, "prior")
    require(
        values.dim() == 1 and bool((values >= 0).all()), "prior", values.tolist(), "one number per class, 0 or more"
    )
    require(abs(float(values.sum()) - 1) < 1e-6, "prior", values.tolist(), f"summing to 1, not {float(values.sum()):g}")
    return [float(value) for value in values]


def _divergence(labels: Tensor, log_p: Tensor) -> Tensor:
    """KL(labels ‖ p) of each row. A label of 0 needs no probability."""
    return (torch.xlogy(labels, labels) - torch.where(labels > 0, labels * log_p, 0.0)).sum(1)


def joint_objective(scores: Tensor, labels: Tensor, prior: Tensor, alpha: float, beta: float) -> Tensor:
    """The mean over a batch of KL(label ‖ p) + β H(p), plus α KL(prior ‖ mean of p).

    >>> even = torch.zeros(2, 2)
    >>> joint_objective(even, torch.eye(2), torch.tensor([0.5, 0.5]), alpha=1, beta=1)
    tensor(1.3863)
    """
    log_p = logsigmoid(row_margins(widened(scores)))
    labels, prior = labels.to(log_p), prior.to(log_p)
    entropy = -(log_p.exp() * log_p).sum(1)
    log_mean = log_p.logsumexp(0) - torch.tensor(len(log_p), dtype=log_p.dtype, device=log_p.device).log()
    between = _divergence(prior.unsqueeze(0), log_mean.unsqueeze(0)).squeeze(0)
    return ((_divergence(labels, log_p) + beta * entropy).mean() + alpha * between).to(scores.dtype)


class _Labelled(Trainer):
    """What both stages have: one net, and a soft label for every sample."""

    def __init__(self, context: Context) -> None:
        self.learner = context.make_learner()
        self.learners = [self.learner]
        self.given = context.labels
        self.one_hot = one_hot(context.labels.clamp(min=0), context.classes).to(self.learner.dtype)
        self.labels = Memory(self.one_hot)

    def facts(self) -> Mapping[str, float]:
        """The share of training samples whose label is no longer the given one."""
        own = self.given >= 0
        return {"relabelled": float((self.labels.rows.argmax(1) != self.given)[own].double().mean())}


@final
class _Relabelling(_Labelled):
    """The first stage."""

    def __init__(self, method: Joint, context: Context) -> None:
        super().__init__(context)
        if self.learner.accumulate > 1:
            raise PyriteError(
                f"accumulate is {self.learner.accumulate}, but joint needs the whole batch at once: leave it 1"
            )
        # With a falling rate the net would memorise wrong labels before they change.
        self.learner.factor_at = lambda step: 1.0
        self.method, self.prior = method, method.class_prior(context)
        self.begin = min(max(1, round(method.begin * context.epochs)), context.epochs)
        # Samples that are not seen in an epoch, such as those of a last batch that is dropped, keep their labels.
        self.recent = [Memory(self.one_hot) for _ in range(min(method.window, context.epochs))]
        self.epoch = 0

    def begin_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def step(self, batch: Batch) -> Step:
        share = torch.tensor(len(batch.labels), dtype=torch.float64, device=batch.labels.device)
        if not all_reduce(share):
            self.learner.skip()
            return Step.empty(batch, self.learner.learning_rate)
        scores = self.learner.scores(self.learner.ready(batch.inputs))
        step = backward_step(self.learner, batch, scores, self._sum(scores, batch.index), share)
        self.recent[(self.epoch - 1) % len(self.recent)].write(step.index, step.scores.softmax(1))
        return step

    def _sum(self, scores: Tensor, index: Tensor) -> Tensor:
        """This process's part of the objective times the number of samples of the batch.

        The mean prediction is that of all processes. Scores of other processes have no graph here, so each process
        gets the gradient for its own samples.
        """
        shares = all_gather((scores.detach(), self.labels[index]))
        shares[rank()] = scores, self.labels[index]
        all_scores, labels = (torch.cat(parts) for parts in zip(*shares, strict=True))
        mean = joint_objective(all_scores, labels, self.prior, self.method.alpha, self.method.beta)
        summed = len(all_scores) * mean
        return summed - summed.detach() * (1 - 1 / world_size())

    def end_epoch(self) -> None:
        if self.epoch >= self.begin:
            seen = self.recent[: self.epoch]
            self.labels.rows.copy_(torch.stack([memory.rows for memory in seen]).mean(0))

    def state_dict(self) -> dict[str, Any]:
        recent = {str(slot): memory.state_dict() for slot, memory in enumerate(self.recent)}
        return {**super().state_dict(), "epoch": self.epoch, "labels": self.labels.state_dict(), "recent": recent}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict(state)
        self.epoch = state["epoch"]
        self.labels.load_state_dict(state["labels"])
        for slot, memory in enumerate(self.recent):
            memory.load_state_dict(state["recent"][str(slot)])


@final
class _Fixed(_Labelled):
    """The second stage: the labels stay, so the estimate of the first stage is all that a resume needs."""

    def __init__(self, context: Context, labels: Tensor) -> None:
        super().__init__(context)
        self.labels.rows.copy_(labels)

    def step(self, batch: Batch) -> Step:
        def cost(scores: Tensor, piece: Batch) -> Tensor:
            log_p = logsigmoid(row_margins(widened(scores)))
            return _divergence(self.labels[piece.index].to(log_p), log_p)

        share = torch.tensor(len(batch.labels), dtype=torch.float64, device=batch.labels.device)
        return descend(self.learner, batch, cost, share)
