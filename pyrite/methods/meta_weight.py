"""Learned sample weights: a step on the weighted samples should lower the loss on a held-out meta set."""

import math
import warnings
from abc import abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from typing import Annotated, Any, Final, Literal, final

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils import parameters_to_vector

from pyrite.checks import Count, whole_number
from pyrite.criterion import Loss
from pyrite.curves import CE, MAE
from pyrite.data import Batch
from pyrite.errors import PyriteError
from pyrite.methods.context import Cycle
from pyrite.methods.learner import Learner, weakly
from pyrite.methods.meta_gradient import Passes, normalised_weights, per_sample, same_draws, theta_gradient
from pyrite.methods.method import ERM, Context, MetaSet, Method, PerSampleLoss, Step, Trainer
from pyrite.methods.trainer import Pass
from pyrite.models import seeded
from pyrite.soft_margin import wide

_RISE: Final = 0.1  # of the weight, a number from 0 to 1, that is more than the wiggle of a curve with no trend
Again = Callable[[], AbstractContextManager[None]]


class MetaTrainer(Trainer):
    """Steps of a model on a weighted sum of losses; a subclass computes the weights.

    With ``lean`` the graph of the training pass is computed twice, so that only one graph is in memory at a time.
    """

    whole_batch = True

    def __init__(self, context: Context, meta_loss: Loss, loss: Loss | None = None, *, lean: bool = False) -> None:
        super().__init__(context, loss)
        if self.learner.autocast is not None:
            name = str(self.learner.autocast).removeprefix("torch.")
            raise PyriteError(f"precision is {name}, but meta-gradients need float32 or float64")
        self.meta, self.lean = Cycle(context.meta), lean
        self.meta_loss = per_sample(meta_loss)
        self.through = Passes(self.learner.model, self.loss, self.meta_loss)
        _check_meta_set(context)

    @abstractmethod
    def weigh(self, made: Pass, again: Again) -> tuple[Tensor, Tensor]:
        """The factor of each loss in the objective, and the trust in each sample, for observers.

        The graph of the losses must be kept, unless ``lean``. In ``again`` random layers repeat the draws of the pass.
        """

    def step(self, batch: Batch) -> Step:
        count = self.count(len(batch.labels))
        if not count:
            return self.skip(batch)
        with same_draws(self.learner.model) as again:
            made = next(self.passes(self.learner, batch))
            omega, trust = self.weigh(made, again)
            if self.lean:  # the graph is gone; running statistics have been updated already
                with again():
                    ready = batch._replace(inputs=self.learner.ready(batch.inputs))
                    made = next(self.passes(self.learner, ready, self.through.scores))
            step = self.descend(self.learner, batch, [made], omega.new_full((), count), omega * count)
        return replace(step, trust=wide(trust[made.own]))

    def slopes(self, direction: dict[str, Tensor], made: Pass) -> Tensor:
        """The derivative of the loss of each sample of the whole batch along a direction."""
        own = self.learner.ready(made.batch.inputs), made.batch.labels[made.own]
        return self.gather(self.through.slopes(direction, own, made.losses.detach()[made.own]))

    def meta_batch(self) -> tuple[Tensor, Tensor]:
        """The next batch of the meta set."""
        inputs, labels, _ = self.meta.next()
        return self.learner.ready(inputs), labels


def _check_meta_set(context: Context) -> None:
    """Warn of a meta set that is smaller than a batch, or in which classes are missing."""
    meta, count = context.meta, len(context.meta.index)
    if count < meta.batch_size:
        few = f"the meta set has {count} samples, fewer than a batch of {meta.batch_size}: each step uses all of them"
        warnings.warn(few, stacklevel=5)
    given = context.labels[context.labels >= 0].cpu().numpy()
    missing = np.setdiff1d(given, meta.labels.numpy()[meta.index])
    if len(missing):
        gap = f"the meta set has no sample of {len(missing)} classes, the first: {missing[0]}"
        warnings.warn(gap, stacklevel=5)


@final
@dataclass(repr=False, eq=False)
class L2RW(Method):
    """Learning to reweight: the weights max(G·g_i, 0), divided by their sum, without a weight network.

    G is the gradient of the meta loss at the current weights of the model, because the virtual step starts from sample
    weights of 0, and g_i is the gradient of sample i. If no product is positive, all weights are 0.

    Args:
        meta_loss: the loss on the meta set. The default is cross entropy, as in the paper; for noisy meta labels, use
            ``mae``.
        meta: whether the meta set has given labels (``"noisy"``) or true labels (``"clean"``). The paper uses clean
            labels; the default is noisy, because clean labels are rarely available.
        size: the number of samples in the meta set.

    >>> from pyrite import MAE
    >>> str(L2RW(MAE(), size=100))
    'l2rw(mae, size=100)'

    Ren et al., 2018 ("Learning to reweight examples for robust deep learning").
    """

    meta_loss: Loss | None = None
    _: KW_ONLY
    meta: Literal["noisy", "clean"] = "noisy"
    size: Count = 1000

    def __post_init__(self) -> None:
        super().__post_init__()
        self.meta_loss = CE() if self.meta_loss is None else self.meta_loss
        self.meta_set = MetaSet(self.size, clean=self.meta == "clean")

    def start(self, context: Context) -> "L2RWTrainer":
        return L2RWTrainer(context, self.meta_loss or CE())


@final
class L2RWTrainer(MetaTrainer):
    """Weights by the gradient of the meta loss at equal weights."""

    def weigh(self, made: Pass, again: Again) -> tuple[Tensor, Tensor]:
        # The size of the virtual step cancels when weights are divided by their sum.
        direction = self.through.direction(made.losses, None, self.meta_batch(), 1.0)
        with again():
            products = (-self.slopes(direction, made)).clamp(min=0)
        return normalised_weights(products, "sum"), products


@final
@dataclass(repr=False, eq=False)
class MetaWeight(Method):
    """Weights from a small network whose input is the loss, trained so that steps reduce the loss on a meta set.

    By default, the meta set is held out from the training samples and keeps their *given* labels. Clean labels are not
    needed, because with a symmetric meta loss, uniform noise only shortens the expected meta-gradient. This is
    RMNW-Net. With ``meta_loss=ce`` it is MNW-Net, and with ``meta="clean"`` in addition MW-Net.

    Args:
        meta_loss: the loss on the meta set; the absolute error if None.
        loss: the training loss of the classifier and the input of the weight network; cross entropy if None.
        meta: whether the meta set has given labels (``"noisy"``) or true labels (``"clean"``): those of the clean part
            of the data set or, if there is none, those known because the noise is simulated.
        size: the number of samples in the meta set.
        hidden: the number of hidden units of the weight network.
        normalise: ``"sum"`` divides weights by their sum over the batch, as the authors' code does; ``"mean"`` divides
            by the number of samples, as the equation in the paper does.
        gradient: ``"exact"``, or ``"lean"``, which is also exact, slower, and needs less memory.
        every: the number of steps between updates of the weight network.
        augment: whether to augment the images of the meta set like training images, as the authors' code does.
        optimiser: the optimiser of the weight network: ``"sgd"``, ``"nesterov"`` (SGD with Nesterov momentum 0.9) or
            ``"adam"``.
        lr: the learning rate of the weight network.
        weight_decay: the weight decay of the weight network.

    >>> from pyrite import CE
    >>> str(MetaWeight(CE(), meta="clean"))
    "meta_weight(ce, meta='clean')"

    Ghosh & Lan, 2021 ("Do we really need gold samples for sample weighting under label noise?"); Shu et al., 2019.
    """

    meta_loss: Loss | None = None
    _: KW_ONLY
    loss: PerSampleLoss | None = None
    meta: Literal["noisy", "clean"] = "noisy"
    size: Count = 1000
    hidden: Annotated[int, partial(whole_number, least=1, most=100_000)] = 100
    normalise: Literal["mean", "sum"] = "sum"
    gradient: Literal["exact", "lean"] = "exact"
    every: Count = 1
    augment: bool = False
    optimiser: Literal["sgd", "nesterov", "adam"] = "sgd"
    lr: float = 1e-3
    weight_decay: float = 5e-4

    def __post_init__(self) -> None:
        super().__post_init__()
        self.meta_loss = MAE() if self.meta_loss is None else self.meta_loss
        self.meta_set = MetaSet(self.size, clean=self.meta == "clean", augmented=self.augment)
        if self.loss is not None:
            self.largest_weight, self.needs_clipping = ERM(self.loss).largest_weight, ERM(self.loss).needs_clipping

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

    saved = (*MetaTrainer.saved, "skipped", "past", "surplus", "seen")

    def __init__(self, method: MetaWeight, context: Context) -> None:
        super().__init__(context, method.meta_loss or MAE(), method.loss, lean=method.gradient == "lean")
        self.method = method
        with seeded(context.meta.seed):
            self.net = WeightNet(method.hidden).to(self.learner.weights[0].device, self.learner.dtype)
        momentum: Any = {"momentum": 0.9, "nesterov": True} if method.optimiser == "nesterov" else {}
        optimiser: Any = torch.optim.Adam if method.optimiser == "adam" else partial(torch.optim.SGD, **momentum)
        fused = True if context.device.type != "cpu" else None
        self.guide = Learner(
            self.net, optimiser(self.net.parameters(), lr=method.lr, weight_decay=method.weight_decay, fused=fused)
        )
        # ``Run.weight_curve`` reads "weight_net" as a function of cross entropy, so other losses have another name.
        self.name = "weight_net" if isinstance(method.loss, CE | None) else "weight_net_of_other_loss"
        self.skipped: int | Tensor = 0
        self.surplus: float | Tensor = 0.0  # of the meta batches of the epoch: confidence minus hits, and samples
        self.seen: float | Tensor = 0.0
        self.through.meta_loss = weakly(self._measured)
        self.past: Tensor | None = None  # the weights of the weight network after every epoch

    def weigh(self, made: Pass, again: Again) -> tuple[Tensor, Tensor]:
        losses, normalise = made.losses.detach(), self.method.normalise
        if self.learner.steps % self.method.every == 0:
            gradients = theta_gradient(self.net, losses, self._slopes(made, again), normalise)
            for weight, part in zip(self.net.parameters(), gradients, strict=True):
                weight.grad = part
            infinite = ~torch.stack([part.isfinite().all() for part in gradients]).all()
            if self.guide.deferred:  # a fused optimiser skips the step, and the device is not waited for
                self.guide.optimiser.found_inf = infinite.float()  # type: ignore[attr-defined]
            if self.guide.deferred or not infinite:
                self.guide.optimiser.step()
            self.skipped = self.skipped + (infinite if self.guide.deferred else bool(infinite))
        trust = self._trust(losses)
        return normalised_weights(trust, normalise), trust

    def _slopes(self, made: Pass, again: Again) -> Tensor:
        """How the meta loss after the virtual step changes with each sample's weight."""
        omega = normalised_weights(self._trust(made.losses.detach()), self.method.normalise)
        meta = self.meta_batch()
        direction = self.through.direction(made.losses, omega, meta, self.learning_rate, keep=not self.lean)
        with again():
            return self.slopes(direction, made)

    def _measured(self, scores: Tensor, labels: Tensor) -> Tensor:
        """The meta losses; what the net predicts on the meta set is added to the sums of the epoch."""
        probability, prediction = scores.detach().softmax(1).max(1)
        known = probability.isfinite()
        surplus = torch.where(known, probability - (prediction == labels).to(probability), 0.0).sum()
        self.surplus, self.seen = self.surplus + wide(surplus), self.seen + known.sum()
        losses: Tensor = self.meta_loss(scores, labels)
        return losses

    @torch.no_grad()
    def _trust(self, losses: Tensor) -> Tensor:
        """V of each sample."""
        trust: Tensor = self.net(losses.unsqueeze(1)).reshape(-1)
        return trust

    def begin_epoch(self, epoch: int) -> None:
        super().begin_epoch(epoch)
        self.surplus = self.seen = 0.0

    def end_epoch(self) -> None:
        now = parameters_to_vector(self.net.parameters()).detach().unsqueeze(0)
        self.past = now if self.past is None else torch.cat([self.past, now])
        if self.epoch == self.context.epochs and self.name == "weight_net":
            self._check_curve()

    def facts(self) -> Mapping[str, float]:
        surplus, seen = self.total(torch.tensor([self.surplus, self.seen], dtype=torch.float64)).tolist()
        return {"meta_skipped": int(self.skipped), "meta_overconfidence": surplus / max(seen, 1)}

    def _check_curve(self) -> None:
        """Warn of a weight that rises from a loss of 0 to that of a label far less likely than a guess."""
        unlikely = 2 * math.log(self.context.classes)
        least, most = self._trust(torch.tensor([0.0, unlikely]).to(self.net.first.weight)).tolist()
        if most <= least + _RISE:
            return
        words = f"the learned weights rise with the loss ({least:.2f} at 0, {most:.2f} at {unlikely:.1f}), so that "
        words += "wrong labels count most"
        if self.method.meta == "noisy" and not isinstance(self.meta_loss, MAE):
            gap = 100 * self.facts()["meta_overconfidence"]
            words += f". {self.method.meta_loss} on noisy meta labels rewards this where the net is over-confident "
            words += f"(confidence minus accuracy on the meta set: {gap:+.0f} points): use meta_loss=mae, or a larger "
            words += "weight decay"
        warnings.warn(words, stacklevel=2)

    def arrays(self) -> Mapping[str, Tensor]:
        return {} if self.past is None else {self.name: self.past}
