"""Fine-tuning: training on all given labels, then on a few clean ones."""

from dataclasses import replace
from typing import final

import torch

from pyrite.checks import whole_number
from pyrite.data import Batch
from pyrite.methods.context import Context, Cycle
from pyrite.methods.method import MetaSet, Method
from pyrite.methods.staged import Stages, stage_fraction
from pyrite.methods.step import Step
from pyrite.methods.trainer import Trainer

__all__ = ["FineTune"]


@final
class FineTune(Method):
    """Cross entropy on the given labels, then on the clean labels of the meta set alone.

    Net, optimiser and schedule continue, so the second stage has the low learning rates at the end of the schedule.

    Args:
        size: samples in the meta set, whose labels are clean.
        at: the fraction of the epochs that the first stage has.

    >>> str(FineTune(size=100))
    'fine_tune(size=100, at=0.8)'
    """

    def __init__(self, size: int = 1000, at: float = 0.8) -> None:
        self.size, self.at = whole_number("size", size, least=1), stage_fraction(at)

    @property
    def meta_set(self) -> MetaSet:
        return MetaSet(self.size, clean=True)

    def start(self, context: Context) -> Stages:
        meta = context.meta  # raises now, not after the first stage, if there is none
        return Stages(self, context, self.at, lambda stage, known: FineTuneTrainer(stage, Cycle(meta)), restart=False)


@final
class FineTuneTrainer(Trainer):
    """For every batch of the training samples, a step on a batch of the meta set."""

    def __init__(self, context: Context, meta: Cycle) -> None:
        super().__init__(context)
        self.meta = meta

    def step(self, batch: Batch) -> Step:
        """Observers see the training samples, which have no weight, so that their margins are still recorded."""
        scores = self.learner.evaluate(batch.inputs).clone()
        step = super().step(self.meta.next())
        return replace(
            step, index=batch.index, labels=batch.labels, scores=scores, gradient=torch.zeros_like(scores), losses=None
        )
