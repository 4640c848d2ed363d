"""A loss divided by the sum of what every label would cost: symmetric by construction."""

from typing import NamedTuple, Unpack, final

import torch
from torch import Tensor

from pyrite.checks import require
from pyrite.criterion import Loss, Options, bare, classes_of
from pyrite.curves import CE, Curve
from pyrite.soft_margin import check_labels, check_scores, to_rows

__all__ = ["NCE", "Decomposition", "Normalised", "normalised"]


@final
class Normalised(Loss):
    """l(s, y) / sum over i of l(s, i), for a loss that is never negative.

    >>> from pyrite.curves import GCE
    >>> Normalised(GCE(q=0.7))(torch.tensor([1.0, 0.0, 0.0]), torch.tensor(0))
    tensor(0.1947)

    Ma et al., 2020.
    """

    def __init__(self, loss: Loss, **options: Unpack[Options]) -> None:
        super().__init__(**options)
        self.loss = bare(loss)
        least, most = _range(self.loss)
        require(
            least >= -1e-12 * most and most > 0, "loss", str(loss), "one whose value is never negative, nor always 0"
        )

    def at_label(self, scores: Tensor, labels: Tensor) -> Tensor:
        own, total = self.loss.at_label_and_total(scores, labels)
        return own / total

    def per_label(self, scores: Tensor) -> Tensor:
        every = self.loss.per_label(scores)
        return every / every.sum(1, keepdim=True)


@torch.no_grad()
def _range(loss: Loss) -> tuple[float, float]:
    """The least and the largest value: on the grid of a curve, or of scores with spreads from 0.1 to 100."""
    if isinstance(loss, Curve):
        values = loss.phi(loss.grid())
    else:
        spread = torch.logspace(-1, 2, 300, dtype=torch.float64).unsqueeze(1)
        noise = torch.randn(300, classes_of(loss), dtype=torch.float64, generator=torch.Generator().manual_seed(0))
        values = loss.per_label(spread * noise)
    return float(values.min()), float(values.max())


class Decomposition(NamedTuple):
    """What NCE's gradient is made of, a number a sample: gamma * (grad CE + epsilon * grad R).

    ``bound`` is an upper bound of the weight (half the gradient's L1 norm), gamma (w_CE + epsilon (1 - 1/K)).
    ``printed_bound`` is the paper's Eq. 3, gamma (1 + epsilon) w_CE, which takes every label's w_CE for that of
    the given one; it does not hold for learned samples, where w_CE is small and that of the others is not.
    """

    gamma: Tensor
    epsilon: Tensor
    bound: Tensor
    printed_bound: Tensor


@final
class NCE(Loss):
    """Normalised cross entropy: log p_y / sum over i of log p_i. Symmetric; the losses of all labels add up to 1.

    >>> NCE()(torch.tensor([1.0, 0.0, 0.0]), torch.tensor(0))
    tensor(0.1509)

    Ma et al., 2020.
    """

    def __init__(self, **options: Unpack[Options]) -> None:
        super().__init__(**options)
        self._normalised = Normalised(CE())

    def at_label(self, scores: Tensor, labels: Tensor) -> Tensor:
        return self._normalised.at_label(scores, labels)

    def per_label(self, scores: Tensor) -> Tensor:
        return self._normalised.per_label(scores)

    @torch.no_grad()
    def decomposition(self, scores: Tensor, labels: Tensor) -> Decomposition:
        """Its weights gamma and epsilon as a cross entropy with a regulariser (curriculum paper, Eq. 2 and 3)."""
        check_scores(scores)
        check_labels(scores, labels)
        rows, classes = to_rows(scores)[0], scores.shape[0 if scores.dim() == 1 else 1]
        own, total = CE().at_label_and_total(rows, labels.reshape(-1).long())
        gamma, epsilon = 1 / total, classes * own / total
        weight = -torch.expm1(-own)
        bound = gamma * (weight + epsilon * (1 - 1 / classes))
        parts = (gamma, epsilon, bound, gamma * (1 + epsilon) * weight)
        return Decomposition(*(part.reshape(labels.shape) for part in parts))


normalised = Normalised
