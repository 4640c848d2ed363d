"""Several nets that predict together."""

import math
from collections.abc import Sequence
from typing import final

import torch
from torch import Tensor, nn

__all__ = ["Ensemble", "mean_scores"]


def mean_scores(scores: Tensor) -> Tensor:
    """Of scores of shape (nets, N, K), the logarithm of the mean of their probabilities.

    >>> mean_scores(torch.tensor([[[0.0, 0.0]], [[0.0, 0.0]]])).exp()
    tensor([[0.5000, 0.5000]])
    """
    return torch.logsumexp(torch.log_softmax(scores, -1), 0) - math.log(len(scores))


@final
class Ensemble(nn.Module):
    """Nets whose mean probability is the prediction; the scores are its logarithms.

    Args:
        nets: from inputs to scores of shape (N, K).
    """

    def __init__(self, nets: Sequence[nn.Module]) -> None:
        super().__init__()
        self.nets = nn.ModuleList(nets)

    def forward(self, inputs: Tensor) -> Tensor:
        return mean_scores(torch.stack([net(inputs) for net in self.nets]))
