"""Learned sample weights: a step on the weighted samples should lower the loss on a held-out meta set."""

from collections.abc import Mapping
from typing import Literal, final, get_args

import torch
from torch import Tensor, nn
from torch.nn.utils import parameters_to_vector

from pyrite.checks import one_of, whole_number
from pyrite.criterion import Loss
from pyrite.curves import CE, MAE
from pyrite.errors import PyriteError
from pyrite.methods.erm import ERM
from pyrite.methods.learner import Learner
from pyrite.methods.meta_gradient import (
    Gradient,
    Normalise,
    Virtual,
    check_optimiser,
    normalised_weights,
    theta_gradient,
)
from pyrite.methods.method import Context, MetaSet, Method
from pyrite.methods.noise_rate import check_loss
from pyrite.methods.reweighting import Again, MetaTrainer
from pyrite.methods.trainer import Pass

GuideOptimiser = Literal["sgd", "nesterov", "adam"]


@final
class MetaWeight(Method):
    """Weights by a small network of the sample's loss, learned so that the training steps help on a meta set.

    The meta set is held out from the training samples and has their *given* labels: no clean labels are needed, because
    with a symmetric meta loss uniform noise only shortens the meta gradient on average. This is RMNW-Net, the default.
    With ``meta_loss=ce`` it is MNW-Net, with ``meta="clean"`` too MW-Net.

    Args:
        meta_loss: what is measured on the meta set.
        loss: what the classifier is trained with, and what the weight network sees of a sample; cross entropy if None.
        meta: whether the meta set has its given labels (``"noisy"``) or true ones (``"clean"``): those of the data
            set's own clean part or, without one, those known from simulated noise.
        size: samples in the meta set.
        hidden: units of the weight network.
        normalise: ``"sum"`` divides weights by their sum over the batch, as the authors' code does; ``"mean"`` by the
            number of samples, as the paper's equation does.
        gradient: ``"exact"``; ``"lean"``, exact too, slower, with less memory; ``"fast"``, an approximation.
        every: the weight network is updated once in this many steps.
        virtual: the virtual step: plain ``"sgd"``, or that of the ``"optimizer"``, with momentum and decay.
        optimiser: of the weight network: ``"sgd"``; ``"nesterov"``, SGD with Nesterov momentum 0.9; or ``"adam"``.
        lr: the learning rate of the weight network.
        weight_decay: the weight decay of the weight network.

    Ghosh & Lan, 2021 ("Do we really need gold samples for sample weighting under label noise?"); Shu et al., 2019.
    """

    def __init__(
        self,
        meta_loss: Loss | None = None,
        *,
        loss: Loss | None = None,
        meta: Literal["noisy", "clean"] = "noisy",
        size: int = 1000,
        hidden: int = 100,
        normalise: Normalise = "sum",
        gradient: Gradient = "exact",
        every: int = 1,
        virtual: Virtual = "sgd",
        optimiser: GuideOptimiser = "sgd",
        lr: float = 1e-3,
        weight_decay: float = 5e-4,
    ) -> None:
        check_loss(loss)
        for name, value, known in (
            ("meta", meta, ("noisy", "clean")),
            ("normalise", normalise, get_args(Normalise)),
            ("gradient", gradient, ("exact", "lean", "fast")),
            ("virtual", virtual, get_args(Virtual)),
            ("optimiser", optimiser, get_args(GuideOptimiser)),
        ):
            one_of(name, value, known)
        for name, count in (("size", size), ("every", every)):
            whole_number(name, count, least=1)
        whole_number("hidden", hidden, least=1, most=100_000)
        if gradient == "fast" and virtual == "optimizer":
            raise PyriteError("gradient='fast' makes no virtual step: leave virtual='sgd'")
        self.meta_loss = MAE() if meta_loss is None else meta_loss
        self.loss, self.optimiser = loss, optimiser
        self.meta, self.size, self.hidden, self.normalise = meta, size, hidden, normalise
        self.gradient, self.every, self.virtual, self.lr, self.weight_decay = gradient, every, virtual, lr, weight_decay
        self.meta_set = MetaSet(size, clean=meta == "clean")
        if loss is not None:
            self.largest_weight, self.needs_clipping = ERM(loss).largest_weight, ERM(loss).needs_clipping

    def start(self, context: Context) -> "MetaWeightTrainer":
        return MetaWeightTrainer(self, context)


@final
class WeightNet(nn.Module):
    """From a column of losses to a column of weights between 0 and 1: one hidden layer, ReLU, a sigmoid at the end.

    Args:
        hidden: units of the hidden layer.

    Shu et al., 2019 ("Meta-Weight-Net").
    """

    def __init__(self, hidden: int = 100) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(1, hidden), nn.Linear(hidden, 1)

    def forward(self, losses: Tensor) -> Tensor:
        return torch.sigmoid(self.last(torch.relu(self.first(losses))))


@final
class MetaWeightTrainer(MetaTrainer):
    """Steps on weighted samples, and steps of the network that weights them."""

    saved = (*MetaTrainer.saved, "skipped", "past")

    def __init__(self, method: MetaWeight, context: Context) -> None:
        super().__init__(context, method.meta_loss, method.loss, lean=method.gradient == "lean")
        if method.virtual == "optimizer":
            check_optimiser(self.learner.optimiser)
            if self.learner.clip is not None:
                raise PyriteError(
                    "clip is set, which virtual='optimizer' does not take into account: use virtual='sgd'"
                )
        self.method = method
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(context.meta.seed)
            self.net = WeightNet(method.hidden).to(self.learner.weights[0].device, self.learner.dtype)
        self.guide = Learner(self.net, _weight_net_optimiser(method, self.net))
        # ``Run.weight_curve`` reads "weight_net" as a function of cross entropy, so other losses have another name.
        self.name = "weight_net" if isinstance(method.loss, CE | None) else "weight_net_of_other_loss"
        self.skipped = 0
        self.past: Tensor | None = None  # the weights of the weight network after every epoch

    def weigh(self, made: Pass, again: Again) -> tuple[Tensor, Tensor]:
        losses = made.losses.detach()
        if self.learner.steps % self.method.every == 0:
            self._learn(losses, self._slopes(made, again))
        trust = self._trust(losses)
        return normalised_weights(trust, self.method.normalise), trust

    def _slopes(self, made: Pass, again: Again) -> Tensor:
        """How the meta loss after the virtual step changes with each sample's weight."""
        method, fast = self.method, self.method.gradient == "fast"
        direction = self.through.direction(
            made.losses,
            normalised_weights(self._trust(made.losses.detach()), method.normalise),
            self.meta_batch(),
            self.learning_rate,
            fast=fast,
            keep=not self.lean,
            optimiser=self.learner.optimiser if method.virtual == "optimizer" else None,
        )
        with again():
            return self.slopes(direction, made, fast=fast)

    def _learn(self, losses: Tensor, slopes: Tensor) -> None:
        """A step of the weight network. If its gradient is not finite the step is skipped and counted."""
        gradients = theta_gradient(self.net, losses, slopes, self.method.normalise)
        if not all(bool(part.isfinite().all()) for part in gradients):
            self.skipped += 1
            return
        for weight, part in zip(self.net.parameters(), gradients, strict=True):
            weight.grad = part
        self.guide.optimiser.step()

    @torch.no_grad()
    def _trust(self, losses: Tensor) -> Tensor:
        """V of each sample."""
        trust: Tensor = self.net(losses.unsqueeze(1)).reshape(-1)
        return trust

    def end_epoch(self) -> None:
        now = parameters_to_vector(self.net.parameters()).detach().unsqueeze(0)
        self.past = now if self.past is None else torch.cat([self.past, now])

    def facts(self) -> Mapping[str, float]:
        return {"meta_skipped": self.skipped}

    def arrays(self) -> Mapping[str, Tensor]:
        return {} if self.past is None else {self.name: self.past}


def _weight_net_optimiser(method: MetaWeight, net: WeightNet) -> torch.optim.Optimizer:
    """The optimiser of the weight network."""
    if method.optimiser == "adam":
        return torch.optim.Adam(net.parameters(), method.lr, weight_decay=method.weight_decay)
    momentum = 0.9 if method.optimiser == "nesterov" else 0.0
    return torch.optim.SGD(
        net.parameters(), method.lr, momentum, weight_decay=method.weight_decay, nesterov=momentum > 0
    )
