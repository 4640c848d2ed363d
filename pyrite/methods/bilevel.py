"""Bilevel learning: each batch is cut into splits, and those whose gradients agree with one of them count more."""

from typing import NamedTuple, final

import numpy as np
import torch
from torch import Tensor

from pyrite.checks import number, whole_number
from pyrite.criterion import Loss
from pyrite.curves import CE
from pyrite.data import Batch
from pyrite.errors import PyriteError
from pyrite.methods.context import Context
from pyrite.methods.descent import descend
from pyrite.methods.meta_gradient import per_sample
from pyrite.methods.method import Method, Trainer
from pyrite.methods.noise_rate import check_loss
from pyrite.methods.step import Step
from pyrite.processes import all_gather, all_reduce, rank

__all__ = ["Bilevel"]


@final
class Bilevel(Method):
    """Weights for parts of a batch, from their gradients g_i and that of a validation part g_v.

    One split of every batch is the validation part, the others are trained on, each with the weight
    ω_i = g_v·g_i / (‖g_i‖² + μ), and all weights are divided by Σ|ω_i|. A split whose gradient points away from
    that of the validation part has a negative weight: its loss is made larger. No clean labels are needed, and no
    sample is held out, because another part of the samples validates in every step.

    Args:
        loss: what the net is trained and validated with; cross entropy if None.
        splits: the number of parts a batch is cut into, including the validation part.
        mu: μ, which keeps the weights of splits with small gradients small.

    >>> str(Bilevel())
    'bilevel(splits=8, mu=0.01)'

    Jenni & Favaro, 2018 ("Deep bilevel learning").
    """

    def __init__(self, loss: Loss | None = None, splits: int = 8, mu: float = 0.01) -> None:
        check_loss(loss)
        self.loss = loss
        self.splits, self.mu = whole_number("splits", splits, least=2), number("mu", mu, least=0)

    def start(self, context: Context) -> "_Bilevel":
        return _Bilevel(self, context)


class _Split(NamedTuple):
    """This process's samples of one split after their backward pass.

    ``by_scores`` and ``gradient`` are derivatives of the split's mean loss over all processes: by the scores, and by
    all weights, concatenated. ``loss`` is the sum of the losses.
    """

    scores: Tensor
    by_scores: Tensor
    gradient: Tensor
    loss: Tensor


@final
class _Bilevel(Trainer):
    def __init__(self, method: Bilevel, context: Context) -> None:
        self.learner = context.make_learner()
        self.learners = [self.learner]
        if self.learner.accumulate > 1:
            raise PyriteError(f"accumulate is {self.learner.accumulate}, but bilevel cuts batches itself: leave it 1")
        self.method, self.loss = method, per_sample(method.loss or CE())

    def step(self, batch: Batch) -> Step:
        numbers, sizes = stratified_splits(batch, self.method.splits, self.learner.steps)
        if len(sizes) < 2:  # too few samples to validate on some of them
            own = torch.tensor(len(batch.labels), device=batch.labels.device)
            return descend(self.learner, batch, lambda scores, piece: self.loss(scores, piece.labels), own)
        splits = [self._backward(batch, numbers == number, size) for number, size in enumerate(sizes)]
        mean = float(all_reduce(torch.stack([split.loss for split in splits]).sum())) / sum(sizes)
        if not abs(mean) < float("inf"):
            raise FloatingPointError(f"the loss is {mean}")
        weights, rate = self._weights(splits), self.learner.learning_rate
        with self.learner.descent():
            self._assign(weights @ torch.stack([split.gradient for split in splits]))
        scores = torch.cat([split.scores for split in splits])
        by_scores = torch.cat([w * split.by_scores for w, split in zip(weights, splits, strict=True)])
        place = numbers.argsort(stable=True).argsort()  # from the order of the splits back to that of the batch
        return Step(batch.index, batch.labels, scores[place], by_scores[place], mean, float(sum(sizes[1:])), rate)

    def _backward(self, batch: Batch, rows: Tensor, size: int) -> _Split:
        """The gradients of a split's mean loss; ``size`` is its number of samples over all processes."""
        scores = self.learner.scores(self.learner.ready(batch.inputs[rows]))
        summed = self.loss(scores, batch.labels[rows]).sum()
        by_scores, *parts = torch.autograd.grad(
            summed / size, [scores, *self.learner.weights], allow_unused=True, materialize_grads=False
        )
        self.used = [part is not None for part in parts]
        flat = [
            torch.zeros_like(weight).reshape(-1) if part is None else part.reshape(-1)
            for weight, part in zip(self.learner.weights, parts, strict=True)
        ]
        return _Split(scores.detach(), by_scores, torch.cat(flat), summed.detach().double())

    def _weights(self, splits: list[_Split]) -> Tensor:
        """One per split: 0 for the first, which validates; the absolute values of the others add up to 1."""
        validation, *training = (all_reduce(split.gradient) for split in splits)
        raw = torch.stack([validation @ one / (one @ one + self.method.mu) for one in training])
        absolute_sum = raw.abs().sum()
        return torch.cat([raw.new_zeros(1), raw / torch.where(absolute_sum == 0, 1.0, absolute_sum)])

    def _assign(self, gradient: Tensor) -> None:
        """Set the gradient of every weight from the concatenated one; weights that the net does not use get None."""
        sizes = [weight.numel() for weight in self.learner.weights]
        for weight, part, used in zip(self.learner.weights, gradient.split(sizes), self.used, strict=True):
            weight.grad = part.view_as(weight) if used else None


def stratified_splits(batch: Batch, splits: int, turn: int) -> tuple[Tensor, list[int]]:
    """The split of each of this process's samples, and the sizes of all splits over all processes.

    Samples are dealt out in the order of their labels, so that all splits have about the same labels, as the authors'
    have; dealing begins at split ``turn``, so that no sample validates more often than others. A split has at least
    two samples, because batch norms need them; with too few samples for two splits there is one.
    """
    shares = all_gather((batch.labels.cpu(), batch.index.cpu()))
    labels, index = (torch.cat(part).numpy() for part in zip(*shares, strict=True))
    count = max(1, min(splits, len(labels) // 2))
    numbers = np.empty(len(labels), np.int64)
    numbers[np.lexsort((index, labels))] = (np.arange(len(labels)) + turn) % count
    before = sum(len(own) for own, _ in shares[: rank()])
    own = torch.from_numpy(numbers[before : before + len(batch.labels)])
    return own.to(batch.labels.device), np.bincount(numbers, minlength=count).tolist()
