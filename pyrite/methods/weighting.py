"""Steps on samples whose losses are weighted one by one, by what a step on them does to a meta set."""

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
from pyrite.methods.learner import Learner, Step
from pyrite.methods.learning import Learning
from pyrite.methods.meta_gradient import Passes, per_sample, same_draws
from pyrite.processes import all_reduce
from pyrite.soft_margin import margin

__all__ = ["Weighting", "check_learner"]

Again = Callable[[], AbstractContextManager[None]]


class Weighting(Learning):
    """One step of a model on a weighted sum of cross entropies; a subclass says how samples are weighed.

    Args:
        learner: the model with its optimiser.
        meta: batches of the meta set, which begin anew whenever they end.
        meta_loss: what is measured on it.
        lean: make the graph of the training pass twice, to hold only one graph at a time.
    """

    def __init__(self, learner: Learner, meta: Batches | None, meta_loss: Loss, *, lean: bool = False) -> None:
        if meta is None:
            raise ValueError("meta is missing: the method needs batches of a meta set")
        self.learner, self.meta, self.lean = learner, meta, lean
        self.passes = Passes(learner.model, per_sample(CE()), per_sample(meta_loss))
        self._coming = iter(meta)
        _look_at(meta)

    @abstractmethod
    def weigh(self, batch: tuple[Tensor, Tensor], losses: Tensor, again: Again) -> tuple[Tensor, Tensor]:
        """What each loss is multiplied by in the objective of all processes, and how far each sample is trusted.

        The graph of ``losses`` is still needed afterwards, unless the training pass is made twice.
        """

    def step(self, batch: Batch) -> Step:
        learner = self.learner
        inputs, labels = learner.ready(batch.inputs), batch.labels
        whole = all_reduce(torch.tensor(len(labels), dtype=torch.float64, device=labels.device))
        rate = learner.rate
        if not whole:
            learner.steps += 1
            return Step.empty(batch, rate)
        with same_draws(learner.model) as again:
            scores = learner.scores(inputs)
            losses = self.passes.loss(scores, labels)
            known = losses.detach()
            omega, trust = self.weigh((inputs, labels), losses, again)
            if self.lean:  # the graph is gone; running statistics have had their turn
                with again():
                    scores = self.passes.scores(inputs)
                losses = self.passes.loss(scores, labels)
            mean = float(all_reduce(known @ omega))
            if not abs(mean) < float("inf"):
                raise FloatingPointError(f"the loss is {mean}")
            scores.retain_grad()
            with learner.descent():
                (losses @ omega).backward()
        assert scores.grad is not None
        found, weight = scores.detach(), scores.grad.abs().sum(1, dtype=torch.float64) * (whole / 2)
        return Step(batch.index, found, margin(found, labels), weight, mean, float(whole), rate, trust.double())

    def meta_batch(self) -> tuple[Tensor, Tensor]:
        """The next batch of the meta set."""
        try:
            inputs, labels, _ = next(self._coming)
        except StopIteration:
            self._coming = iter(self.meta)
            inputs, labels, _ = next(self._coming)
        return self.learner.ready(inputs), labels

    def state_dict(self) -> Mapping[str, Any]:
        return {"meta": self.meta.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.meta.load_state_dict(state["meta"])
        self._coming = iter(self.meta)


def check_learner(learner: Learner, method: str) -> None:
    """Refuse what a meta-gradient does not go with."""
    if learner.accumulate > 1:
        raise ValueError(f"accumulate is {learner.accumulate}, but {method} needs whole batches: leave it 1")
    if learner.precision == "bfloat16":
        raise ValueError(f"precision is bfloat16, but {method} needs float32 or float64")


def _look_at(meta: Batches) -> None:
    """Say what a user would want to know of the meta set."""
    count = len(meta.index)
    if count < meta.batch_size:
        warnings.warn(
            f"the meta set has {count} samples, fewer than a batch of {meta.batch_size}: each step sees all",
            stacklevel=4,
        )
    labels = meta.labels.numpy()
    missing = np.setdiff1d(labels, labels[meta.index])
    if len(missing):
        warnings.warn(f"the meta set has no sample of {len(missing)} classes, the first: {missing[0]}", stacklevel=4)
