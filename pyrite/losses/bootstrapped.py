"""Bootstrapping: the label is believed in part, the model's own prediction for the rest."""

from typing import Unpack, final

from torch import Tensor
from torch.nn.functional import logsigmoid

from pyrite.checks import number
from pyrite.criterion import Loss, Options
from pyrite.curves import CE
from pyrite.soft_margin import row_margins

__all__ = ["BootHard", "BootSoft"]


@final
class BootSoft(Loss):
    """Soft bootstrapping: beta times cross entropy plus 1 - beta times the entropy of the prediction.

    >>> import torch
    >>> BootSoft(beta=0.95)(torch.tensor([1.0, 0.0]), torch.tensor(1))
    tensor(1.2767)

    Reed et al., 2015.
    """

    def __init__(self, beta: float = 0.95, **options: Unpack[Options]) -> None:
        super().__init__(**options)
        self.beta = number("beta", beta, least=0, most=1)
        self.ce = CE()

    def at_label(self, scores: Tensor, labels: Tensor) -> Tensor:
        return self.beta * self.ce.at_label(scores, labels) + (1 - self.beta) * _entropy(scores)

    def per_label(self, scores: Tensor) -> Tensor:
        return self.beta * self.ce.per_label(scores) + (1 - self.beta) * _entropy(scores).unsqueeze(1)


@final
class BootHard(Loss):
    """Hard bootstrapping: cross entropy of the label, beta, and of the class predicted now, 1 - beta.

    >>> import torch
    >>> BootHard(beta=0.8)(torch.tensor([1.0, 0.0]), torch.tensor(1))
    tensor(1.1133)

    Reed et al., 2015.
    """

    def __init__(self, beta: float = 0.8, **options: Unpack[Options]) -> None:
        super().__init__(**options)
        self.beta = number("beta", beta, least=0, most=1)
        self.ce = CE()

    def at_label(self, scores: Tensor, labels: Tensor) -> Tensor:
        predicted = self.ce.at_label(scores, scores.detach().argmax(1))
        return self.beta * self.ce.at_label(scores, labels) + (1 - self.beta) * predicted

    def per_label(self, scores: Tensor) -> Tensor:
        predicted = self.ce.at_label(scores, scores.detach().argmax(1)).unsqueeze(1)
        return self.beta * self.ce.per_label(scores) + (1 - self.beta) * predicted


def _entropy(scores: Tensor) -> Tensor:
    log_p = logsigmoid(row_margins(scores))
    return -(log_p.exp() * log_p).sum(1)
