"""From a job to what runs: nets, batches, the trainer and the record."""

import math
import os
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final, final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from pyrite.data import Batches, Growth, LazyImages, Part, Statistics, checksums, describe, split
from pyrite.draws import Stream, torch_seed
from pyrite.errors import PyriteError
from pyrite.features import state_bytes
from pyrite.files import npz_bytes
from pyrite.methods import Context, Learner, Trainer
from pyrite.methods.learner import weakly
from pyrite.models import Architecture, build_model, reinitialised
from pyrite.processes import broadcast_weights, local_device, rank, sync_batch_norm, world_size
from pyrite.training.config import Config, Job, python_name
from pyrite.training.evaluation import Evaluation
from pyrite.training.own_objects import own_objects
from pyrite.training.prepare import add_noise, apply_corrections, encode, find_consensus, read_corrections
from pyrite.training.record import Record

_WHITENED: Final = 2048  # inputs that a net may use before training, for whitening
_NORMS: Final = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)


@final
class Training:
    """A job that is ready to run: its samples and labels, batches, nets, trainer, record and evaluation.

    ``folder`` is that of a run that is resumed. With ``progress``, a bar is shown while samples are embedded.

    Attributes:
        labels: the columns of ``labels.npz``.
        files: the contents of other files that are written before training, such as ``features.npz``.
        warnings: sentences about corrections.
        facts: what is needed to use the net later.
    """

    def __init__(self, job: Job, folder: Path | None = None, progress: bool = False) -> None:
        self.job, self.config, config = job, job.config, job.config
        self._device = local_device(config.device)
        self.checksums, self.objects = checksums(job.data), own_objects(config)  # which a method may change
        self._prepare(folder, progress)
        data, labels, features, net = self.data, self.labels, self._features, config.model
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
                self.batches, weakly(self._make_learner), epochs=config.epochs, classes=len(data.classes), meta=meta,
                noise_matrix=self._noise_matrix, held_out=held_out, soft_labels=self._soft_labels,
                groups=lambda: job.data.kept_together,
            )
        )  # fmt: skip
        if not isinstance(self.trainer, Trainer):
            raise PyriteError(f"{config.method}.start returned {self.trainer!r}, but must return a Trainer")
        self.evaluation = Evaluation(
            self.trainer, test, held_out, keep_best=config.keep == "best", mirror=bool(config.mirror),
            split_off=bool((labels["part"] == Part.VALIDATION).any()),
        )  # fmt: skip
        self.record = Record(labels["given"], labels.get("true"), classes=len(data.classes), evaluation=self.evaluation)
        raw, scale = job.data, self.scale
        self.facts = {
            "classes": data.classes, "shape": data.inputs.shape[1:], "mean": scale.mean, "std": scale.std,
            **self._counts, "inputs": describe(raw), "notes": raw.warnings, "checksums": self.checksums,
        }  # fmt: skip

    def _prepare(self, folder: Path | None, progress: bool) -> None:
        """The samples and labels: noise, corrections, parts, and inputs that are encoded."""
        job, config, data, wanted = self.job, self.config, self.job.data, self.config.method.meta_set
        self.files, self.warnings = dict[str, bytes](), list[str]()
        given, true, self._noise_matrix = data.labels, data.true, None
        if config.noise is not None:
            given, true, self._noise_matrix = add_noise(job, config.noise)
        consensus = None
        if (own := data.annotations) is not None:
            consensus = find_consensus(job, own, folder)
            given = consensus.argmax(1)
            arrays = {"labels": own.labels, "names": np.array(own.names), "consensus": consensus}
            self.files["annotations.npz"] = npz_bytes(arrays)
        if wanted and wanted.clean and true is None and data.clean is None:
            raise PyriteError(
                f"{config.method} requires samples with known true labels, but those of {data.name} are unknown: "
                "use a method without them, such as meta_weight(meta='noisy')"
            )
        count = len(given) if config.samples is None else config.samples
        if count > len(given):
            raise PyriteError(f"samples is {count}, but {data.name} has {len(given)}")
        chosen = np.arange(len(given)) if count == len(given) else split(given, meta=count, seed=config.seed).meta
        corrected, kept, self._counts = given, chosen, dict[str, int]()
        if config.corrections:
            content = self.files["corrections.csv"] = read_corrections(config, folder)
            corrected, kept, self.warnings = apply_corrections(config, replace(data, labels=given), chosen, content)
            self._counts["corrected"] = int((corrected != given)[kept].sum())
            self._counts["dropped"] = len(chosen) - len(kept)
        meta = wanted.size if wanted and not (wanted.clean and data.clean is not None) else 0
        groups = data.kept_together[kept] if meta or config.validation else None
        parts = split(corrected[kept], meta=meta, validation=config.validation or 0.0, seed=config.seed, groups=groups)
        part = np.full(len(given), Part.UNUSED, np.int8)
        for name, rows in ((Part.TRAIN, parts.train), (Part.VALIDATION, parts.validation), (Part.META, parts.meta)):
            part[kept[rows]] = name
        labels: dict[str, npt.NDArray[Any] | None]
        labels = {"index": np.arange(len(given)), "given": corrected, "part": part, "true": true}
        labels |= {"original": given if config.corrections else None}
        labels |= {"path": np.array(data.paths, object) if data.paths else None}
        self.labels = {name: column for name, column in labels.items() if column is not None}
        self.data, self._features, self._soft_labels = data, None, None
        if config.features is not None:
            self.data, self._features = encode(job, config.features, part, folder, progress)
            self.files["features.npz"] = state_bytes(self._features.state())
        if consensus is not None:
            changed = np.flatnonzero(corrected != given)
            consensus[changed] = np.eye(consensus.shape[1])[corrected[changed]]
            self._soft_labels = torch.tensor(consensus, dtype=torch.float32)

    def _make_batches(self) -> tuple[Batches, Batches | None, Batches | None, Batches | None]:
        """The batches of the training samples, the meta set, the held-out samples and the test samples."""
        config, data, labels, size, rows = self.config, self.data, self.labels, self.config.batch_size, self._rows
        workers = min(8, os.cpu_count() or 1) if isinstance(data.inputs, LazyImages) else 0
        batches = partial(
            Batches, seed=config.seed, normalise=self.scale, rank=rank(), world_size=world_size(), device=self._device,
            workers=workers,
        )  # fmt: skip
        # Batch norms cannot normalise a single sample. A smaller last batch is left out; its samples come in other
        # epochs.
        norms = any(isinstance(part, _NORMS) for part in self._first.modules())
        least = 2 * config.accumulate if norms else 1
        if min(size, len(rows)) < least:
            self._check_small_batches(min(size, len(rows)), "the training samples")
        train = batches(
            data.numeric, np.where(labels["part"] == Part.TRAIN, labels["given"], -1), batch_size=size, index=rows,
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
            augment = config.augment if wanted.augmented else None
            meta = batches(
                source.numeric, given, batch_size=size, index=index, augment=augment, drop_last=len(index) >= size
            )
        held_out = np.flatnonzero(labels["part"] == Part.VALIDATION)
        in_order = partial(batches, batch_size=min(500, 4 * size), shuffle=False)
        validation = None if data.validation is None else in_order(data.validation.numeric, data.validation.labels)
        if len(held_out):
            validation = in_order(data.numeric, labels["given"], index=held_out)
        # A test part in tracklets shows other people than the training part, so its labels cannot be predicted.
        if data.test is None or data.test.tracklets is not None:
            return train, meta, validation, None
        return train, meta, validation, in_order(data.test.numeric, data.test.labels)

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
                f"{python_name(self.config.model)} has batch norms, which need 2 or more at a time: use larger "
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
