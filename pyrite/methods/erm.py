"""Empirical risk minimisation: the mean loss of a batch, and nothing else."""

from copy import deepcopy
from typing import final

import torch
from torch import Tensor

from pyrite.criterion import Loss
from pyrite.curves import Curve
from pyrite.data import Batch
from pyrite.errors import PyriteError
from pyrite.losses import grows_without_bound
from pyrite.methods.context import Context
from pyrite.methods.descent import descend
from pyrite.methods.method import Method, Trainer
from pyrite.methods.step import Step
from pyrite.processes import all_gather, rank, world_size

__all__ = ["ERM"]


@final
class ERM(Method):
    """Minimise the mean loss of the given labels: all robustness is in the loss.

    Args:
        loss: any loss of the registry, or one of your own.

    >>> from pyrite import GCE
    >>> str(ERM(GCE(q=0.7)))
    'erm(gce(q=0.7))'
    """

    def __init__(self, loss: Loss) -> None:
        if not isinstance(loss, Loss):
            raise PyriteError(f"loss is {loss!r}, but must be a loss")
        if loss.reduction != "mean":
            raise PyriteError(f"loss is {str(loss)!r}: training takes the mean, so leave out reduction")
        self.loss = loss

    @property
    def largest_weight(self) -> float:
        return max(1.0, self.loss.peak().weight) if isinstance(self.loss, Curve) else 1.0

    @property
    def needs_clipping(self) -> bool:
        return grows_without_bound(self.loss)

    def start(self, context: Context) -> "_Descent":
        return _Descent(self.loss, context)


@final
class _Descent(Trainer):
    """Gradient steps on the mean loss."""

    def __init__(self, loss: Loss, context: Context) -> None:
        learner = context.make_learner()
        self.couples = any(part.couples for part in loss.modules() if isinstance(part, Loss))
        if self.couples and learner.accumulate > 1:
            raise PyriteError(
                f"accumulate is {learner.accumulate}, but {loss} needs the whole batch at once: leave it 1"
            )
        self.learners = [learner]
        # A sum over pieces and processes; it is divided once, by the denominator of the whole batch.
        self.loss = deepcopy(loss).configure(reduction="sum")

    def step(self, batch: Batch) -> Step:
        return descend(self.learners[0], batch, self._cost, self._share(batch.labels))

    def _cost(self, scores: Tensor, piece: Batch) -> Tensor:
        """The loss of this process's samples.

        If samples depend on each other, the loss is computed over the samples of all processes. Scores of other
        processes have no graph here, so each process gets the gradient for its own samples.
        """
        if not self.couples or world_size() == 1:
            return self.loss(scores, piece.labels)  # type: ignore[no-any-return]
        shares = all_gather((scores.detach(), piece.labels))
        shares[rank()] = scores, piece.labels
        batch_loss: Tensor = self.loss(*(torch.cat(parts) for parts in zip(*shares, strict=True)))
        # The value, which is the same on all processes, counts once in their sum; the gradients are not scaled.
        return batch_loss - batch_loss.detach() * (1 - 1 / world_size())

    def _share(self, labels: Tensor) -> Tensor:
        """What the samples add to the denominator of the mean."""
        labels = labels[labels != self.loss.ignore_index]
        if self.loss.weight is None:
            return torch.tensor(len(labels), dtype=torch.float64, device=labels.device)
        if len(labels) and int(labels.max()) >= len(self.loss.weight):
            raise PyriteError(f"weight has {len(self.loss.weight)} numbers, but there is a label {int(labels.max())}")
        return self.loss.weight.to(labels.device)[labels].sum()
