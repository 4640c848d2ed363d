"""A run's model together with everything that comes before it, as one module."""

from typing import Final, NamedTuple, final

import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate

from pyrite.data.statistics import LIMIT
from pyrite.features.embedding import EfficientnetLite0
from pyrite.models import EfficientnetLite0 as Lite0, fold_batch_norms
from pyrite.models.efficientnet import Resized
from pyrite.training import Run

_BYTES: Final = 255.0


class Whole(NamedTuple):
    """A module that computes scores, and what it is given."""

    module: nn.Module
    example: Tensor  # two samples, of the type and shape that it takes
    inputs: str  # what these are, for people
    left_out: str  # features that must be computed before; empty if the module does everything


def whole(run: Run) -> Whole:
    """The model of a run with its normalisation and, for embeddings of a net of pyrite's own, that net."""
    mean, std = (torch.tensor(run.facts[name], dtype=torch.float64) for name in ("mean", "std"))
    shape, features = tuple(run.facts["inputs"]["shape"]), run.config.features
    net = _ready(run.model, shape)
    if isinstance(features, EfficientnetLite0):
        module: nn.Module = nn.Sequential(_embedding(features, shape), _OfNumbers(net, mean, std))
    elif features is None and run.facts["inputs"]["kind"] == "images":
        module = _OfImages(net, mean, std)
    else:
        what, left_out = f"numbers: float64, (N, {len(mean)})", "" if features is None else str(features)
        return Whole(_OfNumbers(net, mean, std), torch.zeros(2, len(mean), dtype=torch.float64), what, left_out)
    images = f"images as the training data had them: uint8 from 0 to 255, (N, {', '.join(map(str, shape))})"
    return Whole(module, torch.zeros(2, *shape, dtype=torch.uint8), images, "")


@final
class _OfImages(nn.Module):
    """Images of bytes, normalised."""

    def __init__(self, net: nn.Module, mean: Tensor, std: Tensor) -> None:
        super().__init__()
        self.net = net
        dtype = next(net.parameters()).dtype
        # The same numbers as in ``pyrite.data.Batches``, which multiplies and adds in float32.
        self.scale: Tensor
        self.shift: Tensor
        self.register_buffer("scale", (1 / (std * _BYTES)).float().view(-1, 1, 1).to(dtype))
        self.register_buffer("shift", (-mean / std).float().view(-1, 1, 1).to(dtype))

    def forward(self, inputs: Tensor) -> Tensor:
        scores: Tensor = self.net(inputs.to(self.scale.dtype) * self.scale + self.shift)
        return scores


@final
class _OfNumbers(nn.Module):
    """Rows of numbers, standardised in float64."""

    def __init__(self, net: nn.Module, mean: Tensor, std: Tensor) -> None:
        super().__init__()
        self.net, self.dtype = net, next(net.parameters()).dtype
        self.mean: Tensor
        self.std: Tensor
        self.register_buffer("mean", mean)
        self.register_buffer("std", std)

    def forward(self, inputs: Tensor) -> Tensor:
        standard = ((inputs.double() - self.mean) / self.std).clamp(-LIMIT, LIMIT).float()
        scores: Tensor = self.net(standard.to(self.dtype))
        return scores


@final
class _Scaled(nn.Module):
    """Images of one size scaled to another by two products of matrices, which every runtime computes alike."""

    def __init__(self, shape: tuple[int, ...], size: int) -> None:
        super().__init__()
        self.rows: Tensor
        self.columns: Tensor
        for name, side in (("rows", shape[1]), ("columns", shape[2])):
            # What the interpolation makes of unit vectors is its matrix: it works on both axes apart.
            units = torch.eye(side).view(1, 1, side, side)
            self.register_buffer(name, interpolate(units, (size, side), mode="bicubic", antialias=True)[0, 0])

    def forward(self, images: Tensor) -> Tensor:
        return self.rows @ images @ self.columns.T


def _embedding(described: EfficientnetLite0, shape: tuple[int, ...]) -> nn.Module:
    """The net of an encoder, from bytes to embeddings."""
    net = Lite0(size=described.size, pretrained=True)
    mean, std = (torch.full((shape[0],), value, dtype=torch.float64) for value in net.normalisation or ())
    return _OfImages(_ready(net.build(shape, classes=2, seed=0).body, shape), mean, std)


def _ready(net: nn.Module, shape: tuple[int, ...]) -> nn.Module:
    """A copy for images of one shape, in which every runtime computes the same."""
    copy = fold_batch_norms(net).cpu()
    for layers in copy.modules():
        for name, layer in layers.named_children():
            if isinstance(layer, Resized):
                setattr(layers, name, _Scaled(shape, layer.size))
    return copy
