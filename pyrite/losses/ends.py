"""What becomes of samples that are hopeless or learned: the weight of a loss far out on either side."""

from collections.abc import Callable
from copy import deepcopy

import torch
from torch import Tensor

from pyrite.checks import require
from pyrite.criterion import Loss, Sum, classes_of
from pyrite.curves import Curve, Tails
from pyrite.curves.initial import MOST_CLASSES
from pyrite.losses.regularised import Confidence, Peer
from pyrite.soft_margin import row_margin

__all__ = ["Measured", "grows_without_bound", "in_expectation", "tails"]

# A weight that halves between these margins is on its way to 0; nce's, the slowest, falls to a hundredth.
NEAR, FAR = 1e3, 1e4
# Below this share of the weight at margin 0 it is rounding.
ROUNDING = 1e-12


def tails(loss: Loss, classes: int | None = None) -> Tails:
    """What the weight of a sample (half the L1 norm of its gradient by the scores) tends to at either end.

    Exact for a curve; measured for the others, with the number of ``classes`` their matrix or prior has, or else 10.

    >>> from pyrite.curves import CE, IMAE
    >>> tails(IMAE(T=8)), tails(CE())
    (Tails(left=0.5, right=0.5), Tails(left=1.0, right=0.0))
    """
    if isinstance(loss, Curve):
        return loss.tails()
    measured = Measured(loss, classes or classes_of(loss))
    return Tails(measured.limit(measured.weight, -1), measured.limit(measured.weight, 1))


def grows_without_bound(loss: Loss, classes: int | None = None) -> bool:
    """Whether training goes on pushing samples outwards however far out they are, so that scores never settle.

    So it is where a learned sample's label is still pushed up (``imae``, ``confidence``, ``backward``), or, with
    negative factors, a hopeless one's still down. A weight that remains but pulls back, as that of ``smooth(ce)``
    does, is a bound and not a danger. Such a loss needs a bounded step: clipped gradients, weight decay, or a
    lower learning rate.

    >>> from pyrite.curves import CE, IMAE
    >>> grows_without_bound(IMAE(T=8)), grows_without_bound(CE())
    (True, False)
    """
    if isinstance(loss, Curve):
        left, right = loss.tails()
    else:
        measured = Measured(loss, classes or classes_of(loss))
        left, right = measured.limit(measured.push, -1), measured.limit(measured.push, 1)
    return right > 0 or left < 0


def in_expectation(loss: Loss) -> Loss:
    """A loss of single samples: peer loss becomes its mean over peers, with all classes equally frequent."""
    if isinstance(loss, Peer):
        return Confidence(loss.loss, beta=loss.alpha)
    if isinstance(loss, Sum):
        return Sum([(factor, in_expectation(term)) for factor, term in loss.terms()])
    return loss


class Measured:
    """The gradient of a loss that is no curve, at a margin of our choice.

    Simulated: normal scores with the given spread, the label's score set so that the margin is as wished.
    """

    def __init__(self, loss: Loss, classes: int, spread: float = 1.0) -> None:
        require(classes <= MOST_CLASSES, "classes", classes, f"at most {MOST_CLASSES:,} for {loss}, which is measured")
        self.loss = deepcopy(in_expectation(loss))  # a user's own loss may have buffers, which stay as they are
        count = max(32, min(512, 200_000 // classes))
        generator = torch.Generator().manual_seed(0)
        self.scores = spread * torch.randn(count, classes, dtype=torch.float64, generator=generator)
        self.labels = torch.arange(count) % classes
        self.margin = row_margin(self.scores, self.labels)

    def weight(self, margin: float) -> float:
        """The mean weight of a sample: half the L1 norm of its gradient."""
        return float(self._gradient(margin).abs().sum(1).mean() / 2)

    def push(self, margin: float) -> float:
        """How much a step down the gradient raises the label's score, in the mean. For a curve this is the weight."""
        return -float(self._gradient(margin).gather(1, self.labels.unsqueeze(1)).mean())

    def limit(self, of: Callable[[float], float], side: int) -> float:
        """What a function of the margin tends to on the left (-1) or right (1)."""
        near, far = of(side * NEAR), of(side * FAR)
        return far if abs(far) > max(abs(near) / 2, ROUNDING * self.weight(0.0)) else 0.0

    @torch.enable_grad()
    def _gradient(self, margin: float) -> Tensor:
        raised = torch.zeros_like(self.scores)
        raised[torch.arange(len(raised)), self.labels] = margin - self.margin
        scores = (self.scores + raised).requires_grad_()
        return torch.autograd.grad(self.loss.at_label(scores, self.labels).sum(), scores)[0]
