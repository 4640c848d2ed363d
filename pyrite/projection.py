"""A linear projection and a loss of its scores, in chunks of rows: all scores at once are never in memory."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import linear
from torch.utils.checkpoint import checkpoint

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
    input, weight, bias, labels, sample_weight = arguments

    def values(here: slice, input: Tensor, *wide: Tensor) -> Tensor:
        own = None if sample_weight is None else sample_weight[here]
        return loss(linear(input[here], *(part.to(weight.dtype) for part in wide)), labels[here], own)

    # The gradients of the chunks are added up in at least 32 bits.
    wide = [part.to(torch.promote_types(part.dtype, torch.float32)) for part in (weight, bias) if part is not None]
    options: Any = {"use_reentrant": False, "preserve_rng_state": False}
    parts = [checkpoint(values, here, input, *wide, **options) for here in _chunks(input, weight, chunk)]
    return torch.cat(parts)


def _chunks(input: Tensor, weight: Tensor, chunk: int | None) -> Iterator[slice]:
    size = max(1, CHUNK // len(weight)) if chunk is None else chunk
    return (slice(start, start + size) for start in range(0, max(len(input), 1), size))


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
        needed, wide = ctx.needs_input_grad, torch.promote_types(weight.dtype, torch.float32)
        by_input = torch.zeros_like(input) if needed[0] else None
        by_weight = torch.zeros_like(weight, dtype=wide) if needed[1] else None
        by_bias = torch.zeros_like(bias, dtype=wide) if needed[2] and bias is not None else None
        differentiate, sums = any(needed), []
        for here in _chunks(input, weight, chunk):
            scores = linear(input[here], weight, bias)
            rows = scores.detach().to(torch.promote_types(scores.dtype, torch.float32)).requires_grad_(differentiate)
            with torch.set_grad_enabled(differentiate):
                value = loss(rows, labels[here], None if sample_weight is None else sample_weight[here])
            sums.append(value.detach())
            by_scores = torch.autograd.grad(value, rows)[0].to(scores.dtype) if differentiate else rows
            if by_input is not None:
                by_input[here] = by_scores @ weight.to(by_scores.dtype)
            if by_weight is not None and wide == by_scores.dtype == input.dtype:
                by_weight.addmm_(by_scores.mT, input[here])
            elif by_weight is not None:
                by_weight.add_(by_scores.mT @ input[here].to(by_scores.dtype))
            if by_bias is not None:
                by_bias.add_(by_scores.sum(0, dtype=wide))
            del by_scores  # before the scores of the next chunk are made
        ctx.loss, ctx.kind = loss, input.device.type
        ctx.autocast, ctx.autocast_dtype = torch.is_autocast_enabled(ctx.kind), torch.get_autocast_dtype(ctx.kind)
        ctx.save_for_backward(input, weight, bias, labels, sample_weight, divisor, by_input, by_weight, by_bias)
        total = torch.stack(sums).sum(dtype=None if divisor is None else divisor.dtype)
        dtype = torch.promote_types(scores.dtype, torch.float32) if ctx.autocast else scores.dtype
        return (total if divisor is None else total / divisor).to(dtype)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        divisor, given = ctx.saved_tensors[5], grads[0]
        factor = given if divisor is None else given / divisor
        if torch.is_grad_enabled():
            return *_Sum._again(ctx, factor), None, None, None, None, None
        parts = zip(ctx.saved_tensors[6:], ctx.saved_tensors[:3], strict=True)
        found = [None if grad is None else (grad * factor.to(grad.dtype)).to(part.dtype) for grad, part in parts]
        return *found, None, None, None, None, None

    @staticmethod
    def _again(ctx: Any, given: Tensor) -> tuple[Tensor | None, ...]:
        """The gradient as a function that can be differentiated, with all scores at once."""
        input, weight, bias, labels, sample_weight = ctx.saved_tensors[:5]
        wanted = [part for part, need in zip((input, weight, bias), ctx.needs_input_grad, strict=False) if need]
        with torch.autocast(ctx.kind, ctx.autocast_dtype, enabled=ctx.autocast):
            value = ctx.loss(linear(input, weight, bias), labels, sample_weight).to(given.dtype)
            found = iter(torch.autograd.grad(value, wanted, given, create_graph=True))
        return tuple(next(found) if need else None for need in ctx.needs_input_grad[:3])
