"""Gold loss correction: the noise matrix is measured on samples whose true labels are known."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, final

import torch
from torch import Tensor

from pyrite.checks import whole_number
from pyrite.curves import CE
from pyrite.data import Batch
from pyrite.losses import Forward
from pyrite.methods.context import Context
from pyrite.methods.cycle import Cycle
from pyrite.methods.descent import descend
from pyrite.methods.erm import ERM
from pyrite.methods.method import MetaSet, Method, Trainer
from pyrite.methods.staged import Estimate, Stage, Stages, checked_share, stage_lengths
from pyrite.methods.step import Step
from pyrite.methods.transition import as_estimate, from_gold
from pyrite.processes import all_gather, all_reduce

__all__ = ["GLC"]


@final
class GLC(Method):
    """The noise matrix is the mean prediction on gold samples of a net trained on given labels; then a second net.

    The second net starts from the initial weights. It learns gold samples with cross entropy and all others with the
    forward correction by that matrix; each sample counts the same.

    Args:
        size: gold samples: a meta set with clean labels.
        at: the share of the epochs in which the first net is trained.

    >>> str(GLC(size=100))
    'glc(size=100, at=0.5)'

    Hendrycks et al., 2018 ("Using trusted data to train deep networks on labels corrupted by severe noise").
    """

    def __init__(self, size: int = 1000, at: float = 0.5) -> None:
        self.size, self.at = whole_number("size", size, least=1), checked_share(at)

    @property
    def meta_set(self) -> MetaSet:
        return MetaSet(self.size, clean=True)

    def start(self, context: Context) -> Stages:
        early, late = stage_lengths(self, context.epochs, self.at)
        gold = context.meta

        def first(known: Estimate, before: Trainer | None) -> Trainer:
            return ERM(CE()).start(context.stage(early))

        def estimate(trainer: Trainer) -> Estimate:
            own = [(trainer.predict(inputs).cpu(), labels.cpu()) for inputs, labels, _ in gold.in_order()]
            shares = [share for process in all_gather(own) for share in process]
            scores, labels = (torch.cat(parts) for parts in zip(*shares, strict=True))
            return as_estimate(from_gold(scores, labels))

        def then(known: Estimate, before: Trainer | None) -> Trainer:
            ratio = len(gold.index) / len(context.batches.index)
            return _Corrected(context.stage(late), Cycle(gold), known["matrix"], ratio)

        return Stages([Stage(early, first, estimate), Stage(late, then)])


@final
class _Corrected(Trainer):
    """Steps on a batch and a batch of gold samples together.

    Args:
        context: of the second stage.
        gold: batches of the gold samples.
        matrix: T[i, j] = P(given j | true i).
        ratio: gold samples per other sample. There is a gold batch for every other batch, however few gold samples
            there are; their losses are multiplied so that over an epoch each counts as much as any other sample.
    """

    def __init__(self, context: Context, gold: Cycle, matrix: Tensor, ratio: float) -> None:
        self.learners = [context.make_learner()]
        self.gold, self.ratio = gold, ratio
        self.clean, self.corrected = CE(reduction="none"), Forward(matrix, reduction="none")

    def step(self, batch: Batch) -> Step:
        gold = self.gold.next()
        count = len(batch.labels)
        counts = torch.tensor([count, len(gold.labels)], dtype=torch.float64, device=batch.labels.device)
        noisy_count, gold_count = all_reduce(counts).tolist()
        factor = self.ratio * noisy_count / gold_count if gold_count else 0.0

        def cost(scores: Tensor, piece: Batch) -> Tensor:
            is_gold = piece.index < 0
            clean, corrected = self.clean(scores, piece.labels), self.corrected(scores, piece.labels)
            return torch.where(is_gold, factor * clean, corrected)

        both = Batch(
            torch.cat([batch.inputs, gold.inputs]),
            torch.cat([batch.labels, gold.labels]),
            torch.cat([batch.index, torch.full_like(gold.index, -1)]),
        )
        step = descend(self.learners[0], both, cost, counts[0] + factor * counts[1])
        if not step.denominator:
            return step
        return replace(
            step, index=batch.index, labels=batch.labels, scores=step.scores[:count], gradient=step.gradient[:count]
        )

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "gold": self.gold.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict(state)
        self.gold.load_state_dict(state["gold"])
