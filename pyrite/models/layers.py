"""Layers that several architectures share."""

from torch import nn

__all__ = ["average_places", "conv", "he_weights"]


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
