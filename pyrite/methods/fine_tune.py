"""Fine-tuning: training on all given labels, then on a few clean ones."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, final

import torch
from torch import Tensor

from pyrite.checks import whole_number
from pyrite.criterion import Loss
from pyrite.curves import CE
from pyrite.data import Batch
from pyrite.methods.context import Context
from pyrite.methods.cycle import Cycle
from pyrite.methods.descent import descend
from pyrite.methods.erm import ERM
from pyrite.methods.method import MetaSet, Method, Trainer
from pyrite.methods.staged import Estimate, Stage, Stages, checked_share, stage_lengths
from pyrite.methods.step import Step

__all__ = ["FineTune"]


@final
class FineTune(Method):
    """Cross entropy on the given labels, then on the clean labels of the meta set alone.

    Net, optimiser and schedule continue, so the second stage has the low learning rates at the end of the schedule.

    Args:
        size: samples in the meta set, whose labels are clean.
        at: the share of the epochs that the first stage has.

    >>> str(FineTune(size=100))
    'fine_tune(size=100, at=0.8)'
    """

    def __init__(self, size: int = 1000, at: float = 0.8) -> None:
        self.size, self.at = whole_number("size", size, least=1), checked_share(at)

    @property
    def meta_set(self) -> MetaSet:
        return MetaSet(self.size, clean=True)

    def start(self, context: Context) -> Stages:
        early, late = stage_lengths(self, context.epochs, self.at)
        meta = context.meta  # raises now, not after the first stage, if there is none

        def first(known: Estimate, before: Trainer | None) -> Trainer:
            return ERM(CE()).start(context.stage(context.epochs))

        def then(known: Estimate, before: Trainer | None) -> Trainer:
            return _FineTuning(context.stage(context.epochs, before.learners if before else ()), Cycle(meta))

        return Stages([Stage(early, first), Stage(late, then)])


@final
class _FineTuning(Trainer):
    """For every batch of the training samples, a step on a batch of the meta set."""

    def __init__(self, context: Context, meta: Cycle) -> None:
        self.learners = [context.make_learner()]
        self.meta = meta
        self.loss: Loss = CE(reduction="none")

    def step(self, batch: Batch) -> Step:
        """Observers see the training samples, which have no weight, so that their margins are still recorded."""
        learner, clean = self.learners[0], self.meta.next()
        scores = learner.evaluate(batch.inputs).clone()
        own = torch.tensor(len(clean.labels), device=clean.labels.device)
        step = descend(learner, clean, self._cost, own)
        return replace(step, index=batch.index, labels=batch.labels, scores=scores, gradient=torch.zeros_like(scores))

    def _cost(self, scores: Tensor, piece: Batch) -> Tensor:
        losses: Tensor = self.loss(scores, piece.labels)
        return losses

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "meta": self.meta.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict(state)
        self.meta.load_state_dict(state["meta"])
