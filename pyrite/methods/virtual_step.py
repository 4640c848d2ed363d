"""Where a step would lead: of plain SGD, or of the optimiser that trains."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor

__all__ = ["Virtual", "check_optimiser", "virtual_step"]

Virtual = Literal["sgd", "optimizer"]
Weights = dict[str, Tensor]
_Group = Mapping[str, Any]


def virtual_step(
    weights: Mapping[str, Tensor], gradient: Mapping[str, Tensor], lr: float, optimiser: torch.optim.Optimizer | None
) -> tuple[Weights, Callable[[Mapping[str, Tensor]], Weights]]:
    """The weights after a step down a gradient, and how a gradient *there* pulls on the one that led there.

    The latter is the transpose of the step's derivative by the gradient: for plain SGD it multiplies by −lr; momentum,
    weight decay and the scales of Adam change it. Every optimiser here treats each number by itself, so that it is a
    factor for each number.
    """
    if optimiser is None:
        moved = {name: (w - lr * gradient[name]).detach() for name, w in weights.items()}
        return moved, lambda pull: {name: -lr * g for name, g in pull.items()}
    group = optimiser.param_groups[0]
    rule = _RULES[type(optimiser)]
    with torch.enable_grad():
        leaves = {name: g.detach().requires_grad_() for name, g in gradient.items()}
        moved = {
            name: rule(w.detach(), leaves[name], lr, group, optimiser.state.get(w, {})) for name, w in weights.items()
        }

    def pull_back(pull: Mapping[str, Tensor]) -> Weights:
        names = list(moved)
        found = torch.autograd.grad([moved[n] for n in names], [leaves[n] for n in names], [pull[n] for n in names])
        return dict(zip(names, found, strict=True))

    return {name: w.detach() for name, w in moved.items()}, pull_back


def check_optimiser(optimiser: torch.optim.Optimizer) -> None:
    """Refuse what has no virtual step."""
    if type(optimiser) not in _RULES or len(optimiser.param_groups) != 1:
        known = ", ".join(kind.__name__ for kind in _RULES)
        raise ValueError(
            f"virtual='optimizer' knows {known} with one group of weights, not this {type(optimiser).__name__}; "
            "use virtual='sgd'"
        )
    if optimiser.param_groups[0].get("amsgrad") or optimiser.param_groups[0].get("maximize"):
        raise ValueError("virtual='optimizer' does not know amsgrad or maximize; use virtual='sgd'")


def _sgd(w: Tensor, g: Tensor, lr: float, group: _Group, state: _Group) -> Tensor:
    g = g + group["weight_decay"] * w
    if group["momentum"]:
        held = state.get("momentum_buffer")
        moved = g if held is None else group["momentum"] * held + (1 - group["dampening"]) * g
        g = g + group["momentum"] * moved if group["nesterov"] else moved
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
