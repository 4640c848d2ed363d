"""Methods that train on samples whose true labels are known: fine-tuning, and gold loss correction."""

from dataclasses import replace
from typing import final

import torch
from torch import Tensor

from pyrite.checks import whole_number
from pyrite.data import Batch, Batches
from pyrite.losses import Forward
from pyrite.methods.context import Cycle
from pyrite.methods.method import Context, MetaSet, Method, Step, Trainer
from pyrite.methods.staged import Estimate, Stages, stage_fraction
from pyrite.methods.transition import as_estimate, from_gold


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
        self.meta_set = MetaSet(self.size, clean=True)

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


@final
class GLC(Method):
    """The noise matrix is the mean prediction on gold samples of a net trained on given labels; then a second net.

    The second net starts from the initial weights. It learns gold samples with cross entropy and all others with the
    forward correction by that matrix; each sample counts the same.

    Args:
        size: gold samples: a meta set with clean labels.
        at: the fraction of the epochs in which the first net is trained.

    >>> str(GLC(size=100))
    'glc(size=100, at=0.5)'

    Hendrycks et al., 2018 ("Using trusted data to train deep networks on labels corrupted by severe noise").
    """

    def __init__(self, size: int = 1000, at: float = 0.5) -> None:
        self.size, self.at = whole_number("size", size, least=1), stage_fraction(at)
        self.meta_set = MetaSet(self.size, clean=True)

    def start(self, context: Context) -> Stages:
        gold = context.meta

        def estimate(first: Trainer) -> Estimate:
            samples = gold.in_order()
            scores = context.predictions(first.predict, samples).cpu()
            labels, readable = gold.labels[torch.from_numpy(samples.index)], scores.isfinite().all(1)
            return as_estimate(from_gold(scores[readable], labels[readable]))

        return Stages(
            self, context, self.at, lambda stage, known: GLCTrainer(stage, gold, known["matrix"]), estimate=estimate
        )


@final
class GLCTrainer(Trainer):
    """The second stage: steps on a batch and a batch of gold samples together.

    There is a gold batch for every other batch, however few gold samples there are; their losses are multiplied so
    that over an epoch each counts as much as any other sample.
    """

    def __init__(self, context: Context, gold: Batches, matrix: Tensor) -> None:
        super().__init__(context)
        self.gold, self.ratio = Cycle(gold), len(gold.index) / len(context.batches.index)
        self.corrected = Forward(matrix, reduction="none")

    def step(self, batch: Batch) -> Step:
        gold, count = self.gold.next(), len(batch.labels)
        counts = self.total(torch.tensor([count, len(gold.labels)])).tolist()
        self.factor = self.ratio * counts[0] / counts[1] if counts[1] else 0.0
        both = Batch(
            torch.cat([batch.inputs, gold.inputs]),
            torch.cat([batch.labels, gold.labels]),
            torch.cat([batch.index, torch.full_like(gold.index, -1)]),
        )
        step = super().step(both)
        own = {name: getattr(step, name)[:count] for name in ("index", "labels", "scores", "gradient")}
        return replace(step, **own, losses=None)

    def losses(self, scores: Tensor, batch: Batch) -> Tensor:
        clean, corrected = super().losses(scores, batch), self.corrected(scores, batch.labels)
        return torch.where(batch.index < 0, self.factor * clean, corrected)

    def denominator(self, batch: Batch, weights: Tensor | None) -> Tensor:
        gold = (batch.index < 0).sum()
        return len(batch.index) - gold + self.factor * gold.double()
