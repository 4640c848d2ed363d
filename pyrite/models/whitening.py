"""A first layer with computed, not trained, filters: it makes the pixels of a patch uncorrelated."""

from typing import Final, final

import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d

from pyrite.errors import PyriteError

__all__ = ["Whitening"]

# Added to each variance, as a share of the mean variance, so that directions of almost no variance (the black border of
# digits) are not amplified. 5e-4 is the value of the speed-runs (Jordan, 2024), for inputs of variance 1.
_FLOOR: Final = 5e-4

# More images change the covariance of patches by less than a thousandth.
_ENOUGH: Final = 2048


@final
class Whitening(nn.Module):
    """Patches in the coordinates of their principal components, each of variance 1, and the same negated.

    The filters are a buffer, so that neither an optimiser nor weight decay changes them; only the bias is trained.
    Before ``fit`` they are those of a general image: the correlation of pixels falls exponentially with their distance
    and is 0.9 between channels.

    Page, 2018 ("How to train your ResNet"); Jordan, 2024.
    """

    filters: Tensor

    def __init__(self, channels: int, patch: int = 2) -> None:
        super().__init__()
        self.channels, self.patch = channels, patch
        self.out_channels = 2 * channels * patch**2
        self.register_buffer("filters", self._filters(_general_covariance(channels, patch)).float())
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


def _general_covariance(channels: int, patch: int) -> Tensor:
    """Correlations similar to those of photographs: 0.95 at a distance of one pixel, 0.9 between channels."""
    side = torch.arange(patch, dtype=torch.float64)
    places = torch.cartesian_prod(side, side)
    space = 0.95 ** torch.cdist(places, places)
    colour = torch.full((channels, channels), 0.9, dtype=torch.float64).fill_diagonal_(1)
    # The diagonal makes all eigenvalues distinct; for equal ones the choice of eigenvectors would be arbitrary.
    return torch.kron(colour, space) + torch.linspace(0, 0.01, channels * patch**2, dtype=torch.float64).diag()
