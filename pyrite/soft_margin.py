"""The soft margin: the one number that nearly every robust loss is a function of.

For scores ``s`` and a label ``y`` it is ``s_y - log(sum over i != y of exp(s_i))``, and the softmax
probability of the label is its sigmoid. It is computed from the *other* classes, never from that
probability or from cross entropy, both of which have lost it once the probability rounds to 1.

Per sample everything is float64 and costs nothing; what has the size of the scores is float32 for
scores of 32 bits or less. A float32 margin of 30 would by its rounding alone put 1e-6 on every weight.
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.nn.functional import logsigmoid

__all__ = [
    "check_labels",
    "check_scores",
    "margin",
    "margins",
    "row_margin",
    "row_margin_and_total",
    "row_margins",
    "to_rows",
    "wide_dtype",
]

# Rows are worked through in blocks of this many scores: 2 MiB of float32 stay in a core's cache, and
# on other devices a block is large enough to fill them (measured: docs/performance.md).
CPU_BLOCK = 1 << 19
DEVICE_BLOCK = 1 << 25


def margin(scores: Tensor, labels: Tensor) -> Tensor:
    """The soft margin of each sample's label, in the shape of ``labels``.

    ``scores`` are unnormalised, of shape (C), (N, C) or (N, C, d1, ...); ``labels`` are class numbers of
    shape (), (N) or (N, d1, ...).

    >>> margin(torch.tensor([[2.0, 0.0], [40.0, 0.0]]), torch.tensor([0, 0]))
    tensor([ 2., 40.])

    Ou & Zhang, "A curriculum view of robust loss functions", section 4.
    """
    check_scores(scores)
    check_labels(scores, labels)
    rows, _ = to_rows(scores)
    return row_margin(rows, labels.reshape(-1).long()).reshape(labels.shape).to(scores.dtype)


def margins(scores: Tensor) -> Tensor:
    """The soft margins of every class as if it were the label, in the shape of ``scores``.

    >>> margins(torch.tensor([2.0, 0.0]))
    tensor([ 2., -2.])
    """
    check_scores(scores)
    rows, back = to_rows(scores)
    return back(row_margins(rows)).to(scores.dtype)


def row_margin(rows: Tensor, labels: Tensor) -> Tensor:
    """``margin`` of (M, C) scores and (M,) labels, in the wide dtype and without checks."""
    if torch.compiler.is_compiling():
        return _differentiable(rows, labels)[0]
    result: Tensor = _Rows.apply(rows, labels, False)[0]
    return result


def row_margin_and_total(rows: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """``row_margin``, and the cross entropy summed over all labels: the sum of -log p_i over every i."""
    if torch.compiler.is_compiling():
        delta, _, total = _differentiable(rows, labels)
        return delta, total
    delta, total, _, _ = _Rows.apply(rows, labels, True)
    return delta, total


def row_margins(rows: Tensor) -> Tensor:
    """``margins`` of (M, C) scores, in the working dtype and without checks.

    With the largest score m and the mass r of all but the leader, class i sees log(1 + r - exp(s_i - m))
    of the others: r - exp(s_i - m) cannot cancel to more than its own rounding, and with two classes it
    is exactly 0. The leader itself sees its own maximum, or its margin would be lost beyond 88.
    """
    x = rows.to(_working(rows))
    fixed = x.detach()
    leader = fixed.argmax(1, keepdim=True)
    first = x.gather(1, leader)
    others = x.scatter(1, leader, -torch.inf)
    runner = _finite(others.detach().amax(1, keepdim=True))
    lead = (first - runner) - (others - runner).exp().sum(1, keepdim=True).log()
    top = fixed.gather(1, leader)
    mass = (others - top).exp()
    rest = torch.expm1(first - top) + (mass.sum(1, keepdim=True) - mass)
    return ((x - top) - torch.log1p(rest)).scatter(1, leader, lead)


def to_rows(scores: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
    """Scores as (M, C) rows, and the function that puts (M, C) back into their shape."""
    if scores.dim() == 1:
        return scores.unsqueeze(0), lambda rows: rows.squeeze(0)
    if scores.dim() == 2:
        return scores, lambda rows: rows
    last = scores.movedim(1, -1)
    return last.reshape(-1, scores.shape[1]), lambda rows: rows.reshape(last.shape).movedim(-1, 1)


def check_scores(scores: Tensor, finite: bool = False) -> None:
    """Refuse what cannot be scores; look at the values only when ``finite`` is asked for."""
    if not isinstance(scores, Tensor):
        raise ValueError(f"scores must be a tensor, not {type(scores).__name__}")
    if not scores.is_floating_point():
        raise ValueError(f"scores must have a floating point dtype, not {scores.dtype}")
    if scores.dim() == 0:
        raise ValueError("scores must have shape (C), (N, C) or (N, C, d1, ...), not ()")
    classes = scores.shape[0 if scores.dim() == 1 else 1]
    if classes < 2:
        raise ValueError(
            f"scores have shape {tuple(scores.shape)}, so {classes} class(es): a margin is the label's score "
            "against the other classes, and there are none. A binary problem needs two columns of scores"
        )
    if finite and _holds(wrong := ~torch.isfinite(scores)):
        first = tuple(torch.nonzero(wrong)[0].tolist())
        raise ValueError(f"scores hold {scores[first].item()} at index {first}")


def check_labels(scores: Tensor, labels: Tensor, ignore_index: int | None = None) -> bool:
    """Refuse hard labels that do not belong to ``scores``; say whether any may have to be ignored.

    The values are looked at where that costs no wait: on the CPU. Elsewhere torch's own assertion
    speaks up, and under vmap and torch.compile nothing can be looked at.
    """
    shape = scores.shape[:1] + scores.shape[2:] if scores.dim() > 1 else scores.shape[:0]
    if not isinstance(labels, Tensor):
        raise ValueError(f"labels must be a tensor, not {type(labels).__name__}")
    if labels.is_floating_point() or labels.is_complex() or labels.dtype == torch.bool:
        raise ValueError(
            f"labels have dtype {labels.dtype}: class numbers must be integers, "
            f"and label distributions floating point of the scores' shape {tuple(scores.shape)}"
        )
    if labels.shape != shape:
        raise ValueError(
            f"labels have shape {tuple(labels.shape)}, but scores of shape {tuple(scores.shape)} "
            f"take class numbers of shape {tuple(shape)}"
        )
    if labels.device.type != "cpu" or labels.numel() == 0:
        return labels.numel() > 0
    classes = scores.shape[0 if scores.dim() == 1 else 1]
    wrong = (labels < 0) | (labels >= classes)
    ignored = labels == ignore_index if ignore_index is not None else torch.zeros_like(wrong)
    if _holds(wrong & ~ignored):
        first = tuple(torch.nonzero(wrong & ~ignored)[0].tolist())
        at = first[0] if len(first) == 1 else first
        raise ValueError(
            f"labels hold {labels[first].item()} at index {at}, outside the {classes} classes of the scores"
        )
    return _holds(ignored, otherwise=True)


class _Rows(torch.autograd.Function):
    """(M, C) scores and (M,) labels to the margin and, if asked, the total cross entropy.

    It keeps two numbers a row and recomputes the softmax over the others in the backward pass, so the
    gradient is the only thing of the scores' size that is ever allocated, and ``retain_graph`` works.
    """

    @staticmethod
    def forward(rows: Tensor, labels: Tensor, with_total: bool) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        work, wide = _working(rows), wide_dtype(rows)
        top = rows.new_empty((len(rows), 1), dtype=work)
        mass = top.new_empty(top.shape, dtype=wide)  # summed in float64: focal loss triples the error of the margin
        drop = torch.empty_like(top)
        index = labels.unsqueeze(1)
        for here, buffer in _blocks(rows, work):
            buffer.copy_(rows[here]).scatter_(1, index[here], -torch.inf)
            top[here] = _finite(buffer.amax(1, keepdim=True))
            buffer.sub_(top[here])
            if with_total:
                torch.sum(buffer.scatter_(1, index[here], 0.0), 1, keepdim=True, out=drop[here])
                buffer.scatter_(1, index[here], -torch.inf)
            torch.sum(buffer.exp_(), 1, keepdim=True, dtype=wide, out=mass[here])
        own = rows.gather(1, index)
        delta = ((own.to(wide) - top.to(wide)) - mass.log()).squeeze(1)
        total = delta.new_zeros(())
        if with_total:
            total = _total(delta, mass.squeeze(1), drop.squeeze(1), rows.shape[1])
        return delta, total, top, mass

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        rows, labels, ctx.with_total = inputs
        delta, total, top, mass = output
        ctx.mark_non_differentiable(top, mass, *([] if ctx.with_total else [total]))  # once: a second call replaces
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(rows, labels, delta, top, mass)
        ctx.save_for_forward(rows, labels, delta, top, mass)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, None, None]:
        rows, labels, delta, top, mass = ctx.saved_tensors
        g_margin, g_total = grads[:2]
        if g_margin is None and g_total is None:
            return None, None, None
        again = torch.is_grad_enabled() or forward_ad.unpack_dual(rows).tangent is not None
        if again:
            delta, shares, _ = _differentiable(rows, labels)
        onto_label, onto_others, onto_all = _per_row(g_margin, g_total, delta, rows.shape[1])
        if again:
            grad = shares * onto_others.unsqueeze(1).to(shares.dtype) + onto_all.unsqueeze(1).to(shares.dtype)
            hot = _hot(rows, labels)
            return torch.where(hot, onto_label.unsqueeze(1).to(grad.dtype), grad).to(rows.dtype), None, None
        work = top.dtype
        spread = (onto_others.unsqueeze(1) / _nonzero(mass)).to(work)
        label, level, index = onto_label.unsqueeze(1).to(work), onto_all.unsqueeze(1).to(work), labels.unsqueeze(1)
        grad = torch.empty_like(rows, memory_format=torch.contiguous_format)
        for here, buffer in _blocks(rows, work, into=grad):
            torch.sub(rows[here], top[here], out=buffer)
            buffer.exp_().mul_(spread[here])
            if g_total is not None:
                buffer.add_(level[here])
            buffer.scatter_(1, index[here], label[here])
            if buffer.dtype != grad.dtype:
                grad[here] = buffer
        return grad, None, None

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> tuple[Tensor | None, ...]:
        rows, labels = ctx.saved_tensors[:2]
        move = tangents[0]
        if move is None:
            return None, None, None, None
        delta, shares, _ = _differentiable(rows, labels)
        move = move.to(shares.dtype)
        own = move.gather(1, labels.unsqueeze(1)).squeeze(1).to(delta.dtype)
        others = (shares * move).sum(1, dtype=delta.dtype)
        d_total = None
        if ctx.with_total:
            expected = logsigmoid(delta).exp() * own + logsigmoid(-delta).exp() * others
            d_total = rows.shape[1] * expected - move.sum(1, dtype=delta.dtype)
        return own - others, d_total, None, None

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], rows: Tensor, labels: Tensor, with_total: bool) -> Any:
        """Rows are independent, so a batch of rows is just more rows."""
        parts = [
            part.unsqueeze(0).expand(info.batch_size, *part.shape) if dim is None else part.movedim(dim, 0)
            for part, dim in zip((rows, labels), in_dims[:2], strict=True)
        ]
        outputs = _Rows.apply(*(part.flatten(0, 1) for part in parts), with_total)
        split = [part.unflatten(0, parts[1].shape) if part.dim() else part for part in outputs]
        return tuple(split), tuple(0 if part.dim() else None for part in outputs)


def _differentiable(rows: Tensor, labels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Margin, softmax over the others and total, in operations torch can differentiate and compile."""
    work, wide = _working(rows), wide_dtype(rows)
    hot = _hot(rows, labels)
    x = rows.to(work)
    others = torch.where(hot, -torch.inf, x)
    top = _finite(others.detach().amax(1, keepdim=True))
    spread = (others - top).exp()
    mass = spread.sum(1, keepdim=True, dtype=wide)
    own = x.gather(1, labels.unsqueeze(1))
    delta = ((own.to(wide) - top.to(wide)) - mass.log()).squeeze(1)
    drop = torch.where(hot, 0.0, x - top).sum(1)
    return delta, spread / _nonzero(mass).to(work), _total(delta, mass.squeeze(1), drop, rows.shape[1])


def _total(delta: Tensor, mass: Tensor, drop: Tensor, classes: int) -> Tensor:
    """The sum over i of -log p_i, from terms that are all positive, so that nothing cancels.

    -log p_y = -log sigmoid(delta); for the others -log p_i = -log(1 - p_y) + log(mass) - (s_i - top).
    """
    each = mass.log() - logsigmoid(-delta)
    return (classes - 1) * each - drop.to(delta.dtype) - logsigmoid(delta)


def _per_row(
    g_margin: Tensor | None, g_total: Tensor | None, delta: Tensor, classes: int
) -> tuple[Tensor, Tensor, Tensor]:
    """What a row's gradient is made of: at the label, per share of the others, and added to all others.

    The margin's gradient is 1 at the label and minus the share q_j at the others; the total's is C p_j - 1,
    with p_j = sigmoid(-delta) q_j.
    """
    zero = torch.zeros_like(delta)
    label = others = zero if g_margin is None else g_margin
    if g_total is None:
        return label, -others, zero
    label = label + g_total * (classes * logsigmoid(delta).exp() - 1)
    return label, g_total * (classes * logsigmoid(-delta).exp()) - others, -g_total


def _blocks(rows: Tensor, work: torch.dtype, into: Tensor | None = None) -> Iterator[tuple[slice, Tensor]]:
    """Slices of the rows with room to work in: a buffer that is used again, or the result itself."""
    count, classes = rows.shape
    size = max(1, (CPU_BLOCK if rows.device.type == "cpu" else DEVICE_BLOCK) // classes)
    own = into is None or into.dtype != work
    buffer = rows.new_empty((min(size, count), classes), dtype=work) if own else None
    for start in range(0, count, size):
        here = slice(start, min(start + size, count))
        if buffer is not None:
            yield here, buffer[: here.stop - here.start]
        elif into is not None:
            yield here, into[here]


def _hot(rows: Tensor, labels: Tensor) -> Tensor:
    return torch.arange(rows.shape[1], device=rows.device) == labels.unsqueeze(1)


def _working(scores: Tensor) -> torch.dtype:
    return torch.float64 if scores.dtype == torch.float64 else torch.float32


def wide_dtype(scores: Tensor) -> torch.dtype:
    """The dtype of one number a sample."""
    return torch.float32 if scores.device.type == "mps" else torch.float64  # Apple's GPU has no float64


def _finite(top: Tensor) -> Tensor:
    """Where all other scores are -inf the margin is +inf; 0 as their maximum gives that, -inf would give NaN."""
    return top.masked_fill(top == -torch.inf, 0.0)


def _nonzero(mass: Tensor) -> Tensor:
    return mass.masked_fill(mass == 0, 1.0)


def _holds(condition: Tensor, otherwise: bool = False) -> bool:
    """Whether it holds anywhere; ``otherwise`` where values cannot be looked at: torch.compile and vmap."""
    if torch.compiler.is_compiling():
        return otherwise
    try:
        return bool(condition.any())
    except RuntimeError:  # vmap's answer; torch has no public way to ask beforehand
        return otherwise
