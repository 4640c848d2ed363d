"""Loss correction: the noise matrix is estimated by a first net, and a second is trained with the corrected loss."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import final

from torch import Tensor

from pyrite.checks import number
from pyrite.criterion import Loss
from pyrite.curves import Curve
from pyrite.errors import PyriteError
from pyrite.losses import Backward, Forward
from pyrite.methods.method import Context, Method, Trainer
from pyrite.methods.staged import Estimate, Stages, stage_fraction
from pyrite.methods.transition import as_estimate, from_anchors, invertible

Matrix = str | Tensor | Sequence[Sequence[float]]


class Corrected(Method, ABC):
    """Training with a loss that a noise matrix corrects; subclasses define the correction.

    Args:
        matrix: ``"estimate"``: by a first net, trained with cross entropy; ``"noise"``: that of the run's noise; or the
            matrix itself, T[i, j] = P(given j | true i), for which no first net is needed.
        percentile: which sample the estimate takes as a certain example of a class, by the percentile of its
            probability; 100 is the sample with the largest.
        at: the fraction of the epochs in which the first net is trained.
    """

    def __init__(self, matrix: Matrix, percentile: float, at: float) -> None:
        if isinstance(matrix, str) and matrix not in ("estimate", "noise"):
            raise PyriteError(f"matrix is {matrix!r}, but must be estimate, noise, or rows of numbers")
        # The loss checks its arguments, and makes a tensor of the matrix.
        checked = self.correction([[1, 0], [0, 1]] if isinstance(matrix, str) else matrix)
        self.matrix: str | Tensor = matrix if isinstance(matrix, str) else checked.matrix
        self.percentile, self.at = number("percentile", percentile, least=0, most=100), stage_fraction(at)

    @abstractmethod
    def correction(self, matrix: Tensor | Sequence[Sequence[float]]) -> Forward | Backward:
        """The corrected loss."""

    def usable(self, matrix: Tensor) -> Estimate:
        """The estimated matrix, changed where this correction needs it."""
        return as_estimate(matrix)

    def start(self, context: Context) -> Trainer:
        if self.matrix == "estimate":
            return Stages(
                self, context, self.at,
                lambda stage, known: Trainer(stage, self.correction(known["matrix"])),
                estimate=lambda first: self.usable(from_anchors(context.evaluate(first.predict), self.percentile)),
            )  # fmt: skip
        matrix = context.noise_matrix if isinstance(self.matrix, str) else self.matrix
        if len(matrix) != context.classes:
            raise PyriteError(f"matrix has {len(matrix)} rows, but there are {context.classes} classes")
        return Trainer(context, self.correction(matrix))


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
        super().__init__(matrix, percentile, at)

    def correction(self, matrix: Tensor | Sequence[Sequence[float]]) -> Forward:
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

    needs_clipping = True  # corrected losses can be negative, without a bound

    def __init__(
        self, matrix: Matrix = "estimate", percentile: float = 97, at: float = 0.2, *, loss: Loss | None = None
    ) -> None:
        self.loss = loss
        super().__init__(matrix, percentile, at)

    def correction(self, matrix: Tensor | Sequence[Sequence[float]]) -> Backward:
        return Backward(matrix, self.loss)

    def usable(self, matrix: Tensor) -> Estimate:
        mixed, identity_share = invertible(matrix)
        return as_estimate(mixed, identity_share=identity_share)
