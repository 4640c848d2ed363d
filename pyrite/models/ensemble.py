"""Several nets, or several views of an image, as one module."""

from collections.abc import Sequence
from typing import final

import torch
from torch import Tensor, nn
from torch.nn.functional import batch_norm

from pyrite.errors import PyriteError
from pyrite.models.architecture import Network, embed
from pyrite.models.layers import TableInputs, mean_scores


class _Nets(nn.Module):
    def __init__(self, nets: Sequence[nn.Module]) -> None:
        super().__init__()
        self.nets = nn.ModuleList(nets)


@final
class Ensemble(_Nets):
    """A module whose scores are the logarithms of the mean probabilities of several nets."""

    def forward(self, inputs: Tensor) -> Tensor:
        return mean_scores(torch.stack([net(inputs) for net in self.nets]))

    def embed(self, inputs: Tensor) -> Tensor:
        """The embeddings of all nets, one after the other."""
        return torch.cat([embed(net, inputs) for net in self.nets], 1)


@final
class Mirrored(nn.Module):
    """A module whose scores are the logarithms of the mean probabilities of an image and its mirror image."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, inputs: Tensor) -> Tensor:
        return mean_scores(torch.stack([self.net(inputs), self.net(inputs.flip(-1))]))

    def embed(self, inputs: Tensor) -> Tensor:
        """The embeddings of the images as they are."""
        return embed(self.net, inputs)


@final
class SideBySide(_Nets):
    """Nets of any architecture, called one after the other: inputs (N, ...) to scores (nets, N, K)."""

    def forward(self, inputs: Tensor) -> Tensor:
        return torch.stack([net(inputs) for net in self.nets])

    def clip_gradients(self, length: float) -> None:
        """Clip the gradient of each net to this norm."""
        for net in self.nets:
            nn.utils.clip_grad_norm_(net.parameters(), length)


@final
class Stacked(nn.Module):
    """Nets built from ``mlp``, computed together because small nets spend most of their time on calls of operations.

    Their weights are stacked, so that one layer of all nets is one batched matrix product.
    """

    def __init__(self, nets: Sequence[nn.Module]) -> None:
        super().__init__()
        self.layers = nn.ModuleList()
        for layers in zip(*map(_layers, nets), strict=True):
            first = layers[0]
            if isinstance(first, nn.Linear):
                self.layers.append(_Linears(layers))
            elif isinstance(first, nn.BatchNorm1d):
                self.layers.append(_Norms(layers))
            elif isinstance(first, nn.Flatten | nn.ReLU | TableInputs):  # the same in all nets
                self.layers.append(first)
            else:
                raise PyriteError(f"nets with a {type(first).__name__} cannot be stacked")

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = inputs
        for layer in self.layers:
            hidden = layer(hidden)
        return hidden

    @torch.no_grad()
    def clip_gradients(self, length: float) -> None:
        """Clip the gradient of each net to this norm."""
        gradients = [weight.grad for weight in self.parameters() if weight.grad is not None]
        norms = torch.stack([gradient.flatten(1).norm(dim=1) for gradient in gradients]).norm(dim=0)
        factor = (length / (norms + 1e-6)).clamp(max=1)  # as in torch's clip_grad_norm_
        for gradient in gradients:
            gradient *= factor.view(-1, *[1] * (gradient.dim() - 1))


def _layers(net: nn.Module) -> tuple[nn.Module, ...]:
    if not isinstance(net, Network) or not isinstance(net.body, nn.Sequential):
        raise PyriteError(f"a {type(net).__name__} cannot be stacked: its body is not an nn.Sequential")
    return (*net.body, net.head)


@final
class _Linears(nn.Module):
    def __init__(self, layers: Sequence[nn.Linear]) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.stack([layer.weight.detach().T for layer in layers]))
        biases = [layer.bias.detach() for layer in layers if layer.bias is not None]
        self.bias = nn.Parameter(torch.stack(biases)) if biases else None

    def forward(self, hidden: Tensor) -> Tensor:
        # The first layer gets one batch of inputs for all nets.
        per_net = hidden.expand(len(self.weight), -1, -1) if hidden.dim() == 2 else hidden
        return per_net @ self.weight if self.bias is None else torch.baddbmm(self.bias[:, None], per_net, self.weight)


@final
class _Norms(nn.Module):
    """The batch norms of all nets as one batch norm over the channels of all nets."""

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
        rows = hidden.transpose(0, 1).reshape(count, nets * width)
        parts = (self.running_mean, self.running_var, self.weight, self.bias)
        mean, variance, weight, bias = (part.view(-1) for part in parts)
        normed = batch_norm(rows, mean, variance, weight, bias, self.training, self.momentum, self.eps)
        return normed.view(count, nets, width).transpose(0, 1)
