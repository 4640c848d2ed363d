"""Layers that several architectures have in common, first layers fitted to the inputs, and mean predictions."""

import math
from copy import deepcopy
from itertools import pairwise
from typing import Final, final

import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d
from torch.nn.utils.fusion import fuse_conv_bn_eval

from pyrite.errors import PyriteError

# Added to each variance, as a fraction of the mean variance, so that directions of almost no variance (the black border
# of digits) are not amplified. 5e-4 is the value of the speed-runs (Jordan, 2024), for inputs of variance 1.
_FLOOR: Final = 5e-4

# More images change the covariance of patches by less than a thousandth.
_ENOUGH: Final = 2048


def conv(before: int, after: int, stride: int = 1, kernel: int = 3) -> nn.Conv2d:
    """A padded convolution without bias: a batch norm follows it, and only its stride changes the size."""
    return nn.Conv2d(before, after, kernel, stride, kernel // 2, bias=False)


def average_places() -> list[nn.Module]:
    """Global average pooling, to one row of features per sample."""
    return [nn.AdaptiveAvgPool2d(1), nn.Flatten()]


def he_weights(module: nn.Module) -> nn.Module:
    """Initialise convolutions with normal weights that keep the variance of gradients (He et al., 2015)."""
    for layer in module.modules():
        if isinstance(layer, nn.Conv2d):
            nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
    return module


def fold_batch_norms(net: nn.Module) -> nn.Module:
    """A copy in evaluation mode in which each batch norm after a convolution in an ``nn.Sequential`` is part of it."""
    folded = deepcopy(net).eval()
    for layers in folded.modules():
        if isinstance(layers, nn.Sequential):
            for place, (first, second) in enumerate(pairwise(list(layers))):
                if isinstance(first, nn.Conv2d) and isinstance(second, nn.BatchNorm2d):
                    layers[place], layers[place + 1] = fuse_conv_bn_eval(first, second), nn.Identity()
    return folded


@final
class Whitening(nn.Module):
    """Patches in the coordinates of their principal components, each of variance 1, and the same negated.

    The filters are a buffer, so that neither an optimiser nor weight decay changes them; only the bias is trained.
    Before ``fit`` they are those of a general image: the correlation of pixels falls exponentially with their distance,
    to 0.95 at one pixel, and is 0.9 between channels.

    Page, 2018 ("How to train your ResNet"); Jordan, 2024.
    """

    filters: Tensor

    def __init__(self, channels: int, patch: int = 2) -> None:
        super().__init__()
        self.channels, self.patch = channels, patch
        self.out_channels = 2 * channels * patch**2
        side = torch.arange(patch, dtype=torch.float64)
        places = torch.cartesian_prod(side, side)
        colour = torch.full((channels, channels), 0.9, dtype=torch.float64).fill_diagonal_(1)
        # The diagonal makes all eigenvalues distinct; for equal ones the choice of eigenvectors would be arbitrary.
        distinct = torch.linspace(0, 0.01, channels * patch**2, dtype=torch.float64).diag()
        covariance = torch.kron(colour, 0.95 ** torch.cdist(places, places)) + distinct
        self.register_buffer("filters", self._filters(covariance).float())
        self.bias = nn.Parameter(torch.zeros(self.out_channels))

    def forward(self, inputs: Tensor) -> Tensor:
        return conv2d(inputs, self.filters, self.bias)

    @torch.no_grad()
    def fit(self, images: Tensor, seed: int) -> None:
        """Compute the filters from the patches of these images, at most 2,048 chosen by the seed."""
        fits = images.ndim == 4 and images.shape[1] == self.channels and min(images.shape[2:]) >= self.patch
        if not fits or not len(images):
            raise PyriteError(
                f"inputs have the shape {tuple(images.shape)}, but whitening takes one or more images of "
                f"{self.channels} channels"
            )
        chosen = torch.randperm(len(images), generator=torch.Generator().manual_seed(int(seed)))[:_ENOUGH]
        sample = images.detach()[chosen.to(images.device)].cpu().double()
        windows = sample.unfold(2, self.patch, 1).unfold(3, self.patch, 1)
        patches = windows.permute(0, 2, 3, 1, 4, 5).reshape(-1, self.out_channels // 2)
        patches = patches - patches.mean(0)
        covariance = patches.T @ patches / len(patches)
        if not torch.isfinite(covariance).all():
            raise PyriteError("inputs hold NaN or infinity, so they cannot be whitened")
        if not covariance.trace() > 0:
            raise PyriteError("inputs are all one colour, so they cannot be whitened")
        self.filters.copy_(self._filters(covariance))

    def _filters(self, covariance: Tensor) -> Tensor:
        variances, directions = torch.linalg.eigh(covariance)
        # eigh returns each direction with an arbitrary sign, which must not depend on the machine. The sign is fixed by
        # the product with square roots, to which no direction is orthogonal in practice.
        slope = torch.arange(1, len(directions) + 1, dtype=directions.dtype).sqrt()
        directions = directions * (slope @ directions).sign()
        scaled = directions / (variances.clamp(min=0) + _FLOOR * variances.mean()).sqrt()
        filters = scaled.T.flip(0).reshape(-1, self.channels, self.patch, self.patch)
        return torch.cat([filters, -filters])


@final
class TableInputs(nn.Module):
    """Features squashed to (-limit, limit), followed by a piecewise linear encoding of each feature by its bins.

    The value of a bin rises from -1 to 1 inside the bin and is constant outside, so that a linear layer on the bins can
    represent any piecewise linear function of the feature. The edges are quantiles of the inputs given to ``fit``, and
    before that quantiles of a normal distribution. Where quantiles coincide, as for whole numbers, a bin is a step.

    Gorishniy, Rubachev & Babenko, 2022 ("On embeddings for numerical features in tabular deep learning").
    """

    edges: Tensor

    def __init__(self, features: int, limit: float | None, bins: int) -> None:
        super().__init__()
        self.limit, self.bins = limit, bins
        places = torch.linspace(0, 1, bins + 1) if bins else torch.zeros(0)
        normal = torch.special.ndtri(places.clamp(0.01, 0.99))
        self.register_buffer("edges", normal.expand(features, -1).clone())

    def forward(self, inputs: Tensor) -> Tensor:
        squashed = inputs
        if self.limit is not None:
            ratio = (inputs / self.limit).clamp(-1e9, 1e9)  # so that the square fits float32
            squashed = self.limit * ratio / torch.sqrt(1 + ratio**2)
        if not self.bins:
            return squashed
        low, high = self.edges[:, :-1], self.edges[:, 1:]
        place = (inputs[:, :, None] - low) / (high - low).clamp(min=1e-6)
        return torch.cat([squashed, (2 * place.clamp(0, 1) - 1).flatten(1)], 1)

    @torch.no_grad()
    def fit(self, inputs: Tensor, seed: int) -> None:
        """Set the edges to quantiles of these inputs."""
        if self.bins:
            places = torch.linspace(0, 1, self.bins + 1, dtype=torch.float64)
            self.edges.copy_(inputs.detach().cpu().flatten(1).double().quantile(places, dim=0).T)


def mean_scores(scores: Tensor) -> Tensor:
    """The logarithm of the mean probabilities of several nets, from scores of shape (nets, N, K)."""
    return torch.logsumexp(torch.log_softmax(scores, -1), 0) - math.log(len(scores))
