"""Masking: a learned noise matrix, of which only known entries may differ from 0."""

from collections.abc import Sequence
from typing import final

import torch
from torch import Tensor

from pyrite.checks import number
from pyrite.criterion import to_numbers
from pyrite.errors import PyriteError
from pyrite.methods.context import Context
from pyrite.methods.method import Method
from pyrite.methods.noise_layer import noise_layer_stages
from pyrite.methods.staged import Stages, checked_share

__all__ = ["Masking"]

Structure = str | Tensor | Sequence[Sequence[float]]


@final
class Masking(Method):
    """A noise layer as in ``s_model``, which has only those transitions that a structure allows.

    Args:
        structure: which true class can become which label: rows of 0 and 1; ``"noise"``, the transitions of the run's
            noise; or ``"estimate"``, those with a probability of at least ``threshold`` in the
            net's confusion matrix. A class can always keep its label.
        threshold: the least estimated probability of a transition that is allowed.
        at: the share of the epochs before the layer is added.

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
        self.threshold, self.at = number("threshold", threshold, least=0, below=1), checked_share(at)

    def start(self, context: Context) -> Stages:
        known: Tensor | None = None
        if isinstance(self.structure, Tensor):
            known = self.structure
        elif self.structure == "noise":
            known = context.noise_matrix
        if known is not None and len(known) != context.classes:
            raise PyriteError(f"structure has {len(known)} rows, but there are {context.classes} classes")

        def masked(confusion: Tensor) -> Tensor:
            allowed = confusion >= self.threshold if known is None else known.to(confusion.device) > 0
            return _restricted(confusion, allowed)

        return noise_layer_stages(self, context, self.at, masked)


def _restricted(matrix: Tensor, allowed: Tensor) -> Tensor:
    """The matrix without the transitions that are not allowed, its rows divided by what is left of them.

    Transitions that are allowed but were never seen get a small share, because an entry of 0 would stay 0.
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
