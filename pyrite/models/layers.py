"""Layers that several nets are made of."""

from torch import nn

__all__ = ["average_places", "conv", "he_weights"]


def conv(before: int, after: int, stride: int = 1, kernel: int = 3) -> nn.Conv2d:
    """A convolution that keeps the size but for its stride, and leaves biases to the batch norms."""
    return nn.Conv2d(before, after, kernel, stride, kernel // 2, bias=False)


def average_places() -> list[nn.Module]:
    """The mean over all places, as rows of features."""
    return [nn.AdaptiveAvgPool2d(1), nn.Flatten()]


def he_weights(module: nn.Module) -> nn.Module:
    """Convolutions with normal weights that keep the size of gradients (He et al., 2015)."""
    for layer in module.modules():
        if isinstance(layer, nn.Conv2d):
            nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
    return module
