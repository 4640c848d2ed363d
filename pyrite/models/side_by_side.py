"""Several nets of one kind as one module: inputs of shape (N, ...) to scores of shape (nets, N, K)."""

from collections.abc import Sequence
from typing import final

import torch
from torch import Tensor, nn
from torch.nn.functional import batch_norm

from pyrite.models.bins import TableInputs
from pyrite.models.network import Network

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
    """The same for nets that ``mlp`` describes, which are small and spend their time on calls, not on numbers.

    Their weights are stacked, so that a layer of all nets is one product of matrices.
    """

    def __init__(self, nets: Sequence[nn.Module]) -> None:
        super().__init__()
        self.layers = nn.ModuleList()
        for alike in zip(*map(_layers, nets), strict=True):
            first = alike[0]
            if isinstance(first, nn.Linear):
                self.layers.append(_Linears(alike))
            elif isinstance(first, nn.BatchNorm1d):
                self.layers.append(_Norms(alike))
            elif isinstance(first, nn.Flatten | nn.ReLU | TableInputs):  # of which all have the same
                self.layers.append(first)
            else:
                raise ValueError(f"nets with a {type(first).__name__} cannot be stacked")

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = inputs
        for layer in self.layers:
            hidden = layer(hidden)
        return hidden

    @torch.no_grad()
    def clip_gradients(self, length: float) -> None:
        """Shorten the gradient of each net to this norm."""
        gradients = [weight.grad for weight in self.parameters() if weight.grad is not None]
        norms = torch.stack([gradient.flatten(1).norm(dim=1) for gradient in gradients]).norm(dim=0)
        share = (length / (norms + 1e-6)).clamp(max=1)  # as torch does it
        for gradient in gradients:
            gradient *= share.view(-1, *[1] * (gradient.dim() - 1))


def _layers(net: nn.Module) -> tuple[nn.Module, ...]:
    if not isinstance(net, Network) or not isinstance(net.body, nn.Sequential):
        raise ValueError(f"a {type(net).__name__} cannot be stacked: it is not made of layers one after the other")
    return (*net.body, net.head)


@final
class _Linears(nn.Module):
    def __init__(self, layers: Sequence[nn.Linear]) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.stack([layer.weight.detach().T for layer in layers]))
        biases = [layer.bias.detach() for layer in layers if layer.bias is not None]
        self.bias = nn.Parameter(torch.stack(biases)) if biases else None

    def forward(self, hidden: Tensor) -> Tensor:
        each = hidden.expand(len(self.weight), -1, -1) if hidden.dim() == 2 else hidden  # the first sees inputs of all
        return each @ self.weight if self.bias is None else torch.baddbmm(self.bias[:, None], each, self.weight)


@final
class _Norms(nn.Module):
    """The channels of all nets side by side are channels of one batch norm."""

    running_mean: Tensor
    running_var: Tensor

    def __init__(self, layers: Sequence[nn.BatchNorm1d]) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.stack([layer.weight.detach() for layer in layers]))
        self.bias = nn.Parameter(torch.stack([layer.bias.detach() for layer in layers]))
        for name in ("running_mean", "running_var"):
            self.register_buffer(name, torch.stack([getattr(layer, name) for layer in layers]))
        self.momentum, self.eps = layers[0].momentum or 0.0, layers[0].eps

    def forward(self, hidden: Tensor) -> Tensor:
        nets, count, width = hidden.shape
        normed = batch_norm(
            hidden.transpose(0, 1).reshape(count, nets * width),
            self.running_mean.view(-1),
            self.running_var.view(-1),
            self.weight.view(-1),
            self.bias.view(-1),
            self.training,
            self.momentum,
            self.eps,
        )
        return normed.view(count, nets, width).transpose(0, 1)
