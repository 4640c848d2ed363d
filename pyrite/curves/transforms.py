"""Curves made from curves: unit maximum, and two transforms against underfitting with many classes."""

from abc import abstractmethod
from math import nan
from typing import Unpack, final

from torch import Tensor

from pyrite.checks import number, require, whole_number
from pyrite.criterion import Options
from pyrite.curves.curve import Curve, Peak, Tails, bare_curve
from pyrite.curves.initial import expected_margin as eq4
from pyrite.errors import PyriteError

MEASURED = "measured"
"""In place of a margin: training measures it on its net and data before the first step."""


@final
class Unit(Curve):
    """A curve divided by its largest weight, as the curriculum paper does throughout.

    The learning rate then means the same for every loss.

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

    def phi(self, margin: Tensor) -> Tensor:
        return self._factor * self.curve.phi(margin)

    def w(self, margin: Tensor) -> Tensor:
        return self._factor * self.curve.w(margin)

    def peak(self) -> Peak:
        return Peak(self.curve.peak().margin, 1.0)

    def grid(self) -> Tensor:
        return self.curve.grid()

    def tails(self) -> Tails:
        left, right = self.curve.tails()
        return Tails(self._factor * left, self._factor * right)


class _Moved(Curve):
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
                f"{self} does not know its margin yet: training measures it. Anywhere else give the number, which "
                "'pyrite check LOSS DATA --model NET' measures: margin=-2.3"
            )
        return -self._start

    @property
    @abstractmethod
    def _line(self) -> tuple[float, float]:
        """Slope and offset of the line that moves margins."""

    def phi(self, margin: Tensor) -> Tensor:
        slope, offset = self._line
        return self.curve.phi(slope * margin + offset) / slope

    def w(self, margin: Tensor) -> Tensor:
        slope, offset = self._line
        return self.curve.w(slope * margin + offset)

    def peak(self) -> Peak:
        """The largest weight is known although its place may not be: NaN until it is measured."""
        margin, weight = self.curve.peak()
        slope, offset = (1.0, nan) if self._start is None else self._line
        return Peak((margin - offset) / slope, weight)

    def grid(self) -> Tensor:
        slope, offset = self._line
        return (self.curve.grid() - offset) / slope

    def tails(self) -> Tails:
        """Wherever a curve is moved, its ends stay."""
        return self.curve.tails()


@final
class Shift(_Moved):
    """A curve moved so that a sample at the expected initial margin E gets the weight at -tau.

    w(margin + |E| - tau): with a small tau the initial weight is high whatever the number of classes. E is
    that of Eq. 4 for ``classes``, or the mean margin of your net before training, ``margin``: a number, or
    ``"measured"``, which training replaces by the number.

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
    """A curve stretched so that a sample at the expected initial margin E gets the weight at -tau.

    w(a margin) with a = tau/|E|, and the value phi(a margin)/a. Where ``Shift`` lets the weight die off early in
    training, this spreads it over all margins between the start and success; it is the better cure.

    >>> from pyrite.curves import MAE, expected_margin
    >>> Scale(MAE(), tau=2.6, classes=100).weight_at(expected_margin(100)) / MAE().weight_at(-2.6)
    tensor(1.0000)

    Ou & Zhang, section 5.1.1.
    """

    @property
    def _line(self) -> tuple[float, float]:
        return self.tau / self._depth, 0.0


shift, scale = Shift, Scale


def _start(classes: int | None, margin: float | str | None) -> tuple[int | None, float | str | None, float | None]:
    """The one of the two that was given, as a plain number or ``MEASURED``; and where margins start, if known."""
    if (classes is None) == (margin is None):
        raise PyriteError("give either classes or margin, the mean margin before training")
    if classes is not None:
        wanted = "a whole number, 3 or more: with 2 the margins do not start below 0"
        classes = whole_number("classes", classes, least=3, wanted=wanted)
        return classes, None, eq4(classes)
    if isinstance(margin, str) and margin == MEASURED:
        return None, MEASURED, None
    wanted = f"{MEASURED!r} or a negative number; otherwise there is no underfitting to cure"
    known = number("margin", margin, wanted, below=0)
    return None, known, known
