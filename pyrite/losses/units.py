"""Losses divided by their largest weight, so that one learning rate means the same for all."""

from typing import Unpack, final

import torch
from torch import Tensor

from pyrite.checks import require, whole_number
from pyrite.criterion import Batch, Loss, Options, bare
from pyrite.curves import Curve, Unit
from pyrite.errors import PyriteError
from pyrite.spec import construct, write_spec

__all__ = ["UnitLoss", "unit"]

# Margins beyond which the weight of no loss here has its peak, and steps between them.
_END, _POINTS = 60.0, 2401


def unit(loss: Loss, classes: int | None = None, **options: Unpack[Options]) -> Loss:
    """A loss divided by its largest weight, as the curriculum paper does throughout.

    Args:
        loss: a curve, whose largest weight is that of its ``peak()``; or any other loss of single samples that treats
            all classes equally, such as ``nce`` and its sums.
        classes: how many classes there are; needed for a loss that is no curve, whose weight depends on it.
        options: those of every loss.

    >>> from pyrite.curves import MAE
    >>> from pyrite.losses import NCE
    >>> unit(MAE()), unit(NCE(), classes=10)
    (Unit(MAE()), unit(NCE(), classes=10))
    """
    if isinstance(loss, Curve):
        require(classes is None, "classes", classes, "left out for a curve, whose largest weight does not depend on it")
        return Unit(loss, **options)
    return UnitLoss(loss, classes, **options)


@final
class UnitLoss(Loss):
    """A loss that is no curve, divided by its largest weight at scores where all other classes are tied.

    Along those scores every loss that treats classes equally is a function of the margin, as a curve is everywhere, and
    its largest weight means the same. Over all score vectors the weight of ``nce`` can be larger: with 10 classes 1.4
    times, with 50 classes 7 times, where one wrong class leads and the label's score is 25 or more below all others.
    There it moves the other classes, not the label. Its sums with ``mae`` have their largest weight where others tie.
    """

    def __init__(self, loss: Loss, classes: int | None, **options: Unpack[Options]) -> None:
        super().__init__(**options)
        self.loss = bare(loss)
        couples = any(part.couples for part in loss.modules() if isinstance(part, Loss))
        wanted = "one of single samples that treats all classes equally"
        require(not couples and not list(loss.buffers()), "loss", str(loss), wanted)
        if classes is None:
            raise PyriteError(f"loss is {str(loss)!r}, whose largest weight depends on classes: say how many there are")
        self.classes = whole_number("classes", classes, least=2)
        largest = largest_weight(loss, self.classes)
        require(largest > 0, "loss", str(loss), "one that gives samples a weight")
        self._factor = 1 / largest

    @property
    def only_classes(self) -> int:
        return self.classes

    def at_label(self, scores: Tensor, labels: Tensor) -> Tensor:
        return self._factor * self.loss.at_label(self._checked(scores), labels)

    def per_label(self, scores: Tensor) -> Tensor:
        return self._factor * self.loss.per_label(self._checked(scores))

    def per_sample(self, batch: Batch) -> Tensor:
        self._checked(batch.scores)
        return self._factor * self.loss.per_sample(batch)

    def __str__(self) -> str:
        return "unit" + write_spec(self, **self._further_options()).removeprefix("unit").removeprefix("_loss")

    def __repr__(self) -> str:
        return "unit" + construct(self, **self._further_options()).removeprefix("UnitLoss")

    def _checked(self, scores: Tensor) -> Tensor:
        require(scores.shape[1] == self.classes, "classes", self.classes, f"{scores.shape[1]}, as in the scores")
        return scores


def largest_weight(loss: Loss, classes: int) -> float:
    """The largest weight (half the L1 norm of the gradient) at scores where all classes but the label are tied.

    Found on a grid of margins and refined between its neighbours, as for a curve.
    """
    low, high, points = -_END, _END, _POINTS
    for _ in range(8):  # after the grid, each pass narrows 33 points' span to 2 of its 32 steps
        margins = torch.linspace(low, high, points, dtype=torch.float64)
        weights = _weights(loss, margins, classes)
        best = int(weights.argmax())
        low, high = float(margins[max(best - 1, 0)]), float(margins[min(best + 1, points - 1)])
        points = 33
    return float(weights[best])


@torch.enable_grad()
def _weights(loss: Loss, margins: Tensor, classes: int) -> Tensor:
    scores = torch.zeros(len(margins), classes, dtype=torch.float64)
    scores[:, 0] = margins + torch.log(torch.tensor(classes - 1.0, dtype=torch.float64))
    scores.requires_grad_()
    labels = torch.zeros(len(margins), dtype=torch.long)
    (gradient,) = torch.autograd.grad(loss.at_label(scores, labels).sum(), scores)
    return gradient.abs().sum(1) / 2
