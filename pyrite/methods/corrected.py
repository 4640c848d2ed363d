"""Loss correction: the noise matrix is estimated by a first net, and a second is trained with the corrected loss."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import final

from torch import Tensor

from pyrite.checks import number
from pyrite.criterion import Loss
from pyrite.curves import CE, Curve
from pyrite.errors import PyriteError
from pyrite.losses import Backward, Forward
from pyrite.methods.context import Context
from pyrite.methods.erm import ERM
from pyrite.methods.method import Method, Trainer
from pyrite.methods.staged import Estimate, Stage, Stages, checked_share, stage_lengths
from pyrite.methods.transition import as_estimate, from_anchors, invertible

__all__ = ["BackwardCorrection", "Corrected", "ForwardCorrection"]

Matrix = str | Tensor | Sequence[Sequence[float]]


class Corrected(Method, ABC):
    """Training with a loss that a noise matrix corrects; subclasses define the correction.

    Args:
        matrix: ``"estimate"``: by a first net, trained with cross entropy; ``"noise"``: that of the run's noise; or the
            matrix itself, T[i, j] = P(given j | true i), for which no first net is needed.
        percentile: which sample the estimate takes as a certain example of a class, by the percentile of its
            probability; 100 is the sample with the largest.
        at: the share of the epochs in which the first net is trained.
    """

    def __init__(self, matrix: Matrix, percentile: float, at: float) -> None:
        if isinstance(matrix, str):
            if matrix not in ("estimate", "noise"):
                raise PyriteError(f"matrix is {matrix!r}, but must be estimate, noise, or rows of numbers")
        else:
            matrix = self.correction(matrix).matrix  # type: ignore[assignment]  # checked, as a tensor
        self.matrix = matrix
        self.percentile, self.at = number("percentile", percentile, least=0, most=100), checked_share(at)

    @abstractmethod
    def correction(self, matrix: Tensor | Sequence[Sequence[float]]) -> Loss:
        """The corrected loss."""

    def usable(self, matrix: Tensor) -> Estimate:
        """The estimated matrix, changed where this correction needs it."""
        return as_estimate(matrix)

    def start(self, context: Context) -> Trainer:
        if not isinstance(self.matrix, str):
            matrix = self.matrix
        elif self.matrix == "noise":
            matrix = context.noise_matrix
        else:
            return self._estimate_first(context)
        if len(matrix) != context.classes:
            raise PyriteError(f"matrix has {len(matrix)} rows, but there are {context.classes} classes")
        return ERM(self.correction(matrix)).start(context)

    def _estimate_first(self, context: Context) -> Stages:
        early, late = stage_lengths(self, context.epochs, self.at)

        def first(known: Estimate, before: Trainer | None) -> Trainer:
            return ERM(CE()).start(context.stage(early))

        def estimate(trainer: Trainer) -> Estimate:
            return self.usable(from_anchors(context.evaluate(trainer.predict), self.percentile))

        def then(known: Estimate, before: Trainer | None) -> Trainer:
            return ERM(self.correction(known["matrix"])).start(context.stage(late))

        return Stages([Stage(early, first, estimate), Stage(late, then)])


@final
class ForwardCorrection(Corrected):
    """Forward correction: the loss of the probabilities of given labels, Tᵀp.

    Args:
        matrix, percentile, at: see ``Corrected``.
        curve: the loss, a function of the margin alone; cross entropy by default.

    >>> str(ForwardCorrection())
    "forward(matrix='estimate', percentile=97, at=0.2)"

    Patrini et al., 2017 ("Making deep neural networks robust to label noise: a loss correction approach").
    """

    def __init__(
        self, matrix: Matrix = "estimate", percentile: float = 97, at: float = 0.2, *, curve: Curve | None = None
    ) -> None:
        self.curve = curve
        Forward([[1, 0], [0, 1]], curve)  # raises ValueError if curve is not a curve
        super().__init__(matrix, percentile, at)

    def correction(self, matrix: Tensor | Sequence[Sequence[float]]) -> Loss:
        return Forward(matrix, self.curve)


@final
class BackwardCorrection(Corrected):
    """Backward correction: T⁻¹ times the losses of all labels, whose mean over the noise is the loss of true labels.

    An estimated matrix that can hardly be inverted is mixed with the identity first.

    Args:
        matrix, percentile, at: see ``Corrected``.
        loss: what is corrected; cross entropy by default.

    >>> str(BackwardCorrection(matrix="noise"))
    "backward(matrix='noise', percentile=97, at=0.2)"

    Patrini et al., 2017 ("Making deep neural networks robust to label noise: a loss correction approach").
    """

    def __init__(
        self, matrix: Matrix = "estimate", percentile: float = 97, at: float = 0.2, *, loss: Loss | None = None
    ) -> None:
        self.loss = loss
        Backward([[1, 0], [0, 1]], loss)  # raises ValueError if loss is not a loss
        super().__init__(matrix, percentile, at)

    @property
    def needs_clipping(self) -> bool:
        """Corrected losses can be negative, without a bound."""
        return True

    def correction(self, matrix: Tensor | Sequence[Sequence[float]]) -> Loss:
        return Backward(matrix, self.loss)

    def usable(self, matrix: Tensor) -> Estimate:
        mixed, share = invertible(matrix)
        return as_estimate(mixed, identity_share=share)
