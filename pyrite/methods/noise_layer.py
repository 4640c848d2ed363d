"""A layer of noise on top of a net, learned with it: from probabilities of true classes to those of given labels."""

from collections.abc import Callable, Mapping, Sequence
from typing import final

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from pyrite.checks import number
from pyrite.criterion import to_numbers
from pyrite.data import Batch
from pyrite.errors import PyriteError
from pyrite.methods.method import Context, Method, Trainer
from pyrite.methods.staged import Stages, stage_fraction
from pyrite.methods.transition import as_estimate, from_confusion
from pyrite.soft_margin import row_margins

Structure = str | Tensor | Sequence[Sequence[float]]


@final
class SModel(Method):
    """A softmax layer on top of the net, which learns how true classes become given labels. The net alone predicts.

    The net is trained with cross entropy first; the layer starts from its confusion matrix; then both are trained.

    Args:
        at: the fraction of the epochs before the layer is added.

    >>> str(SModel())
    's_model(at=0.2)'

    Goldberger & Ben-Reuven, 2017 ("Training deep neural networks using a noise adaptation layer").
    """

    def __init__(self, at: float = 0.2) -> None:
        self.at = stage_fraction(at)

    def start(self, context: Context) -> Stages:
        return _stages(self, context, self.at, lambda confusion: confusion)


@final
class Masking(Method):
    """A noise layer as in ``s_model``, which has only those transitions that a structure allows.

    Args:
        structure: which true class can become which label: rows of 0 and 1; ``"noise"``, the transitions of the run's
            noise; or ``"estimate"``, those with a probability of at least ``threshold`` in the
            net's confusion matrix. A class can always keep its label.
        threshold: the least estimated probability of a transition that is allowed.
        at: the fraction of the epochs before the layer is added.

    >>> str(Masking())
    "masking(structure='estimate', threshold=0.05, at=0.2)"

    Han et al., 2018 ("Masking: a new perspective of noisy supervision").
    """

    def __init__(self, structure: Structure = "estimate", threshold: float = 0.05, at: float = 0.2) -> None:
        if not isinstance(structure, str):
            structure = _checked(structure)
        elif structure not in ("estimate", "noise"):
            raise PyriteError(f"structure is {structure!r}, but must be estimate, noise, or rows of 0 and 1")
        self.structure = structure
        self.threshold, self.at = number("threshold", threshold, least=0, below=1), stage_fraction(at)

    def start(self, context: Context) -> Stages:
        known = self.structure if isinstance(self.structure, Tensor) else None
        if self.structure == "noise":
            known = context.noise_matrix
        if known is not None and len(known) != context.classes:
            raise PyriteError(f"structure has {len(known)} rows, but there are {context.classes} classes")

        def masked(confusion: Tensor) -> Tensor:
            allowed = confusion >= self.threshold if known is None else known.to(confusion.device) > 0
            return _restricted(confusion, allowed)

        return _stages(self, context, self.at, masked)


def _restricted(matrix: Tensor, allowed: Tensor) -> Tensor:
    """The matrix without the transitions that are not allowed, its rows divided by what is left of them.

    Transitions that are allowed but were never seen get a small probability, because an entry of 0 would stay 0.
    """
    allowed = allowed | torch.eye(len(matrix), dtype=torch.bool, device=matrix.device)
    kept = torch.where(allowed, matrix.clamp(min=1e-3), 0.0)
    return kept / kept.sum(1, keepdim=True)


def _checked(structure: Tensor | Sequence[Sequence[float]]) -> Tensor:
    values = to_numbers(structure, "structure")
    if values.dim() != 2 or values.shape[0] != values.shape[1]:
        raise PyriteError(f"structure has the shape {tuple(values.shape)}, but must have one row and column per class")
    for row, column in torch.nonzero((values != 0) & (values != 1)).tolist():
        raise PyriteError(f"structure is {float(values[row, column])} at [{row}, {column}], but must be 0 or 1")
    return values.long()


def _stages(method: Method, context: Context, at: float, structure: Callable[[Tensor], Tensor]) -> Stages:
    """Cross entropy for the fraction ``at`` of the epochs; then the same net with a noise layer on top.

    The layer starts from the confusion matrix of the first stage, in which ``structure`` sets entries to 0 that the
    layer must not have.
    """
    return Stages(
        method, context, at, lambda stage, known: NoiseLayer(stage, known["matrix"]), restart=False,
        estimate=lambda first: as_estimate(structure(from_confusion(context.evaluate(first.predict), context.labels))),
    )  # fmt: skip


@final
class NoiseLayer(Trainer):
    """Steps on −log Σ_i T[i, y] p_i, by the weights of the net and by those of T = softmax(b), row by row.

    T begins as ``matrix``. Entries of it that are 0 stay 0. The net alone predicts.
    """

    def __init__(self, context: Context, matrix: Tensor) -> None:
        super().__init__(context)
        device = self.learner.weights[0].device
        self.absent = (matrix == 0).to(device)
        self.bias = nn.Parameter(matrix.log().to(device, self.learner.dtype).masked_fill(self.absent, 0.0))
        self.learner.add_weight(self.bias)

    def log_matrix(self) -> Tensor:
        """log T in float64."""
        return self.bias.double().masked_fill(self.absent, -torch.inf).log_softmax(1)

    def losses(self, scores: Tensor, batch: Batch) -> Tensor:
        log_p = logsigmoid(row_margins(scores)).double()
        return -torch.logsumexp(self.log_matrix().mT[batch.labels] + log_p, 1)

    def facts(self) -> Mapping[str, float]:
        return {"estimated_noise_rate": 1 - float(self._matrix().diagonal().mean())}

    def arrays(self) -> Mapping[str, Tensor]:
        return {"noise_layer": self._matrix()}

    @torch.no_grad()
    def _matrix(self) -> Tensor:
        return self.log_matrix().exp().cpu()
