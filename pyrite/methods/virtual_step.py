"""The virtual step of a meta-gradient: plain SGD, or the optimiser that trains."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor

from pyrite.errors import PyriteError

__all__ = ["Virtual", "check_optimiser", "virtual_step"]

Virtual = Literal["sgd", "optimizer"]
Weights = dict[str, Tensor]
_Group = Mapping[str, Any]


def virtual_step(
    weights: Mapping[str, Tensor], gradient: Mapping[str, Tensor], lr: float, optimiser: torch.optim.Optimizer | None
) -> tuple[Weights, Callable[[Mapping[str, Tensor]], Weights]]:
    """The weights after a step with a gradient, and the backward function of that step.

    The backward function takes a gradient by the new weights to one by ``gradient``. For plain SGD it multiplies by
    −lr; momentum, weight decay and the scales of Adam change the factor. Every optimiser here is elementwise, so there
    is one factor per weight.
    """
    if optimiser is None:
        moved = {name: (w - lr * gradient[name]).detach() for name, w in weights.items()}
        return moved, lambda by_moved: {name: -lr * g for name, g in by_moved.items()}
    group = optimiser.param_groups[0]
    rule = _RULES[type(optimiser)]
    with torch.enable_grad():
        leaves = {name: g.detach().requires_grad_() for name, g in gradient.items()}
        moved = {
            name: rule(w.detach(), leaves[name], lr, group, optimiser.state.get(w, {})) for name, w in weights.items()
        }

    def pull_back(by_moved: Mapping[str, Tensor]) -> Weights:
        names = list(moved)
        outputs, inputs, cotangents = ([tensors[n] for n in names] for tensors in (moved, leaves, by_moved))
        return dict(zip(names, torch.autograd.grad(outputs, inputs, cotangents), strict=True))

    return {name: w.detach() for name, w in moved.items()}, pull_back


def check_optimiser(optimiser: torch.optim.Optimizer) -> None:
    """Raise ``ValueError`` for an optimiser without a virtual step."""
    if type(optimiser) not in _RULES or len(optimiser.param_groups) != 1:
        known = ", ".join(kind.__name__ for kind in _RULES)
        raise PyriteError(
            f"virtual='optimizer' knows {known} with one group of weights, not this {type(optimiser).__name__}; "
            "use virtual='sgd'"
        )
    if optimiser.param_groups[0].get("amsgrad") or optimiser.param_groups[0].get("maximize"):
        raise PyriteError("virtual='optimizer' does not know amsgrad or maximize; use virtual='sgd'")


def _sgd(w: Tensor, g: Tensor, lr: float, group: _Group, state: _Group) -> Tensor:
    g = g + group["weight_decay"] * w
    if group["momentum"]:
        buffer = state.get("momentum_buffer")
        velocity = g if buffer is None else group["momentum"] * buffer + (1 - group["dampening"]) * g
        g = g + group["momentum"] * velocity if group["nesterov"] else velocity
    return w - lr * g


def _adam(w: Tensor, g: Tensor, lr: float, group: _Group, state: _Group, *, decoupled: bool) -> Tensor:
    w, g = (w * (1 - lr * group["weight_decay"]), g) if decoupled else (w, g + group["weight_decay"] * w)
    first, second = group["betas"]
    steps = float(state["step"]) + 1 if state else 1.0
    mean = first * state.get("exp_avg", 0.0) + (1 - first) * g
    square = second * state.get("exp_avg_sq", 0.0) + (1 - second) * g * g
    # Where no gradient ever came, the root of 0 would have no derivative.
    scale = (square / (1 - second**steps) + torch.finfo(g.dtype).tiny).sqrt() + group["eps"]
    moved: Tensor = w - lr * (mean / (1 - first**steps)) / scale
    return moved


_RULES: dict[type, Callable[..., Tensor]] = {
    torch.optim.SGD: _sgd,
    torch.optim.Adam: partial(_adam, decoupled=False),
    torch.optim.AdamW: partial(_adam, decoupled=True),
}
