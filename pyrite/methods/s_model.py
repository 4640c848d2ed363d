"""The simple noise adaptation layer."""

from typing import final

from pyrite.methods.context import Context
from pyrite.methods.method import Method
from pyrite.methods.noise_layer import noise_layer_stages
from pyrite.methods.staged import Stages, checked_share

__all__ = ["SModel"]


@final
class SModel(Method):
    """A softmax layer on top of the net, which learns how true classes become given labels. The net alone predicts.

    The net is trained with cross entropy first; the layer starts from its confusion matrix; then both are trained.

    Args:
        at: the share of the epochs before the layer is added.

    >>> str(SModel())
    's_model(at=0.2)'

    Goldberger & Ben-Reuven, 2017 ("Training deep neural networks using a noise adaptation layer").
    """

    def __init__(self, at: float = 0.2) -> None:
        self.at = checked_share(at)

    def start(self, context: Context) -> Stages:
        return noise_layer_stages(self, context, self.at, lambda matrix: matrix)
