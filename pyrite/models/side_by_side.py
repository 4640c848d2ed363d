"""Several nets of one kind as one module: inputs of shape (N, ...) to scores of shape (nets, N, K)."""

from collections.abc import Sequence
from copy import deepcopy
from typing import final

import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

__all__ = ["SideBySide", "Stacked"]


@final
class SideBySide(nn.Module):
    """Nets one after the other, of any kind."""

    def __init__(self, nets: Sequence[nn.Module]) -> None:
        super().__init__()
        self.nets = nn.ModuleList(nets)

    def forward(self, inputs: Tensor) -> Tensor:
        return torch.stack([net(inputs) for net in self.nets])

    def clip_gradients(self, length: float) -> None:
        """Shorten the gradient of each net to this norm."""
        for net in self.nets:
            nn.utils.clip_grad_norm_(net.parameters(), length)


@final
class Stacked(nn.Module):
    """The same for small nets, which spend their time on calls, not on numbers: all go through one call.

    Their weights are stacked, and ``torch.vmap`` goes over the stack; so it is for nets whose layers it knows.
    """

    def __init__(self, nets: Sequence[nn.Module]) -> None:
        super().__init__()
        weights, buffers = stack_module_state(list(nets))
        self._names = tuple(weights), tuple(buffers)
        self.weights = nn.ParameterList(weights.values())
        for place, buffer in enumerate(buffers.values()):
            self.register_buffer(f"buffer_{place}", buffer)
        # What it is taken for is the way from weights to scores, which are those above; in a tuple it is no submodule.
        self._pattern = (deepcopy(nets[0]).to("meta"),)

    def forward(self, inputs: Tensor) -> Tensor:
        pattern = self._pattern[0].train(self.training)
        weights, buffers = self._names

        def one(own: dict[str, Tensor], held: dict[str, Tensor]) -> Tensor:
            scores: Tensor = functional_call(pattern, (own, held), (inputs,))
            return scores

        stacked: Tensor = vmap(one, randomness="different")(
            dict(zip(weights, self.weights, strict=True)),
            {name: getattr(self, f"buffer_{place}") for place, name in enumerate(buffers)},
        )
        return stacked

    @torch.no_grad()
    def clip_gradients(self, length: float) -> None:
        """Shorten the gradient of each net to this norm."""
        gradients = [weight.grad for weight in self.weights if weight.grad is not None]
        norms = torch.stack([gradient.flatten(1).norm(dim=1) for gradient in gradients]).norm(dim=0)
        share = (length / (norms + 1e-6)).clamp(max=1)  # as torch does it
        for gradient in gradients:
            gradient *= share.view(-1, *[1] * (gradient.dim() - 1))
