"""The soft margin: the one number that nearly every robust loss is a function of.

For scores ``s`` and a label ``y`` it is ``s_y - log(sum over i != y of exp(s_i))``, and the softmax
probability of the label is its sigmoid. It is computed from the *other* classes, never from that
probability or from cross entropy, both of which have lost it once the probability rounds to 1.

Per sample everything is float64 and costs nothing; what has the size of the scores is float32 for
scores of 32 bits or less. A float32 margin of 30 would by its rounding alone put 1e-6 on every weight.
"""

from collections.abc import Iterator
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.nn.functional import logsigmoid

from pyrite.errors import PyriteError

# Rows are worked through in blocks of this many scores: 2 MiB of float32 stay in a core's cache, and
# on other devices a block is large enough to fill them (measured: docs/performance.md).
CPU_BLOCK = 1 << 19
DEVICE_BLOCK = 1 << 25
# So few that the calls take longer than the numbers; so few that memory is no matter, and exponentials are kept.
SMALL, KEEP = 1 << 15, 1 << 22
# Up to here the exponential of a margin is a normal number of float64, with all its digits.
REACH = 700.0


def margin(scores: Tensor, labels: Tensor) -> Tensor:
    """The soft margin of each sample's label, in the shape of ``labels``.

    ``scores`` are unnormalised, of shape (C), (N, C) or (N, C, d1, ...); ``labels`` are class numbers of
    shape (), (N) or (N, d1, ...).

    >>> margin(torch.tensor([[2.0, 0.0], [40.0, 0.0]]), torch.tensor([0, 0]))
    tensor([ 2., 40.])

    Ou & Zhang, "A curriculum view of robust loss functions", section 4.
    """
    rows = to_rows(scores)
    check_labels(scores, labels)
    return row_margin(rows, labels.reshape(-1).long()).reshape(labels.shape).to(scores.dtype)


def margins(scores: Tensor) -> Tensor:
    """The soft margins of every class as if it were the label, in the shape of ``scores``.

    >>> margins(torch.tensor([2.0, 0.0]))
    tensor([ 2., -2.])
    """
    every = row_margins(to_rows(scores)).to(scores.dtype)
    if scores.dim() <= 2:
        return every.reshape(scores.shape)
    return every.reshape(scores.movedim(1, -1).shape).movedim(-1, 1)


class _Potential(Protocol):
    """A function phi of the margin, with w = -phi' to differentiate by, and both in one as ``value_at``."""

    def phi(self, margin: Tensor) -> Tensor: ...

    def w(self, margin: Tensor) -> Tensor: ...

    def value_at(self, margin: Tensor) -> Tensor: ...


def row_margin(rows: Tensor, labels: Tensor, of: _Potential | None = None) -> Tensor:
    """``margin`` of (M, C) scores and (M,) labels, or a function of it; in the wide dtype and without checks."""
    if transformed(rows):
        delta = _differentiable(rows, labels)[0]
        return delta if of is None else of.value_at(delta)
    result: Tensor = _Rows.apply(rows, labels, False, of)[0]
    return result


def row_margin_and_total(rows: Tensor, labels: Tensor, of: _Potential | None = None) -> tuple[Tensor, Tensor]:
    """``row_margin``, and the cross entropy summed over all labels: the sum of -log p_i over every i."""
    if transformed(rows):
        delta, _, total = _differentiable(rows, labels)
        return delta if of is None else of.value_at(delta), total
    value, total = _Rows.apply(rows, labels, True, of)
    return value, total


def transformed(tensor: Tensor) -> bool:
    """Whether torch.compile, torch.func or forward-mode differentiation is active, which need plain operations."""
    return (
        torch.compiler.is_compiling()
        or torch._C._are_functorch_transforms_active()  # what autograd.Function.apply asks too
        or forward_ad.unpack_dual(tensor).tangent is not None
    )


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


def to_rows(scores: Tensor, finite: bool = False) -> Tensor:
    """Scores of any shape as (M, C) rows. What cannot be scores is refused, infinite values only with ``finite``."""
    if not isinstance(scores, Tensor):
        raise PyriteError(f"scores must be a tensor, not {type(scores).__name__}")
    if not scores.is_floating_point():
        raise PyriteError(f"scores must have a floating point dtype, not {scores.dtype}")
    if scores.dim() == 0:
        raise PyriteError("scores must have shape (C), (N, C) or (N, C, d1, ...), not ()")
    classes = scores.shape[0 if scores.dim() == 1 else 1]
    if classes < 2:
        raise PyriteError(
            f"scores have shape {tuple(scores.shape)}, so {classes} class(es): a margin is the label's score "
            "against the other classes, and there are none. A binary problem needs two columns of scores"
        )
    if finite and not transformed(scores) and not torch.isfinite(scores).all():
        first = tuple(torch.nonzero(~torch.isfinite(scores))[0].tolist())
        raise PyriteError(f"scores hold {scores[first].item()} at index {first}")
    if scores.dim() == 2:
        return scores
    return scores.unsqueeze(0) if scores.dim() == 1 else scores.movedim(1, -1).reshape(-1, classes)


def check_labels(scores: Tensor, labels: Tensor, ignore_index: int | None = None) -> bool:
    """Refuse hard labels that do not belong to ``scores``; return whether any may have to be ignored.

    The values are looked at where that costs no wait: on the CPU. Elsewhere torch's own assertion
    fails, and under vmap and torch.compile nothing can be looked at.
    """
    shape = scores.shape[:1] + scores.shape[2:] if scores.dim() > 1 else torch.Size()
    if not isinstance(labels, Tensor):
        raise PyriteError(f"labels must be a tensor, not {type(labels).__name__}")
    if labels.is_floating_point() or labels.is_complex() or labels.dtype == torch.bool:
        raise PyriteError(
            f"labels have dtype {labels.dtype}: class numbers must be integers, "
            f"and label distributions floating point of the scores' shape {tuple(scores.shape)}"
        )
    if labels.shape != shape:
        raise PyriteError(
            f"labels have shape {tuple(labels.shape)}, but scores of shape {tuple(scores.shape)} "
            f"take class numbers of shape {tuple(shape)}"
        )
    if labels.device.type != "cpu" or labels.numel() == 0:
        return labels.numel() > 0
    if torch.compiler.is_compiling():
        return True
    classes = scores.shape[0 if scores.dim() == 1 else 1]
    try:
        bounds = labels.aminmax()
        low, high = bounds.min.item(), bounds.max.item()
    except RuntimeError:  # vmap's answer to a look at the values; torch has no public way to ask beforehand
        return True
    if low >= 0 and high < classes:
        return ignore_index is not None and low <= ignore_index <= high
    wrong = (labels < 0) | (labels >= classes)
    if ignore_index is not None:
        wrong &= labels != ignore_index
    if wrong.any():
        first = tuple(torch.nonzero(wrong)[0].tolist())
        at = first[0] if len(first) == 1 else first
        raise PyriteError(
            f"labels hold {labels[first].item()} at index {at}, outside the {classes} classes of the scores"
        )
    return True


class _Rows(torch.autograd.Function):
    """(M, C) scores and (M,) labels to the margin and, if asked, the total cross entropy.

    Of many scores it keeps two numbers per row and recomputes the softmax over the others in the backward pass, so
    the gradient is the only thing of the scores' size that is ever allocated, and ``retain_graph`` works.
    """

    @staticmethod
    def forward(
        ctx: Any, rows: Tensor, labels: Tensor, with_total: bool, of: _Potential | None
    ) -> tuple[Tensor, Tensor | None]:
        ctx.set_materialize_grads(False)
        ctx.of = of
        delta, parts, kept = _small(rows, labels, with_total) or _large(rows, labels, with_total)
        ctx.save_for_backward(rows, labels, delta, *kept)
        total = None if parts is None else _total(delta, *parts, rows.shape[1])
        return (delta if of is None else of.phi(delta)), total

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, None, None, None]:
        """The margin's gradient is 1 at the label and minus the softmax q_j over the others; the total's is C p_j - 1,
        with p_j = sigmoid(-delta) q_j. So a row's gradient has a number at the label, a factor of q, and a constant."""
        rows, labels, delta, mass, top, others = ctx.saved_tensors
        g_value, g_total = grads
        if g_value is None and g_total is None:
            return None, None, None, None
        index, classes, softmax = labels.unsqueeze(1), rows.shape[1], None
        if torch.is_grad_enabled():  # the gradient is to be differentiated too
            delta, softmax, _ = _differentiable(rows, labels)
        at_label = (
            torch.zeros_like(delta) if g_value is None else g_value if ctx.of is None else -g_value * ctx.of.w(delta)
        )
        factor = -at_label
        if g_total is not None:
            at_label = at_label + g_total * (classes * logsigmoid(delta).exp() - 1)
            factor = factor + g_total * (classes * logsigmoid(-delta).exp())
        constant = None if g_total is None else -g_total
        if softmax is not None:
            grad = softmax * factor.unsqueeze(1).to(softmax.dtype)
            grad = grad if constant is None else grad + constant.unsqueeze(1).to(grad.dtype)
            return grad.scatter(1, index, at_label.unsqueeze(1).to(grad.dtype)).to(rows.dtype), None, None, None
        if others is None:
            return _in_blocks(rows, labels, top, at_label, factor / mass, constant), None, None, None
        grad = others * (factor / mass).unsqueeze(1).to(others.dtype)
        if constant is not None:
            grad.add_(constant.unsqueeze(1).to(grad.dtype))
        return grad.scatter_(1, index, at_label.unsqueeze(1).to(grad.dtype)).to(rows.dtype), None, None, None


# What the forward pass finds: the margin; what the total is made of (see _total); and what is kept: mass, largest score
# (None for the label's), exponentials (None where they are recomputed).
_Found = tuple[Tensor, tuple[Tensor, Tensor] | None, tuple[Tensor, Tensor | None, Tensor | None]]


def _small(rows: Tensor, labels: Tensor, with_total: bool) -> _Found | None:
    """With few scores the time goes into calls: as few as can be, in float64 and relative to the label's score.

    None where there are many scores, where they are too far apart for that, or where asking that would mean a wait.
    """
    if rows.numel() > SMALL or rows.device.type != "cpu":
        return None
    index = labels.unsqueeze(1)
    others = rows.to(torch.float64, copy=True)
    others.sub_(others.gather(1, index))
    distance = others.sum(1) if with_total else None
    mass = others.exp_().scatter_(1, index, 0.0).sum(1)
    delta = mass.log().neg_()
    if not (delta.abs() < REACH).all():
        return None
    # Relative to the label's score: s_i - top = (s_i - s_y) - log(mass), if top stands for log of the others' mass.
    parts = None if distance is None else (-logsigmoid(-delta), distance + (rows.shape[1] - 1) * delta)
    return delta, parts, (mass, None, others)


def _large(rows: Tensor, labels: Tensor, with_total: bool) -> _Found:
    """In blocks, keeping two numbers per row and, where there is room, the exponentials."""
    index = labels.unsqueeze(1)
    room = None
    if rows.numel() <= KEEP:
        room = torch.empty_like(rows, dtype=_working(rows), memory_format=torch.contiguous_format)
    blocks = [_statistics(rows[here], buffer, index[here], with_total) for here, buffer in _blocks(rows, into=room)]
    tops, masses, drops = zip(*blocks, strict=True)
    top, mass = torch.cat(tops), torch.cat(masses)
    log_mass = mass.log()
    own = rows.gather(1, index).to(mass.dtype).sub_(top).squeeze(1)
    kept = (mass.clamp(min=0.5), top, room)  # it is at least 1, or 0 where all others are -inf
    parts = (torch.logaddexp(log_mass, own), torch.cat(drops)) if with_total else None
    return own - log_mass, parts, kept


def _statistics(rows: Tensor, buffer: Tensor, index: Tensor, with_total: bool) -> tuple[Tensor, Tensor, Tensor | None]:
    """Of each row without its label: the largest score, the mass relative to it, the sum of the distances to it.

    The mass is summed in float64: focal loss triples the error of the margin, and higher powers do worse.
    """
    buffer.copy_(rows).scatter_(1, index, -torch.inf)
    top = _finite(buffer.amax(1, keepdim=True))
    buffer.sub_(top)
    drop = None
    if with_total:
        drop = buffer.scatter_(1, index, 0.0).sum(1)
        buffer.scatter_(1, index, -torch.inf)
    return top, buffer.exp_().sum(1, dtype=wide_dtype(buffer)), drop


def _in_blocks(
    rows: Tensor, labels: Tensor, top: Tensor, at_label: Tensor, factor: Tensor, constant: Tensor | None
) -> Tensor:
    """The gradient, a block at a time: the softmax over the others is computed in its place."""
    index, label, factor = (part.unsqueeze(1) for part in (labels, at_label.to(top.dtype), factor.to(top.dtype)))
    constant = None if constant is None else constant.unsqueeze(1).to(top.dtype)
    grad = torch.empty_like(rows, memory_format=torch.contiguous_format)
    for here, buffer in _blocks(rows, into=grad):
        torch.sub(rows[here], top[here], out=buffer)
        buffer.exp_().mul_(factor[here])
        if constant is not None:
            buffer.add_(constant[here])
        buffer.scatter_(1, index[here], label[here])
        if buffer.dtype != grad.dtype:
            grad[here] = buffer
    return grad


def _differentiable(rows: Tensor, labels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Margin, softmax over the others and total, in operations torch can differentiate and compile."""
    hot = torch.arange(rows.shape[1], device=rows.device) == labels.unsqueeze(1)
    x = rows.to(_working(rows))
    others = torch.where(hot, -torch.inf, x)
    top = _finite(others.detach().amax(1, keepdim=True))
    spread = (others - top).exp()
    mass = spread.sum(1, dtype=wide_dtype(rows))
    # The mass is at least 1, or 0 where all others are -inf; then its logarithm has no derivative, and needs none.
    log_mass = torch.where(mass > 0, mass.clamp(min=0.5).log(), -torch.inf)
    own = x.gather(1, labels.unsqueeze(1)).squeeze(1).to(mass.dtype) - top.squeeze(1)
    drop = torch.where(hot, 0.0, x - top).sum(1)
    softmax = spread / mass.clamp(min=0.5).unsqueeze(1).to(x.dtype)
    delta = own - log_mass
    return delta, softmax, _total(delta, torch.logaddexp(log_mass, own), drop, rows.shape[1])


def _total(delta: Tensor, whole: Tensor, drop: Tensor, classes: int) -> Tensor:
    """The sum over i of -log p_i, from terms that are all positive, so that nothing cancels.

    -log p_y = -log sigmoid(delta); for the others -log p_i = whole - (s_i - top), where top is the largest score of
    the others, ``whole`` the logarithm of all the mass relative to it, the label's included, and ``drop`` the sum of
    the s_i - top. All of them may be -inf: then the total is inf.
    """
    return (classes - 1) * whole - drop.to(delta.dtype) - logsigmoid(delta)


def _blocks(rows: Tensor, into: Tensor | None = None) -> Iterator[tuple[slice, Tensor]]:
    """Slices of the rows with room to work in: a buffer that is used again, or the result itself."""
    (count, classes), work = rows.shape, _working(rows)
    size = max(1, (CPU_BLOCK if rows.device.type == "cpu" else DEVICE_BLOCK) // classes)
    if into is None or into.dtype != work:
        buffer = rows.new_empty((min(size, count), classes), dtype=work)
    for start in range(0, count, size):
        here = slice(start, min(start + size, count))
        yield here, buffer[: here.stop - start] if into is None or into.dtype != work else into[here]


def _working(scores: Tensor) -> torch.dtype:
    return torch.float64 if scores.dtype == torch.float64 else torch.float32


def wide_dtype(scores: Tensor) -> torch.dtype:
    """The dtype of what has one number per sample."""
    return torch.float32 if scores.device.type == "mps" else torch.float64  # Apple's GPU has no float64


def widened(rows: Tensor) -> Tensor:
    """Scores in the wide dtype, where they are so few that memory is no matter.

    Every class's margin has the scores' size, and in float32 its rounding alone puts some 1e-6 on the weights.
    """
    return rows.to(wide_dtype(rows)) if rows.numel() <= KEEP else rows


def _finite(top: Tensor) -> Tensor:
    """-inf, where all others have it, made finite: then their mass is 0 and the margin +inf, not NaN."""
    return top.clamp(min=torch.finfo(top.dtype).min)
