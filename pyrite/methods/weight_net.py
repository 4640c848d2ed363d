"""The network that gives samples their weights."""

from typing import final

import torch
from torch import Tensor, nn

__all__ = ["WeightNet"]


@final
class WeightNet(nn.Module):
    """From a column of losses to a column of weights between 0 and 1: one hidden layer, ReLU, a sigmoid at the end.

    Args:
        hidden: units of the hidden layer.

    Shu et al., 2019 ("Meta-Weight-Net").
    """

    def __init__(self, hidden: int = 100) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(1, hidden), nn.Linear(hidden, 1)

    def forward(self, losses: Tensor) -> Tensor:
        return torch.sigmoid(self.last(torch.relu(self.first(losses))))
