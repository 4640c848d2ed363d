"""The parts of a run, put together from its recipe."""

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from pyrite.data import Batches, Dataset, LazyImages, Statistics, split
from pyrite.diagnostics import TrainingObserver
from pyrite.methods import Learner, Learning, Meta, Method
from pyrite.models import Architecture, Factory, build_model
from pyrite.noise import corrupt
from pyrite.processes import all_gather, broadcast_weights, local_device, rank, sync_batch_norm, world_size
from pyrite.training.fixing import Fixed, fix
from pyrite.training.optimisers import optimiser
from pyrite.training.recipe import Recipe, augmentation
from pyrite.training.recorder import Recorder
from pyrite.training.retrieval import measure_retrieval
from pyrite.training.schedules import schedule

__all__ = ["Parts", "assemble", "check_device", "make_learner"]

_WHITENED = 2048  # inputs that a net may look at before it begins, for whitening


@final
@dataclass(frozen=True)
class Parts:
    """A run before its first step.

    ``labels`` are the columns of ``labels.npz``; ``corrections`` the content of the file they were corrected by;
    ``facts`` is what is needed to use the net later; ``warnings`` is what is odd before the first step; ``at_the_end``
    says what is too dear to be measured every epoch.
    """

    batches: Batches
    method: Learning
    recorder: Recorder
    labels: dict[str, npt.NDArray[Any]]
    corrections: bytes
    facts: dict[str, Any]
    warnings: tuple[str, ...]
    at_the_end: Callable[[], dict[str, Any]]


def assemble(
    recipe: Recipe,
    data: Dataset,
    method: Method,
    model: Architecture | nn.Module | Factory | None = None,
    corrections: bytes = b"",
) -> Parts:
    """Read the recipe, which is resolved, from top to bottom. ``corrections`` is the content of the file it names."""
    device = local_device(recipe.device)
    check_device(device)
    how = method
    labels, fixed = _labels(recipe, data, how.wants, corrections)
    scale = Statistics.of(data.inputs, np.flatnonzero(labels["part"] == 0))

    workers = min(8, os.cpu_count() or 1) if isinstance(data.inputs, LazyImages) else 0

    def batches(source: Dataset, given: npt.NDArray[Any], **options: Any) -> Batches:
        return Batches(
            source.inputs, given, seed=recipe.seed, normalise=scale, rank=rank(), world_size=world_size(),
            device=device, workers=workers, **options,
        )  # fmt: skip

    rows = {name: np.flatnonzero(labels["part"] == part) for part, name in enumerate(("train", "validation"))}
    net = _net(recipe, data, model, rows["train"], scale)
    size = recipe.batch_size
    train = batches(
        data, labels["given"], batch_size=size, index=rows["train"], augment=augmentation(recipe.augment),
        drop_last=len(rows["train"]) > size and len(rows["train"]) % size < _least(net, recipe.accumulate),
    )  # fmt: skip
    # A test part in tracklets shows other people: its labels are nothing that could be predicted.
    apart = data.test is not None and data.test.tracklets is not None
    test = None
    if data.test is not None and not apart:
        test = batches(data.test, data.test.labels, batch_size=500, shuffle=False)
    held_out = (
        batches(data, labels["given"], batch_size=500, index=rows["validation"], shuffle=False)
        if len(rows["validation"])
        else None
    )
    learner = make_learner(recipe, sync_batch_norm(net), len(train))
    meta = None
    if wants := how.wants:
        source, answers, index = _meta(data, labels, wants.clean)
        meta = batches(source, answers, batch_size=size, index=index, drop_last=len(index) >= size)
    learning = how.start(learner, meta)
    observer = TrainingObserver(labels["given"], labels.get("true"), classes=len(data.classes))
    recorder = Recorder(learning, observer, test, held_out)
    facts: dict[str, Any] = {"classes": data.classes, "shape": data.inputs.shape[1:]}
    facts |= {"mean": scale.mean, "std": scale.std, **fixed.counts}

    def at_the_end() -> dict[str, Any]:
        parts = [part.unreadable.values() for part in (train, test, held_out) if part is not None]
        mine = {entry.path: entry.reason for part in (data.unreadable, *parts) for entry in part}
        found: dict[str, Any] = {"unreadable": {path: why for share in all_gather(mine) for path, why in share.items()}}
        if data.test is not None and apart:
            try:
                found["retrieval"] = measure_retrieval(learner, data.test, scale)
            except ValueError as error:  # a net without embeddings is no reason to lose what it has learned
                found["retrieval"] = {"unknown": str(error)}
        return found

    return Parts(train, learning, recorder, labels, corrections, facts, fixed.warnings, at_the_end)


def check_device(device: str) -> None:
    """Refuse a device that is not there."""
    try:
        torch.zeros((), device=device)
    except (RuntimeError, AssertionError) as error:
        raise ValueError(f"device is {device!r}, which is not to be had: {str(error).splitlines()[0]}") from None


def _meta(
    data: Dataset, labels: dict[str, npt.NDArray[Any]], clean: bool
) -> tuple[Dataset, npt.NDArray[Any], npt.NDArray[Any]]:
    """Where the meta set is, its labels, and its samples' numbers."""
    if clean and data.clean is not None:
        return data.clean, data.clean.labels, np.arange(len(data.clean))
    return data, labels["true" if clean else "given"], np.flatnonzero(labels["part"] == 3)


def _labels(
    recipe: Recipe, data: Dataset, wants: Meta | None, corrections: bytes
) -> tuple[dict[str, npt.NDArray[Any]], Fixed]:
    """Given labels, true ones where known, and the part each sample is in; and what was corrected."""
    given, true = data.labels, data.true
    if recipe.noise:
        if true is not None and (given != true).any():
            raise ValueError(
                f"noise is {recipe.noise!r}, but {data.name} has labels that are wrong already "
                f"({int((given != true).sum())} of {len(given)}): leave out noise, or take the data without them"
            )
        noisy = corrupt(given, recipe.noise, len(data.classes), recipe.seed, data.inputs)
        given, true = noisy.given, noisy.true
    if recipe.samples > len(given):
        raise ValueError(f"samples is {recipe.samples}, but {data.name} has {len(given)}")
    chosen = np.arange(len(given))
    if 0 < recipe.samples < len(given):
        chosen = split(given, meta=recipe.samples, seed=recipe.seed).meta
    if wants and wants.clean and true is None and data.clean is None:
        raise ValueError(f"meta='clean' needs true labels, and nobody knows those of {data.name}: use meta='noisy'")
    fixed = (
        fix(recipe, replace(data, labels=given), chosen, corrections) if recipe.corrections else Fixed(given, chosen)
    )
    held = wants.size if wants and not (wants.clean and data.clean is not None) else 0
    parts = split(fixed.labels[fixed.kept], meta=held, validation=recipe.validation or 0.0, seed=recipe.seed)
    part = np.full(len(given), 2, np.int8)
    for number, rows in ((0, parts.train), (1, parts.validation), (3, parts.meta)):
        part[fixed.kept[rows]] = number
    columns: dict[str, npt.NDArray[Any]] = {"index": np.arange(len(given)), "given": fixed.labels, "part": part}
    columns |= {} if true is None else {"true": true}
    columns |= {"original": given} if recipe.corrections else {}
    return columns | ({"path": np.array(data.paths)} if data.paths else {}), fixed


def _net(
    recipe: Recipe,
    data: Dataset,
    model: Architecture | nn.Module | Factory | None,
    rows: npt.NDArray[Any],
    scale: Statistics,
) -> nn.Module:
    shape = tuple(data.inputs.shape[1:])

    def some() -> Tensor:
        plain = Batches(data.inputs, data.labels, batch_size=_WHITENED, index=rows, seed=recipe.seed, normalise=scale)
        return next(iter(plain)).inputs

    net = build_model(recipe.model if model is None else model, shape, len(data.classes), recipe.seed, some)
    dtype = torch.float64 if recipe.precision == "float64" else torch.float32
    layout = torch.channels_last if len(shape) == 3 else torch.preserve_format
    net.to(local_device(recipe.device), dtype).to(memory_format=layout)  # type: ignore[call-overload]  # in place
    broadcast_weights(net)
    return net


def _least(net: nn.Module, accumulate: int) -> int:
    """How many samples a batch must have. A batch norm may have nothing to normalise a single sample by.

    A last batch that is smaller is left out; its samples come in other epochs.
    """
    norms = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
    return 2 * accumulate if any(isinstance(part, norms) for part in net.modules()) else 1


def make_learner(recipe: Recipe, net: nn.Module, per_epoch: int) -> Learner:
    """The net with the optimiser, schedule and precision that a resolved recipe says."""
    rates = schedule(recipe.schedule)
    return Learner(
        net,
        optimiser(recipe.optimiser).build([weight for weight in net.parameters() if weight.requires_grad]),
        lambda step: rates.share(step, per_epoch, recipe.epochs),
        clip=recipe.clip or None,
        accumulate=recipe.accumulate,
        precision=recipe.precision,
        compiled=recipe.compile,
    )
