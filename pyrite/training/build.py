"""From a job to what runs: nets, batches, the trainer and the record."""

import math
import os
from collections.abc import Callable
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import Any, Final, final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from pyrite.data import Batches, Dataset, Growth, LazyImages, Part, Statistics, checksums, describe
from pyrite.draws import Stream, torch_seed
from pyrite.errors import PyriteError
from pyrite.methods import Context, Learner, Trainer
from pyrite.models import Architecture, build_model, reinitialised
from pyrite.processes import broadcast_weights, device_problem, local_device, rank, sync_batch_norm, world_size
from pyrite.training.config import Config, Job, python_name
from pyrite.training.evaluation import Evaluation
from pyrite.training.prepare import prepare
from pyrite.training.record import Record

_WHITENED: Final = 2048  # inputs that a net may use before training, for whitening
_NORMS: Final = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)


@final
class Training:
    """A job that is ready to run: its samples and labels, batches, nets, trainer, record and evaluation.

    ``folder`` is that of a run that is resumed. With ``progress``, a bar is shown while samples are embedded.
    """

    def __init__(self, job: Job, folder: Path | None = None, progress: bool = False) -> None:
        self.job, self.config = job, job.config
        config, self._device = job.config, local_device(job.config.device)
        check_device(self._device)
        self.checksums = checksums(job.data)
        self.prepared = prepare(job, folder, progress)
        self.data, self.labels = self.prepared.data, self.prepared.labels
        data, labels, features, net = self.data, self.labels, self.prepared.features, config.model
        self._rows = np.flatnonzero(labels["part"] == Part.TRAIN)
        if isinstance(net, Architecture) and net.normalisation is not None and data.numeric.dtype == np.uint8:
            # What pretrained weights expect of bytes, in place of the training part's own statistics.
            self.scale = Statistics(*((value,) * data.inputs.shape[1] for value in net.normalisation))
        else:
            self.scale = Statistics.of(data.numeric, self._rows)
            self.scale = self.scale.with_one_scale() if features is not None and features.one_scale else self.scale
        self._first = self._build_net(net, config.seed)
        # A net that the user passed is trained in place, so a copy of its initial weights is kept.
        self._initial = deepcopy(self._first.state_dict()) if isinstance(net, nn.Module) else None
        self._first_is_new = True
        self.batches, meta, held_out, test = self._make_batches()
        self.trainer = config.method.start(
            Context(
                self.batches, self._make_learner, epochs=config.epochs, classes=len(data.classes), meta=meta,
                noise_matrix=self.prepared.noise_matrix, held_out=held_out, soft_labels=self.prepared.soft_labels,
                groups=lambda: job.data.kept_together,
            )
        )  # fmt: skip
        if not isinstance(self.trainer, Trainer):
            raise PyriteError(f"{config.method} starts with {self.trainer!r}, but must start with a Trainer")
        self.evaluation = Evaluation(
            self.trainer, test, held_out, keep_best=config.keep == "best", mirror=bool(config.mirror),
            split_off=bool((labels["part"] == Part.VALIDATION).any()), growth=self.batches.growth,
        )  # fmt: skip
        self.record = Record(labels["given"], labels.get("true"), classes=len(data.classes), evaluation=self.evaluation)

    def _make_batches(self) -> tuple[Batches, Batches | None, Batches | None, Batches | None]:
        """The batches of the training samples, the meta set, the held-out samples and the test samples."""
        config, data, labels, size, rows = self.config, self.data, self.labels, self.config.batch_size, self._rows
        workers = min(8, os.cpu_count() or 1) if isinstance(data.inputs, LazyImages) else 0

        def batches(source: Dataset, given: npt.NDArray[Any], **options: Any) -> Batches:
            return Batches(
                source.numeric, given, seed=config.seed, normalise=self.scale, rank=rank(), world_size=world_size(),
                device=self._device, workers=workers, **options,
            )  # fmt: skip

        # Batch norms cannot normalise a single sample. A smaller last batch is left out; its samples come in other
        # epochs.
        norms = any(isinstance(part, _NORMS) for part in self._first.modules())
        least = 2 * config.accumulate if norms else 1
        if min(size, len(rows)) < least:
            self._check_small_batches(min(size, len(rows)), "the training samples")
        train = batches(
            data, np.where(labels["part"] == Part.TRAIN, labels["given"], -1), batch_size=size, index=rows,
            augment=config.augment, growth=Growth(config.grow, config.epochs) if config.grow < 1 else None,
            most=None if config.iterations is None else math.ceil(config.iterations / config.epochs),
            drop_last=len(rows) > size and len(rows) % size < least,
        )  # fmt: skip
        meta = None
        if wanted := config.method.meta_set:
            if wanted.clean and data.clean is not None:
                source, given, index = data.clean, data.clean.labels, np.arange(len(data.clean))
            else:
                source, is_meta = data, labels["part"] == Part.META
                given, index = np.where(is_meta, labels["true" if wanted.clean else "given"], -1), is_meta.nonzero()[0]
            if min(size, len(index)) < least:
                self._check_small_batches(min(size, len(index)), "the meta set")
            meta = batches(source, given, batch_size=size, index=index, drop_last=len(index) >= size)
        held_out, in_order = np.flatnonzero(labels["part"] == Part.VALIDATION), {"batch_size": 500, "shuffle": False}
        validation = None if data.validation is None else batches(data.validation, data.validation.labels, **in_order)
        if len(held_out):
            validation = batches(data, labels["given"], index=held_out, **in_order)
        # A test part in tracklets shows other people than the training part, so its labels cannot be predicted.
        if data.test is None or data.test.tracklets is not None:
            return train, meta, validation, None
        return train, meta, validation, batches(data.test, data.test.labels, **in_order)

    def _check_small_batches(self, size: int, source: str) -> None:
        """Refuse batches that are too small for the net, before anything is written or trained.

        A batch norm over features, or over an image of one pixel, has nothing to normalise a single sample by.
        """
        pieces = min(self.config.accumulate, size)
        if size >= 2 * pieces:
            return
        net = deepcopy(self._first).train()
        weight = next(net.parameters())
        try:
            net(self._first_inputs()[:1].to(weight.device, weight.dtype))
        except ValueError:
            parts = "" if pieces == 1 else f" in {pieces} pieces"
            raise PyriteError(
                f"a batch of {source} has {size} sample{'s'[: size > 1]}{parts}, but "
                f"{python_name(self.config.model)} has batch norms, which need 2 or more at a time: take larger "
                "batches, or a net without batch norms"
            ) from None

    def _make_learner(self, number: int, epochs: int) -> Learner:
        """A net with its optimiser. The same number gives the same initial weights, any other number others."""
        model, seed = self.config.model, self.config.seed
        seed = seed if number == 0 else torch_seed(seed, Stream.NETS, number)
        if number == 0 and (self._first_is_new or self._initial is not None):
            net, self._first_is_new = self._first, False
            if self._initial is not None:
                net.load_state_dict(self._initial)
        else:
            net = self._build_net(reinitialised(self._first, seed) if isinstance(model, nn.Module) else model, seed)
        return make_learner(self.config, sync_batch_norm(net) if world_size() > 1 else net, len(self.batches), epochs)

    def _build_net(self, model: Any, seed: int) -> nn.Module:
        shape = tuple(self.data.inputs.shape[1:])
        net = build_model(model, shape, len(self.data.classes), seed, self._first_inputs)
        dtype = torch.float64 if self.config.precision == "float64" else torch.float32
        layout = torch.channels_last if len(shape) == 3 else torch.preserve_format
        net.to(self._device, dtype).to(memory_format=layout)  # type: ignore[call-overload]  # in place
        if world_size() > 1:
            broadcast_weights(net)
        return net

    def _first_inputs(self) -> Tensor:
        batches = Batches(
            self.data.numeric, self.data.labels, batch_size=_WHITENED, index=self._rows, seed=self.config.seed,
            normalise=self.scale,
        )  # fmt: skip
        return next(iter(batches)).inputs

    @property
    def facts(self) -> dict[str, Any]:
        """What is needed to use the net later."""
        data, raw, scale = self.data, self.job.data, self.scale
        facts = {"classes": data.classes, "shape": data.inputs.shape[1:], "mean": scale.mean, "std": scale.std}
        return facts | {
            **self.prepared.counts, "inputs": describe(raw), "notes": raw.notes, "checksums": self.checksums
        }  # fmt: skip


def check_device(device: str) -> None:
    """Raise ``PyriteError`` if a device is not available."""
    if problem := device_problem(device):
        raise PyriteError(f"device is {device!r}, which is not available: {problem}")


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
