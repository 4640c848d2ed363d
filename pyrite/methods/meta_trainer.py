"""Steps on per-sample weighted losses, with weights that depend on what a step does to a meta set."""

import warnings
from abc import abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace

import numpy as np
from torch import Tensor

from pyrite.criterion import Loss
from pyrite.data import Batch
from pyrite.errors import PyriteError
from pyrite.methods.context import Context, Cycle
from pyrite.methods.meta_gradient import Passes, per_sample, same_draws
from pyrite.methods.step import Step
from pyrite.methods.trainer import Pass, Trainer

__all__ = ["Again", "MetaTrainer"]

Again = Callable[[], AbstractContextManager[None]]


class MetaTrainer(Trainer):
    """Steps of a model on a weighted sum of losses; a subclass computes the weights.

    Args:
        context: with the meta set.
        meta_loss: what is measured on the meta set.
        loss: what the model is trained with.
        lean: compute the graph of the training pass twice, so that only one graph is in memory at a time.
    """

    whole_batch = True

    def __init__(self, context: Context, meta_loss: Loss, loss: Loss | None = None, *, lean: bool = False) -> None:
        super().__init__(context, loss)
        if self.learner.autocast is not None:
            raise PyriteError("precision is bfloat16, but meta-gradients need float32 or float64")
        self.meta, self.lean = Cycle(context.meta), lean
        self.meta_loss = per_sample(meta_loss)
        self.through = Passes(self.learner.model, self.loss, self.meta_loss)
        self._check_meta_set()

    @abstractmethod
    def weigh(self, batch: tuple[Tensor, Tensor], made: Pass, again: Again) -> tuple[Tensor, Tensor]:
        """The factor of each loss in the objective, and the trust in each sample, for observers.

        Args:
            batch: inputs and labels of this process.
            made: their forward pass. The graph of the losses must be kept, unless ``lean``.
            again: a context in which random layers repeat the draws of that pass.
        """

    def step(self, batch: Batch) -> Step:
        count = self.total(len(batch.labels))
        if not count:
            return self.skip(batch)
        [piece] = self.learner.pieces(batch)
        with same_draws(self.learner.model) as again:
            made = self.finish_pass(self.learner.scores(piece.inputs), piece)
            omega, trust = self.weigh((piece.inputs, piece.labels), made, again)
            if self.lean:  # the graph is gone; running statistics have been updated already
                with again():
                    made = self.finish_pass(self.through.scores(piece.inputs), piece)
            step = self.descend(self.learner, batch, [made], count, omega * float(count))
        return replace(step, trust=trust[made.own].double())

    def slopes(self, direction: dict[str, Tensor], batch: tuple[Tensor, Tensor], made: Pass, *, fast: bool) -> Tensor:
        """The derivative of the loss of each sample of the whole batch along a direction."""
        return self.gather(self.through.slopes(direction, batch, made.losses.detach()[made.own], fast=fast))

    def meta_batch(self) -> tuple[Tensor, Tensor]:
        """The next batch of the meta set."""
        inputs, labels, _ = self.meta.next()
        return self.learner.ready(inputs), labels

    def _check_meta_set(self) -> None:
        """Warn of a meta set that is smaller than a batch, or in which classes are missing."""
        meta, given = self.context.meta, self.context.labels
        count = len(meta.index)
        if count < meta.batch_size:
            warnings.warn(
                f"the meta set has {count} samples, fewer than a batch of {meta.batch_size}: each step sees all",
                stacklevel=5,
            )
        missing = np.setdiff1d(given[given >= 0].cpu().numpy(), meta.labels.numpy()[meta.index])
        if len(missing):
            warnings.warn(
                f"the meta set has no sample of {len(missing)} classes, the first: {missing[0]}", stacklevel=5
            )
