"""Methods with a noise matrix T[i, j] = P(given j | true i): corrected losses, gold samples, and layers of noise.

A first net estimates the matrix, unless it is known: in float64, from the scores of every sample, which are the same
at every process.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from typing import Annotated, final

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from pyrite.checks import Count, number, require
from pyrite.criterion import Loss, to_numbers
from pyrite.curves import Curve
from pyrite.data import Batch, Batches
from pyrite.errors import PyriteError
from pyrite.losses import Backward, Forward
from pyrite.methods.context import Cycle
from pyrite.methods.method import Context, MetaSet, Method, RunPart, Step, Trainer
from pyrite.methods.staged import Estimate, Stages
from pyrite.soft_margin import row_margins, wide, wide_dtype

Matrix = str | Tensor | Sequence[Sequence[float]]


def _known(name: str, matrix: Matrix, context: Context) -> Tensor | None:
    """The matrix of an argument, or that of the run's noise; None if it is to be estimated."""
    if isinstance(matrix, str) and matrix == "estimate":
        return None
    known = context.noise_matrix if isinstance(matrix, str) else torch.as_tensor(matrix)
    if len(known) != context.classes:
        raise PyriteError(f"{name} has {len(known)} rows, but there are {context.classes} classes")
    return known


@dataclass(repr=False, eq=False)
class Corrected(Method, ABC):
    """Training with a loss that a noise matrix corrects; subclasses define the correction."""

    # By a first net, trained with cross entropy; that of the run's "noise"; or the matrix itself, without a first net.
    matrix: Matrix = "estimate"
    # Which sample the estimate takes as a certain example of a class, by its probability: 100 is the largest one.
    percentile: Annotated[float, partial(number, least=0, most=100)] = 97
    at: RunPart = 0.2  # the fraction of the epochs in which the first net is trained

    def __post_init__(self) -> None:
        super().__post_init__()
        named = isinstance(self.matrix, str)
        wanted = "estimate, noise, or rows of numbers"
        require(not named or self.matrix in ("estimate", "noise"), "matrix", self.matrix, wanted)
        # The loss checks its arguments, and makes a tensor of the matrix.
        checked = self.correction([[1, 0], [0, 1]] if isinstance(self.matrix, str) else self.matrix)
        self.matrix = self.matrix if named else checked.matrix

    @abstractmethod
    def correction(self, matrix: Tensor | Sequence[Sequence[float]]) -> Forward | Backward:
        """The corrected loss."""

    def usable(self, matrix: Tensor) -> Estimate:
        """The estimated matrix, changed where this correction needs it."""
        return as_estimate(matrix)

    def start(self, context: Context) -> Trainer:
        known = _known("matrix", self.matrix, context)
        if known is not None:
            return Trainer(context, self.correction(known))
        return Stages(
            self, context, self.at,
            lambda stage, estimated: Trainer(stage, self.correction(estimated["matrix"])),
            estimate=lambda first: self.usable(from_anchors(context.evaluate(first.predict), self.percentile)),
        )  # fmt: skip


@final
@dataclass(repr=False, eq=False)
class ForwardCorrection(Corrected):
    """Forward correction: the loss of the probabilities of the given labels, Tᵀp.

    Patrini et al., 2017 ("Making deep neural networks robust to label noise: a loss correction approach").
    """

    _: KW_ONLY
    curve: Curve | None = None  # the loss, a function of the margin alone; cross entropy by default

    def correction(self, matrix: Tensor | Sequence[Sequence[float]]) -> Forward:
        return Forward(matrix, self.curve)


@final
@dataclass(repr=False, eq=False)
class BackwardCorrection(Corrected):
    """Backward correction: T⁻¹ times the losses of all labels, whose expectation over the noise is the clean loss.

    An estimated matrix that can hardly be inverted is mixed with the identity first.

    Patrini et al., 2017 ("Making deep neural networks robust to label noise: a loss correction approach").
    """

    _: KW_ONLY
    loss: Loss | None = None  # what is corrected; cross entropy by default

    needs_clipping = True  # corrected losses can be negative, without a bound

    def correction(self, matrix: Tensor | Sequence[Sequence[float]]) -> Backward:
        return Backward(matrix, self.loss)

    def usable(self, matrix: Tensor) -> Estimate:
        mixed, identity_fraction = invertible(matrix)
        return as_estimate(mixed, identity_fraction=identity_fraction)


@final
@dataclass(repr=False, eq=False)
class GLC(Method):
    """Gold loss correction: estimate the noise matrix on samples with clean labels, then train a second net with it.

    The second net learns gold samples with cross entropy and all others with the forward correction by that matrix.

    Hendrycks et al., 2018 ("Using trusted data to train deep networks on labels corrupted by severe noise").
    """

    size: Count = 1000  # gold samples: a meta set with clean labels
    at: RunPart = 0.5  # the fraction of the epochs in which the first net is trained

    def __post_init__(self) -> None:
        super().__post_init__()
        self.meta_set = MetaSet(self.size, clean=True)

    def start(self, context: Context) -> Stages:
        gold = context.meta

        def estimate(first: Trainer) -> Estimate:
            scores = context.evaluate(first.predict, gold.in_order()).cpu()
            known = scores.isfinite().all(1)
            return as_estimate(from_gold(scores[known], gold.labels[known]))

        return Stages(
            self, context, self.at, lambda stage, known: GLCTrainer(stage, gold, known["matrix"]), estimate=estimate
        )


@final
class GLCTrainer(Trainer):
    """The second stage: steps on a batch and a batch of gold samples together.

    Gold losses are multiplied so that over an epoch each sample counts as much as any other.
    """

    def __init__(self, context: Context, gold: Batches, matrix: Tensor) -> None:
        super().__init__(context)
        self.gold, self.ratio = Cycle(gold), len(gold.index) / len(context.batches.index)
        self.corrected = Forward(matrix, reduction="none")

    def step(self, batch: Batch) -> Step:
        gold, count = self.gold.next(), len(batch.labels)
        golden = self.count(len(gold.labels))
        self.factor = self.ratio * self.count(count) / golden if golden else 0.0
        both = Batch(
            torch.cat([batch.inputs, gold.inputs]),
            torch.cat([batch.labels, gold.labels]),
            torch.cat([batch.index, torch.full_like(gold.index, -1)]),
        )
        step = super().step(both)
        own = {name: getattr(step, name)[:count] for name in ("index", "labels", "scores", "gradient")}
        return replace(step, **own, losses=None)

    def losses(self, scores: Tensor, batch: Batch) -> Tensor:
        clean, corrected = super().losses(scores, batch), self.corrected(scores, batch.labels)
        return torch.where(batch.index < 0, self.factor * clean, corrected)

    def denominator(self, batch: Batch, weights: Tensor | None) -> Tensor:
        gold = (batch.index < 0).sum()
        return len(batch.index) - gold + self.factor * wide(gold)


@final
@dataclass(repr=False, eq=False)
class SModel(Method):
    """A softmax layer on top of the net that learns the noise matrix. Predictions use the net without the layer.

    The net is trained with cross entropy first; the layer starts from its confusion matrix; then both are trained.

    Goldberger & Ben-Reuven, 2017 ("Training deep neural networks using a noise adaptation layer").
    """

    at: RunPart = 0.2  # the fraction of the epochs before the layer is added

    def start(self, context: Context) -> Stages:
        def estimate(first: Trainer) -> Estimate:
            return as_estimate(from_confusion(context.evaluate(first.predict), context.labels))

        return _with_layer(self, context, self.at, estimate)


def _check_structure(name: str, structure: Matrix) -> str | Tensor:
    if isinstance(structure, str):
        require(structure in ("estimate", "noise"), name, structure, "estimate, noise, or rows of 0 and 1")
        return structure
    values = to_numbers(structure, name)
    if values.dim() != 2 or values.shape[0] != values.shape[1]:
        raise PyriteError(f"{name} has the shape {tuple(values.shape)}, but must have one row and column per class")
    for row, column in torch.nonzero((values != 0) & (values != 1)).tolist():
        raise PyriteError(f"{name} is {float(values[row, column])} at [{row}, {column}], but must be 0 or 1")
    return values.long()


@final
@dataclass(repr=False, eq=False)
class Masking(Method):
    """A noise layer as in ``s_model``, restricted to the transitions of a given structure.

    Han et al., 2018 ("Masking: a new perspective of noisy supervision").
    """

    # Which true class can become which label: rows of 0 and 1; the transitions of the run's "noise"; or those with a
    # probability of at least ``threshold`` in the net's confusion matrix. A class can always keep its label.
    structure: Annotated[Matrix, _check_structure] = "estimate"
    threshold: Annotated[float, partial(number, least=0, below=1)] = 0.05
    at: RunPart = 0.2  # the fraction of the epochs before the layer is added

    def start(self, context: Context) -> Stages:
        known = _known("structure", self.structure, context)

        def estimate(first: Trainer) -> Estimate:
            confusion = from_confusion(context.evaluate(first.predict), context.labels)
            allowed = confusion >= self.threshold if known is None else known.to(confusion.device) > 0
            allowed = allowed | torch.eye(len(confusion), dtype=torch.bool, device=confusion.device)
            # Transitions that are allowed but were never seen get a small probability: an entry of 0 would stay 0.
            kept = torch.where(allowed, confusion.clamp(min=1e-3), 0.0)
            return as_estimate(kept / kept.sum(1, keepdim=True))

        return _with_layer(self, context, self.at, estimate)


def _with_layer(method: Method, context: Context, at: float, estimate: Callable[[Trainer], Estimate]) -> Stages:
    """Cross entropy for the fraction ``at`` of the epochs; then the same net with a noise layer on top."""
    return Stages(
        method, context, at, lambda stage, known: NoiseLayer(stage, known["matrix"]), estimate=estimate, restart=False
    )


@final
class NoiseLayer(Trainer):
    """Steps on −log Σ_i T[i, y] p_i, by the weights of the net and by those of T = softmax(b), row by row.

    T begins as ``matrix``; entries of it that are 0 stay 0.
    """

    def __init__(self, context: Context, matrix: Tensor) -> None:
        super().__init__(context)
        device = self.learner.weights[0].device
        self.absent = (matrix == 0).to(device)
        self.bias = nn.Parameter(matrix.log().to(device, self.learner.dtype).masked_fill(self.absent, 0.0))
        self.learner.add_weight(self.bias)

    def log_matrix(self) -> Tensor:
        """log T in float64."""
        return wide(self.bias).masked_fill(self.absent, -torch.inf).log_softmax(1)

    def losses(self, scores: Tensor, batch: Batch) -> Tensor:
        log_p = wide(logsigmoid(row_margins(scores)))
        return -torch.logsumexp(self.log_matrix().mT[batch.labels] + log_p, 1)

    def facts(self) -> Mapping[str, float]:
        return {"estimated_noise_rate": 1 - float(self.arrays()["noise_layer"].diagonal().mean())}

    @torch.no_grad()
    def arrays(self) -> Mapping[str, Tensor]:
        return {"noise_layer": self.log_matrix().exp().cpu()}


def from_anchors(scores: Tensor, percentile: float | Tensor = 100.0) -> Tensor:
    """The noisy posterior of one sample per class, which is taken as a certain example of it.

    Row i is the posterior of the sample with the largest probability of i or, as that may be an outlier, of the one at
    ``percentile`` of these probabilities, which may differ by class. Samples are compared by margins, as probabilities
    near 1 are rounded. Patrini et al., 2017, equations 12 and 13.

    >>> from_anchors(torch.tensor([[0.8, 0.2], [0.3, 0.7], [0.5, 0.5]]).log()).round(decimals=4)
    tensor([[0.8000, 0.2000],
            [0.3000, 0.7000]], dtype=torch.float64)
    """
    rows = wide(scores[scores.isfinite().all(1)])
    if not len(rows):
        raise PyriteError("scores has no finite row, so no noise matrix can be estimated")
    order = row_margins(rows).sort(dim=0, stable=True).indices
    classes = torch.arange(scores.shape[1], device=rows.device)
    place = (torch.as_tensor(percentile, dtype=rows.dtype, device=rows.device) / 100 * (len(rows) - 1)).long()
    return rows[order[place.expand(len(classes)), classes]].softmax(1)


def wrong_by_matrix(scores: Tensor, labels: Tensor, matrix: Tensor) -> Tensor:
    """The probability that each label is wrong, if the scores are of P(given | x) and the noise is that of a matrix.

    The inverse of the matrix gives P(true | x); negative entries, where the net is surer than the noise allows, are set
    to 0. Then Bayes' rule adds the label itself.

    >>> scores = torch.tensor([[0.6, 0.4], [0.5, 0.5]]).log()
    >>> wrong_by_matrix(scores, torch.tensor([1, 0]), torch.tensor([[0.6, 0.4], [0.4, 0.6]])).round(decimals=3)
    tensor([1.0000, 0.4000], dtype=torch.float64)
    """
    noise, _ = invertible(matrix.to(scores.device, wide_dtype(scores)))
    true: Tensor = torch.linalg.solve(noise, wide(scores).softmax(1), left=False).clamp(min=0)
    joint: Tensor = true * noise[:, labels].mT
    return 1 - joint.gather(1, labels.unsqueeze(1)).squeeze(1) / joint.sum(1).clamp(min=torch.finfo(joint.dtype).tiny)


def from_confusion(scores: Tensor, labels: Tensor) -> Tensor:
    """How often each label is given to samples that the net predicts as a class, weighted by its probability.

    A class that is never predicted keeps its label. Goldberger & Ben-Reuven, 2017, section 3.
    """
    kept = scores.isfinite().all(1) & (labels >= 0)
    return _row_means(_sums_by_label(scores[kept], labels[kept]).mT.contiguous())


def from_gold(scores: Tensor, labels: Tensor) -> Tensor:
    """The mean noisy posterior of the samples whose true label is known (Hendrycks et al., 2018, section 3)."""
    return _row_means(_sums_by_label(scores, labels))


def _sums_by_label(scores: Tensor, labels: Tensor) -> Tensor:
    probabilities = wide(scores).softmax(1)
    return probabilities.new_zeros(2 * scores.shape[1:]).index_add(0, labels, probabilities)


def _row_means(sums: Tensor) -> Tensor:
    """Rows that add up to 1; that of the identity where there is nothing to divide."""
    row_sums = sums.sum(1, keepdim=True)
    identity = torch.eye(len(sums), dtype=sums.dtype, device=sums.device)
    return torch.where(row_sums > 0, sums / torch.where(row_sums > 0, row_sums, 1.0), identity)


def invertible(matrix: Tensor, largest_condition: float = 100.0) -> tuple[Tensor, float]:
    """The matrix with as much of the identity mixed in, in tenths, as its inverse needs; and that fraction.

    The remedy is Patrini et al.'s. With a condition number beyond 100 the inverse multiplies losses, and the errors of
    the estimate, by so much that training follows the errors.
    """
    identity = torch.eye(len(matrix), dtype=matrix.dtype, device=matrix.device)
    for tenths in range(10):
        mixed = torch.lerp(matrix, identity, tenths / 10)
        if float(torch.linalg.cond(mixed)) <= largest_condition:
            return mixed, tenths / 10
    return identity, 1.0


def as_estimate(matrix: Tensor, **numbers: float) -> Estimate:
    """What a stage passes on: the matrix, its noise rate if all classes are equally frequent, and further numbers."""
    numbers = {"estimated_noise_rate": 1 - float(matrix.diagonal().mean()), **numbers}
    return {"matrix": matrix, **{name: torch.tensor(value, dtype=torch.float64) for name, value in numbers.items()}}
