"""Empirical risk minimisation: the mean loss of a batch, and nothing else."""

from copy import deepcopy
from typing import final

import torch
from torch import Tensor

from pyrite.criterion import Loss
from pyrite.curves import Curve
from pyrite.data import Batch, Batches
from pyrite.losses import grows_without_bound
from pyrite.methods.learner import Learner, Step
from pyrite.methods.learning import Learning, Method
from pyrite.processes import all_gather, all_reduce, rank, world_size
from pyrite.soft_margin import margin

__all__ = ["ERM"]


@final
class ERM(Method):
    """Minimise the mean loss of the given labels: all robustness is in the loss.

    Args:
        loss: any loss of the registry.

    >>> from pyrite import GCE
    >>> str(ERM(GCE(q=0.7)))
    'erm(gce(q=0.7))'
    """

    def __init__(self, loss: Loss) -> None:
        if not isinstance(loss, Loss):
            raise ValueError(f"loss is {loss!r}, but must be a loss")
        if loss.reduction != "mean":
            raise ValueError(f"loss is {str(loss)!r}: training takes the mean, so leave out reduction")
        self.loss = loss

    @property
    def strength(self) -> float:
        return max(1.0, self.loss.peak().weight) if isinstance(self.loss, Curve) else 1.0

    @property
    def grows(self) -> bool:
        return grows_without_bound(self.loss)

    def start(self, learner: Learner, meta: Batches | None = None) -> "_Descent":
        return _Descent(self.loss, learner)


@final
class _Descent(Learning):
    """Steps down the mean loss."""

    def __init__(self, loss: Loss, learner: Learner) -> None:
        self.couples = any(part.couples for part in loss.modules() if isinstance(part, Loss))
        if self.couples and learner.accumulate > 1:
            raise ValueError(
                f"accumulate is {learner.accumulate}, but {loss} needs the whole batch at once: leave it 1"
            )
        self.learner = learner
        # A sum, which pieces and processes add to; the denominator belongs to the whole batch.
        self.loss = deepcopy(loss).configure(reduction="sum")

    def step(self, batch: Batch) -> Step:
        """One forward and one backward pass."""
        learner = self.learner
        whole = all_reduce(self._share(batch.labels))
        if not whole:  # no image could be read, or no label counts
            learner.steps += 1
            return Step.empty(batch, learner.rate)
        value = torch.zeros((), dtype=torch.float64, device=batch.labels.device)
        rows = []
        rate = learner.rate
        with learner.descent():
            for piece in learner.pieces(batch):
                scores = learner.scores(piece.inputs)
                scores.retain_grad()
                summed = self._sum(scores, piece.labels)
                value += summed.detach()
                (summed / whole.to(summed.dtype)).backward()
                rows.append(_rows(scores, piece.labels, whole))
            found, margins, weights = (torch.cat(column) for column in zip(*rows, strict=True))
            mean = self._mean(value, whole, margins)
        return Step(batch.index, found, margins, weights, mean, float(whole), rate)

    def _sum(self, scores: Tensor, labels: Tensor) -> Tensor:
        """The loss of this process's samples. Where samples depend on each other it is that of everybody's.

        Of the others' scores only the values are here; each process follows the gradient to its own.
        """
        if not self.couples or world_size() == 1:
            return self.loss(scores, labels)  # type: ignore[no-any-return]
        everyone = all_gather((scores.detach(), labels))
        everyone[rank()] = scores, labels
        return self.loss(*(torch.cat(parts) for parts in zip(*everyone, strict=True)))  # type: ignore[no-any-return]

    def _mean(self, value: Tensor, whole: Tensor, margins: Tensor) -> float:
        """The mean loss over all processes. A bounded loss is finite where scores are not, so margins are looked at."""
        own = value / world_size() if self.couples else value
        summed, infinite = all_reduce(torch.stack([own, (~margins.isfinite()).sum().to(own)])).tolist()
        mean = float(summed) / float(whole)
        if not abs(mean) < float("inf"):
            raise FloatingPointError(f"the loss is {mean}")
        if infinite:
            raise FloatingPointError("the scores are not finite")
        return mean

    def _share(self, labels: Tensor) -> Tensor:
        """What the samples count in the mean."""
        labels = labels[labels != self.loss.ignore_index]
        if self.loss.weight is None:
            return torch.tensor(len(labels), dtype=torch.float64, device=labels.device)
        if len(labels) and int(labels.max()) >= len(self.loss.weight):
            raise ValueError(f"weight has {len(self.loss.weight)} numbers, but there is a label {int(labels.max())}")
        return self.loss.weight.to(labels.device)[labels].sum()


@torch.no_grad()
def _rows(scores: Tensor, labels: Tensor, whole: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Scores, margins and weights."""
    assert scores.grad is not None
    weight = scores.grad.abs().sum(1, dtype=torch.float64) * (whole / 2)
    return scores.detach(), margin(scores.detach(), labels), weight
