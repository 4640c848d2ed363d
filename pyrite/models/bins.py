"""A first layer for tables: features are squashed, and encoded by bins, which helps with outliers and jumps."""

from typing import final

import torch
from torch import Tensor, nn

__all__ = ["TableInputs"]


@final
class TableInputs(nn.Module):
    """Features squashed to (-limit, limit), followed by a piecewise linear encoding of each feature by its bins.

    The value of a bin rises from -1 to 1 inside the bin and is constant outside, so that a linear layer on the bins can
    represent any piecewise linear function of the feature. The edges are quantiles of the inputs given to ``fit``, and
    before that quantiles of a normal distribution. Where quantiles coincide, as for whole numbers, a bin is a step.

    Gorishniy, Rubachev & Babenko, 2022 ("On embeddings for numerical features in tabular deep learning").
    """

    edges: Tensor

    def __init__(self, features: int, limit: float | None, bins: int) -> None:
        super().__init__()
        self.limit, self.bins = limit, bins
        places = torch.linspace(0, 1, bins + 1) if bins else torch.zeros(0)
        normal = torch.special.ndtri(places.clamp(0.01, 0.99))
        self.register_buffer("edges", normal.expand(features, -1).clone())

    def forward(self, inputs: Tensor) -> Tensor:
        squashed = inputs
        if self.limit is not None:
            ratio = (inputs / self.limit).clamp(-1e9, 1e9)  # so that the square fits float32
            squashed = self.limit * ratio / torch.sqrt(1 + ratio**2)
        if not self.bins:
            return squashed
        low, high = self.edges[:, :-1], self.edges[:, 1:]
        place = (inputs[:, :, None] - low) / (high - low).clamp(min=1e-6)
        return torch.cat([squashed, (2 * place.clamp(0, 1) - 1).flatten(1)], 1)

    @torch.no_grad()
    def fit(self, inputs: Tensor, seed: int) -> None:
        """Set the edges to quantiles of these inputs."""
        if self.bins:
            places = torch.linspace(0, 1, self.bins + 1, dtype=torch.float64)
            self.edges.copy_(inputs.detach().cpu().flatten(1).double().quantile(places, dim=0).T)
