"""A curve: a loss that is a function of the soft margin alone, and the sample weighting that it defines."""

import math
from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, final

import numpy as np
import torch
from torch import Tensor

from pyrite.checks import is_number
from pyrite.criterion import Loss, Terms, add_up, bare, common_options
from pyrite.errors import PyriteError
from pyrite.kernel import Term, transformed
from pyrite.soft_margin import row_margin, row_margins

# Where the numbers a curve is asked for are looked up: w is constant to rounding beyond either end.
_GRID_END = 60.0
# Where a weight is read in place of its limit: the largest scores for which every loss is finite.
_FAR = 1e4


def gauss(count: int) -> tuple[Tensor, Tensor]:
    """Points and weights on [0, 1] of Gauss' rule."""
    points, weights = np.polynomial.legendre.leggauss(count)
    return torch.from_numpy((1 + points) / 2), torch.from_numpy(weights / 2)


_GAUSS = gauss(5)  # for an integral between two neighbours of a grid

COMPILED: dict[type, tuple[float, tuple[str, ...]]] = {}
"""The curves that the compiled kernel has: their kinds, and which of their attributes are its parameters."""


class Peak(NamedTuple):
    """The largest weight of a curve and its margin, which is -inf if the weight only approaches the maximum.

    Attributes:
        margin: where the weight is largest.
        weight: the largest weight.

    >>> from pyrite import MAE
    >>> MAE().peak().weight
    0.5
    """

    margin: float
    weight: float


class Tails(NamedTuple):
    """The limits of the weight: ``left`` as the margin tends to -inf, ``right`` as it tends to inf.

    If ``left`` is 0, the hardest samples, which include wrong labels, have no weight. If ``right`` is not 0, the scores
    of learned samples grow throughout training.
    """

    left: float
    right: float


class Curve(Loss):
    """A loss phi(margin), with the sample weight w = -phi'.

    The gradient of such a loss with respect to the scores is -w times the gradient of the margin, whose L1 norm is
    always 2. phi therefore determines only the weight of each sample. A subclass defines ``phi`` and ``w``. The
    backward pass uses ``w`` in place of the derivative of ``phi``, so ``w`` should be computed in log space.

    Args:
        options: keyword arguments of ``Loss``.

    >>> class Squared(Curve):
    ...     def phi(self, margin):
    ...         return torch.sigmoid(-margin) ** 2
    ...     def w(self, margin):
    ...         return 2 * torch.sigmoid(margin) * torch.sigmoid(-margin) ** 2
    >>> Squared()(torch.tensor([[0.0, 0.0]]), torch.tensor([0]))
    tensor(0.2500)
    """

    @abstractmethod
    def phi(self, margin: Tensor) -> Tensor:
        """The loss at a margin."""

    @abstractmethod
    def w(self, margin: Tensor) -> Tensor:
        """The weight at a margin, exactly -phi'."""

    def value_at(self, margin: Tensor | float) -> Tensor:
        """The loss phi at a margin. Its derivative of any order is that of -``weight_at``, up to rounding."""
        x = _as_margin(margin)
        plain = torch.compiler.is_compiling() or not transformed(x)
        function = _Potential if plain else _TransformedPotential
        value: Tensor = function.apply(x.float() if x.itemsize < 4 else x, self)
        return value.to(x.dtype)

    def weight_at(self, margin: Tensor | float) -> Tensor:
        """The weight of a sample with this margin: half the L1 norm of the gradient with respect to the scores."""
        x = _as_margin(margin)
        return self.w(x.float() if x.itemsize < 4 else x).to(x.dtype)

    def peak(self) -> Peak:
        """The largest weight, found on a grid of margins and refined locally."""
        found = largest(self._w, self.grid())
        for margin, weight in zip((-torch.inf, torch.inf), self.tails(), strict=True):
            if weight >= found.weight * (1 - 1e-12):
                return Peak(margin, weight)
        return found

    def grid(self) -> Tensor:
        """Sorted margins, between which the weight is smooth and changes little, and beyond which it is constant.

        The grid contains the steps of a curve. A transformed curve has the transformed grid of its curve.
        """
        return torch.linspace(-_GRID_END, _GRID_END, 4801, dtype=torch.float64)

    def tails(self) -> Tails:
        """The limits of the weight at both ends.

        They are ``w`` at infinity or, if the curve is not defined there, at very large margins.
        """
        far = self._w(torch.tensor([-_FAR, _FAR], dtype=torch.float64))
        ends = self._w(torch.tensor([-torch.inf, torch.inf], dtype=torch.float64))
        return Tails(*torch.where(ends.isnan(), far, ends).tolist())

    def weight_variance(self) -> float:
        """The variance of the L1 norm of the gradient, 2w, over a uniform distribution of probabilities.

        Wang et al., "IMAE for noise-robust learning", Eq. 12-15. The integral over the margin uses Gaussian quadrature
        between the points of the grid, so a step of the weight is at the end of an interval.
        """
        inside = self.grid().clamp(-_GRID_END, _GRID_END)
        edges = merged([inside, torch.linspace(-_GRID_END, _GRID_END, 4801, dtype=torch.float64)])
        margin = (edges[:-1] + edges.diff() * _GAUSS[0].unsqueeze(1)).flatten()
        density = (edges.diff() * _GAUSS[1].unsqueeze(1)).flatten() * torch.sigmoid(margin) * torch.sigmoid(-margin)
        norm = 2 * self._w(margin)
        mean = (density * norm).sum()
        return float((density * (norm - mean) ** 2).sum())

    def asymmetry_bound(self) -> float:
        """The largest noise ratio r up to which the loss is asymmetric, from 0 (for no noise) to 1.

        r is the ratio of the rate of the most frequent wrong label to the rate of the right label. The bound is the
        infimum of [l(u) - l(u + v)] / [l(0) - l(v)] over probabilities u + v <= 1 (Zhou et al., 2021, Theorem 4),
        including the limit v -> 0. It is computed on a grid that is dense near 0 and 1, and is defined for losses that
        decrease with p.
        """
        if bool((self._w(self.grid()) < 0).any()):
            raise PyriteError(f"{self} rises with the probability somewhere, and has no asymmetry bound")
        # 1 - p is known to 1e-10 of itself down to 1e-6; p itself without end, and far below is where phi(0) is read.
        ends, zero = torch.logspace(-6, -1, 30, dtype=torch.float64), torch.tensor(-700.0, dtype=torch.float64)
        p = torch.cat([ends, torch.linspace(0.1, 0.9, 81, dtype=torch.float64)[1:-1], 1 - ends.flip(0)])
        slope, steepest = self._w(torch.logit(p)) / (p * (1 - p)), self._w(zero) / zero.exp()
        limit = slope.min() / steepest if steepest > 0 else torch.ones_like(steepest)
        start, step = torch.meshgrid(p, p, indexing="ij")
        inside = start + step < 1 - 1e-7
        with torch.no_grad():
            gained = self.phi(torch.logit(start[inside])) - self.phi(torch.logit((start + step)[inside]))
            lost = self.phi(zero) - self.phi(torch.logit(step[inside]))
        # Differences of nearly equal values are rounding, and are left out.
        solid = gained.abs() > 1e-5 * self.phi(torch.logit(start[inside])).abs()
        if not solid.any():
            raise PyriteError(
                f"{self} is constant for all probabilities from 1e-6 to 1 - 1e-6, and has no asymmetry bound"
            )
        ratio = float(torch.minimum((gained / lost)[solid].min(), limit))
        return 0.0 if ratio < 1e-6 else 1.0 if ratio > 1 - 1e-6 else ratio

    def at_label(self, scores: Tensor, labels: Tensor) -> Tensor:
        return self.value_at(row_margin(scores, labels))

    def per_label(self, scores: Tensor) -> Tensor:
        return self.value_at(row_margins(scores))

    def compiled_terms(self, classes: int) -> tuple[Term, ...] | None:
        if type(self) not in COMPILED:
            return None
        kind, parameters = COMPILED[type(self)]
        return (Term(kind, *[getattr(self, name) for name in parameters]),)

    def __add__(self, other: Loss) -> Loss:
        if isinstance(other, Curve):
            return CurveSum(self.terms() + other.terms(), **common_options(self, other))
        return super().__add__(other)

    def __mul__(self, factor: float) -> "Curve":
        return CurveSum(self.times(factor), **self.options()) if is_number(factor) else NotImplemented

    def __rmul__(self, factor: float) -> "Curve":
        return self * factor

    @torch.no_grad()
    def _w(self, margin: Tensor) -> Tensor:
        return self.w(margin)


@final
class CurveSum(Terms, Curve):
    """A weighted sum of curves is a curve."""

    compiled_terms = Terms.compiled_terms

    def phi(self, margin: Tensor) -> Tensor:
        return add_up(factor * curve.phi(margin) for factor, curve in self.terms())

    def w(self, margin: Tensor) -> Tensor:
        return add_up(factor * curve.w(margin) for factor, curve in self.terms())

    def grid(self) -> Tensor:
        return merged([curve.grid() for _, curve in self.terms()])

    def tails(self) -> Tails:
        parts = [(factor, curve.tails()) for factor, curve in self.terms()]
        return Tails(_total([f * ends.left for f, ends in parts]), _total([f * ends.right for f, ends in parts]))


class _Potential(torch.autograd.Function):
    """phi with the derivative -w, where w is differentiated in turn if that is asked for."""

    @staticmethod
    def forward(ctx: Any, margin: Tensor, curve: Curve) -> Tensor:
        ctx.curve = curve
        ctx.save_for_backward(margin)
        return curve.phi(margin)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        (margin,) = ctx.saved_tensors
        return -grads[0] * ctx.curve.w(margin), None


class _TransformedPotential(torch.autograd.Function):
    """The same for torch.func and forward mode, in the form they ask for, which takes torch 50 us longer to call."""

    generate_vmap_rule = True

    @staticmethod
    def forward(margin: Tensor, curve: Curve) -> Tensor:
        return curve.phi(margin)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Curve], output: Tensor) -> None:
        margin, ctx.curve = inputs
        ctx.save_for_backward(margin)
        ctx.save_for_forward(margin)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        return _Potential.backward(ctx, *grads)

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Tensor:
        (margin,) = ctx.saved_tensors
        tangent: Tensor = -tangents[0] * ctx.curve.w(margin)
        return tangent


def largest(weights: Callable[[Tensor], Tensor], grid: Tensor) -> Peak:
    """The largest weight on a grid of margins, refined between the neighbours of the best."""
    for _ in range(7):  # after the grid, each pass narrows 33 points' span to 2 of its 32 steps
        best = int(weights(grid).argmax())
        low, high = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
        grid = low + (high - low) * torch.linspace(0, 1, 33, dtype=torch.float64)
    centre = (low + high) / 2
    return Peak(float(centre), float(weights(centre.reshape(1))))


def merged(grids: Iterable[Tensor]) -> Tensor:
    """One grid of several: in order, and without points that differ by rounding alone."""
    points = torch.cat(list(grids)).sort().values
    new = points.diff() > 1e-13 * (1 + points[1:].abs())
    return torch.cat([points[:1], points[1:][new]])


def bare_curve(curve: Loss) -> Curve:
    """A curve to wrap, with its options at their defaults."""
    bare(curve, "curve")
    if not isinstance(curve, Curve):
        raise PyriteError(f"curve is {str(curve)!r}, but must be a function of the margin alone")
    return curve


def _total(parts: Sequence[float]) -> float:
    """A sum where what is left of terms that cancel is 0 and not their rounding."""
    total = math.fsum(parts)
    return total if abs(total) > 1e-14 * max(map(abs, parts)) else 0.0


def _as_margin(margin: Tensor | float) -> Tensor:
    if not isinstance(margin, Tensor):
        return torch.tensor(margin, dtype=torch.get_default_dtype())
    if not margin.is_floating_point():
        raise PyriteError(f"margin has dtype {margin.dtype}, but must be floating point")
    return margin
