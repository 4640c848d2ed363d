"""Hugging Face: losses for the ``Trainer`` and the causal language models of transformers, which is not imported."""

import copy
from collections.abc import Mapping
from typing import Any, Final, TypeVar, Unpack, final

import torch
from torch import Tensor, nn

from pyrite.checks import flag
from pyrite.criterion import Loss, Options
from pyrite.errors import PyriteError
from pyrite.losses import loss as read_loss

Model = TypeVar("Model", bound=nn.Module)

_IGNORED: Final = -100  # the label that the Trainer does not count


def hf_loss(loss: str | Loss, *, shift: bool | None = None, **options: Unpack[Options]) -> "HFLoss":
    """A loss for ``Trainer(compute_loss_func=...)``.

    The sum over all labels except -100 is divided by ``num_items_in_batch``, the number of these labels in all batches
    of a step, so accumulated gradients equal those of one large batch. As in the loss of the model itself, the number
    of the Trainer is used even if it includes the first tokens of a causal model.

    Args:
        loss: a loss or its spec string, with the default ``reduction`` and ``ignore_index``.
        shift: whether each label is predicted from the position before it, as in causal language models. It is required
            if there are scores for every position, unless the model returns a ``TokenClassifierOutput``: with the wrong
            value, a model would be trained on wrong targets without an error.
        options: ``weight`` and ``check`` of ``Loss``. Class weights multiply losses; the sum is still divided by the
            number of labels, because the Trainer counts labels, not weights.

    Returns:
        A function of the output of the model, the labels and ``num_items_in_batch``.

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
            raise PyriteError(f"the loss {str(loss)!r} couples the samples of a batch, but the Trainer splits batches")
        if loss.reduction != "mean":
            raise PyriteError(f"reduction is {loss.reduction!r}, but the Trainer needs a mean: omit reduction")
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
        labels = (_next(labels) if self._shifted(outputs, scores) else labels).to(scores.device)
        # Half precision is too coarse for a sum over many tokens.
        rows = scores.reshape(-1, scores.shape[-1]).to(torch.promote_types(scores.dtype, torch.float32))
        return _divided(self._sum(rows, labels.reshape(-1)), labels, num_items_in_batch)

    def projected(
        self, hidden: Tensor, head: nn.Linear, labels: Tensor, num_items_in_batch: Any, chunk: int | None
    ) -> Tensor:
        """The same for the scores that ``head`` would give at these positions, which are never all in memory."""
        labels, kind = labels.to(hidden.device), hidden.device.type
        half = hidden.dtype in (torch.float16, torch.bfloat16)  # under autocast its sum is float32
        with torch.autocast(kind, hidden.dtype if half else None, enabled=half or torch.is_autocast_enabled(kind)):
            value = self._sum.linear(hidden, head.weight, labels, head.bias, chunk=chunk)
        return _divided(value, labels, num_items_in_batch)

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


def hf_fuse(model: Model, loss: str | Loss, *, chunk: int | None = None, **options: Unpack[Options]) -> Model:
    """Fuse the last projection of a causal language model with a loss, so memory never holds all scores.

    The model is changed in place and returned, as in ``Trainer(model=hf_fuse(model, "gce(q=0.7)"))``. In training mode
    with ``labels``, its output contains the loss and no logits. Otherwise it contains logits as before, and the same
    loss. Weights, their names, tied weights and saved files do not change.

    Args:
        model: a causal language model of transformers whose head is an ``nn.Linear``. A model that changes its scores
            after the head, for example by soft capping, raises an error in its first step; use ``hf_loss`` for such a
            model.
        loss: a loss or its spec string, as for ``hf_loss``.
        chunk: the number of tokens that are projected at a time; by default as many as give 16 million scores.
        options: as for ``hf_loss``.

    Returns:
        The same model.

    >>> from transformers import GPT2Config, GPT2LMHeadModel
    >>> config = GPT2Config(vocab_size=50, n_positions=16, n_embd=8, n_layer=1, n_head=2)
    >>> model = hf_fuse(GPT2LMHeadModel(config), "gce(q=0.7)")
    >>> tokens = torch.arange(10)[None]
    >>> output = model(input_ids=tokens, labels=tokens)
    >>> output.logits is None, output.loss.shape
    (True, torch.Size([]))
    """
    setter = getattr(getattr(type(model), "loss_function", None), "fset", None)
    head = model.get_output_embeddings() if setter is not None else None  # type: ignore[operator]
    if setter is None or getattr(model, "loss_type", None) not in (None, "ForCausalLM"):
        raise PyriteError(f"{type(model).__name__} is not a causal language model of transformers 4.50 or later")
    if not isinstance(head, nn.Linear) or "forward" in vars(head):
        found = "is fused already" if isinstance(head, nn.Linear) else f"is of {type(head).__name__}, not nn.Linear"
        raise PyriteError(f"the head of {type(model).__name__} {found}")
    fused = _Fused(head, hf_loss(loss, shift=False, **options), chunk)
    # Bound methods, so that a copy of the model projects by its own head.
    model.register_forward_pre_hook(fused.before, with_kwargs=True)
    model.register_forward_hook(fused.after, always_call=True)
    head.forward = fused.project  # type: ignore[method-assign]
    model.loss_function = fused.loss_function  # type: ignore[assignment]
    return model


class _Fused:
    """What ``hf_fuse`` attaches to a model: its head passes features on, and its loss projects them."""

    def __init__(self, head: nn.Linear, loss: HFLoss, chunk: int | None) -> None:
        self.head, self.loss, self.chunk = head, loss, chunk
        self.active = self.done = False
        self.hidden: Tensor | None = None

    def before(self, model: nn.Module, _: Any, arguments: dict[str, Any]) -> None:
        self.active, self.done, self.hidden = model.training and arguments.get("labels") is not None, False, None

    def project(self, input: Tensor) -> Tensor:
        if not self.active:
            return nn.functional.linear(input, self.head.weight, self.head.bias)
        self.hidden = input
        return input

    def loss_function(
        self,
        logits: Tensor,
        labels: Tensor,
        vocab_size: int | None = None,
        num_items_in_batch: Tensor | int | None = None,
        shift_labels: Tensor | None = None,
        **_: Any,
    ) -> Tensor:
        """The loss in the form in which models of transformers call it."""
        labels = _next(labels) if shift_labels is None else shift_labels
        if not self.active:
            return self.loss((logits,), labels, num_items_in_batch)
        hidden, self.done = self.hidden, True
        if hidden is None or (logits is not hidden and not torch.equal(logits, hidden.to(logits.dtype))):
            raise PyriteError(
                "the model changes its scores after the head, such as by soft capping, so projection and loss cannot "
                "be one: use compute_loss_func=pyrite.hf_loss(..., shift=True)"
            )
        return self.loss.projected(hidden, self.head, labels, num_items_in_batch, self.chunk)

    def after(self, model: nn.Module, _: Any, output: Any) -> Any:
        """The output without its logits, which are no scores; called after an error too, with None."""
        active, self.active, self.hidden = self.active, False, None
        if not active or output is None:
            return output
        if not self.done:
            raise PyriteError(f"{type(model).__name__} does not call its loss_function: use pyrite.hf_loss for it")
        if isinstance(output, Mapping):
            return type(output)(**{name: part for name, part in output.items() if name != "logits"})
        return (output[0], *output[2:])


def _next(labels: Tensor) -> Tensor:
    """The label after each position. The labels are shifted, because scores are large; the last predicts nothing."""
    return torch.cat([labels[..., 1:], torch.full_like(labels[..., :1], _IGNORED)], dim=-1)


def _divided(value: Tensor, labels: Tensor, items: Tensor | int | None) -> Tensor:
    items = (labels != _IGNORED).sum() if items is None else items
    # A tensor has one number per device, all equal. A step without labels has a loss of 0.
    return value / torch.as_tensor(items, device=value.device).reshape(-1)[0].clamp(min=1)


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
