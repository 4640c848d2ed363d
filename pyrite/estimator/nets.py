"""Nets as a candidate: several are trained on the same batches, each with its own weights of the rows."""

import warnings
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, final

import numpy as np
import numpy.typing as npt
import torch
from scipy.special import log_softmax
from torch import Tensor, nn

from pyrite.criterion import Loss
from pyrite.curves import CE
from pyrite.data import Batch, Batches, Dataset, Statistics
from pyrite.errors import PyriteError
from pyrite.estimator.candidates import Candidate, Inputs, Predict, log_mean
from pyrite.estimator.rows import Floats, Ints
from pyrite.methods import ERM, Context, Learner, Method, Step, Trainer
from pyrite.models import Architecture, SideBySide, Stacked, build_model
from pyrite.processes import local_device
from pyrite.training import Job, fit, make_learner, net_scores, python_name, resolve

Bools = npt.NDArray[np.bool_]


@final
@dataclass(frozen=True)
class NetCandidate(Candidate):
    """Nets that are trained together: one per fold, or ``members`` whose probabilities are averaged."""

    net: Any
    method: Method
    classes: tuple[str, ...]
    epochs: int
    batch_size: int
    lr: float | None
    members: int
    device: str
    verbose: bool
    name: str = "nets"

    def held_out(self, features: Inputs, labels: Ints, weight: Floats, fold: Ints, seed: int) -> Floats:
        folds = np.unique(fold)
        fitted = self._fit(features, labels, weight * (fold != folds[:, None]), seed)
        return np.asarray(log_softmax(fitted.scores[np.searchsorted(folds, fold), np.arange(len(labels))], 1))

    def train(self, features: Inputs, labels: Ints, weight: Floats, seed: int) -> Predict:
        fitted = self._fit(features, labels, np.tile(weight, (self.members, 1)), seed + 1)
        if fitted.failed:
            warnings.warn(
                f"no net learned to separate the classes, with {self.method} nor with cross entropy: on their own "
                "training labels they are no better than always predicting the most frequent class. Set another lr or "
                "more epochs, or check that the features are related to the labels",
                UserWarning, stacklevel=6,
            )  # fmt: skip
        return partial(_mean, fitted.kept)

    def _fit(self, features: Inputs, labels: Ints, weight: Floats, seed: int) -> "_Fitted":
        data = Dataset("rows", features.scaled, labels, self.classes)
        job = resolve(
            data, model=self.net, method=self.method, lr=self.lr, epochs=self.epochs, batch_size=self.batch_size,
            validation=0.0, seed=seed, device=self.device, features="none",
        )  # fmt: skip
        if self.verbose:
            net = python_name(job.config.model)
            print(f"{len(weight)} x {net}, {job.config.method}, {self.epochs} epochs of {len(data)} rows")
        nets = train_together(job, weight)
        scores = nets.scores(features.scaled)
        failed = collapsed(scores, labels, weight)
        if not failed.any():
            return _Fitted(scores, [(nets, ~failed)])
        # Cross entropy never gives up a sample. Where it failed itself, the learning rate was too high.
        optimiser, plain = job.config.optimiser, str(job.config.method) == str(ERM(CE()))
        again = job.with_config(
            method=ERM(CE()), optimiser=replace(optimiser, lr=optimiser.lr / 10) if plain else optimiser,
            seed=seed + len(weight),
        )  # fmt: skip
        if self.verbose:
            print(f"{failed.sum()} of {len(weight)} nets predict one class: again, {again.config.method}")
        others = train_together(again, weight[failed])
        scores[failed] = others.scores(features.scaled)
        again_failed = collapsed(scores[failed], labels, weight[failed])
        if failed.all() and again_failed.all():  # the probabilities of cross entropy may still rank the rows
            return _Fitted(scores, [(others, again_failed)], failed=True)
        parts = [(nets, ~failed), (others, ~again_failed)]
        return _Fitted(scores, [(part, chosen) for part, chosen in parts if chosen.any()])


def collapsed(scores: Floats, labels: Ints, weight: Floats) -> Bools:
    """Which nets predict one class, or no more of the labels they were trained on than the most frequent class has."""
    classes, predicted = np.arange(scores.shape[2]), scores.argmax(2)
    shares = np.stack([(weight * (labels == one)).sum(1) for one in classes], 1)
    right = (weight * (predicted == labels)).sum(1)
    one_class = (predicted == predicted[:, :1]).all(1)
    return np.asarray(((shares > 0).sum(1) > 1) & (one_class | (right <= shares.max(1))))


class Nets(NamedTuple):
    """Trained nets, and the statistics by which images are normalised; None for features."""

    net: nn.Module
    scale: Statistics | None

    def scores(self, inputs: npt.NDArray[Any]) -> Floats:
        """Scores of shape (nets, rows, classes)."""
        return net_scores(self.net.eval(), inputs, self.scale, axis=1).astype(np.float64)


class _Fitted(NamedTuple):
    scores: Floats  # of the training rows, by each net
    kept: list[tuple[Nets, Bools]]  # nets, and which of them did not collapse
    failed: bool = False  # whether all collapsed twice


def _mean(kept: list[tuple[Nets, Bools]], features: Inputs) -> Floats:
    """The logarithm of the mean of the nets' probabilities."""
    return log_mean(log_softmax(np.concatenate([nets.scores(features.scaled)[own] for nets, own in kept]), 2))


def train_together(job: Job, weight: Floats) -> Nets:
    """Train one net per row of ``weight``, which holds the sample weights of that net, by the method ``erm``."""
    config, data, net, method = job.config, job.data, job.config.model, job.config.method
    assert isinstance(method, ERM)
    device = local_device(config.device)
    scale = Statistics.of(data.numeric) if data.numeric.ndim == 4 else None
    size, seed = config.batch_size, config.seed
    batches = Batches(
        data.numeric, data.labels, batch_size=size, seed=seed, normalise=scale, device=device,
        augment=config.augment, drop_last=len(data) > size and len(data) % size == 1,
    )  # fmt: skip
    sample = next(iter(Batches(data.numeric, data.labels, batch_size=2048, seed=seed, normalise=scale))).inputs
    shape = tuple(data.numeric.shape[1:])
    seeds = range(seed, seed + len(weight))
    nets = [build_model(deepcopy(net), shape, len(data.classes), net_seed, sample) for net_seed in seeds]
    _check_scores(nets[0], sample[:2], len(data.classes))
    stacked = len(shape) == 1 and isinstance(net, Architecture)  # a spec for features is always an mlp
    dtype = torch.float64 if config.precision == "float64" else torch.float32
    combined = (Stacked(nets) if stacked else SideBySide(nets)).to(config.device, dtype)
    # The gradient of each net is clipped separately.
    clip = partial(combined.clip_gradients, config.clip) if config.clip else None

    def learner(number: int, epochs: int) -> Learner:
        return make_learner(config, combined, len(batches), epochs, clip)

    context = Context(batches, learner, epochs=config.epochs, classes=len(data.classes))
    fit(_Together(method.loss, context, torch.from_numpy(weight)), batches, config.epochs)
    # In float64, which not every device has, the scores of a row do not depend on the other rows of the batch.
    return Nets(combined.cpu().double() if len(shape) == 1 else combined, scale)


def _check_scores(net: nn.Module, inputs: Tensor, classes: int) -> None:
    """Raise ValueError for a net that does not fit these inputs and classes."""
    if not any(weight.requires_grad for weight in net.parameters()):
        raise PyriteError(f"model is a {type(net).__name__} without weights to train")
    first = next(net.parameters())
    try:
        with torch.inference_mode():
            shape = tuple(deepcopy(net).eval().cpu()(inputs.to("cpu", first.dtype)).shape)
    except (RuntimeError, ValueError, TypeError) as error:
        what = f"inputs of shape {tuple(inputs.shape)}"
        raise PyriteError(f"model is a {type(net).__name__} that does not take {what}: {error}") from None
    if shape != (len(inputs), classes):
        wanted = f"{(len(inputs), classes)}, one score per class"
        raise PyriteError(
            f"model is a {type(net).__name__} that gives scores of shape {shape} where it should give {wanted}"
        )


@final
class _Together(Trainer):
    """Each net minimises its own weighted mean of the loss. No parameter is common to two, so one sum is minimised."""

    def __init__(self, loss: Loss, context: Context, weight: Tensor) -> None:
        super().__init__(context, loss)
        self.loss.configure(reduction="sum")
        self.weight = weight.to(self.learner.weights[0].device, self.learner.dtype)

    def step(self, batch: Batch) -> Step:
        learner, weight = self.learner, self.weight[:, batch.index]
        totals = weight.sum(1, keepdim=True)
        weight = weight / torch.where(totals > 0, totals, 1)  # no division by 0 if all weights are 0
        learner.optimiser.zero_grad(set_to_none=True)
        scores = learner.scores(batch.inputs)
        value = self._sum(scores, batch.labels, weight)
        if learner.deferred:
            learner.note(~value.detach().isfinite(), 1)
        elif not value.isfinite():
            raise FloatingPointError(f"the loss is {value.item()}")
        gradient = learner.backward(value, torch.ones_like(value), scores)
        learning_rate = learner.update()
        whole, nets = value.detach() / len(scores), scores.detach()
        mean = whole if learner.deferred else float(whole)
        count = float(len(weight[0]))
        return Step(batch.index, batch.labels, nets.mean(0), gradient.mean(0), mean, count, learning_rate)

    def _sum(self, scores: Tensor, labels: Tensor, weight: Tensor) -> Tensor:
        if self.whole_batch:  # such a loss must see the rows of one net only
            losses = [self.loss(s, labels, sample_weight=w) for s, w in zip(scores, weight, strict=True)]
            return torch.stack(losses).sum()
        whole: Tensor = self.loss(scores.flatten(0, 1), labels.repeat(len(scores)), sample_weight=weight.flatten())
        return whole
