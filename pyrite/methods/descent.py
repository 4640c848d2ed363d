"""One gradient step on the mean of a loss: pieces, processes, checks, and the ``Step`` that observers get."""

from collections.abc import Callable

import torch
from torch import Tensor

from pyrite.data import Batch
from pyrite.methods.learner import Learner
from pyrite.methods.step import Step
from pyrite.processes import all_reduce

__all__ = ["Cost", "backward_step", "descend"]

Cost = Callable[[Tensor, Batch], Tensor]


def descend(learner: Learner, batch: Batch, cost: Cost, share: Tensor, trust: Tensor | None = None) -> Step:
    """One forward and one backward pass, and one step of the optimiser.

    Args:
        learner: the net that learns.
        batch: this process's share of the batch.
        cost: from scores and the piece of the batch they belong to, to the losses of its samples or their sum.
        share: what this process adds to the denominator of the mean: the number of samples, or the sum of their
            weights. If all processes together add nothing, no step is made.
        trust: what each sample's loss is multiplied by, if anything, for observers.
    """
    denominator = all_reduce(share.to(torch.float64))
    rate = learner.learning_rate
    if not denominator:  # no image could be read, or no label counts
        learner.skip()
        return Step.empty(batch, rate)
    value = torch.zeros((), dtype=torch.float64, device=batch.labels.device)
    pieces = []
    with learner.descent():
        for piece in learner.pieces(batch):
            scores = learner.scores(piece.inputs)
            scores.retain_grad()
            summed = cost(scores, piece).sum()
            value += summed.detach()
            (summed / denominator.to(summed.dtype)).backward()
            assert scores.grad is not None
            pieces.append((scores.detach(), scores.grad))
        all_scores, gradient = (torch.cat(parts) for parts in zip(*pieces, strict=True))
        mean = _mean(value, denominator, all_scores, batch.labels)
    return Step(batch.index, batch.labels, all_scores, gradient, mean, float(denominator), rate, trust)


def backward_step(
    learner: Learner, batch: Batch, scores: Tensor, losses: Tensor, share: Tensor, trust: Tensor | None = None
) -> Step:
    """The second half of ``descend``, for methods that need the scores of the whole batch before the loss.

    Args:
        scores: of the batch, with their graph.
        losses: one per sample, or their sum, made from the scores.
        learner, batch, share, trust: as in ``descend``.
    """
    denominator = all_reduce(share.to(torch.float64))
    rate = learner.learning_rate
    summed = losses.sum()
    mean = _mean(summed.detach().double(), denominator, scores.detach(), batch.labels)
    if not denominator:
        learner.skip()
        return Step.empty(batch, rate)
    scores.retain_grad()
    with learner.descent():
        (summed / denominator.to(summed.dtype)).backward()
    assert scores.grad is not None
    return Step(batch.index, batch.labels, scores.detach(), scores.grad, mean, float(denominator), rate, trust)


def _mean(value: Tensor, denominator: Tensor, scores: Tensor, labels: Tensor) -> float:
    """The mean loss over all processes, if it is finite. A bounded loss is finite even where scores are not."""
    label = scores.gather(1, labels.clamp(min=0).unsqueeze(1)).squeeze(1)
    infinite = (~(scores.amax(1).isfinite() & label.isfinite())).sum()  # a class may have a score of -inf
    summed, not_finite = all_reduce(torch.stack([value, infinite.to(value)])).tolist()
    mean = float(summed) / float(denominator) if denominator else 0.0
    if not abs(mean) < float("inf"):
        raise FloatingPointError(f"the loss is {mean}")
    if not_finite:
        raise FloatingPointError("the scores are not finite")
    return mean
