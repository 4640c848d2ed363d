"""Embeddings: what a net that was trained elsewhere makes of each sample, computed once and kept on the disk."""

import hashlib
import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any, ClassVar, Final, Self, final

import numpy as np
import numpy.typing as npt
import torch
from rich.console import Console
from rich.progress import track
from torch import Tensor, nn

from pyrite import models
from pyrite.checks import whole_number
from pyrite.data import Dataset, InputKind, Inputs, LazyImages, Records, content, digest
from pyrite.errors import PyriteError
from pyrite.features.contract import Encoder, Features, State
from pyrite.files import npz_bytes, write
from pyrite.npz_files import read_npz
from pyrite.processes import all_gather

Numbers = npt.NDArray[np.float32]

_BLOCK: Final = 512  # samples per file of the cache, which is as much as an interruption can lose
_TIMED: Final = 8  # samples at a time
_MEASURED: Final = 0.03  # of the time, for measuring how long embeddings take
_SIZES: Final = (64, 80, 96, 112, 128)  # pixels, where there is no time for the default (docs/embeddings.md)
_WORTH_A_FILE: Final = 32  # fewer are computed again: a file for every single prediction would fill the cache


@dataclass(frozen=True, repr=False)
class NetEncoder(Encoder, ABC):
    """An encoder whose net is fixed. Nothing is fitted, and embeddings are cached by the content of the samples."""

    # Chosen on held-out given labels of CIFAR-10N (docs/results/default-method.md): at 0.1 wrong labels are followed
    # sooner, and 256 units are no better.
    model: ClassVar[str] = "mlp(hidden=[64])"
    learning_rate: ClassVar[float | None] = 0.01
    one_scale: ClassVar[bool] = False  # as Features.one_scale
    cached: ClassVar[bool] = True  # reading embeddings from the disk is faster than computing them

    @property
    @abstractmethod
    def weights(self) -> str:
        """A checksum of the net's weights."""

    @abstractmethod
    def embed(self, samples: npt.NDArray[Any] | list[str]) -> Numbers:
        """One row per sample, of a few hundred images, rows of numbers or texts."""

    def fit(self, inputs: Inputs, rows: npt.NDArray[np.int64], progress: bool = False) -> Features:
        return Embeddings(self)

    def restore(self, state: State) -> Features:
        if state.facts.get("weights") != self.weights:
            raise PyriteError(f"the weights of {self} have changed since the run was trained: restore them")
        return Embeddings(self)


@final
class Embeddings(Features):
    """The embeddings of a net, from the cache where they are known."""

    def __init__(self, encoder: NetEncoder) -> None:
        self.encoder, self.one_scale = encoder, encoder.one_scale
        self._net = f"{encoder} {encoder.weights}"

    def state(self) -> State:
        return State({}, {"weights": self.encoder.weights})

    def transform(self, inputs: Inputs, progress: bool = False) -> Numbers:
        console, rows = Console(stderr=True), np.empty((len(inputs), 0), np.float32)
        starts = range(0, len(inputs), _BLOCK)
        quiet = not (progress and console.is_terminal)
        for start in track(starts, str(self.encoder), console=console, disable=quiet):
            block = self._block(_some(inputs, start))
            if not start:  # and not a list of blocks, which would be in memory twice in the end
                rows = np.empty((len(inputs), block.shape[1]), np.float32)
            rows[start : start + len(block)] = block
        return rows

    def _block(self, inputs: Inputs) -> Numbers:
        """From the cache, if they are there and whole, or computed. A disk that is full is no error."""
        if len(inputs) < _WORTH_A_FILE or not self.encoder.cached:
            return self.compute(inputs)
        path = self._path(inputs)
        with suppress(ValueError):
            rows = read_npz(path).get("rows")
            if rows is not None and rows.dtype == np.float32 and rows.ndim == 2 and len(rows) == len(inputs):
                return rows
        rows = self.compute(inputs)
        with suppress(OSError):
            write(path, npz_bytes({"rows": rows}))
        return rows

    def knows(self, inputs: Inputs) -> bool:
        """Whether the first of these samples are in the cache."""
        return self._path(_some(inputs, 0)).exists()

    def _path(self, inputs: Inputs) -> Path:
        name = digest([self._net.encode(), *content(inputs)])
        return cache_folder() / name[:2] / f"{name}.npz"

    def compute(self, inputs: Inputs) -> Numbers:
        """Without the cache."""
        good, samples = np.ones(len(inputs), bool), inputs.texts() if isinstance(inputs, Records) else inputs
        if isinstance(samples, LazyImages):
            samples, good, _ = samples.read(np.arange(len(inputs)))
            if not good.any():
                samples = np.zeros((1, *inputs.shape[1:]), np.uint8)  # for the width of a row
        found, count = self.encoder.embed(samples), len(samples)
        if found.ndim != 2 or len(found) != count or not found.shape[1]:
            raise PyriteError(f"{self.encoder} returns {found.shape} for {count} samples, but must return one row each")
        finite = np.isfinite(found).all(1)
        if not finite.all():
            raise PyriteError(f"{self.encoder} returns numbers that are not finite for sample {int(finite.argmin())}")
        rows = np.full((len(inputs), found.shape[1]), np.nan, np.float32)
        rows[good] = found[: good.sum()]
        return rows


def _some(inputs: Inputs, start: int, count: int = _BLOCK) -> Inputs:
    """So many consecutive samples, of images that are read lazily without reading them."""
    rows = np.arange(start, min(start + count, len(inputs)))
    return inputs.some(rows) if isinstance(inputs, LazyImages) else inputs[start : start + count]


@dataclass(frozen=True, repr=False)
class EfficientnetLite(NetEncoder, ABC):
    """1,280 numbers per image, from an EfficientNet-Lite pretrained on ImageNet."""

    takes: ClassVar[frozenset[InputKind]] = frozenset({"images"})
    net: ClassVar[type[models.EfficientnetLite]]

    size: Annotated[int, partial(whole_number, least=32, most=1024)] = 224

    def check(self, data: Dataset) -> None:
        super().check(data)
        self.net.source.file()
        channels = data.inputs.shape[1]
        if channels not in (1, 3):
            raise PyriteError(
                f"features is {self}, which requires images of 1 or 3 channels, but {data.name} has {channels}"
            )

    @property
    def architecture(self) -> models.EfficientnetLite:
        return self.net(size=self.size, pretrained=True)

    @property
    def weights(self) -> str:
        return self.net.source.sha256

    def within(self, data: Dataset, samples: int | None, seconds: float) -> Self:
        """The same, or at a smaller size at which the images of ``data`` are embedded in so many seconds.

        Some images are timed on this machine as it is now, unless the embeddings are in the cache.
        """
        features, times = Embeddings(self), list[float]()
        if all(all_gather(features.knows(data.inputs))):
            return self
        for start in range(0, min(_BLOCK, len(data)), _TIMED):
            some, begun = _some(data.inputs, start, _TIMED), perf_counter()
            features.compute(some)
            times.append((perf_counter() - begun) / len(some))
            if _TIMED * sum(times[1:]) > _MEASURED * seconds:
                break
        # The mean, because other programs take their time in bursts; the first time is that of building the net.
        image = max(all_gather(float(np.mean(times[1:] or times))))
        count = samples or len(data)
        count += sum(len(part) for part in (data.test, data.validation, data.clean) if part is not None)
        pixels = self.size**2 * seconds / (count * image)
        fitting = (size for size in _SIZES if size**2 <= pixels)
        return self if pixels >= self.size**2 else replace(self, size=max(fitting, default=_SIZES[0]))

    def embed(self, samples: npt.NDArray[Any] | list[str]) -> Numbers:
        net, mean, std = _built(self.architecture)

        def embed(some: Any) -> Tensor:
            images = ((torch.from_numpy(np.array(some)).float() / 255 - mean) / std).expand(-1, 3, -1, -1)
            found: Tensor = net(images.to(memory_format=torch.channels_last))
            return found

        # So few that what is computed on the way stays in the processor's cache: twice as fast as 64 at a time.
        return in_batches(embed, samples, 8)


@final
@dataclass(frozen=True, repr=False)
class EfficientnetLite0(EfficientnetLite):
    """1,280 numbers per image, from EfficientNet-Lite0 pretrained on ImageNet.

    Args:
        size: images are scaled to this height and width; the net was trained on 224, and smaller is faster.

    >>> str(EfficientnetLite0(size=112))
    'efficientnet_lite0(size=112)'
    """

    net = models.EfficientnetLite0


@final
@dataclass(frozen=True, repr=False)
class EfficientnetLite2(EfficientnetLite):
    """1,280 numbers per image, from EfficientNet-Lite2 pretrained on ImageNet.

    Args:
        size: images are scaled to this height and width; the net was trained on 260, and smaller is faster.

    >>> str(EfficientnetLite2())
    'efficientnet_lite2(size=160)'
    """

    net = models.EfficientnetLite2

    size: Annotated[int, partial(whole_number, least=32, most=1024)] = 160


@cache
def _built(described: models.EfficientnetLite) -> tuple[nn.Module, float, float]:
    side = described.size or 1
    net = models.fold_batch_norms(described.build((3, side, side), classes=2, seed=0).body)
    return net.to(memory_format=torch.channels_last), *(described.normalisation or (0.0, 1.0))  # type: ignore[call-overload]


@final
@dataclass(frozen=True, repr=False)
class OwnModule(NetEncoder):
    """The outputs of any module, one row per sample. It is used in evaluation mode and not trained.

    Args:
        module: takes images, (N, C, H, W), as numbers from 0 to 1, or rows of numbers as they are, in float32. It
            normalises them itself, if it needs to.

    >>> OwnModule(nn.Flatten()).embed(np.full((1, 1, 2, 1), 255, np.uint8))
    array([[1., 1.]], dtype=float32)
    """

    takes: ClassVar[frozenset[InputKind]] = frozenset({"images", "numbers"})
    of_bytes: ClassVar[bool] = False
    cached: ClassVar[bool] = False  # weights do not determine what ``forward`` computes

    module: nn.Module

    def __str__(self) -> str:
        return type(self.module).__name__

    @property
    def weights(self) -> str:
        return checksum(self.module)  # which may have been trained since

    def embed(self, samples: npt.NDArray[Any] | list[str]) -> Numbers:
        was_training, weight = self.module.training, next(self.module.parameters(), torch.zeros(()))

        def embed(some: Any) -> Tensor:
            part = torch.from_numpy(np.array(some)).to(weight.device)
            found: Tensor = self.module(part / 255 if part.dtype == torch.uint8 else part.float())
            return found

        try:
            self.module.eval()
            return in_batches(embed, samples, 64)
        finally:
            self.module.train(was_training)


def in_batches(embed: Callable[[Any], Tensor], samples: npt.NDArray[Any] | list[str], size: int) -> Numbers:
    """What a net makes of samples, so many at a time."""
    with torch.inference_mode():
        parts = [embed(samples[start : start + size]) for start in range(0, len(samples), size)]
    return np.concatenate([part.float().cpu().numpy() for part in parts])


def checksum(net: nn.Module) -> str:
    """A checksum of the weights of a net."""
    hashed = hashlib.sha256()
    for name, tensor in net.state_dict().items():
        plain = tensor.detach().cpu().contiguous()
        hashed.update(f"{name} {plain.dtype} {tuple(plain.shape)}".encode())
        hashed.update(memoryview(plain.reshape(-1).view(torch.uint8).numpy()))
    return hashed.hexdigest()


def cache_folder() -> Path:
    """The folder of the embeddings: ``PYRITE_CACHE``, or one in the user's cache folder. It may be deleted any time."""
    named = os.environ.get("PYRITE_CACHE")
    if named:
        return Path(os.path.expanduser(named))
    import pooch

    return Path(pooch.os_cache("pyrite")) / "embeddings"
