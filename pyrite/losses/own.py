"""A loss of a user's own, called as torch's losses are."""

import copy
from collections.abc import Callable
from functools import partial
from typing import Any, Unpack, final

import torch
from torch import Tensor, nn

from pyrite.criterion import Loss, Options
from pyrite.errors import PyriteError
from pyrite.soft_margin import wide_dtype


@final
class OwnLoss(Loss):
    """Any module or function that is called as ``nn.CrossEntropyLoss(reduction="none")`` is.

    Each sample's loss must depend on that sample alone. A loss of which this is not true is written as a ``Loss`` with
    ``couples = True``.

    Args:
        function: takes scores (N, C) and labels (N,), and gives one loss per sample (N,). Of one that has a
            ``reduction`` a copy is used whose reduction is ``"none"``; its ``ignore_index``, if it has one, becomes
            this loss's.

    >>> OwnLoss(nn.CrossEntropyLoss())(torch.zeros(2, 4), torch.tensor([0, 3]))
    tensor(1.3863)
    """

    def __init__(self, function: Callable[[Tensor, Tensor], Tensor], **options: Unpack[Options]) -> None:
        if not callable(function) or isinstance(function, type):
            raise PyriteError(f"loss is {function!r}, but must be a text such as 'gce(q=0.7)', a loss, or a function")
        ignored: Any = getattr(function, "ignore_index", None)
        super().__init__(**({"ignore_index": ignored} if isinstance(ignored, int) else {}) | options)
        if getattr(function, "weight", None) is not None and isinstance(function, nn.modules.loss._WeightedLoss):
            raise PyriteError(
                f"loss is a {_name(function)} with class weights: pass those to pyrite, which needs them for the mean, "
                f"as in pyrite.loss({_name(function)}(), weight=...)"
            )
        if hasattr(function, "reduction"):
            function = copy.copy(function)
            function.reduction = "none"
        self._function = function  # with another name than the argument, so that write_spec writes no address

    def at_label(self, scores: Tensor, labels: Tensor) -> Tensor:
        values = self._function(scores, labels)
        if not isinstance(values, Tensor) or values.shape != labels.shape or not values.is_floating_point():
            shown = f"shape {tuple(values.shape)}" if isinstance(values, Tensor) else f"type {type(values).__name__}"
            raise PyriteError(
                f"loss is {self}, which gives a value of {shown} for {len(labels)} samples, but must give one number "
                'per sample, as nn.CrossEntropyLoss(reduction="none") does'
            )
        return values.to(wide_dtype(scores))

    def try_out(self, classes: int) -> None:
        """Refuse a loss that does not give one value per sample, before anything is trained.

        A copy is tried, so that buffers of the loss stay as they are.
        """
        with torch.enable_grad():
            scores = torch.zeros(2, classes, requires_grad=True)
            values = copy.deepcopy(self).at_label(scores, torch.arange(2) % classes)
        if not values.requires_grad:
            raise PyriteError(f"loss is {self}, whose values have no gradient: it must not detach the scores")

    def __str__(self) -> str:
        return _name(self._function)

    def __repr__(self) -> str:
        return f"OwnLoss({_name(self._function)})"


def _name(function: object) -> str:
    if isinstance(function, partial):
        return _name(function.func)
    return str(getattr(function, "__name__", type(function).__name__))
