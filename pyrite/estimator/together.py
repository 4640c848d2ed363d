"""Several nets trained on the same batches, in each of which a row counts otherwise."""

from copy import deepcopy
from functools import partial
from typing import Any, NamedTuple, final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from pyrite.criterion import Loss
from pyrite.data import Batch, Batches, Dataset, Statistics
from pyrite.estimator.rows import Floats
from pyrite.methods import ERM, Bench, Learner, Step, Trainer
from pyrite.models import SideBySide, Stacked, build_model
from pyrite.training import Recipe, augmentation, check_device, fit, make_learner, net_scores

__all__ = ["Nets", "train_together"]


class Nets(NamedTuple):
    """Nets that are trained, and how the images they saw were normalised; features are taken as they are."""

    net: nn.Module
    scale: Statistics | None
    shape: tuple[int, ...]

    def scores(self, inputs: npt.NDArray[Any]) -> Floats:
        """Of shape (nets, rows, classes)."""
        return net_scores(self.net.eval(), inputs, self.scale, axis=1).astype(np.float64)


def train_together(data: Dataset, weight: Floats, net: Any, method: ERM, recipe: Recipe) -> Nets:
    """Nets of one kind, as many as ``weight`` has rows: in each, samples count what its row says.

    ``net`` is what the resolved recipe calls its model; of a net that is built already copies are trained.
    """
    check_device(recipe.device)
    scale = Statistics.of(data.inputs) if data.inputs.ndim == 4 else None
    size, seed = recipe.batch_size, recipe.seed
    batches = Batches(
        data.inputs, data.labels, batch_size=size, seed=seed, normalise=scale, device=recipe.device,
        augment=augmentation(recipe.augment), drop_last=len(data) > size and len(data) % size == 1,
    )  # fmt: skip
    some = next(iter(Batches(data.inputs, data.labels, batch_size=2048, seed=seed, normalise=scale))).inputs
    shape = tuple(data.inputs.shape[1:])
    nets = [build_model(deepcopy(net), shape, len(data.classes), seed + number, some) for number in range(len(weight))]
    _check_scores(nets[0], some[:2], len(data.classes))
    stacked = len(shape) == 1 and not callable(net)  # then it is an mlp
    dtype = torch.float64 if recipe.precision == "float64" else torch.float32
    beside = (Stacked(nets) if stacked else SideBySide(nets)).to(recipe.device, dtype)
    # Each net has a gradient of its own to clip.
    clip = partial(beside.clip_gradients, recipe.clip) if recipe.clip else None

    def learner(number: int, epochs: int) -> Learner:
        return make_learner(recipe, beside, len(batches), epochs, clip)

    bench = Bench(batches, learner, epochs=recipe.epochs, classes=len(data.classes))
    fit(_Together(method.loss, bench, torch.from_numpy(weight)), batches, recipe.epochs)
    # In double precision a row's scores do not depend on the rows that come with it.
    return Nets(beside.double() if len(shape) == 1 else beside, scale, shape)


def _check_scores(net: nn.Module, inputs: Tensor, classes: int) -> None:
    """Refuse a net that is not for these inputs and classes."""
    if not any(weight.requires_grad for weight in net.parameters()):
        raise ValueError(f"model is a {type(net).__name__} without weights to train")
    first = next(net.parameters())
    try:
        with torch.inference_mode():
            shape = tuple(deepcopy(net).eval().cpu()(inputs.to("cpu", first.dtype)).shape)
    except (RuntimeError, ValueError, TypeError) as error:
        what = f"inputs of shape {tuple(inputs.shape)}"
        raise ValueError(f"model is a {type(net).__name__} that does not take {what}: {error}") from None
    if shape != (len(inputs), classes):
        wanted = f"{(len(inputs), classes)}, a score for each of {classes} classes"
        raise ValueError(
            f"model is a {type(net).__name__} that gives scores of shape {shape} where it should give {wanted}"
        )


@final
class _Together(Trainer):
    """Each net descends its own weighted mean of the loss. They have no weight in common, so one sum is enough."""

    def __init__(self, loss: Loss, bench: Bench, weight: Tensor) -> None:
        learner = bench.make_learner()
        self.learners = [learner]
        self.loss = deepcopy(loss).configure(reduction="sum")
        self.couples = any(part.couples for part in loss.modules() if isinstance(part, Loss))
        self.weight = weight.to(learner.weights[0].device, learner.dtype)

    def step(self, batch: Batch) -> Step:
        learner, weight = self.learners[0], self.weight[:, batch.index]
        share = weight.sum(1, keepdim=True)
        weight = weight / torch.where(share > 0, share, 1)  # where no row counts, nothing is learned
        rate = learner.rate
        with learner.descent():
            scores = learner.scores(learner.ready(batch.inputs))
            scores.retain_grad()
            value = self._sum(scores, batch.labels, weight)
            if not value.isfinite():
                raise FloatingPointError(f"the loss is {value.item()}")
            value.backward()
        assert scores.grad is not None
        mean, nets = float(value.detach()) / len(scores), scores.detach()
        return Step(batch.index, batch.labels, nets.mean(0), scores.grad.mean(0), mean, float(len(weight[0])), rate)

    def _sum(self, scores: Tensor, labels: Tensor, weight: Tensor) -> Tensor:
        if self.couples:  # rows of one net only
            each = [self.loss(own, labels, sample_weight=w) for own, w in zip(scores, weight, strict=True)]
            return torch.stack(each).sum()
        whole: Tensor = self.loss(scores.flatten(0, 1), labels.repeat(len(scores)), sample_weight=weight.flatten())
        return whole
