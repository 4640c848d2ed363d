"""The curve of a weight network: what was learned, in the picture of the losses that were thought out."""

from typing import Unpack, final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from pyrite.criterion import Options
from pyrite.curves.curve import Curve

__all__ = ["Learned"]


@final
class Learned(Curve):
    """w(Δ) = V(l) σ(−Δ) with l = −log σ(Δ), the cross entropy: a network V weights samples by their loss.

    V is a sigmoid of a sum of ReLUs, hence of a function with kinks and straight lines between them; so φ, the integral
    of V from 0 to l, is exact: between two kinks it is a difference of softplus.

    Args:
        parameters: those of the network, flat: weights and biases of the hidden layer, weights and bias of the last.
        name: what a picture calls it; it has no spelling, because it is found and not written.

    >>> Learned([1.0, 0.0, -2.0, 3.0]).weight_at(torch.tensor(-30.0)) < 1e-20  # V = sigmoid(3 - 2 relu(l))
    tensor(True)
    """

    kinks: Tensor
    slopes: Tensor
    starts: Tensor
    areas: Tensor

    def __init__(self, parameters: npt.ArrayLike, name: str = "learned", **options: Unpack[Options]) -> None:
        super().__init__(**options)
        self.name = name
        flat = torch.as_tensor(np.asarray(parameters), dtype=torch.float64).clone()
        hidden, rest = divmod(len(flat) - 1, 3) if flat.dim() == 1 else (0, 1)
        if rest or hidden < 1:
            raise ValueError(f"parameters are {tuple(flat.shape)}, but must be 3 a hidden unit and one more")
        slope, bias, out, last = flat.split([hidden, hidden, hidden, 1])
        kinks = (-bias / slope)[(slope != 0)]
        kinks = torch.cat([torch.zeros(1, dtype=torch.float64), kinks[(kinks > 0) & kinks.isfinite()].sort().values])
        # A line on each side of a kink: its slope and where it starts, which is the network's own value there.
        ahead = torch.cat([(kinks[1:] + kinks[:-1]) / 2, kinks[-1:] + 1])
        on = (ahead.unsqueeze(1) * slope + bias) > 0
        self.register_buffer("kinks", kinks)
        self.register_buffer("slopes", (on * (out * slope)).sum(1))
        self.register_buffer("starts", (on * out * (kinks.unsqueeze(1) * slope + bias)).sum(1) + last)
        areas = _area(self.starts[:-1], self.slopes[:-1], kinks.diff())
        self.register_buffer("areas", torch.cat([torch.zeros(1, dtype=torch.float64), areas.cumsum(0)]))

    def trust(self, losses: Tensor) -> Tensor:
        """V of losses: what a sample's loss is multiplied by."""
        place, beyond = self._place(losses)
        return torch.sigmoid(self.starts[place] + self.slopes[place] * beyond).to(losses.dtype)

    def phi(self, margin: Tensor) -> Tensor:
        place, beyond = self._place(-logsigmoid(margin))
        return (self.areas[place] + _area(self.starts[place], self.slopes[place], beyond)).to(margin.dtype)

    def w(self, margin: Tensor) -> Tensor:
        place, beyond = self._place(-logsigmoid(margin))
        return (
            (logsigmoid(self.starts[place] + self.slopes[place] * beyond) + logsigmoid(-margin.double()))
            .exp()
            .to(margin.dtype)
        )

    def _place(self, losses: Tensor) -> tuple[Tensor, Tensor]:
        """The line each loss lies on, and how far along it."""
        wide = losses.double()
        place = torch.searchsorted(self.kinks, wide.detach().contiguous(), right=True) - 1
        return place, wide - self.kinks[place]

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"<{self.name}>"


def _area(start: Tensor, slope: Tensor, length: Tensor) -> Tensor:
    """The integral of sigmoid(start + slope u) for u from 0 to length."""
    rise = slope * length
    flat = rise.abs() < 2e-5
    steep = torch.where(flat, 1.0, slope)
    # -logsigmoid(-z) is softplus without torch's shortcut for large z.
    exact = (logsigmoid(-start) - logsigmoid(-start - rise)) / steep
    # Where the line is all but level the difference has no digits; sigmoid in the middle is right to the rise squared.
    return torch.where(flat, torch.sigmoid(start + rise / 2) * length, exact)
