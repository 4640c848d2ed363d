"""Two methods that need everything the contract offers. They are not meant to be good."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

import pyrite
from pyrite.data import Batch
from pyrite.methods import ERM, Context, Memory, Method, Stage, Stages, Step, Trainer, backward_step, descend
from pyrite.processes import all_gather


class Pair(Method):
    """Two nets; each learns from the samples whose loss is small for the other. Both predict.

    Args:
        keep: the share of a batch that is learned from.
    """

    def __init__(self, keep: float = 0.6) -> None:
        self.keep = keep

    def start(self, context: Context) -> "PairTrainer":
        return PairTrainer(self, context)


class PairTrainer(Trainer):
    def __init__(self, method: Pair, context: Context) -> None:
        self.keep = method.keep
        self.learners = [context.make_learner(), context.make_learner()]
        self.loss = pyrite.CE(reduction="none")
        self.chosen = 0

    def step(self, batch: Batch) -> Step:
        scores = [learner.scores(learner.ready(batch.inputs)) for learner in self.learners]
        losses = [self.loss(rows, batch.labels) for rows in scores]
        small = [self._small(values.detach()) for values in losses]
        self.chosen += sum(int(chosen.sum()) for chosen in all_gather(small[0].cpu()))
        steps = [
            backward_step(learner, batch, rows, values * chosen, chosen.sum(), chosen.double())
            for learner, rows, values, chosen in zip(self.learners, scores, losses, reversed(small), strict=True)
        ]
        return steps[0]

    def _small(self, losses: Tensor) -> Tensor:
        """Which losses are among the smallest of the whole batch, over all processes."""
        everyone = torch.cat(all_gather(losses)).sort().values
        return losses <= everyone[max(0, int(self.keep * len(everyone)) - 1)] if len(everyone) else losses > 0

    def end_epoch(self) -> None:
        self.before, self.chosen = self.chosen, 0

    def facts(self) -> Mapping[str, float]:
        return {"chosen": self.before}

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "chosen": self.chosen}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict(state)
        self.chosen = state["chosen"]


class Relabel(Method):
    """Cross entropy first; its confusions are estimated; then, from the initial weights, with labels that change.

    The targets are a running mean of what was predicted, the labels are replaced at the end of every epoch, and an
    average of the weights predicts.
    """

    def start(self, context: Context) -> Stages:
        half = context.epochs // 2

        def first(known: Mapping[str, Tensor], before: Trainer | None) -> Trainer:
            return ERM(pyrite.CE()).start(context.stage(half))

        def estimate(trainer: Trainer) -> Mapping[str, Tensor]:
            own = context.labels >= 0
            shares = context.evaluate(trainer.predict).softmax(1)[own]
            rows = torch.zeros(context.classes, context.classes, dtype=shares.dtype)
            return {"confusion": rows.index_add(0, context.labels[own], shares)}

        def then(known: Mapping[str, Tensor], before: Trainer | None) -> Trainer:
            return RelabelTrainer(context.stage(context.epochs - half), known["confusion"])

        return Stages([Stage(half, first, estimate), Stage(context.epochs - half, then)])


class RelabelTrainer(Trainer):
    def __init__(self, context: Context, confusion: Tensor) -> None:
        self.learners = [context.make_learner()]
        one_hot = nn.functional.one_hot(context.labels.clamp(min=0), context.classes).to(self.learners[0].dtype)
        self.targets = Memory(one_hot)
        self.labels = context.labels.clone()
        self.prior = (confusion.sum(0) / confusion.sum()).to(one_hot)
        self.average = AveragedModel(self.learners[0].model, multi_avg_fn=get_ema_multi_avg_fn(0.5), use_buffers=True)
        self.loss = pyrite.CE(reduction="none")

    def begin_epoch(self, epoch: int) -> None:
        if epoch > 1:
            self.labels = torch.where(self.labels >= 0, self.targets.rows.argmax(1), -1)

    def step(self, batch: Batch) -> Step:
        def cost(scores: Tensor, piece: Batch) -> Tensor:
            pull = -(self.prior * scores.log_softmax(1)).sum(1)
            return self.loss(scores, self.labels[piece.index]) + 0.1 * pull

        step = descend(self.learners[0], batch, cost, torch.tensor(len(batch.labels)))
        if step.denominator:
            shares = 0.7 * self.targets[step.index] + 0.3 * step.scores.softmax(1)
            self.targets.write(step.index, shares)
            self.average.update_parameters(self.learners[0].model)
        return step

    @property
    def predictors(self) -> Sequence[nn.Module]:
        return [self.average.module]

    def facts(self) -> Mapping[str, float]:
        return {"kept": float((self.labels == self.targets.rows.argmax(1)).double().mean())}

    def state_dict(self) -> dict[str, Any]:
        own = {"targets": self.targets.state_dict(), "labels": self.labels, "average": self.average.state_dict()}
        return {**super().state_dict(), **own}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict(state)
        self.targets.load_state_dict(state["targets"])
        self.labels = state["labels"].to(self.labels.device)
        self.average.load_state_dict(state["average"])


TOYS = {"pair": Pair, "relabel": Relabel}
