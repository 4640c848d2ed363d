"""The soft margin: the one number that nearly every robust loss is a function of.

For scores ``s`` and a label ``y`` it is ``s_y - log(sum over i != y of exp(s_i))``, and the softmax
probability of the label is its sigmoid. It is computed from the *other* classes, never from that
probability or from cross entropy, both of which have lost it once the probability rounds to 1.

Per sample everything is float64 and costs nothing; what has the size of the scores is float32 for
scores of 32 bits or less. A float32 margin of 30 would by its rounding alone put 1e-6 on every weight.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from pyrite import kernel
from pyrite.errors import PyriteError
from pyrite.kernel import transformed

# Rows are worked through in blocks of this many scores: 2 MiB of float32 stay in a core's cache, and
# on other devices a block is large enough to fill them (measured: docs/performance.md).
CPU_BLOCK = 1 << 19
DEVICE_BLOCK = 1 << 25
# So few scores that memory is no matter.
FEW = 1 << 22
WITHOUT_FLOAT64 = {"mps"}  # Apple's GPUs


def margin(scores: Tensor, labels: Tensor) -> Tensor:
    """The soft margin of the label of each sample, in the shape of ``labels``.

    Args:
        scores: unnormalised scores of shape (C), (N, C) or (N, C, d1, ...).
        labels: class indices of shape (), (N) or (N, d1, ...).

    Returns:
        The margins.

    >>> margin(torch.tensor([[2.0, 0.0], [40.0, 0.0]]), torch.tensor([0, 0]))
    tensor([ 2., 40.])

    Ou & Zhang, "A curriculum view of robust loss functions", section 4.
    """
    rows = to_rows(scores)
    check_labels(scores, labels)
    return row_margin(rows, labels.reshape(-1).long()).reshape(labels.shape).to(scores.dtype)


def margins(scores: Tensor) -> Tensor:
    """The soft margins of all classes, each taken as the label, in the shape of ``scores``.

    Args:
        scores: as for ``margin``.

    Returns:
        The margins.

    >>> margins(torch.tensor([2.0, 0.0]))
    tensor([ 2., -2.])
    """
    every = row_margins(to_rows(scores)).to(scores.dtype)
    if scores.dim() <= 2:
        return every.reshape(scores.shape)
    return every.reshape(scores.movedim(1, -1).shape).movedim(-1, 1)


def row_margin(rows: Tensor, labels: Tensor) -> Tensor:
    """``margin`` of (M, C) scores and (M,) labels, in the wide dtype and without checks."""
    delta: Tensor = (_in_operations if transformed(rows) else _Rows.apply)(rows, labels, False)[0]
    return delta


def row_margin_and_total(rows: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """``row_margin``, and the cross entropy summed over all labels: the sum of -log p_i over every i."""
    found: Any = (_in_operations if transformed(rows) else _Rows.apply)(rows, labels, True)
    return found[0], found[1]


def row_margins(rows: Tensor) -> Tensor:
    """``margins`` of (M, C) scores, in the working dtype and without checks.

    With the largest score m and the mass r of all but the leader, class i sees log(1 + r - exp(s_i - m))
    of the others: r - exp(s_i - m) cannot cancel to more than its own rounding, and with two classes it
    is exactly 0. The leader itself sees its own maximum, or its margin would be lost beyond 88.
    """
    x = rows.to(torch.promote_types(rows.dtype, torch.float32))
    fixed = x.detach()
    leader = fixed.argmax(1, keepdim=True)
    first = x.gather(1, leader)
    others = x.scatter(1, leader, -torch.inf)
    runner = others.detach().amax(1, keepdim=True).clamp(min=torch.finfo(x.dtype).min)
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

    It keeps a few numbers per row and recomputes the softmax over the others in the backward pass, so the gradient is
    the only thing of the scores' size that is ever allocated, and ``retain_graph`` works. Without the compiled kernel
    rows are worked through in blocks.
    """

    @staticmethod
    def forward(ctx: Any, rows: Tensor, labels: Tensor, with_total: bool) -> tuple[Tensor, Tensor | None]:
        ctx.set_materialize_grads(False)
        if kernel.takes(rows, labels) and rows.stride(1) == 1 and labels.is_contiguous():
            numbers = kernel.forward(rows, labels, with_total=with_total)[0]
            ctx.save_for_backward(rows, labels, numbers)
            return numbers[0].clone(), numbers[3].clone() if with_total else None
        blocks = (_in_operations(rows[here], labels[here], with_total, in_place=True) for here in _blocks(rows))
        parts = zip(*blocks, strict=True)
        delta, total, mass, top = (part[0] if len(part) == 1 or part[0] is None else torch.cat(part) for part in parts)
        ctx.save_for_backward(rows, labels, delta, mass, top)
        return delta, total

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor | None, None, None]:
        rows, labels, *kept = ctx.saved_tensors
        given = [grad for grad in grads if grad is not None]
        if not given:
            return None, None, None
        again = torch.is_grad_enabled()  # the gradient is to be differentiated too
        if again or transformed(given[0]):
            with torch.enable_grad():
                x = rows if again else rows.detach().requires_grad_()
                found: tuple[Any, ...] = _in_operations(x, labels, grads[1] is not None)
                outputs = [value for value, grad in zip(found, grads, strict=False) if grad is not None]
                return torch.autograd.grad(outputs, x, given, create_graph=again)[0], None, None
        g_delta = torch.zeros_like(given[0]) if grads[0] is None else grads[0].contiguous()
        g_total = None if grads[1] is None else grads[1].contiguous()
        gradient: Any = kernel.backward if len(kept) == 1 else _gradient
        return gradient(rows, labels, *kept, g_delta, g_total), None, None


def _in_operations(
    rows: Tensor, labels: Tensor, with_total: bool, in_place: bool = False
) -> tuple[Tensor, Tensor | None, Tensor, Tensor]:
    """Margin, total, and mass and largest score of the others, in operations torch can differentiate and compile.

    The mass is summed in float64: focal loss triples the error of the margin, and higher powers do worse. ``in_place``
    is for no gradients: then one copy of the rows is all that is made of their size.
    """
    index, wide = labels.unsqueeze(1), wide_dtype(rows)
    own = rows.gather(1, index).squeeze(1).to(wide)
    x = rows.to(torch.promote_types(rows.dtype, torch.float32), copy=in_place)
    others = x.scatter_(1, index, -torch.inf) if in_place else x.scatter(1, index, -torch.inf)
    room = others if in_place else None
    # Where all others are -inf, their mass is 0, and the margin +inf, not NaN.
    top = others.detach().amax(1, keepdim=True).clamp(min=torch.finfo(x.dtype).min)
    others = torch.sub(others, top, out=room)
    drop = others.scatter(1, index, 0.0).sum(1).to(wide) if with_total else None
    mass = torch.exp(others, out=room).sum(1, dtype=wide)
    kept = mass.clamp(min=0.5)
    # The mass is at least 1, or 0 where all others are -inf; then its logarithm has no derivative, and needs none.
    log_mass = mass.log() if in_place else torch.where(mass > 0, kept.log(), -torch.inf)
    own = own - top.squeeze(1)
    delta, total = own - log_mass, None
    if drop is not None:
        # The sum over i of -log p_i, from terms that are all positive, so that nothing cancels: of the label
        # -log sigmoid(delta), of the others the logarithm of the mass of all classes less s_i - top.
        total = (rows.shape[1] - 1) * torch.logaddexp(log_mass, own) - drop - logsigmoid(delta)
    return delta, total, kept, top


def _gradient(
    rows: Tensor, labels: Tensor, delta: Tensor, mass: Tensor, top: Tensor, g_delta: Tensor, g_total: Tensor | None
) -> Tensor:
    """The margin's gradient is 1 at the label and minus the softmax q_j over the others; the total's is C p_j - 1,
    with p_j = sigmoid(-delta) q_j. So a row's gradient has a number at the label, a factor of q, and a constant."""
    at_label, factor, constant = g_delta, -g_delta, None
    if g_total is not None:
        at_label = at_label + g_total * (rows.shape[1] * logsigmoid(delta).exp() - 1)
        factor = factor + g_total * (rows.shape[1] * logsigmoid(-delta).exp())
        constant = -g_total.unsqueeze(1).to(top.dtype)
    index, label, factor = labels.unsqueeze(1), *(n.unsqueeze(1).to(top.dtype) for n in (at_label, factor / mass))
    grad = torch.empty_like(rows, memory_format=torch.contiguous_format)
    same = grad.dtype == top.dtype
    for here in _blocks(rows):
        part = torch.sub(rows[here], top[here], out=grad[here] if same else None).exp_().mul_(factor[here])
        if constant is not None:
            part.add_(constant[here])
        part.scatter_(1, index[here], label[here])
        if not same:
            grad[here] = part
        del part  # before the next is made
    return grad


def _blocks(rows: Tensor) -> list[slice]:
    """Slices of the rows, of which one at a time is worked on."""
    size = max(1, (CPU_BLOCK if rows.device.type == "cpu" else DEVICE_BLOCK) // rows.shape[1])
    return [slice(start, start + size) for start in range(0, max(len(rows), 1), size)]


def wide_dtype(place: Tensor | torch.device) -> torch.dtype:
    """The dtype of what has one number per sample, on a device or on that of a tensor."""
    device = place.device if isinstance(place, Tensor) else place
    return torch.float32 if device.type in WITHOUT_FLOAT64 else torch.float64


def wide(values: Tensor) -> Tensor:
    """Values in the wide dtype of their device."""
    return values.to(wide_dtype(values))


def widened(rows: Tensor) -> Tensor:
    """Scores in the wide dtype, where they are so few that memory is no matter.

    Every class's margin has the scores' size, and in float32 its rounding alone puts some 1e-6 on the weights.
    """
    return wide(rows) if rows.numel() <= FEW else rows
