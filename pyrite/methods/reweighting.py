"""Weights by what a step on a sample does to a meta set, and learning to reweight by them alone."""

import warnings
from abc import abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Literal, final

import numpy as np
import torch
from torch import Tensor

from pyrite.checks import one_of, whole_number
from pyrite.criterion import Loss
from pyrite.curves import CE
from pyrite.data import Batch
from pyrite.errors import PyriteError
from pyrite.methods.context import Cycle
from pyrite.methods.meta_gradient import Passes, normalised_weights, per_sample, same_draws
from pyrite.methods.method import Context, MetaSet, Method, Step, Trainer
from pyrite.methods.trainer import Pass

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
            name = str(self.learner.autocast).removeprefix("torch.")
            raise PyriteError(f"precision is {name}, but meta-gradients need float32 or float64")
        self.meta, self.lean = Cycle(context.meta), lean
        self.meta_loss = per_sample(meta_loss)
        self.through = Passes(self.learner.model, self.loss, self.meta_loss)
        self._check_meta_set()

    @abstractmethod
    def weigh(self, made: Pass, again: Again) -> tuple[Tensor, Tensor]:
        """The factor of each loss in the objective, and the trust in each sample, for observers.

        The graph of the losses must be kept, unless ``lean``. In ``again`` random layers repeat the draws of the pass.
        """

    def step(self, batch: Batch) -> Step:
        count = self.total(len(batch.labels))
        if not count:
            return self.skip(batch)
        with same_draws(self.learner.model) as again:
            made = next(self.passes(self.learner, batch))
            omega, trust = self.weigh(made, again)
            if self.lean:  # the graph is gone; running statistics have been updated already
                with again():
                    ready = batch._replace(inputs=self.learner.ready(batch.inputs))
                    made = next(self.passes(self.learner, ready, self.through.scores))
            step = self.descend(self.learner, batch, [made], count, omega * float(count))
        return replace(step, trust=trust[made.own].double())

    def slopes(self, direction: dict[str, Tensor], made: Pass, *, fast: bool = False) -> Tensor:
        """The derivative of the loss of each sample of the whole batch along a direction."""
        own = self.learner.ready(made.batch.inputs), made.batch.labels[made.own]
        return self.gather(self.through.slopes(direction, own, made.losses.detach()[made.own], fast=fast))

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


@final
class L2RW(Method):
    """Weights max(G·g_i, 0), divided by their sum: no network, and no state between batches.

    G is the gradient of the meta loss at the current weights of the model, because the virtual step starts from sample
    weights of 0. If no product is positive, all weights are 0.

    Args:
        meta_loss: what is measured on the meta set; cross entropy, as in the paper. With noisy labels, ``mae``.
        meta: whether the meta set has its given labels (``"noisy"``) or true ones (``"clean"``). The paper's are clean;
            the default is noisy, because clean labels are rarely available.
        size: samples in the meta set.

    Ren et al., 2018 ("Learning to reweight examples for robust deep learning").
    """

    def __init__(
        self, meta_loss: Loss | None = None, *, meta: Literal["noisy", "clean"] = "noisy", size: int = 1000
    ) -> None:
        one_of("meta", meta, ("noisy", "clean"))
        self.meta_loss = CE() if meta_loss is None else meta_loss
        self.meta, self.size = meta, whole_number("size", size, least=1)
        self.meta_set = MetaSet(self.size, clean=meta == "clean")

    def start(self, context: Context) -> "L2RWTrainer":
        return L2RWTrainer(context, self.meta_loss)


@final
class L2RWTrainer(MetaTrainer):
    """Weights by the gradient of the meta loss at equal weights."""

    def weigh(self, made: Pass, again: Again) -> tuple[Tensor, Tensor]:
        # The size of the virtual step cancels when weights are divided by their sum.
        omega = torch.zeros_like(made.losses)
        direction = self.through.direction(made.losses, omega, self.meta_batch(), 1.0, fast=True)
        with again():
            products = (-self.slopes(direction, made)).clamp(min=0)
        return normalised_weights(products, "sum"), products
