"""Ensembles: the mean prediction of several nets, or of several views of an image."""

import math
from collections.abc import Callable, Sequence
from typing import final

import torch
from torch import Tensor, nn

from pyrite.models.network import embed

__all__ = ["Ensemble", "Mirrored", "mean_scores", "mirrored_scores"]


def mean_scores(scores: Tensor) -> Tensor:
    """The logarithm of the mean probabilities of several nets, from scores of shape (nets, N, K).

    >>> mean_scores(torch.tensor([[[0.0, 0.0]], [[0.0, 0.0]]])).exp()
    tensor([[0.5000, 0.5000]])
    """
    return torch.logsumexp(torch.log_softmax(scores, -1), 0) - math.log(len(scores))


def mirrored_scores(predict: Callable[[Tensor], Tensor], images: Tensor) -> Tensor:
    """The logarithm of the mean probabilities of images and their mirror images, as ``predict`` scores them.

    >>> mirrored_scores(lambda images: images[:, 0, 0], torch.tensor([[[[0.2, 0.8]]]]).log()).exp()
    tensor([[0.5000, 0.5000]])
    """
    return mean_scores(torch.stack([predict(images), predict(images.flip(-1))]))


@final
class Ensemble(nn.Module):
    """A module whose scores are the logarithms of the mean probabilities of several nets.

    Args:
        nets: modules that map inputs to scores of shape (N, K).
    """

    def __init__(self, nets: Sequence[nn.Module]) -> None:
        super().__init__()
        self.nets = nn.ModuleList(nets)

    def forward(self, inputs: Tensor) -> Tensor:
        return mean_scores(torch.stack([net(inputs) for net in self.nets]))

    def embed(self, inputs: Tensor) -> Tensor:
        """The embeddings of all nets, one after the other."""
        return torch.cat([embed(net, inputs) for net in self.nets], 1)


@final
class Mirrored(nn.Module):
    """A module whose scores are the logarithms of the mean probabilities of an image and its mirror image.

    Args:
        net: a module that maps images to scores of shape (N, K).
    """

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, inputs: Tensor) -> Tensor:
        return mirrored_scores(self.net, inputs)

    def embed(self, inputs: Tensor) -> Tensor:
        """The embeddings of the images as they are."""
        return embed(self.net, inputs)
