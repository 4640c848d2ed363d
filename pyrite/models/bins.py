"""A first layer for tables: features that are bent, and cut into bins, so that no scale and no jump is too much."""

from typing import final

import torch
from torch import Tensor, nn

__all__ = ["TableInputs"]


@final
class TableInputs(nn.Module):
    """Features bent to stay within ``limit`` on either side, then where each lies within its bins.

    A bin's value rises from -1 to 1 within it and is constant outside, so that one layer of weights on the bins is any
    piecewise linear function of the feature. The edges are quantiles of what ``fit`` saw; until then those of a normal
    distribution. Where quantiles coincide, as they do for whole numbers, a bin is a step.

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
        bent = inputs
        if self.limit is not None:
            far = (inputs / self.limit).clamp(-1e9, 1e9)  # whose square float32 still holds
            bent = self.limit * far / torch.sqrt(1 + far**2)
        if not self.bins:
            return bent
        low, high = self.edges[:, :-1], self.edges[:, 1:]
        place = (inputs[:, :, None] - low) / (high - low).clamp(min=1e-6)
        return torch.cat([bent, (2 * place.clamp(0, 1) - 1).flatten(1)], 1)

    @torch.no_grad()
    def fit(self, inputs: Tensor, seed: int) -> None:
        """Take the edges from these inputs."""
        if self.bins:
            places = torch.linspace(0, 1, self.bins + 1, dtype=torch.float64)
            self.edges.copy_(inputs.detach().cpu().flatten(1).double().quantile(places, dim=0).T)
