"""Learning to reweight: each sample's weight is how much a step on it alone would help on the meta set."""

from typing import Literal, final

import torch
from torch import Tensor

from pyrite.checks import one_of, whole_number
from pyrite.criterion import Loss
from pyrite.curves import CE
from pyrite.methods.bench import Bench
from pyrite.methods.method import MetaSet, Method
from pyrite.methods.weighting import Again, Weighting
from pyrite.processes import all_reduce

__all__ = ["L2RW"]


@final
class L2RW(Method):
    """Weights max(G·g_i, 0), divided by their sum: no network, nothing that lasts from one batch to the next.

    G is the gradient of the meta loss where the model stands, because the virtual step begins with weights of 0. If no
    sample helps, none counts.

    Args:
        meta_loss: what is measured on the meta set; cross entropy, as in the paper. With noisy labels, ``mae``.
        meta: whether the meta set has its given labels (``"noisy"``) or true ones (``"clean"``). The paper's are clean;
            the default is not, because clean labels are what most people do not have.
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

    def start(self, bench: Bench) -> "_Reweighting":
        return _Reweighting(bench, self.meta_loss)


@final
class _Reweighting(Weighting):
    def weigh(self, batch: tuple[Tensor, Tensor], losses: Tensor, again: Again) -> tuple[Tensor, Tensor]:
        # The step's size falls out when weights are divided by their sum.
        direction = self.passes.direction(losses, torch.zeros_like(losses), self.meta_batch(), 1.0, fast=True)
        with again():
            helps = (-self.passes.slopes(direction, batch, losses.detach())).clamp(min=0)
        whole = all_reduce(helps.sum())
        omega = helps / torch.where(whole > 0, whole, 1.0)
        return omega, helps
