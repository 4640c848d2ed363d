"""The weighting that a trained weight network gives, as a curve that can be drawn beside the losses."""

from typing import Unpack, final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from pyrite.criterion import Options
from pyrite.curves.curve import Curve
from pyrite.errors import PyriteError


@final
class WeightNetCurve(Curve):
    """w(Δ) = V(l) σ(−Δ) with l = −log σ(Δ), the cross entropy: a network V weights samples by their loss.

    V is the sigmoid of a sum of ReLUs, which is a piecewise linear function of l. Between two kinks the integral of V
    is a difference of two softplus values, so φ, the integral of V from 0 to l, is exact.

    ``parameters`` are one flat array: weights and biases of the hidden layer, then weights and bias of the output
    layer. ``str`` is ``name``: this curve has no spec string, because its parameters are trained.

    >>> WeightNetCurve([1.0, 0.0, -2.0, 3.0]).weight_at(torch.tensor(-30.0)) < 1e-20  # V = sigmoid(3 - 2 relu(l))
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
            raise PyriteError(f"parameters are {tuple(flat.shape)}, but must be 3 per hidden unit and 1 more")
        slope, bias, output, last_bias = flat.split([hidden, hidden, hidden, 1])
        kinks = (-bias / slope)[(slope != 0)]
        kinks = torch.cat([torch.zeros(1, dtype=torch.float64), kinks[(kinks > 0) & kinks.isfinite()].sort().values])
        # Each segment runs from one kink to the next. Which units are active is read off at a point inside it.
        inside = torch.cat([(kinks[1:] + kinks[:-1]) / 2, kinks[-1:] + 1])
        active = (inside.unsqueeze(1) * slope + bias) > 0
        self.register_buffer("kinks", kinks)
        self.register_buffer("slopes", (active * (output * slope)).sum(1))
        self.register_buffer("starts", (active * output * (kinks.unsqueeze(1) * slope + bias)).sum(1) + last_bias)
        areas = _area(self.starts[:-1], self.slopes[:-1], kinks.diff())
        self.register_buffer("areas", torch.cat([torch.zeros(1, dtype=torch.float64), areas.cumsum(0)]))

    def trust(self, losses: Tensor) -> Tensor:
        """V(losses): the factor that each sample's loss is multiplied by."""
        segment, offset = self._segment(losses)
        return torch.sigmoid(self.starts[segment] + self.slopes[segment] * offset).to(losses.dtype)

    def phi(self, margin: Tensor) -> Tensor:
        segment, offset = self._segment(-logsigmoid(margin))
        return (self.areas[segment] + _area(self.starts[segment], self.slopes[segment], offset)).to(margin.dtype)

    def w(self, margin: Tensor) -> Tensor:
        segment, offset = self._segment(-logsigmoid(margin))
        log_trust = logsigmoid(self.starts[segment] + self.slopes[segment] * offset)
        return (log_trust + logsigmoid(-margin.double())).exp().to(margin.dtype)

    def _segment(self, losses: Tensor) -> tuple[Tensor, Tensor]:
        """The segment that each loss lies on, and its distance from the start of that segment."""
        exact = losses.double()
        segment = torch.searchsorted(self.kinks, exact.detach().contiguous(), right=True) - 1
        return segment, exact - self.kinks[segment]

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
    # Where the line is nearly level the difference cancels. The sigmoid at the midpoint has an error of order rise**2.
    return torch.where(flat, torch.sigmoid(start + rise / 2) * length, exact)
