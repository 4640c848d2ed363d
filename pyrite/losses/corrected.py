"""Loss correction with a known or estimated noise matrix, T[i, j] = P(given j | true i)."""

from collections.abc import Sequence
from typing import Any, Unpack, final

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from pyrite.checks import require
from pyrite.criterion import Loss, Options, bare, to_numbers
from pyrite.curves import CE, Curve, bare_curve
from pyrite.errors import PyriteError
from pyrite.soft_margin import row_margins

_Matrix = Tensor | Sequence[Sequence[float]]


@final
class Forward(Loss):
    """Forward correction: the loss of the *given* label's probability, the sum over i of T[i, y] p_i.

    Its margin is log sum T[i, y] p_i - log sum (1 - T[i, y]) p_i, so any curve can stand for ``curve``.

    >>> Forward([[0.9, 0.1], [0.2, 0.8]])(torch.tensor([0.0, 0.0]), torch.tensor(0))
    tensor(0.5978)

    Patrini et al., 2017.
    """

    matrix: Tensor

    def __init__(self, matrix: _Matrix, curve: Curve | None = None, **options: Unpack[Options]) -> None:
        super().__init__(**options)
        self.register_buffer("matrix", _transition(matrix))
        self.curve = bare_curve(CE() if curve is None else curve)

    def at_label(self, scores: Tensor, labels: Tensor) -> Tensor:
        _fits(self.matrix, scores)
        log_p = logsigmoid(row_margins(scores))
        given, other = (part.log().to(log_p).mT[labels] for part in (self.matrix, (1 - self.matrix).clamp(min=0)))
        return self.curve.value_at(torch.logsumexp(given + log_p, 1) - torch.logsumexp(other + log_p, 1))


@final
class Backward(Loss):
    """Backward correction: the sum over j of (T^-1)[y, j] l(s, j), whose mean over the noise is the clean loss.

    >>> Backward([[0.9, 0.1], [0.2, 0.8]])(torch.tensor([0.0, 0.0]), torch.tensor(0))
    tensor(0.6931)

    Patrini et al., 2017.
    """

    matrix: Tensor
    inverse: Tensor

    def __init__(self, matrix: _Matrix, loss: Loss | None = None, **options: Unpack[Options]) -> None:
        super().__init__(**options)
        self.register_buffer("matrix", _transition(matrix))
        self.loss = bare(CE() if loss is None else loss)
        condition = float(torch.linalg.cond(self.matrix))
        wanted = "invertible: two classes are mixed beyond telling"
        require(condition < 1e8, "matrix", f"of condition {condition:.3g}", wanted)
        self.register_buffer("inverse", torch.linalg.inv(self.matrix), persistent=False)

    def at_label(self, scores: Tensor, labels: Tensor) -> Tensor:
        _fits(self.matrix, scores)
        every = self.loss.per_label(scores)
        return (every * self.inverse.to(every)[labels]).sum(1)

    def per_label(self, scores: Tensor) -> Tensor:
        _fits(self.matrix, scores)
        every = self.loss.per_label(scores)
        # One label at a time and not as a product of matrices, which autocast would round to half precision.
        return torch.stack([(every * row).sum(1) for row in self.inverse.to(every)], dim=1)

    def _load_from_state_dict(self, *args: Any, **kwargs: Any) -> None:
        super()._load_from_state_dict(*args, **kwargs)
        self.inverse = torch.linalg.inv(self.matrix)


def _transition(matrix: _Matrix) -> Tensor:
    values = to_numbers(matrix, "matrix")
    square = values.dim() == 2 and values.shape[0] == values.shape[1] and len(values) > 1
    require(square, "matrix", tuple(values.shape), "square, with one row and one column per class")
    for row, numbers in enumerate(values.tolist()):
        if not (min(numbers) >= 0 and abs(sum(numbers) - 1) <= 1e-6):
            raise PyriteError(f"matrix has row {row} = {numbers}, but a row is a distribution over given labels")
    return values


def _fits(matrix: Tensor, scores: Tensor) -> None:
    wanted = f"for the {scores.shape[1]} classes of the scores"
    require(len(matrix) == scores.shape[1], "matrix", tuple(matrix.shape), wanted)
