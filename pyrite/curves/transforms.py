"""Curves made from curves: unit maximum, and two transforms against underfitting with many classes.

They move a curve to where margins start: with i.i.d. normal scores, the state of an untrained network with K classes.
"""

import math
from typing import Unpack, final

import numpy as np
from torch import Tensor

from pyrite.checks import number, require, whole_number
from pyrite.criterion import Options
from pyrite.curves.curve import Curve, Peak, Tails, bare_curve
from pyrite.errors import PyriteError
from pyrite.kernel import Term

MEASURED = "measured"
"""In place of a margin: training measures it on its net and data before the first step."""


class _Transformed(Curve):
    """A curve of a linear function of the margin, and a multiple of it. The slope divides its value, not its weight."""

    curve: Curve
    _factor = 1.0

    @property
    def _line(self) -> tuple[float, float]:
        """Slope and offset of the linear function."""
        return 1.0, 0.0

    def phi(self, margin: Tensor) -> Tensor:
        slope, offset = self._line
        return self._factor * self.curve.phi(slope * margin + offset) / slope

    def w(self, margin: Tensor) -> Tensor:
        slope, offset = self._line
        return self._factor * self.curve.w(slope * margin + offset)

    def compiled_terms(self, classes: int) -> tuple[Term, ...] | None:
        (slope, offset), terms = self._line, self.curve.compiled_terms(classes)
        return terms and tuple(
            Term(kind, a, b, self._factor * factor / slope, scale * slope, shift + scale * offset)
            for kind, a, b, factor, scale, shift in terms
        )

    def grid(self) -> Tensor:
        slope, offset = self._line
        return (self.curve.grid() - offset) / slope

    def tails(self) -> Tails:
        """Wherever a curve is moved, its ends stay."""
        left, right = self.curve.tails()
        return Tails(self._factor * left, self._factor * right)


@final
class Unit(_Transformed):
    """A curve divided by its largest weight, as all losses of the curriculum paper are.

    The same learning rate then suits every loss.

    Args:
        curve: any curve.
        options: keyword arguments of ``Loss``.

    >>> from pyrite.curves import MAE
    >>> Unit(MAE()).weight_at(0.0)
    tensor(1.)
    """

    def __init__(self, curve: Curve, **options: Unpack[Options]) -> None:
        super().__init__(**options)
        self.curve = bare_curve(curve)
        weight = curve.peak().weight
        require(weight > 0, "curve", str(curve), "one with a positive weight")
        self._factor = 1 / weight

    def peak(self) -> Peak:
        return Peak(self.curve.peak().margin, 1.0)


class _Moved(_Transformed):
    """A curve moved to where margins start: at E, as far below 0 as ``_depth`` says."""

    def __init__(
        self,
        curve: Curve,
        tau: float,
        classes: int | None = None,
        margin: float | str | None = None,
        **options: Unpack[Options],
    ) -> None:
        super().__init__(**options)
        self.curve = bare_curve(curve)
        self.tau = number("tau", tau, above=0)
        self.classes, self.margin, self._start = _start(classes, margin)

    def start_at(self, margin: float) -> None:
        """Take this margin, which was measured, in place of ``MEASURED``."""
        self.classes, self.margin, self._start = _start(None, margin)

    @property
    def _depth(self) -> float:
        """How far below 0 the margins start: |E|."""
        if self._start is None:
            raise PyriteError(
                f"{self} has no margin yet: training measures it. Elsewhere, pass the number that "
                "'pyrite check LOSS DATA --model NET' measures: margin=-2.3"
            )
        return -self._start

    def peak(self) -> Peak:
        """The largest weight is known although its place may not be: NaN until it is measured."""
        margin, weight = self.curve.peak()
        slope, offset = (1.0, math.nan) if self._start is None else self._line
        return Peak((margin - offset) / slope, weight)


@final
class Shift(_Moved):
    """A curve, shifted so that a sample at the expected initial margin E has the weight w(-tau).

    The weight is w(margin + |E| - tau): with a small tau, the initial weight is high for any number of classes. E is
    determined by ``classes`` (Eq. 4) or by ``margin``, the mean margin of your net before training: a number, or
    ``"measured"``, which is replaced by the measured number when training starts.

    Args:
        curve: any curve.
        tau: the initial weight is that of the curve at -tau.
        classes: the number of classes, which gives E.
        margin: E itself, if ``classes`` is not given.
        options: keyword arguments of ``Loss``.

    >>> from pyrite.curves import MAE, expected_margin
    >>> Shift(MAE(), tau=2.6, classes=100).weight_at(expected_margin(100)) / MAE().weight_at(-2.6)
    tensor(1.)

    Ou & Zhang, section 5.1.1.
    """

    @property
    def _line(self) -> tuple[float, float]:
        return 1.0, self._depth - self.tau


@final
class Scale(_Moved):
    """A curve, rescaled so that a sample at the expected initial margin E has the weight w(-tau).

    The weight is w(a margin) with a = tau/|E|, and the value phi(a margin)/a. With ``Shift``, the weight of a sample
    vanishes early in training. With ``Scale``, it remains until the sample is learned, which prevents underfitting
    better.

    Args:
        curve: any curve.
        tau: the initial weight is that of the curve at -tau.
        classes: the number of classes, which gives E.
        margin: E itself, if ``classes`` is not given, as for ``Shift``.
        options: keyword arguments of ``Loss``.

    >>> from pyrite.curves import MAE, expected_margin
    >>> Scale(MAE(), tau=2.6, classes=100).weight_at(expected_margin(100)) / MAE().weight_at(-2.6)
    tensor(1.0000)

    Ou & Zhang, section 5.1.1.
    """

    @property
    def _line(self) -> tuple[float, float]:
        return self.tau / self._depth, 0.0


shift = Shift
scale = Scale


def _start(classes: int | None, margin: float | str | None) -> tuple[int | None, float | str | None, float | None]:
    """The one of the two that was given, as a plain number or ``MEASURED``; and where margins start, if known."""
    if (classes is None) == (margin is None):
        raise PyriteError("give either classes or margin, the mean margin before training")
    if classes is not None:
        wanted = "a whole number, 3 or more: with 2 the margins do not start below 0"
        classes = whole_number("classes", classes, least=3, wanted=wanted)
        return classes, None, expected_margin(classes)
    if isinstance(margin, str) and margin == MEASURED:
        return None, MEASURED, None
    wanted = f"{MEASURED!r} or a negative number; otherwise there is no underfitting to cure"
    known = number("margin", margin, wanted, below=0)
    return None, known, known


# The integral takes time and room with the square of the spread; no untrained model's scores spread so far.
_LARGEST_SPREAD = 50

# Simulating takes time with their number: a minute for 20,000 samples of this many classes.
MOST_CLASSES = 100_000


def expected_margin(classes: int, sigma: float = 1.0, exact: bool = False) -> float:
    """The mean soft margin of an untrained model whose scores have the standard deviation ``sigma``.

    By default, the mean is approximated to second order by Eq. 4 of the curriculum paper,
    ``-log(K - 1) - sigma^2/2 + (exp(sigma^2) - 1)/(2 (K - 1))``. With ``exact``, the integral is computed, for
    ``sigma`` up to 50. Both differ by 0.0002 for 100 classes and by 0.014 for 10. By Jensen's inequality, the mean is
    between -log(K - 1) - sigma^2/2 and -log(K - 1). If the approximation is outside this range, as for 2 classes or a
    large ``sigma``, an error is raised.

    Args:
        classes: the number of classes, K.
        sigma: the standard deviation of the scores.
        exact: whether to compute the integral.

    Returns:
        The mean margin.

    >>> round(expected_margin(100), 4), round(expected_margin(100, exact=True), 4)
    (-5.0864, -5.0867)

    Ou & Zhang, "A curriculum view of robust loss functions", section 5.1.
    """
    others = whole_number("classes", classes, least=2) - 1
    sigma = number("sigma", sigma, above=0)
    if exact:
        require(sigma <= _LARGEST_SPREAD, "sigma", sigma, f"at most {_LARGEST_SPREAD} for the exact mean")
        return -_mean_log_sum(others, sigma)
    variance = min(sigma, 26.0) ** 2  # so far its exponential is a float, and long since too large
    second = math.expm1(variance) / (2 * others)
    if second > variance / 2:
        raise PyriteError(
            f"sigma is {sigma!r} and classes {classes}, where the approximation is inaccurate: pass exact=True"
        )
    return -math.log(others) - variance / 2 + second


def initial_margins(classes: int, sigma: float = 1.0, samples: int = 20_000, seed: int = 0) -> np.ndarray:
    """Simulate the margins of an untrained model, whose mean is ``expected_margin``.

    Args:
        classes: the number of classes, at most 100,000.
        sigma: the standard deviation of the scores.
        samples: the number of margins.
        seed: the seed of the simulation.

    Returns:
        The margins in ascending order.

    >>> round(float(initial_margins(100).mean()), 1)
    -5.1
    """
    classes, sigma = whole_number("classes", classes, least=2), number("sigma", sigma, above=0)
    require(classes <= MOST_CLASSES, "classes", classes, f"at most {MOST_CLASSES:,}, as margins are simulated")
    samples = whole_number("samples", samples, least=1)
    generator = np.random.default_rng(seed)
    drawn = np.empty(samples)
    rows = max(1, 2_000_000 // classes)
    for start in range(0, samples, rows):
        scores = generator.normal(0.0, sigma, (min(rows, samples - start), classes))
        top = scores[:, 1:].max(1)
        mass = np.exp(scores[:, 1:] - top[:, None]).sum(1)
        drawn[start : start + rows] = scores[:, 0] - top - np.log(mass)
    return np.sort(drawn)


def _mean_log_sum(count: int, sigma: float) -> float:
    """E log of a sum of ``count`` log-normal variables X, from log x = integral of (e^-t - e^-xt)/t dt.

    So it is the integral over u of exp(-e^u) - M(e^u)^count with M(t) = E exp(-tX). Both integrals have smooth
    integrands that die off, where equal steps are exact to rounding.
    """
    step = 0.2
    # Steps of 0.25 in the normal variable or in log X; beyond 9 it has no part that a float64 could show.
    z = np.arange(-9, 9, 0.25 / max(1.0, sigma))
    normal = np.exp(-z * z / 2)
    normal /= normal.sum()
    # Down to where the difference is t * count * E X < 1e-17, up to where the smallest X still matters.
    low = -40.0 - math.log(count) - min(sigma**2 / 2, 9 * sigma)
    u = np.arange(low, 9 * sigma + 5, step)
    total = 0.0
    for part in np.array_split(u, 1 + len(u) * len(z) // 1_000_000):  # a few megabytes at a time
        # 1 - M is what has digits where M is nearly 1, and a large power of it is asked for.
        rest = np.minimum(_distribution(part[:, None] + sigma * z) @ normal, 1 - 1e-16)
        total += float(np.sum(-np.expm1(count * np.log1p(-rest)) - _distribution(part)))
    return total * step


def _distribution(u: np.ndarray) -> np.ndarray:
    """1 - exp(-exp(u)), which is 1 long before exp(u) overflows."""
    probability: np.ndarray = -np.expm1(-np.exp(np.minimum(u, 700.0)))
    return probability
