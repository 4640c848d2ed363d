"""Batch norms folded into the convolutions before them, for nets that are evaluated and not trained."""

from copy import deepcopy
from itertools import pairwise

from torch import nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

__all__ = ["fold_batch_norms"]


def fold_batch_norms(net: nn.Module) -> nn.Module:
    """A copy in evaluation mode in which a batch norm that follows a convolution in an ``nn.Sequential`` is part of it.

    The outputs are the same up to rounding.

    >>> import torch
    >>> net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2)).eval()
    >>> folded, image = fold_batch_norms(net), torch.ones(1, 1, 3, 3)
    >>> torch.allclose(net(image), folded(image), atol=1e-6), type(folded[1]).__name__
    (True, 'Identity')
    """
    folded = deepcopy(net).eval()
    for layers in folded.modules():
        if isinstance(layers, nn.Sequential):
            for place, (first, second) in enumerate(pairwise(list(layers))):
                if isinstance(first, nn.Conv2d) and isinstance(second, nn.BatchNorm2d):
                    layers[place], layers[place + 1] = fuse_conv_bn_eval(first, second), nn.Identity()
    return folded
