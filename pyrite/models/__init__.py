"""Nets: architectures that are described by a spec, and the ordinary ``nn.Module`` that each of them builds."""

from collections.abc import Callable, Sequence
from typing import Final

from torch import Tensor, nn

from pyrite.checks import whole_number
from pyrite.errors import PyriteError
from pyrite.models.architecture import Architecture, Network, check_shape, embed, reinitialised, seeded
from pyrite.models.efficientnet import EfficientnetLite, EfficientnetLite0, EfficientnetLite2
from pyrite.models.ensemble import Ensemble, Mirrored, SideBySide, Stacked
from pyrite.models.layers import Whitening, fold_batch_norms, mean_scores
from pyrite.models.plain import CNN4, CNN8, MLP, BNInception, FastCNN, Linear
from pyrite.models.resnet import WRN, Resnet20, Resnet32, Resnet34, Resnet44, Resnet50, Resnet56, Resnet110
from pyrite.spec import Registry, named

__all__ = [
    "CNN4", "CNN8", "MLP", "MODELS", "TINY", "WRN", "Architecture", "BNInception", "EfficientnetLite",
    "EfficientnetLite0", "EfficientnetLite2", "Ensemble", "Factory", "FastCNN", "Linear", "Mirrored", "Network",
    "Resnet20", "Resnet32", "Resnet34", "Resnet44", "Resnet50", "Resnet56", "Resnet110", "SideBySide", "Stacked",
    "Whitening", "architecture", "build_model", "default_architecture", "embed", "fold_batch_norms",
    "mean_scores", "reinitialised", "seeded",
]  # fmt: skip

TINY: Final = 16
"""Images with a side of fewer pixels are too small to be shifted in training, by a sixteenth of the side."""

Factory = Callable[[tuple[int, ...], int], nn.Module]
"""A function that makes a net from the shape of an input and the number of classes."""

MODELS: Registry[Architecture] = Registry(
    "model",
    named(
        FastCNN, MLP, Linear, CNN4, CNN8, Resnet20, Resnet32, Resnet44, Resnet56, Resnet110, Resnet34, Resnet50, WRN,
        BNInception, EfficientnetLite0, EfficientnetLite2,
    ),
    Architecture,
    "resnet20",
)  # fmt: skip


def architecture(spec: str | Architecture) -> Architecture:
    """The architecture described by ``spec``; an architecture is returned unchanged."""
    return MODELS.read(spec)


def default_architecture(shape: Sequence[int]) -> Architecture:
    """The default architecture: ``fast_cnn`` for images, ``cnn4`` for tiny images, ``mlp`` for features.

    Images with a side below ``TINY`` are not augmented by default; ``fast_cnn`` then memorises wrong labels, and
    ``cnn4``, a fifth of its size, fewer of them.
    """
    size = check_shape(shape)
    if len(size) != 3 or min(size[1:]) < (CNN4.smallest or 1):
        return MLP()
    return FastCNN() if min(size[1:]) >= TINY else CNN4()


def build_model(
    model: str | Architecture | nn.Module | Factory | None,
    shape: Sequence[int],
    classes: int,
    seed: int,
    inputs: Tensor | Callable[[], Tensor] | None = None,
) -> nn.Module:
    """Build a net from a spec string, an architecture or a function.

    Args:
        model: a spec string; an architecture; a function of the shape and the number of classes; an ``nn.Module``,
            which is returned unchanged; or None for the default net.
        shape: the shape of one input: (channels, height, width) or (features,).
        classes: the number of classes.
        seed: the seed of the initial weights. Global random state is not changed.
        inputs: some training inputs in the format that the net receives; see ``Architecture.build``.

    Returns:
        The net, on the CPU.

    >>> import torch
    >>> net = build_model("mlp(hidden=[8])", (2,), classes=3, seed=0)
    >>> net(torch.zeros(4, 2)).shape, net.embed(torch.zeros(4, 2)).shape
    (torch.Size([4, 3]), torch.Size([4, 8]))
    """
    if model is None:
        model = default_architecture(shape)
    if isinstance(model, nn.Module):
        return model
    if isinstance(model, str | Architecture):
        return MODELS.read(model).build(shape, classes, seed, inputs)
    if not callable(model):
        raise PyriteError(f"model is {model!r}, but must be a text such as 'resnet20', an nn.Module or a factory")
    size = check_shape(shape)
    whole_number("classes", classes, 2)
    with seeded(seed):
        net: object = model(size, int(classes))
    if not isinstance(net, nn.Module):
        raise PyriteError(f"model is a factory that returned a {type(net).__name__}, but must return an nn.Module")
    return net
