"""The base class of all losses, with the contract of ``nn.CrossEntropyLoss``.

A loss computes the cost of one label (``at_label``) or of every label (``per_label``). Hard and soft labels, ignored
labels, class and sample weights, shapes, dtypes and reductions are handled here, once.
"""

import copy
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from typing import Any, ClassVar, Literal, Self, TypedDict, Unpack, final

import torch
from torch import Tensor, nn

from pyrite import kernel, projection
from pyrite.checks import flag, is_number, number, require, whole_number
from pyrite.errors import PyriteError
from pyrite.kernel import Term
from pyrite.soft_margin import check_labels, to_rows, wide_dtype, widened
from pyrite.spec import construct, write_spec

_INTEGERS = {torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8}
_FEW = 1 << 17  # scores up to which a loss computes its gradient together with its value
_DEFAULTS: dict[str, object] = {"reduction": "mean", "ignore_index": -100, "weight": None, "check": False}


class OptionsButWeight(TypedDict, total=False):
    """The keywords of a loss that takes its class weights first, as torch's does."""

    reduction: Literal["none", "mean", "sum"]
    ignore_index: int
    check: bool


class Options(OptionsButWeight, total=False):
    """The keywords every loss takes beside its own."""

    weight: Tensor | Sequence[float] | None


class Loss(nn.Module, ABC):
    """A loss with the interface of ``nn.CrossEntropyLoss``: ``loss(scores, labels)``.

    Args:
        reduction: ``"mean"``, ``"sum"`` or ``"none"``. As in PyTorch, the mean divides by the sum of the weights of all
            samples that are not ignored, or by the number of samples if labels are class probabilities.
        ignore_index: the label of samples to ignore. If all samples are ignored, the mean is NaN, as in PyTorch.
        weight: class weights.
        check: whether to raise an error for NaN or infinite scores, which requires another pass over them.

    >>> import torch
    >>> class Brier(Loss):
    ...     def at_label(self, scores, labels):
    ...         p = scores.softmax(1)
    ...         return ((p - torch.nn.functional.one_hot(labels, p.shape[1])) ** 2).sum(1)
    >>> Brier()(torch.zeros(3, 2), torch.tensor([0, 1, 1]))
    tensor(0.5000)
    """

    reduction: str
    ignore_index: int
    weight: Tensor | None
    check: bool

    couples: ClassVar[bool] = False
    """Whether a sample's loss depends on the other samples of the batch; such a batch must not be cut in pieces."""

    def __init__(self, **options: Unpack[Options]) -> None:
        super().__init__()
        self.register_buffer("weight", None)
        self.configure(**{**_DEFAULTS, **options})

    def configure(self, **options: Any) -> Self:
        """Change options."""
        unknown = set(options) - set(_DEFAULTS)
        if unknown:
            own = [name for name in inspect.signature(type(self)).parameters if name != "options"]
            takes = ", ".join(dict.fromkeys([*own, *_DEFAULTS]))
            raise PyriteError(f"{type(self).__name__} does not take {', '.join(sorted(unknown))}; it takes {takes}")
        for name, value in options.items():
            if name == "reduction" and value not in ("none", "mean", "sum"):
                require(False, name, value, "none, mean or sum")
            elif name == "ignore_index":
                value = whole_number(name, value)
            elif name == "check":
                flag(name, value)
            elif name == "weight" and value is not None:
                value = to_numbers(value, name)
                require(value.dim() == 1, name, tuple(value.shape), "one number per class")
            setattr(self, name, value)
            self._spec = None  # the text that made it, if a function did, knows nothing of the options
        return self

    @property
    def only_classes(self) -> int | None:
        """The number of classes of the matrix, prior or class weights; None if any number is possible.

        Every buffer of a loss has one row per class.
        """
        return next((len(buffer) for buffer in self._buffers.values() if buffer is not None), None)

    @abstractmethod
    def at_label(self, scores: Tensor, labels: Tensor) -> Tensor:
        """The loss of each row of (M, C) scores under its label."""

    def per_label(self, scores: Tensor) -> Tensor:
        """The loss of each row under every label: (M, C)."""
        labels = torch.zeros(len(scores), dtype=torch.long, device=scores.device)
        return torch.stack([self.at_label(scores, labels + k) for k in range(scores.shape[1])], dim=1)

    def at_label_and_total(self, scores: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """The loss of each row under its label, and the sum of its losses under every label."""
        every, wide = self.per_label(scores), wide_dtype(scores)
        return every.gather(1, labels.unsqueeze(1)).squeeze(1).to(wide), every.sum(1, dtype=wide)

    def compiled_terms(self, classes: int) -> tuple[Term, ...] | None:
        """This loss as a sum that the compiled kernel has; None if it does not have it."""
        return None

    def per_sample(self, rows: Tensor, labels: Tensor, weight: Tensor | None, valid: Tensor | None) -> Tensor:
        """The loss of each row; the expected loss if labels are class probabilities.

        ``labels`` are class numbers (M,) or distributions (M, C); ``valid`` is which of them count, None for all.
        """
        if labels.is_floating_point():
            chances = labels if weight is None else labels * weight
            return (chances * self.per_label(widened(rows))).sum(1, dtype=wide_dtype(rows))
        values = self.at_label(rows, labels)
        if values.shape != labels.shape:
            raise PyriteError(
                f"{self} gives losses of shape {tuple(values.shape)} for labels of shape {tuple(labels.shape)}: "
                "at_label must give one number per sample"
            )
        return values if weight is None else values * weight[labels]

    def forward(self, scores: Tensor, labels: Tensor, sample_weight: Tensor | None = None) -> Tensor:
        """The loss of ``scores`` under ``labels``, computed by the compiled kernel if possible.

        With ``sample_weight``, the mean is the weighted mean.
        """
        if isinstance(scores, Tensor) and scores.dim() == 2 and scores.shape[1] > 1 and not self.check:
            rows, shape = scores, scores.shape[:1]  # nearly always
        else:
            rows, shape = to_rows(scores, finite=self.check), scores.shape[:1] + scores.shape[2:]
        terms, weight, each = None, self._buffers["weight"], sample_weight
        if isinstance(labels, Tensor) and kernel.takes(rows, labels):
            hard = labels.shape == shape and labels.dtype in _INTEGERS
            terms = self.compiled_terms(rows.shape[1]) if hard else None
        if terms is not None and weight is not None:
            if type(self).per_sample is not Loss.per_sample or not weight.is_cpu or len(weight) != rows.shape[1]:
                terms = None
            else:
                weight = weight.to(torch.float64)
        if terms is not None and each is not None:
            given = isinstance(each, Tensor) and each.shape == shape and not each.requires_grad
            if not given or not kernel.takes(each, labels):
                terms = None
            else:
                each = each.reshape(-1).to(torch.float64).contiguous()
        if terms is None:  # the kernel cannot be used, or an argument is to be refused
            return self.plain(scores, labels, sample_weight)
        dtype, classes = rows.dtype, labels
        if torch.is_autocast_enabled("cpu"):
            dtype = torch.promote_types(dtype, torch.float32)
        if rows.stride(1) != 1:
            rows = rows.contiguous()
        if labels.dim() != 1 or labels.dtype != torch.int64 or not labels.is_contiguous():
            classes = labels.reshape(-1).to(torch.int64).contiguous()
        try:
            value: Tensor = _apply(rows, classes, (self, terms, weight, each, dtype))
        except IndexError:  # a label is no class: ``plain`` refuses it, in the words for every case
            return self.plain(scores, labels, sample_weight)
        return value if value.dim() == len(shape) or self.reduction != "none" else value.reshape(shape)

    def plain(self, scores: Tensor, labels: Tensor, sample_weight: Tensor | None = None) -> Tensor:
        """The same in PyTorch operations, for compilation, function transforms and repeated differentiation."""
        rows, weight, valid = to_rows(scores, finite=self.check), self.weight, None
        if weight is not None:
            wanted = f"one number for each of {rows.shape[1]} classes"
            require(weight.shape[0] == rows.shape[1], "weight", len(weight), wanted)
            weight = weight.to(rows.device)
        if isinstance(labels, Tensor) and labels.is_floating_point() and labels.shape == scores.shape:
            if self.ignore_index >= 0:
                index = self.ignore_index
                raise PyriteError(f"ignore_index is {index}, but labels that are distributions cannot be ignored")
            shape = scores.shape[:1] + scores.shape[2:] if scores.dim() > 1 else torch.Size()
            labels = known = to_rows(labels)
        else:
            some_ignored, shape = check_labels(scores, labels, self.ignore_index), labels.shape
            labels = known = labels.reshape(-1).long()
            if some_ignored:
                valid = labels != self.ignore_index
                known = torch.where(valid, labels, 0)
        values = self.per_sample(rows, known, weight, valid)
        if sample_weight is not None:
            if not isinstance(sample_weight, Tensor) or sample_weight.shape != shape:
                given = tuple(sample_weight.shape) if isinstance(sample_weight, Tensor) else sample_weight
                raise PyriteError(f"sample_weight is {given!r}, but must be a tensor of shape {tuple(shape)}")
            sample_weight = sample_weight.reshape(-1).to(values.dtype)
            values = values * sample_weight
        if valid is not None:
            values = torch.where(valid, values, 0.0)
        dtype, kind = scores.dtype, scores.device.type
        if (kind == "cpu" or torch.amp.is_autocast_available(kind)) and torch.is_autocast_enabled(kind):
            dtype = torch.promote_types(dtype, torch.float32)  # as torch's, so that a loss can be scaled up
        if self.reduction == "none":
            return values.reshape(shape).to(dtype)
        value = values.sum()
        if self.reduction == "mean":
            value = value / self.denominator(labels, sample_weight).to(wide_dtype(labels))
        return value.to(dtype)

    def denominator(self, labels: Tensor, sample_weight: Tensor | None = None) -> Tensor:
        """The denominator of the mean: the number of labels that are not ignored, or the sum of their weights.

        ``labels`` are class numbers (M,) or distributions (M, C).
        """
        if sample_weight is None and self.weight is None and not labels.is_floating_point():
            return (labels != self.ignore_index).sum()
        counts = torch.ones(len(labels), device=labels.device) if sample_weight is None else sample_weight
        if not labels.is_floating_point():
            valid = labels != self.ignore_index
            counts = torch.where(valid, counts, 0.0)
            if self.weight is not None:
                counts = counts * self.weight.to(labels.device)[torch.where(valid, labels, 0)]
        return counts.sum(dtype=wide_dtype(labels))

    def linear(
        self,
        input: Tensor,
        weight: Tensor,
        target: Tensor,
        bias: Tensor | None = None,
        *,
        sample_weight: Tensor | None = None,
        chunk: int | None = None,
    ) -> Tensor:
        """The loss of the scores ``F.linear(input, weight, bias)``, computed in chunks to save memory.

        With ``reduction="none"``, the backward pass computes the scores again; otherwise, gradients are computed
        together with the value. A loss that depends on the whole batch is computed without chunks.

        Args:
            input: (..., hidden).
            weight: (classes, hidden), as in ``nn.Linear``.
            target: class indices (...), or class probabilities (..., classes).
            bias: (classes,).
            sample_weight: (...).
            chunk: the number of rows that are projected at a time; by default as many as give 16 million scores.

        >>> from pyrite.curves import GCE
        >>> hidden, weight = torch.ones(3, 2), torch.tensor([[1.0, 0.0], [0.0, 0.0]])
        >>> GCE(q=0.7).linear(hidden, weight, torch.tensor([0, 1, 0]), chunk=2)
        tensor(0.4738)
        """
        if not isinstance(input, Tensor) or input.dim() == 0 or weight.dim() != 2 or input.shape[-1] != weight.shape[1]:
            shapes = f"{tuple(getattr(input, 'shape', ()))} and {tuple(weight.shape)}"
            raise PyriteError(
                f"input and weight have shapes {shapes}, but must have (..., hidden) and (classes, hidden)"
            )
        size = None if chunk is None else whole_number("chunk", chunk, least=1)
        rows, shape, soft = input.reshape(-1, input.shape[-1]), input.shape[:-1], target.is_floating_point()
        scores = weight.detach().new_empty(()).expand(*shape, len(weight))  # of the scores' shape, without memory
        if target.shape != (scores.shape if soft else shape):
            raise PyriteError(f"target has shape {tuple(target.shape)}, but input has shape {tuple(input.shape)}")
        if sample_weight is not None:
            require(
                sample_weight.shape == shape, "sample_weight", tuple(sample_weight.shape), f"of shape {tuple(shape)}"
            )
        labels = target.reshape(-1, len(weight)) if soft else target.reshape(-1)
        if not soft:
            check_labels(scores.reshape(-1, len(weight)), labels, self.ignore_index)
        each = None if sample_weight is None else sample_weight.reshape(-1)
        couples = any(part.couples for part in self.modules() if isinstance(part, Loss))
        others = [part for part in (labels, each) if part is not None and part.requires_grad]
        if couples or others or kernel.transformed(rows) or kernel.transformed(weight):
            value: Tensor = self(nn.functional.linear(rows, weight, bias), labels, each)
            return value.reshape(shape) if self.reduction == "none" else value
        arguments: Any = (rows, weight, bias, labels, each)
        if self.reduction == "none":
            return projection.projected_values(self, arguments, size).reshape(shape)
        divisor = self.denominator(labels, each).to(wide_dtype(labels)) if self.reduction == "mean" else None
        return projection.projected_sum(copy.copy(self).configure(reduction="sum"), arguments, divisor, size)

    def is_symmetric(self, classes: int) -> bool:
        """Whether the sum of the losses under all labels is the same for all scores.

        A symmetric loss has the same minimiser with and without symmetric noise (Ghosh et al., 2017). The test uses 600
        score vectors with standard deviations from 0.1 to 10, in float64.
        """
        spread = torch.logspace(-1, 1, 600, dtype=torch.float64).unsqueeze(1)
        noise = torch.randn(600, classes, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
        with torch.no_grad():
            total = self.per_label(noise * spread).sum(1)
        return bool((total.max() - total.min()).abs() <= 1e-9 * total.abs().max())

    def terms(self) -> list[tuple[float, "Loss"]]:
        """This loss as a sum of factors times losses."""
        return [(1, self)]

    def times(self, factor: float) -> list[tuple[float, "Loss"]]:
        """The terms of this loss, each with its factor multiplied."""
        factor = number("factor", factor)
        return [(factor if own == 1 else factor * own, loss) for own, loss in self.terms()]

    def options(self) -> dict[str, Any]:
        """The options that are not at their defaults."""
        mine = ((name, getattr(self, name), default) for name, default in _DEFAULTS.items())
        return {name: value for name, value, default in mine if value is not default and value != default}

    def __add__(self, other: "Loss") -> "Loss":
        if not isinstance(other, Loss):
            return NotImplemented
        return Sum(self.terms() + other.terms(), **common_options(self, other))

    def __radd__(self, other: int) -> Self:
        """0 + loss, so that ``sum(losses)`` works."""
        return self if other == 0 else NotImplemented

    def __mul__(self, factor: float) -> "Loss":
        return Sum(self.times(factor), **self.options()) if is_number(factor) else NotImplemented

    def __rmul__(self, factor: float) -> "Loss":
        return self * factor

    def __str__(self) -> str:
        return write_spec(self, **self._further_options())

    def __repr__(self) -> str:
        return construct(self, **self._further_options())

    def _further_options(self) -> dict[str, Any]:
        """The options that are not among the loss's own arguments, which are written anyway."""
        own = inspect.signature(type(self)).parameters
        return {name: value for name, value in self.options().items() if name not in own}

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """What ``.to``, ``.half`` and the like go through: buffers move to another device, but keep their digits.

        Class weights, priors and noise matrices have one number per class or per pair of classes, and cost nothing in
        float64; rounded with the model around them, they would be other weights and other noise.
        """
        before = dict(self._buffers)
        super()._apply(fn, recurse)
        for name, buffer in before.items():
            after = self._buffers[name]
            if buffer is not None and after is not None and after.dtype != buffer.dtype:
                self._buffers[name] = buffer.to(after.device)
        return self


class _Compiled(torch.autograd.Function):
    """A loss by the compiled kernel, from (M, C) scores and (M,) labels to what the loss returns.

    One pass over the scores gives the value and its derivatives by each row's margin; another gives the gradient. Of
    few scores both are made in one call, because calls take longer than the passes.
    """

    @staticmethod
    def forward(ctx: Any, rows: Tensor, labels: Tensor, call: tuple[Any, ...]) -> Tensor:
        ctx.loss, terms, weight, sample_weight, dtype = call
        ctx.ignored, reduction = ctx.loss.ignore_index, ctx.loss.reduction
        values, mean, ctx.gradient = None, reduction == "mean", None
        if reduction == "none":
            values = torch.empty(rows.shape[0], dtype=torch.float64)
        elif rows.numel() <= _FEW and ctx.needs_input_grad[0]:
            ctx.gradient = torch.empty_like(rows, memory_format=torch.contiguous_format)
        numbers, total, count = kernel.forward(
            rows, labels, terms, False, ctx.ignored, weight, sample_weight, values, ctx.gradient, mean
        )
        ctx.save_for_backward(rows, labels, numbers, sample_weight)
        if values is not None:
            return values.to(dtype)
        ctx.divisor = count if mean else 1.0
        return torch.full((), total / ctx.divisor if ctx.divisor else torch.nan, dtype=dtype)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, None, None]:
        rows, labels, numbers, sample_weight = ctx.saved_tensors
        given, again = grads[0], torch.is_grad_enabled()
        if again or kernel.transformed(given):  # the gradient is to be differentiated too, or there are many
            with torch.enable_grad():
                x = rows if again else rows.detach().requires_grad_()
                value = ctx.loss.plain(x, labels, sample_weight).to(given.dtype)
                return torch.autograd.grad(value, x, given, create_graph=again)[0], None, None
        if given.dim():
            each = given.to(torch.float64).contiguous()
            return kernel.backward(rows, labels, numbers, ignored=ctx.ignored, each=each), None, None
        factor, gradient = given.item(), ctx.gradient
        if factor == 1 and gradient is not None:
            ctx.gradient = None  # another backward pass gets another tensor, because this one may be changed
            return gradient, None, None
        factor = factor / ctx.divisor if ctx.divisor else torch.nan
        return kernel.backward(rows, labels, numbers, None, None, ctx.ignored, factor), None, None


# What ``Function.apply`` calls after it has looked for torch.func, which ``kernel.takes`` has done: 1 us in 35.
_apply: Any = super(torch.autograd.Function, _Compiled).apply


class Terms(Loss):
    """Losses with factors, added up. The sum has the options; its terms have none of their own."""

    def __init__(self, terms: Sequence[tuple[float, Loss]], **options: Unpack[Options]) -> None:
        super().__init__(**options)
        self.factors = [factor for factor, _ in terms]
        self.losses = nn.ModuleList(without_options(loss) for _, loss in terms)

    def terms(self) -> list[tuple[float, Any]]:
        return list(zip(self.factors, self.losses, strict=True))

    def compiled_terms(self, classes: int) -> tuple[Term, ...] | None:
        found: tuple[Term, ...] = ()
        for factor, loss in self.terms():
            terms = scaled_terms(factor, loss.compiled_terms(classes))
            if terms is None:
                return None
            found += terms
        return found

    def spec_parts(self) -> Iterable[object]:
        """The losses that are added up."""
        return self.losses

    def __str__(self) -> str:
        return self._written(write_spec if self.options() else str)

    def __repr__(self) -> str:
        return self._written(construct if self.options() else repr)

    def _written(self, write: Callable[..., str]) -> str:
        """The terms, each with the options of the sum, which are read back from them."""
        written = ((factor, write(term, **self.options())) for factor, term in self.terms())
        return " + ".join(text if factor == 1 else f"{factor!r}*{text}" for factor, text in written)


@final
class Sum(Terms):
    """A weighted sum of losses, made by ``+`` and ``*``."""

    def at_label(self, scores: Tensor, labels: Tensor) -> Tensor:
        return add_up(factor * loss.at_label(scores, labels) for factor, loss in self.terms())

    def per_label(self, scores: Tensor) -> Tensor:
        return add_up(factor * loss.per_label(scores) for factor, loss in self.terms())

    def per_sample(self, rows: Tensor, labels: Tensor, weight: Tensor | None, valid: Tensor | None) -> Tensor:
        return add_up(factor * loss.per_sample(rows, labels, weight, valid) for factor, loss in self.terms())


def bare(loss: Loss, argument: str = "loss") -> Loss:
    """A loss to wrap: reduction, ignored labels and weights belong to the outermost loss."""
    require(isinstance(loss, Loss), argument, loss, "a loss")
    if loss.options():
        raise PyriteError(f"{argument} is {str(loss)!r}: give {', '.join(loss.options())} to the loss around it")
    return loss


def common_options(one: Loss, other: Loss) -> Any:
    """The options of both, which are those of their sum."""
    mine, theirs = one.options(), other.options()
    weights = [options.pop("weight", torch.empty(0)) for options in (mine, theirs)]
    if mine != theirs or not torch.equal(*weights):
        raise PyriteError(f"the terms of a sum must have the same options, but {str(one)!r} and {str(other)!r} differ")
    return one.options()


def without_options(loss: Loss) -> Loss:
    """The same loss with its options at their defaults: itself, or a twin that shares all parts but those."""
    if not loss.options():
        return loss
    twin = copy.copy(loss)
    twin._buffers = dict(loss._buffers)  # where the class weights are, and a shallow copy would have them in common
    return twin.configure(**_DEFAULTS)


def classes_of(loss: Loss) -> int:
    """A number of classes to try a loss with: the only one it can be used with, or else 10."""
    parts = (part.only_classes for part in loss.modules() if isinstance(part, Loss))
    return next((count for count in parts if count is not None), 10)


def to_numbers(value: object, argument: str) -> Tensor:
    """A copy in float64 of numbers that a user gave."""
    try:
        values = value.cpu() if isinstance(value, Tensor) else value  # not every device has float64
        return torch.as_tensor(values, dtype=torch.float64).detach().clone()
    except (TypeError, ValueError, RuntimeError):
        raise PyriteError(f"{argument} is {value!r}, but must be numbers, as many in every row") from None


def scaled_terms(factor: float, terms: tuple[Term, ...] | None) -> tuple[Term, ...] | None:
    """Terms of the compiled kernel, if it has them, each with its factor multiplied."""
    if factor == 1 or terms is None:
        return terms
    return tuple(term._replace(factor=factor * term.factor) for term in terms)


def add_up(parts: Iterable[Tensor]) -> Tensor:
    """A sum that does not start from the number 0."""
    return reduce(Tensor.add, parts)
