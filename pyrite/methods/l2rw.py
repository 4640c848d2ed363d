"""Learning to reweight: each sample's weight is how much a step on it alone would help on the meta set."""

from typing import Literal, final

import torch
from torch import Tensor

from pyrite.checks import one_of, whole_number
from pyrite.criterion import Loss
from pyrite.curves import CE
from pyrite.methods.context import Context
from pyrite.methods.meta_gradient import normalised_weights
from pyrite.methods.meta_trainer import Again, MetaTrainer
from pyrite.methods.method import MetaSet, Method
from pyrite.methods.trainer import Pass

__all__ = ["L2RW"]


@final
class L2RW(Method):
    """Weights max(G·g_i, 0), divided by their sum: no network, and no state between batches.

    G is the gradient of the meta loss at the current weights of the model, because the virtual step starts from sample
    weights of 0. If no product is positive, all weights are 0.

    Args:
        meta_loss: what is measured on the meta set; cross entropy, as in the paper. With noisy labels, ``mae``.
        meta: whether the meta set has its given labels (``"noisy"``) or true ones (``"clean"``). The paper's are clean;
            the default is noisy, because clean labels are rarely available.
        size: samples in the meta set.

    Ren et al., 2018 ("Learning to reweight examples for robust deep learning").
    """

    def __init__(
        self, meta_loss: Loss | None = None, *, meta: Literal["noisy", "clean"] = "noisy", size: int = 1000
    ) -> None:
        one_of("meta", meta, ("noisy", "clean"))
        self.meta_loss = CE() if meta_loss is None else meta_loss
        self.meta, self.size = meta, whole_number("size", size, least=1)

    @property
    def meta_set(self) -> MetaSet:
        return MetaSet(self.size, clean=self.meta == "clean")

    def start(self, context: Context) -> "L2RWTrainer":
        return L2RWTrainer(context, self.meta_loss)


@final
class L2RWTrainer(MetaTrainer):
    def weigh(self, batch: tuple[Tensor, Tensor], made: Pass, again: Again) -> tuple[Tensor, Tensor]:
        # The size of the virtual step cancels when weights are divided by their sum.
        omega = torch.zeros_like(made.losses)
        direction = self.through.direction(made.losses, omega, self.meta_batch(), 1.0, fast=True)
        with again():
            products = (-self.slopes(direction, batch, made, fast=False)).clamp(min=0)
        return normalised_weights(products, "sum"), products
