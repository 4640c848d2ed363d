"""Sample weights that are learned: by what a step on the weighted samples does to a held-out meta set."""

from collections.abc import Mapping
from typing import Any, Literal, final, get_args

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.utils import parameters_to_vector

from pyrite.criterion import Loss
from pyrite.curves import MAE
from pyrite.methods.bench import Bench
from pyrite.methods.meta_gradient import Gradient, Normalise, shares, theta_gradient
from pyrite.methods.method import MetaSet, Method
from pyrite.methods.virtual_step import Virtual, check_optimiser
from pyrite.methods.weight_net import WeightNet
from pyrite.methods.weighting import Again, Weighting

__all__ = ["MetaWeight"]


@final
class MetaWeight(Method):
    """Weights by a small network of the sample's loss, learned so that the training steps help on a meta set.

    The meta set is held out from the training samples and has their *given* labels: no clean labels are needed, because
    with a symmetric meta loss uniform noise only shortens the meta gradient on average. This is RMNW-Net, the default.
    With ``meta_loss=ce`` it is MNW-Net, with ``meta="clean"`` too MW-Net.

    Args:
        meta_loss: what is measured on the meta set.
        meta: whether the meta set has its given labels (``"noisy"``) or true ones (``"clean"``): those of the data
            set's own clean part or, where none is, of a simulation that knows them.
        size: samples in the meta set.
        hidden: units of the weight network.
        normalise: ``"mean"`` divides weights by the number of samples in the batch, ``"sum"`` by their sum.
        gradient: ``"exact"``; ``"lean"``, exact too, slower, with less memory; ``"fast"``, an approximation.
        every: learn the weights in every so many steps.
        virtual: the step that is looked ahead: ``"sgd"``, or that of the ``"optimizer"``, with momentum and decay.
        lr: the learning rate of the weight network, and
        weight_decay: its weight decay.

    Ghosh & Lan, 2021 ("Do we really need gold samples for sample weighting under label noise?"); Shu et al., 2019.
    """

    def __init__(
        self,
        meta_loss: Loss | None = None,
        *,
        meta: Literal["noisy", "clean"] = "noisy",
        size: int = 1000,
        hidden: int = 100,
        normalise: Normalise = "mean",
        gradient: Gradient = "exact",
        every: int = 1,
        virtual: Virtual = "sgd",
        lr: float = 1e-3,
        weight_decay: float = 5e-4,
    ) -> None:
        for name, value, known in (
            ("meta", meta, ("noisy", "clean")),
            ("normalise", normalise, get_args(Normalise)),
            ("gradient", gradient, ("exact", "lean", "fast")),
            ("virtual", virtual, get_args(Virtual)),
        ):
            if value not in known:
                raise ValueError(f"{name} is {value!r}, but must be one of {', '.join(known)}")
        for name, count in (("size", size), ("hidden", hidden), ("every", every)):
            if not isinstance(count, int) or isinstance(count, bool) or count < 1:
                raise ValueError(f"{name} is {count!r}, but must be a whole number, 1 or more")
        if gradient == "fast" and virtual == "optimizer":
            raise ValueError("gradient='fast' makes no virtual step: leave virtual='sgd'")
        self.meta_loss = MAE() if meta_loss is None else meta_loss
        self.meta, self.size, self.hidden, self.normalise = meta, size, hidden, normalise
        self.gradient, self.every, self.virtual, self.lr, self.weight_decay = gradient, every, virtual, lr, weight_decay

    @property
    def meta_set(self) -> MetaSet:
        return MetaSet(self.size, clean=self.meta == "clean")

    def start(self, bench: Bench) -> "_MetaWeighting":
        return _MetaWeighting(self, bench)


@final
class _MetaWeighting(Weighting):
    """Steps on weighted samples, and steps of the network that weights them."""

    def __init__(self, method: MetaWeight, bench: Bench) -> None:
        super().__init__(bench, method.meta_loss, lean=method.gradient == "lean")
        if method.virtual == "optimizer":
            check_optimiser(self.learner.optimiser)
            if self.learner.clip is not None:
                raise ValueError("clip is set, which virtual='optimizer' does not look ahead at: use virtual='sgd'")
        self.method = method
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.meta.seed)
            self.net = WeightNet(method.hidden).to(self.learner.weights[0].device, self.learner.dtype)
        self.optimiser = torch.optim.SGD(self.net.parameters(), method.lr, weight_decay=method.weight_decay)
        self.skipped = 0
        self.past: list[Tensor] = []

    def weigh(self, batch: tuple[Tensor, Tensor], losses: Tensor, again: Again) -> tuple[Tensor, Tensor]:
        known = losses.detach()
        if self.learner.steps % self.method.every == 0:
            self._learn(known, self._slopes(batch, losses, again))
        trust = self._trust(known)
        return shares(trust, self.method.normalise), trust

    def _slopes(self, batch: tuple[Tensor, Tensor], losses: Tensor, again: Again) -> Tensor:
        """How the meta loss after the virtual step changes with each sample's share."""
        method, fast = self.method, self.method.gradient == "fast"
        direction = self.passes.direction(
            losses,
            shares(self._trust(losses.detach()), method.normalise),
            self.meta_batch(),
            self.learner.rate,
            fast=fast,
            keep=not self.lean,
            optimiser=self.learner.optimiser if method.virtual == "optimizer" else None,
        )
        with again():
            return self.passes.slopes(direction, batch, losses.detach(), fast=fast)

    def _learn(self, losses: Tensor, slopes: Tensor) -> None:
        """A step of the weight network; none if its gradient is not finite, which is counted."""
        gradients = theta_gradient(self.net, losses, slopes, self.method.normalise)
        if not all(bool(part.isfinite().all()) for part in gradients):
            self.skipped += 1
            return
        for weight, part in zip(self.net.parameters(), gradients, strict=True):
            weight.grad = part
        self.optimiser.step()

    @torch.no_grad()
    def _trust(self, losses: Tensor) -> Tensor:
        """V of each sample."""
        found: Tensor = self.net(losses.unsqueeze(1)).reshape(-1)
        return found

    def end_epoch(self) -> None:
        self.past.append(parameters_to_vector(self.net.parameters()).detach().cpu())

    def facts(self) -> Mapping[str, float]:
        return {"meta_skipped": self.skipped}

    def arrays(self) -> Mapping[str, npt.NDArray[np.floating[Any]]]:
        return {"weight_net": torch.stack(self.past).numpy()} if self.past else {}

    def state_dict(self) -> dict[str, Any]:
        own = {"net": self.net.state_dict(), "skipped": self.skipped}
        return {**super().state_dict(), **own, **self.arrays()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict(state)
        self.net.load_state_dict(state["net"])
        self.skipped = state["skipped"]
        self.past = list(torch.from_numpy(state["weight_net"])) if "weight_net" in state else []
