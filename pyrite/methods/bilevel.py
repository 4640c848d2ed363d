"""Bilevel learning: each batch is cut into splits, and those whose gradients agree with one of them count more."""

from dataclasses import dataclass
from functools import partial
from typing import Annotated, NamedTuple, final

import numpy as np
import torch
from torch import Tensor

from pyrite.checks import NotNegative, whole_number
from pyrite.data import Batch
from pyrite.errors import PyriteError
from pyrite.methods.method import Context, Method, PerSampleLoss, Step, Trainer
from pyrite.soft_margin import wide


@final
@dataclass(repr=False, eq=False)
class Bilevel(Method):
    """Weights of the parts of a batch, by the agreement of their gradients g_i with that of a validation part, g_v.

    One split of every batch validates, another one in every step; each other split has the weight
    ω_i = g_v·g_i / (‖g_i‖² + μ), divided by Σ|ω_i|. A split whose gradient points away from that of the validation
    part has a negative weight: its loss is made larger.

    Jenni & Favaro, 2018 ("Deep bilevel learning").
    """

    loss: PerSampleLoss | None = None  # what the net is trained and validated with; cross entropy if None
    splits: Annotated[int, partial(whole_number, least=2)] = 8  # parts of a batch, including the validation part
    mu: NotNegative = 0.01  # μ, which keeps the weights of splits with small gradients small

    def start(self, context: Context) -> "BilevelTrainer":
        return BilevelTrainer(self, context)


class _Split(NamedTuple):
    """This process's samples of one split after their backward pass."""

    scores: Tensor
    by_scores: Tensor  # the derivative of the split's mean loss over all processes by the scores
    gradient: Tensor  # the same by all weights, concatenated
    loss: Tensor  # the sum of the losses


@final
class BilevelTrainer(Trainer):
    """Splits of a batch, weighted by how their gradients agree with that of one of them."""

    whole_batch = True

    def __init__(self, method: Bilevel, context: Context) -> None:
        super().__init__(context, method.loss)
        if self.learner.scaler is not None:
            raise PyriteError("precision is float16, but bilevel compares gradients that are not scaled: use bfloat16")
        self.method = method

    def step(self, batch: Batch) -> Step:
        labels, index = self.gather(batch.labels), self.gather(batch.index)
        every = stratified_splits(labels, index, self.method.splits, self.learner.steps)
        numbers, sizes = every[torch.isin(index, batch.index)], every.bincount().tolist()
        if len(sizes) < 2:  # too few samples to validate on some of them
            return super().step(batch)
        splits = [self._backward(batch, numbers == number, size) for number, size in enumerate(sizes)]
        mean = float(self.total(torch.stack([split.loss for split in splits]).sum())) / sum(sizes)
        if not abs(mean) < float("inf"):
            raise FloatingPointError(f"the loss is {mean}")
        validation, *training = (self.total(split.gradient) for split in splits)
        raw = torch.stack([validation @ one / (one @ one + self.method.mu) for one in training])
        absolute_sum = raw.abs().sum()
        weights = torch.cat([raw.new_zeros(1), raw / torch.where(absolute_sum == 0, 1.0, absolute_sum)])
        gradient = weights @ torch.stack([split.gradient for split in splits])
        parts = gradient.split([weight.numel() for weight in self.learner.weights])
        for weight, part, used in zip(self.learner.weights, parts, self.used, strict=True):
            weight.grad = part.view_as(weight) if used else None
        learning_rate = self.learner.update()
        scores = torch.cat([split.scores for split in splits])
        by_scores = torch.cat([w * split.by_scores for w, split in zip(weights, splits, strict=True)])
        place = numbers.argsort(stable=True).argsort()  # from the order of the splits back to that of the batch
        return Step(
            batch.index, batch.labels, scores[place], by_scores[place], mean, float(sum(sizes[1:])), learning_rate
        )

    def _backward(self, batch: Batch, rows: Tensor, size: int) -> _Split:
        """The gradients of a split's mean loss; ``size`` is its number of samples over all processes."""
        scores = self.learner.scores(batch.inputs[rows])
        summed = self.loss(scores, batch.labels[rows]).sum()
        by_scores, *parts = torch.autograd.grad(
            summed / size, [scores, *self.learner.weights], allow_unused=True, materialize_grads=False
        )
        self.used = [part is not None for part in parts]  # weights that the net does not use have no gradient
        flat = [
            torch.zeros_like(weight).reshape(-1) if part is None else part.reshape(-1)
            for weight, part in zip(self.learner.weights, parts, strict=True)
        ]
        return _Split(scores.detach(), by_scores, torch.cat(flat), wide(summed.detach()))


def stratified_splits(labels: Tensor, index: Tensor, splits: int, turn: int) -> Tensor:
    """The split of each sample of a batch. A split has two samples or more, because batch norms need them.

    Samples are dealt out in the order of their labels, so that all splits have about the same labels, as the authors'
    have; dealing begins at split ``turn``, so that no sample validates more often than others.
    """
    count = max(1, min(splits, len(labels) // 2))
    numbers = torch.empty_like(labels)
    order = torch.from_numpy(np.lexsort((index.cpu().numpy(), labels.cpu().numpy()))).to(labels.device)
    numbers[order] = (torch.arange(len(labels), device=labels.device) + turn) % count
    return numbers
