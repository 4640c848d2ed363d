"""Ensembles: the mean prediction of several nets."""

import math
from collections.abc import Sequence
from typing import final

import torch
from torch import Tensor, nn

__all__ = ["Ensemble", "mean_scores"]


def mean_scores(scores: Tensor) -> Tensor:
    """The logarithm of the mean probabilities of several nets, from scores of shape (nets, N, K).

    >>> mean_scores(torch.tensor([[[0.0, 0.0]], [[0.0, 0.0]]])).exp()
    tensor([[0.5000, 0.5000]])
    """
    return torch.logsumexp(torch.log_softmax(scores, -1), 0) - math.log(len(scores))


@final
class Ensemble(nn.Module):
    """A module whose scores are the logarithms of the mean probabilities of several nets.

    Args:
        nets: modules that map inputs to scores of shape (N, K).
    """

    def __init__(self, nets: Sequence[nn.Module]) -> None:
        super().__init__()
        self.nets = nn.ModuleList(nets)

    def forward(self, inputs: Tensor) -> Tensor:
        return mean_scores(torch.stack([net(inputs) for net in self.nets]))
