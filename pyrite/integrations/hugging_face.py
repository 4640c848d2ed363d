"""Hugging Face: a loss for the ``Trainer`` of transformers, which is not imported for it."""

import copy
from collections.abc import Mapping
from typing import Any, Final, Unpack, final

import torch
from torch import Tensor

from pyrite.checks import flag
from pyrite.criterion import Loss, Options
from pyrite.errors import PyriteError
from pyrite.losses import loss as read_loss

_IGNORED: Final = -100  # the label that the Trainer does not count


def hf_loss(loss: str | Loss, *, shift: bool | None = None, **options: Unpack[Options]) -> "HFLoss":
    """A loss for ``Trainer(compute_loss_func=...)``.

    It divides the sum over all labels that count by ``num_items_in_batch``, the number of them in all batches of a
    step, so that accumulated gradients are those of one big batch. Labels of -100 do not count. The Trainer's number is
    taken as it is, also where it has counted the first tokens of a causal model, as the model's own loss would.

    Args:
        loss: a spec or a loss, with the default reduction and ``ignore_index``.
        shift: whether each label is predicted by the position before it, as in causal language models. It is required
            for scores of single positions, unless the model returns a ``TokenClassifierOutput``: with the wrong value
            a model would learn nonsense without an error.
        options: ``weight`` and ``check``, as every loss takes them. Class weights multiply losses; the sum is still
            divided by the number of labels, because the Trainer counts labels, not weights.

    >>> loss = hf_loss("ce")
    >>> loss((torch.tensor([[0.0, 0.0], [0.0, 0.0]]),), torch.tensor([1, -100]), num_items_in_batch=2)
    tensor(0.3466)
    """
    return HFLoss(read_loss(loss, **options), shift)


@final
class HFLoss:
    """The result of ``hf_loss``."""

    def __init__(self, loss: Loss, shift: bool | None = None) -> None:
        if any(part.couples for part in loss.modules() if isinstance(part, Loss)):
            raise PyriteError(
                f"the loss {str(loss)!r} ties the samples of a batch together, but the Trainer cuts batches in pieces"
            )
        if loss.reduction != "mean":
            raise PyriteError(f"reduction is {loss.reduction!r}, but the Trainer needs a mean: leave it out")
        if loss.ignore_index != _IGNORED:
            raise PyriteError(f"ignore_index is {loss.ignore_index}, but the Trainer counts all labels but {_IGNORED}")
        if shift is not None:
            flag("shift", shift)
        self.loss, self.shift = loss, shift
        self._sum = copy.deepcopy(loss).configure(reduction="sum")

    def __repr__(self) -> str:
        return f"hf_loss({str(self.loss)!r}, shift={self.shift})"

    def __call__(self, outputs: Any, labels: Tensor | None, num_items_in_batch: Tensor | int | None = None) -> Tensor:
        """The part of a batch in the mean over all labels of a step: ``num_items_in_batch``, or else of this batch."""
        scores = _scores(outputs)
        if not isinstance(labels, Tensor):
            raise PyriteError(
                "the batch has no labels: name their column 'labels', and keep it (remove_unused_columns=False)"
            )
        if labels.is_floating_point():
            raise PyriteError(f"labels are {labels.dtype}, but must be class numbers: one class per sample or token")
        if labels.shape != scores.shape[:-1]:
            raise PyriteError(
                f"labels have the shape {tuple(labels.shape)}, but logits the shape {tuple(scores.shape)}: "
                "there must be one label for each row of them"
            )
        if self._shifted(outputs, scores):
            # The labels are shifted, because the scores are large; the last position of each row predicts nothing.
            labels = torch.cat([labels[..., 1:], torch.full_like(labels[..., :1], _IGNORED)], dim=-1)
        labels = labels.reshape(-1).to(scores.device)
        # Half precision is too coarse for a sum over many tokens.
        rows = scores.reshape(-1, scores.shape[-1]).to(torch.promote_types(scores.dtype, torch.float32))
        value: Tensor = self._sum(rows, labels)
        items = (labels != _IGNORED).sum() if num_items_in_batch is None else num_items_in_batch
        # A tensor has one number per device, all equal. A step without labels has a loss of 0.
        return value / torch.as_tensor(items, device=value.device).reshape(-1)[0].clamp(min=1)

    def _shifted(self, outputs: Any, scores: Tensor) -> bool:
        if scores.dim() == 2:
            if self.shift:
                raise PyriteError(f"shift is True, but logits have the shape {tuple(scores.shape)}, and no positions")
            return False
        if self.shift is None and type(outputs).__name__ != "TokenClassifierOutput":
            raise PyriteError(
                f"logits have the shape {tuple(scores.shape)}, with one label per position: pass shift=True if it is "
                "predicted by the position before (causal language models), or shift=False if by its own "
                "(token classification, masked language models, encoder-decoders)"
            )
        return bool(self.shift)


def _scores(outputs: Any) -> Tensor:
    """The logits in a model's output: a ``ModelOutput`` or another mapping, a tuple, or a tensor."""
    scores = outputs
    if isinstance(outputs, Mapping):
        if "logits" not in outputs:
            raise PyriteError(f"the model's output has no logits, only {', '.join(map(str, outputs))}")
        scores = outputs["logits"]
    elif isinstance(outputs, tuple | list) and outputs:
        scores = outputs[0]
    if not isinstance(scores, Tensor) or scores.dim() < 2:
        actual = f"of shape {tuple(scores.shape)}" if isinstance(scores, Tensor) else type(scores).__name__
        raise PyriteError(f"logits are {actual}, but must be a tensor: one row per sample, one column per class")
    return scores
