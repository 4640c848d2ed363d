"""Steps on per-sample weighted losses, with weights that depend on what a step does to a meta set."""

import warnings
from abc import abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pyrite.criterion import Loss
from pyrite.curves import CE
from pyrite.data import Batch, Batches
from pyrite.errors import PyriteError
from pyrite.methods.context import Context
from pyrite.methods.cycle import Cycle
from pyrite.methods.descent import backward_step
from pyrite.methods.learner import Learner
from pyrite.methods.meta_gradient import Passes, per_sample, same_draws
from pyrite.methods.method import Trainer
from pyrite.methods.step import Step
from pyrite.processes import all_reduce

__all__ = ["Again", "Weighting"]

Again = Callable[[], AbstractContextManager[None]]


class Weighting(Trainer):
    """Steps of a model on a weighted sum of losses; a subclass computes the weights.

    Args:
        context: with the meta set.
        meta_loss: what is measured on the meta set.
        loss: what the model is trained with.
        lean: compute the graph of the training pass twice, so that only one graph is in memory at a time.
    """

    def __init__(self, context: Context, meta_loss: Loss, loss: Loss | None = None, *, lean: bool = False) -> None:
        self.meta, self.lean = Cycle(context.meta), lean
        self.learner = context.make_learner()
        self.learners = [self.learner]
        _check_learner(self.learner)
        self.loss, self.meta_loss = per_sample(loss or CE()), per_sample(meta_loss)
        self.passes = Passes(self.learner.model, self.loss, self.meta_loss)
        _check_meta_set(context.meta, context.labels)

    @abstractmethod
    def weigh(self, batch: tuple[Tensor, Tensor], losses: Tensor, again: Again) -> tuple[Tensor, Tensor]:
        """The factor of each loss in the objective of all processes, and the trust in each sample, for observers.

        The graph of ``losses`` must be kept, unless ``lean``.
        """

    def step(self, batch: Batch) -> Step:
        learner = self.learner
        inputs, labels = learner.ready(batch.inputs), batch.labels
        own = torch.tensor(len(labels), dtype=torch.float64, device=labels.device)
        count = float(all_reduce(own))
        if not count:
            learner.skip()
            return Step.empty(batch, learner.learning_rate)
        with same_draws(learner.model) as again:
            scores = learner.scores(inputs)
            losses = self.passes.loss(scores, labels)
            omega, trust = self.weigh((inputs, labels), losses, again)
            if self.lean:  # the graph is gone; running statistics have been updated already
                with again():
                    scores = self.passes.scores(inputs)
                losses = self.passes.loss(scores, labels)
            return backward_step(learner, batch, scores, losses * (omega * count), own, trust.double())

    def meta_batch(self) -> tuple[Tensor, Tensor]:
        """The next batch of the meta set."""
        inputs, labels, _ = self.meta.next()
        return self.learner.ready(inputs), labels

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "meta": self.meta.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict(state)
        self.meta.load_state_dict(state["meta"])


def _check_learner(learner: Learner) -> None:
    """Raise ``ValueError`` for settings that meta-gradients do not support."""
    if learner.accumulate > 1:
        raise PyriteError(f"accumulate is {learner.accumulate}, but meta-gradients need whole batches: leave it 1")
    if learner.precision == "bfloat16":
        raise PyriteError("precision is bfloat16, but meta-gradients need float32 or float64")


def _check_meta_set(meta: Batches, given: Tensor) -> None:
    """Warn of a meta set that is smaller than a batch, or in which classes are missing."""
    count = len(meta.index)
    if count < meta.batch_size:
        warnings.warn(
            f"the meta set has {count} samples, fewer than a batch of {meta.batch_size}: each step sees all",
            stacklevel=4,
        )
    missing = np.setdiff1d(given[given >= 0].cpu().numpy(), meta.labels.numpy()[meta.index])
    if len(missing):
        warnings.warn(f"the meta set has no sample of {len(missing)} classes, the first: {missing[0]}", stacklevel=4)
