"""Losses made of another one: corrected by a noise matrix, normalised, at unit weight, or fused with a layer."""

from collections.abc import Sequence
from typing import Any, NamedTuple, Unpack, final

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from pyrite.checks import require, whole_number
from pyrite.criterion import Loss, Options, bare, classes_of, scaled_terms, to_numbers
from pyrite.curves import CE, Curve, Unit, bare_curve
from pyrite.curves.curve import largest
from pyrite.errors import PyriteError
from pyrite.kernel import KINDS, Term
from pyrite.soft_margin import check_labels, row_margins, to_rows
from pyrite.spec import construct

_Matrix = Tensor | Sequence[Sequence[float]]


@final
class Forward(Loss):
    """Forward correction: a curve of the probability of the *given* label, the sum over i of T[i, y] p_i.

    The margin of this probability is log sum T[i, y] p_i - log sum (1 - T[i, y]) p_i, so ``curve`` can be any curve.

    Args:
        matrix: T[i, j] = P(given j | true i).
        curve: the curve of the probability; cross entropy if None.
        options: keyword arguments of ``Loss``.

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
    """Backward correction: the sum over j of (T^-1)[y, j] l(s, j), whose expectation over the noise is the clean loss.

    Args:
        matrix: T[i, j] = P(given j | true i), which must have an inverse.
        loss: the loss l; cross entropy if None.
        options: keyword arguments of ``Loss``.

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


class Normalised(Loss):
    """A non-negative loss, normalised by its sum over all labels: l(s, y) / sum over i of l(s, i).

    Args:
        loss: a loss that is never negative.
        options: keyword arguments of ``Loss``.

    >>> from pyrite.curves import GCE
    >>> Normalised(GCE(q=0.7))(torch.tensor([1.0, 0.0, 0.0]), torch.tensor(0))
    tensor(0.1947)

    Ma et al., 2020.
    """

    def __init__(self, loss: Loss, **options: Unpack[Options]) -> None:
        super().__init__(**options)
        self.loss = bare(loss)
        least, most = _range(self.loss)
        valid = least >= -1e-12 * most and most > 0
        require(valid, "loss", str(loss), "one whose value is never negative, nor always 0")

    def at_label(self, scores: Tensor, labels: Tensor) -> Tensor:
        own, total = self.loss.at_label_and_total(scores, labels)
        return own / total

    def per_label(self, scores: Tensor) -> Tensor:
        every = self.loss.per_label(scores)
        return every / every.sum(1, keepdim=True)

    def compiled_terms(self, classes: int) -> tuple[Term, ...] | None:
        return (Term(KINDS["nce"]),) if type(self.loss) is CE else None


@torch.no_grad()
def _range(loss: Loss) -> tuple[float, float]:
    """The least and the largest value: on the grid of a curve, or of scores with spreads from 0.1 to 100."""
    if isinstance(loss, Curve):
        values = loss.phi(loss.grid())
    else:
        spread = torch.logspace(-1, 2, 300, dtype=torch.float64).unsqueeze(1)
        noise = torch.randn(300, classes_of(loss), dtype=torch.float64, generator=torch.Generator().manual_seed(0))
        values = loss.per_label(spread * noise)
    return float(values.min()), float(values.max())


class Decomposition(NamedTuple):
    """The parts of NCE's gradient, one number per sample: gamma * (grad CE + epsilon * grad R)."""

    gamma: Tensor
    epsilon: Tensor
    bound: Tensor  # of the weight (half the gradient's L1 norm): gamma (w_CE + epsilon (1 - 1/K))
    # The paper's Eq. 3, gamma (1 + epsilon) w_CE, which takes every label's w_CE for that of the given one. It does not
    # hold for learned samples, where w_CE is small and that of the others is not.
    printed_bound: Tensor


@final
class NCE(Normalised):
    """Normalised cross entropy: log p_y / sum over i of log p_i. Symmetric; the losses of all labels add up to 1.

    Args:
        options: keyword arguments of ``Loss``.

    >>> NCE()(torch.tensor([1.0, 0.0, 0.0]), torch.tensor(0))
    tensor(0.1509)

    Ma et al., 2020.
    """

    def __init__(self, **options: Unpack[Options]) -> None:
        super().__init__(CE(), **options)

    @torch.no_grad()
    def decomposition(self, scores: Tensor, labels: Tensor) -> Decomposition:
        """The weights gamma and epsilon of cross entropy and a regulariser (curriculum paper, Eq. 2 and 3)."""
        rows = to_rows(scores)
        check_labels(scores, labels)
        classes, (own, total) = rows.shape[1], CE().at_label_and_total(rows, labels.reshape(-1).long())
        gamma, epsilon = 1 / total, classes * own / total
        weight = -torch.expm1(-own)
        bound = gamma * (weight + epsilon * (1 - 1 / classes))
        parts = (gamma, epsilon, bound, gamma * (1 + epsilon) * weight)
        return Decomposition(*(part.reshape(labels.shape) for part in parts))


normalised = Normalised


def unit(loss: Loss, classes: int | None = None, **options: Unpack[Options]) -> Loss:
    """A loss divided by its largest weight, as all losses of the curriculum paper are.

    Args:
        loss: a curve, whose largest weight is ``peak()``; or any other loss of single samples that treats all classes
            equally, such as ``nce`` and sums with it.
        classes: the number of classes, required for a loss that is not a curve, because its largest weight depends on
            it.
        options: keyword arguments of ``Loss``.

    Returns:
        ``Unit(loss)`` for a curve, otherwise a loss that divides by the largest weight.

    >>> from pyrite.curves import MAE
    >>> unit(MAE()), unit(NCE(), classes=10)
    (Unit(MAE()), unit(NCE(), classes=10))
    """
    if isinstance(loss, Curve):
        require(classes is None, "classes", classes, "left out for a curve, whose largest weight does not depend on it")
        return Unit(loss, **options)
    return UnitLoss(loss, classes, **options)


@final
class UnitLoss(Loss):
    """A loss that is no curve, divided by its largest weight at scores where all other classes are tied.

    Along those scores every loss that treats classes equally is a function of the margin, as a curve is everywhere.
    Over all scores the weight of ``nce`` can be larger: with 10 classes 1.4 times, with 50 classes 7 times, where one
    wrong class leads and the label's score is 25 or more below all others. There it moves the others, not the label.
    """

    def __init__(self, loss: Loss, classes: int | None, **options: Unpack[Options]) -> None:
        super().__init__(**options)
        self.loss = bare(loss)
        couples = any(part.couples for part in loss.modules() if isinstance(part, Loss))
        wanted = "one of single samples that treats all classes equally"
        require(not couples and not list(loss.buffers()), "loss", str(loss), wanted)
        if classes is None:
            raise PyriteError(f"loss is {str(loss)!r}, whose largest weight depends on classes: pass classes")
        self.classes = whole_number("classes", classes, least=2)
        grid = torch.linspace(-60, 60, 2401, dtype=torch.float64)  # beyond it no loss here has its peak
        weight = largest(lambda margins: _weights(loss, margins, self.classes), grid).weight
        require(weight > 0, "loss", str(loss), "one that gives samples a weight")
        self._factor = 1 / weight

    @property
    def only_classes(self) -> int:
        return self.classes

    def at_label(self, scores: Tensor, labels: Tensor) -> Tensor:
        return self._factor * self.loss.at_label(self._checked(scores), labels)

    def per_label(self, scores: Tensor) -> Tensor:
        return self._factor * self.loss.per_label(self._checked(scores))

    def per_sample(self, rows: Tensor, labels: Tensor, weight: Tensor | None, valid: Tensor | None) -> Tensor:
        return self._factor * self.loss.per_sample(self._checked(rows), labels, weight, valid)

    def compiled_terms(self, classes: int) -> tuple[Term, ...] | None:
        return scaled_terms(self._factor, self.loss.compiled_terms(classes)) if classes == self.classes else None

    def __repr__(self) -> str:
        return "unit" + construct(self, **self._further_options()).removeprefix("UnitLoss")

    def _checked(self, scores: Tensor) -> Tensor:
        require(scores.shape[1] == self.classes, "classes", self.classes, f"{scores.shape[1]}, as in the scores")
        return scores


@torch.enable_grad()
def _weights(loss: Loss, margins: Tensor, classes: int) -> Tensor:
    """The weight (half the L1 norm of the gradient) at scores where all classes but the label are tied."""
    scores = torch.zeros(len(margins), classes, dtype=torch.float64)
    scores[:, 0] = margins + torch.log(torch.tensor(classes - 1.0, dtype=torch.float64))
    scores.requires_grad_()
    labels = torch.zeros(len(margins), dtype=torch.long)
    (gradient,) = torch.autograd.grad(loss.at_label(scores, labels).sum(), scores)
    return gradient.abs().sum(1) / 2


class LinearLoss(nn.Module):
    """A linear layer fused with a loss, for many classes such as tokens: memory never holds all scores at once.

    The attribute ``linear`` is the layer. It computes the scores for predictions, and its weight can be tied to an
    embedding (``head.linear.weight = embedding.weight``).

    Args:
        loss: any loss.
        hidden: the number of features.
        classes: the number of classes.
        bias: whether the layer has a bias.
        chunk: the number of rows that are projected at a time; by default as many as give 16 million scores.

    >>> import torch
    >>> from pyrite.curves import GCE
    >>> head = LinearLoss(GCE(q=0.7), hidden=8, classes=1000)
    >>> head(torch.zeros(2, 5, 8), torch.zeros(2, 5, dtype=torch.long)).shape
    torch.Size([])
    """

    def __init__(self, loss: Loss, hidden: int, classes: int, *, bias: bool = True, chunk: int | None = None) -> None:
        super().__init__()
        require(isinstance(loss, Loss), "loss", loss, "a loss")
        self.loss, self.chunk = loss, chunk
        self.linear = nn.Linear(hidden, classes, bias=bias)

    def forward(self, input: Tensor, target: Tensor, sample_weight: Tensor | None = None) -> Tensor:
        """The loss of (..., hidden) features under (...) labels."""
        layer, chunk = self.linear, self.chunk
        return self.loss.linear(input, layer.weight, target, layer.bias, sample_weight=sample_weight, chunk=chunk)
