"""Sample weights that are learned: by what a step on the weighted samples does to a held-out meta set."""

import warnings
from collections.abc import Mapping
from typing import Any, Literal, final, get_args

import torch
from torch import Tensor

from pyrite.criterion import Loss
from pyrite.curves import CE, MAE
from pyrite.data import Batch, Batches
from pyrite.methods.learner import Learner, Step
from pyrite.methods.learning import Meta, Method
from pyrite.methods.meta_gradient import Gradient, Normalise, Passes, per_sample, same_draws, shares, theta_gradient
from pyrite.methods.virtual_step import Virtual, check_optimiser
from pyrite.methods.weight_net import WeightNet
from pyrite.processes import total
from pyrite.soft_margin import margin

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
        *,
        meta_loss: Loss | None = None,
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
    def wants(self) -> Meta:
        return Meta(self.size, clean=self.meta == "clean")

    def start(self, learner: Learner, meta: Batches | None = None) -> "_MetaWeighting":
        if meta is None:
            raise ValueError("meta_weight needs a meta set: pass batches of it as meta")
        if learner.accumulate > 1:
            raise ValueError(
                f"accumulate is {learner.accumulate}, but meta_weight needs the whole batch at once: leave it 1"
            )
        if learner.precision == "bfloat16":
            raise ValueError("precision is bfloat16, but meta_weight needs float32 or float64")
        if self.virtual == "optimizer":
            check_optimiser(learner.optimiser)
            if learner.clip is not None:
                raise ValueError("clip is set, which virtual='optimizer' does not look ahead at: use virtual='sgd'")
        return _MetaWeighting(self, learner, meta)


@final
class _MetaWeighting:
    """Steps on weighted samples, and steps of the weights."""

    def __init__(self, how: MetaWeight, learner: Learner, meta: Batches) -> None:
        self.how, self.learner, self.meta = how, learner, meta
        _look_at(meta)
        device, dtype = learner.weights[0].device, learner.dtype
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(meta.seed)
            self.net = WeightNet(how.hidden).to(device, dtype)
        self.optimiser = torch.optim.SGD(self.net.parameters(), how.lr, weight_decay=how.weight_decay)
        self.passes = Passes(learner.model, per_sample(CE()), per_sample(how.meta_loss))
        self.skipped = 0
        self._coming = iter(meta)

    def step(self, batch: Batch) -> Step:
        """A step of the weights, if it is their turn, and a step of the model with them."""
        learner, how = self.learner, self.how
        inputs, labels = learner.ready(batch.inputs), batch.labels
        whole = total(torch.tensor(len(labels), dtype=torch.float64, device=labels.device))
        with same_draws(learner.model) as again:
            scores = learner.scores(inputs)
            losses = self.passes.loss(scores, labels)
            known = losses.detach()
            if learner.steps % how.every == 0:
                slopes = self._slopes((inputs, labels), losses, again)
                self._learn(known, slopes)
                if how.gradient == "lean":  # the graph is gone; the running statistics have had their turn
                    with again():
                        scores = self.passes.scores(inputs)
                    losses = self.passes.loss(scores, labels)
            trust = self._trust(known)
            omega = shares(trust, how.normalise)
            mean = float(total(known @ omega))
            if not abs(mean) < float("inf"):
                raise FloatingPointError(f"the loss is {mean}")
            scores.retain_grad()
            rate = learner.rate
            with learner.descent():
                (losses @ omega).backward()
        assert scores.grad is not None
        weight = scores.grad.abs().sum(1, dtype=torch.float64) * (whole / 2)
        found = scores.detach()
        return Step(
            batch.index, margin(found, labels), weight, found.argmax(1), mean, float(whole), rate, trust.double()
        )

    def _slopes(self, batch: tuple[Tensor, Tensor], losses: Tensor, again: Any) -> Tensor:
        how, fast = self.how, self.how.gradient == "fast"
        omega = shares(self._trust(losses.detach()), how.normalise)
        optimiser = self.learner.optimiser if how.virtual == "optimizer" else None
        way = self.passes.way(
            losses,
            omega,
            self._meta_batch(),
            self.learner.rate,
            fast=fast,
            keep=how.gradient == "exact",
            optimiser=optimiser,
        )
        with again():
            return self.passes.slopes(way, batch, losses.detach(), fast=fast)

    def _learn(self, losses: Tensor, slopes: Tensor) -> None:
        """A step of the weight network; none if its gradient is not finite, which is counted."""
        gradients = theta_gradient(self.net, losses, slopes, self.how.normalise)
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

    def _meta_batch(self) -> tuple[Tensor, Tensor]:
        try:
            inputs, labels, _ = next(self._coming)
        except StopIteration:
            self._coming = iter(self.meta)
            inputs, labels, _ = next(self._coming)
        return self.learner.ready(inputs), labels

    def state_dict(self) -> Mapping[str, Any]:
        return {"net": self.net.state_dict(), "meta": self.meta.state_dict(), "skipped": self.skipped}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.net.load_state_dict(state["net"])
        self.meta.load_state_dict(state["meta"])
        self._coming, self.skipped = iter(self.meta), state["skipped"]


def _look_at(meta: Batches) -> None:
    """Say what a user would want to know of the meta set."""
    if len(meta.index) < meta.batch_size:
        warnings.warn(
            f"the meta set has {len(meta.index)} samples, fewer than a batch of {meta.batch_size}: each step sees all",
            stacklevel=4,
        )
