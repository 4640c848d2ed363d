"""A linear projection and a loss of its scores, in chunks of rows: all scores at once are never in memory."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import linear

# Scores per chunk: 64 MiB of float32, large enough for matrix products at full speed.
CHUNK = 1 << 24

# A loss of rows of scores under their labels and sample weights: its sum, or one value per row.
Rows = Callable[[Tensor, Tensor, Tensor | None], Tensor]


def projected_sum(loss: Rows, arguments: tuple[Tensor, ...], divisor: Tensor | None, chunk: int | None) -> Tensor:
    """The sum of the losses of ``input @ weight.T + bias``, divided. Gradients are computed with it, chunk by chunk.

    ``arguments`` are input (N, H), weight (C, H), bias (C,) or None, labels (N,), and sample weights (N,) or None.
    """
    result: Tensor = _Sum.apply(*arguments, divisor, loss, chunk)
    return result


def projected_values(loss: Rows, arguments: tuple[Tensor, ...], chunk: int | None) -> Tensor:
    """The loss of each row. The backward pass computes the scores again, as each row has a factor of its own."""
    values: Tensor = _Values.apply(*arguments, loss, chunk)
    return values


def _chunks(input: Tensor, weight: Tensor, chunk: int | None) -> Iterator[slice]:
    size = max(1, CHUNK // len(weight)) if chunk is None else chunk
    return (slice(start, start + size) for start in range(0, max(len(input), 1), size))


class _Gradients:
    """Sums over chunks of the gradients that are asked for, of at least 32 bits."""

    def __init__(self, wanted: tuple[bool, ...], input: Tensor, weight: Tensor, bias: Tensor | None) -> None:
        self.weight_itself, wide = weight, torch.promote_types(weight.dtype, torch.float32)
        self.input = torch.zeros_like(input) if wanted[0] else None
        self.weight = torch.zeros_like(weight, dtype=wide) if wanted[1] else None
        self.bias = torch.zeros_like(bias, dtype=wide) if wanted[2] and bias is not None else None

    def add(self, here: slice, input: Tensor, by_scores: Tensor) -> None:
        if self.input is not None:
            self.input[here] = by_scores @ self.weight_itself.to(by_scores.dtype)
        if self.weight is not None:
            if self.weight.dtype == by_scores.dtype == input.dtype:
                self.weight.addmm_(by_scores.mT, input[here])
            else:
                self.weight.add_(by_scores.mT @ input[here].to(by_scores.dtype))
        if self.bias is not None:
            self.bias.add_(by_scores.sum(0, dtype=self.bias.dtype))

    def all(self) -> tuple[Tensor | None, ...]:
        return self.input, self.weight, self.bias


def _plain(
    loss: Rows, input: Tensor, weight: Tensor, bias: Tensor | None, labels: Tensor, sample_weight: Tensor | None
) -> Tensor:
    return loss(linear(input, weight, bias), labels, sample_weight)


def _again(ctx: Any, given: Tensor) -> tuple[Tensor | None, ...]:
    """The gradient as a function that can be differentiated, with all scores at once."""
    parts = ctx.saved_tensors[:5]
    inputs = [part for part, wanted in zip(parts[:3], ctx.needs_input_grad, strict=False) if wanted]
    with _autocast(ctx):
        found = iter(torch.autograd.grad(_plain(ctx.loss, *parts).to(given.dtype), inputs, given, create_graph=True))
    return tuple(next(found) if wanted else None for wanted in ctx.needs_input_grad[:3])


def _autocast(ctx: Any) -> torch.autocast:
    """The state of autocast in the forward pass."""
    return torch.autocast(ctx.kind, ctx.autocast_dtype, enabled=ctx.autocast)


def _remember(ctx: Any, loss: Rows, *tensors: Tensor | None) -> None:
    ctx.loss, ctx.kind = loss, tensors[0].device.type if tensors[0] is not None else "cpu"
    ctx.autocast, ctx.autocast_dtype = torch.is_autocast_enabled(ctx.kind), torch.get_autocast_dtype(ctx.kind)
    ctx.save_for_backward(*tensors)


def _part(rows: Tensor | None, here: slice) -> Tensor | None:
    return None if rows is None else rows[here]


class _Sum(torch.autograd.Function):
    """The sum of the losses. Its gradient is that of the forward pass times one number."""

    @staticmethod
    def forward(
        ctx: Any,
        input: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        labels: Tensor,
        sample_weight: Tensor | None,
        divisor: Tensor | None,
        loss: Rows,
        chunk: int | None,
    ) -> Tensor:
        gradients = _Gradients(ctx.needs_input_grad, input, weight, bias)
        differentiate, sums = any(ctx.needs_input_grad), []
        for here in _chunks(input, weight, chunk):
            scores = linear(input[here], weight, bias)
            rows = scores.detach().to(torch.promote_types(scores.dtype, torch.float32)).requires_grad_(differentiate)
            with torch.set_grad_enabled(differentiate):
                value = loss(rows, labels[here], _part(sample_weight, here))
            sums.append(value.detach())
            if differentiate:
                gradients.add(here, input, torch.autograd.grad(value, rows)[0].to(scores.dtype))
        _remember(ctx, loss, input, weight, bias, labels, sample_weight, divisor, *gradients.all())
        total = torch.stack(sums).sum(dtype=None if divisor is None else divisor.dtype)
        dtype = torch.promote_types(scores.dtype, torch.float32) if ctx.autocast else scores.dtype
        return (total if divisor is None else total / divisor).to(dtype)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        divisor, given = ctx.saved_tensors[5], grads[0]
        factor = given if divisor is None else given / divisor
        if torch.is_grad_enabled():
            return *_again(ctx, factor), None, None, None, None, None
        parts = zip(ctx.saved_tensors[6:], ctx.saved_tensors[:3], strict=True)
        found = [None if grad is None else (grad * factor.to(grad.dtype)).to(part.dtype) for grad, part in parts]
        return *found, None, None, None, None, None


class _Values(torch.autograd.Function):
    """The loss of each row."""

    @staticmethod
    def forward(
        ctx: Any,
        input: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        labels: Tensor,
        sample_weight: Tensor | None,
        loss: Rows,
        chunk: int | None,
    ) -> Tensor:
        _remember(ctx, loss, input, weight, bias, labels, sample_weight)
        ctx.chunk = chunk
        return torch.cat(
            [
                _plain(loss, input[here], weight, bias, labels[here], _part(sample_weight, here))
                for here in _chunks(input, weight, chunk)
            ]
        )

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():
            return *_again(ctx, grads[0]), None, None, None, None
        input, weight, bias, labels, sample_weight = ctx.saved_tensors
        gradients = _Gradients(ctx.needs_input_grad, input, weight, bias)
        with _autocast(ctx):
            for here in _chunks(input, weight, ctx.chunk):
                scores = linear(input[here], weight, bias).detach().requires_grad_()
                with torch.enable_grad():
                    values = ctx.loss(scores, labels[here], _part(sample_weight, here))
                gradients.add(here, input, torch.autograd.grad(values, scores, grads[0][here])[0])
        parts = zip(gradients.all(), (input, weight, bias), strict=True)
        found = [None if grad is None else grad.to(part.dtype) for grad, part in parts]
        return *found, None, None, None, None
