"""The meta-gradient as public code computes it: a graph of the gradient through the virtual step."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

import pyrite


def double_backward(
    model: nn.Module, weight_net: nn.Module, batch: Any, meta: Any, *, lr: float, normalise: str = "sum"
) -> tuple[tuple[Tensor, ...], Tensor]:
    """The derivatives of the meta loss, absolute error, by the weights of the weight network; and the products G·g_i.

    The random state is that of the first pass again at the end, and buffers are not changed.
    """
    state = torch.get_rng_state()
    weights = dict(model.named_parameters())

    def scores(inputs: Tensor, now: dict[str, Tensor]) -> Tensor:
        found: Tensor = functional_call(model, now | {n: b.clone() for n, b in model.named_buffers()}, (inputs,))
        return found

    losses = nn.CrossEntropyLoss(reduction="none")(scores(batch[0], weights), batch[1])
    trust = weight_net(losses.detach().unsqueeze(1)).squeeze(1)
    omega = trust / (len(trust) if normalise == "mean" else trust.sum())
    step = torch.autograd.grad(losses @ omega, list(weights.values()), create_graph=True)
    moved = {name: w - lr * g for (name, w), g in zip(weights.items(), step, strict=True)}
    value = pyrite.MAE()(scores(meta[0], moved), meta[1])
    by_omega, *gradients = torch.autograd.grad(value, [omega, *weight_net.parameters()])
    torch.set_rng_state(state)
    return tuple(gradients), -by_omega.detach() / lr
