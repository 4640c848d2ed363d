"""From a job to what runs: nets, batches, the trainer and the record."""

import math
import os
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from pyrite.data import Batches, Dataset, Growth, LazyImages, Part, Statistics, describe
from pyrite.draws import Stream, torch_seed
from pyrite.errors import PyriteError
from pyrite.methods import Context, Learner, Trainer
from pyrite.models import Architecture, build_model, reinitialised
from pyrite.processes import all_gather, broadcast_weights, local_device, rank, sync_batch_norm, world_size
from pyrite.training.config import Config, Job, python_name
from pyrite.training.evaluation import Evaluation, measure_retrieval
from pyrite.training.prepare import Prepared, prepare
from pyrite.training.record import Record

_WHITENED = 2048  # inputs that a net may use before training, for whitening


@final
@dataclass(frozen=True, eq=False)
class Running:
    """A job that is ready to run.

    Attributes:
        job: what it is.
        prepared: its samples and labels.
        scale: what inputs are normalised by.
        batches: what is trained on.
        trainer: the method, started.
        record: what is measured.
        evaluation: what is predicted after every epoch, and which epoch's model is saved.
    """

    job: Job
    prepared: Prepared
    scale: Statistics
    batches: Batches
    trainer: Trainer
    record: Record
    evaluation: Evaluation

    @property
    def facts(self) -> dict[str, Any]:
        """What is needed to use the net later."""
        data, raw, scale = self.prepared.data, self.job.data, self.scale
        facts = {"classes": data.classes, "shape": data.inputs.shape[1:], "mean": scale.mean, "std": scale.std}
        return facts | {**self.prepared.counts, "inputs": describe(raw), "notes": raw.notes}

    def at_the_end(self) -> dict[str, Any]:
        """Measure what would take too long after every epoch."""
        data, evaluated = self.prepared.data, (self.evaluation.test, self.evaluation.validation)
        results: dict[str, Any] = {"final_model": self.evaluation.final_model(self.batches, self.record)}
        parts = [part.unreadable.values() for part in (self.batches, *evaluated) if part is not None]
        own = {entry.path: entry.reason for part in (data.unreadable, *parts) for entry in part}
        results["unreadable"] = {path: reason for found in all_gather(own) for path, reason in found.items()}
        if data.test is not None and data.test.tracklets is not None:
            try:
                results["retrieval"] = measure_retrieval(self.trainer, data.test, self.scale)
            except ValueError as error:  # a net without embeddings is saved all the same
                results["retrieval"] = {"unknown": str(error)}
        return results


def build(job: Job, folder: Path | None = None, progress: bool = False) -> Running:
    """Build everything that a job needs to run.

    Args:
        job: what is trained.
        folder: of the run if it is resumed.
        progress: show a bar while samples are embedded.
    """
    config = job.config
    check_device(local_device(config.device))
    prepared = prepare(job, folder, progress)
    data, labels = prepared.data, prepared.labels
    training = np.flatnonzero(labels["part"] == Part.TRAIN)
    scale = _scale(config, prepared, training)
    nets = _Nets(config, data, training, scale)
    train, meta, held_out, test = _batches(config, prepared, nets, scale)

    def learner(number: int, epochs: int) -> Learner:
        return make_learner(config, sync_batch_norm(nets.make(number)), len(train), epochs)

    trainer = config.method.start(
        Context(
            train, learner, epochs=config.epochs, classes=len(data.classes), meta=meta,
            noise_matrix=prepared.noise_matrix, held_out=held_out,
        )
    )  # fmt: skip
    if not isinstance(trainer, Trainer):
        raise PyriteError(f"{config.method} starts with {trainer!r}, but must start with a Trainer")
    evaluation = Evaluation(
        trainer, test, held_out, keep_best=config.keep == "best", mirror=bool(config.mirror),
        split_off=bool((labels["part"] == Part.VALIDATION).any()), growth=train.growth,
    )  # fmt: skip
    record = Record(labels["given"], labels.get("true"), classes=len(data.classes), evaluation=evaluation)
    return Running(job, prepared, scale, train, trainer, record, evaluation)


def _batches(
    config: Config, prepared: Prepared, nets: "_Nets", scale: Statistics
) -> tuple[Batches, Batches | None, Batches | None, Batches | None]:
    """The batches of the training samples, the meta set, the held-out samples and the test samples."""
    data, labels, size = prepared.data, prepared.labels, config.batch_size
    workers = min(8, os.cpu_count() or 1) if isinstance(data.inputs, LazyImages) else 0

    def batches(source: Dataset, given: npt.NDArray[Any], **options: Any) -> Batches:
        return Batches(
            source.numeric, given, seed=config.seed, normalise=scale, rank=rank(), world_size=world_size(),
            device=local_device(config.device), workers=workers, **options,
        )  # fmt: skip

    def evaluated(source: Dataset | None, given: npt.NDArray[Any] | None = None, **options: Any) -> Batches | None:
        if source is None:
            return None
        return batches(source, source.labels if given is None else given, batch_size=500, shuffle=False, **options)

    training, held_out = (np.flatnonzero(labels["part"] == part) for part in (Part.TRAIN, Part.VALIDATION))
    nets.check_batches(min(size, len(training)), "the training samples")
    train = batches(
        data, _only(labels["given"], training), batch_size=size, index=training, augment=config.augment,
        growth=Growth(config.grow, config.epochs) if config.grow < 1 else None,
        most=None if config.iterations is None else math.ceil(config.iterations / config.epochs),
        drop_last=len(training) > size and len(training) % size < _least(nets.first, config.accumulate),
    )  # fmt: skip
    meta = None
    if wanted := config.method.meta_set:
        source, meta_labels, index = _meta(data, labels, wanted.clean)
        nets.check_batches(min(size, len(index)), "the meta set")
        meta = batches(source, meta_labels, batch_size=size, index=index, drop_last=len(index) >= size)
    # A test part in tracklets shows other people than the training part, so its labels cannot be predicted.
    test = None if data.test is None or data.test.tracklets is not None else evaluated(data.test)
    if len(held_out):
        return train, meta, evaluated(data, labels["given"], index=held_out), test
    return train, meta, evaluated(data.validation), test


def _scale(config: Config, prepared: Prepared, rows: npt.NDArray[Any]) -> Statistics:
    """What inputs are normalised by: the training part's own statistics, or those that pretrained weights expect."""
    net, data = config.model, prepared.data
    if isinstance(net, Architecture) and net.normalisation is not None and data.inputs.ndim == 4:
        mean, std = net.normalisation
        return Statistics((mean,) * data.inputs.shape[1], (std,) * data.inputs.shape[1])
    scale = Statistics.of(data.numeric, rows)
    return scale.with_one_scale() if prepared.features is not None and prepared.features.one_scale else scale


def check_device(device: str) -> None:
    """Raise ``PyriteError`` if a device is not available."""
    try:
        torch.zeros((), device=device).item()  # a meta tensor has no value
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise PyriteError(f"device is {device!r}, which is not available: {str(error).splitlines()[0]}") from None


def _meta(
    data: Dataset, labels: dict[str, npt.NDArray[Any]], clean: bool
) -> tuple[Dataset, npt.NDArray[Any], npt.NDArray[Any]]:
    """The data set that the meta set is in, its labels, and the numbers of its samples."""
    if clean and data.clean is not None:
        return data.clean, data.clean.labels, np.arange(len(data.clean))
    index = np.flatnonzero(labels["part"] == Part.META)
    return data, _only(labels["true" if clean else "given"], index), index


def _only(labels: npt.NDArray[Any], index: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The labels of these samples, and −1 for all others, so that a method cannot learn from those."""
    own = np.full_like(labels, -1)
    own[index] = labels[index]
    return own


@final
class _Nets:
    """The nets of a run by number. The same number gives the same initial weights, any other number others."""

    def __init__(self, config: Config, data: Dataset, rows: npt.NDArray[Any], scale: Statistics) -> None:
        self.config, self.data, self.rows, self.scale, self.model = config, data, rows, scale, config.model
        self.first = self._build(self.model, config.seed)
        # A net that the user passed is trained in place, so a copy of its initial weights is kept.
        self._initial = deepcopy(self.first.state_dict()) if isinstance(self.model, nn.Module) else None
        self._first_is_new = True

    def make(self, number: int) -> nn.Module:
        """A net with the initial weights of this number."""
        if number == 0 and (self._first_is_new or self._initial is not None):
            if self._initial is not None:
                self.first.load_state_dict(self._initial)
            self._first_is_new = False
            return self.first
        seed = self.config.seed if number == 0 else torch_seed(self.config.seed, Stream.NETS, number)
        if isinstance(self.model, nn.Module):
            return self._build(reinitialised(self.first, seed), seed)
        return self._build(self.model, seed)

    def check_batches(self, size: int, source: str) -> None:
        """Refuse batches that are too small for the net, before anything is written or trained.

        A batch norm over features, or over an image of one pixel, has nothing to normalise a single sample by.
        """
        pieces = min(self.config.accumulate, size)
        if size >= _least(self.first, pieces):
            return
        net = deepcopy(self.first).train()
        weight = next(net.parameters())
        try:
            net(self._first_inputs()[:1].to(weight.device, weight.dtype))
        except ValueError:
            parts = "" if pieces == 1 else f" in {pieces} pieces"
            raise PyriteError(
                f"a batch of {source} has {size} sample{'s'[: size > 1]}{parts}, but {python_name(self.model)} has "
                "batch norms, which need 2 or more at a time: take larger batches, or a net without batch norms"
            ) from None

    def _build(self, model: Any, seed: int) -> nn.Module:
        config, data = self.config, self.data
        shape = tuple(data.inputs.shape[1:])
        net = build_model(model, shape, len(data.classes), seed, self._first_inputs)
        dtype = torch.float64 if config.precision == "float64" else torch.float32
        layout = torch.channels_last if len(shape) == 3 else torch.preserve_format
        net.to(local_device(config.device), dtype).to(memory_format=layout)  # type: ignore[call-overload]  # in place
        broadcast_weights(net)
        return net

    def _first_inputs(self) -> Tensor:
        batches = Batches(
            self.data.numeric, self.data.labels, batch_size=_WHITENED, index=self.rows, seed=self.config.seed,
            normalise=self.scale,
        )  # fmt: skip
        return next(iter(batches)).inputs


def _least(net: nn.Module, accumulate: int) -> int:
    """The fewest samples that a batch must have: batch norms cannot normalise a single sample.

    A smaller last batch is left out; its samples come in other epochs.
    """
    norms = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
    return 2 * accumulate if any(isinstance(part, norms) for part in net.modules()) else 1


def make_learner(
    config: Config, net: nn.Module, steps_per_epoch: int, epochs: int, clip: Callable[[], None] | None = None
) -> Learner:
    """The net with the optimiser, precision and schedule of a resolved config. The schedule covers ``epochs``.

    ``clip`` replaces the configured clipping of gradients.
    """
    return Learner(
        net,
        config.optimiser.build([weight for weight in net.parameters() if weight.requires_grad]),
        partial(config.schedule.factor_at, per_epoch=steps_per_epoch, epochs=epochs),
        clip=clip or config.clip or None,
        accumulate=config.accumulate,
        precision=config.precision or "float32",
        compiled=config.compile,
    )
