"""Embeddings: what a net that was trained elsewhere says of each sample, computed once."""

import hashlib
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Final, final

import numpy as np
import numpy.typing as npt
import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from torch import nn

from pyrite.data import Inputs, LazyImages, Records
from pyrite.errors import PyriteError
from pyrite.features.cache import digest, recall, remember
from pyrite.features.contract import Encoder, Features, State

__all__ = ["Embeddings", "NetEncoder", "checksum"]

Numbers = npt.NDArray[np.float32]

# Samples per file of the cache, which is as much as an interruption can lose.
_BLOCK: Final = 512
# Fewer are computed again: a file for every single prediction would fill the cache.
_WORTH_A_FILE: Final = 32


@dataclass(frozen=True, repr=False)
class NetEncoder(Encoder, ABC):
    """An encoder whose net is fixed. Nothing is fitted, and embeddings are cached by the content of the samples."""

    # Chosen on held-out given labels of CIFAR-10N, see docs/results.md: at 0.1 wrong labels are followed sooner, and
    # 256 units are no better.
    model: ClassVar[str] = "mlp(hidden=[64])"
    rate: ClassVar[float | None] = 0.01

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
            raise PyriteError(f"the weights of {self} have changed since the run was trained: put back what it had")
        return Embeddings(self)


@final
class Embeddings(Features):
    """The embeddings of a net, from the cache where they are known."""

    def __init__(self, encoder: NetEncoder) -> None:
        self.encoder = encoder
        self._net = f"{encoder} {encoder.weights}"

    def state(self) -> State:
        return State({}, {"weights": self.encoder.weights})

    def transform(self, inputs: Inputs, progress: bool = False) -> Numbers:
        console = Console(stderr=True)
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        rows = []
        with Progress(*columns, console=console, disable=not (progress and console.is_terminal)) as bar:
            task = bar.add_task(str(self.encoder), total=len(inputs))
            for start in range(0, len(inputs), _BLOCK):
                rows.append(self._block(_part(inputs, start, start + _BLOCK)))
                bar.advance(task, len(rows[-1]))
        return np.concatenate(rows)

    def _block(self, inputs: Inputs) -> Numbers:
        name = digest(self._net, inputs) if len(inputs) >= _WORTH_A_FILE else ""
        known = recall(name, len(inputs)) if name else None
        if known is None:
            known = self._compute(inputs)
            if name:
                remember(name, known)
        return known

    def _compute(self, inputs: Inputs) -> Numbers:
        if isinstance(inputs, Records):
            return self._checked(self.encoder.embed(inputs.texts()), len(inputs))
        if not isinstance(inputs, LazyImages):
            return self._checked(self.encoder.embed(inputs), len(inputs))
        images, good, _ = inputs.read(np.arange(len(inputs)))
        if not good.any():
            images = np.zeros((1, *inputs.shape[1:]), np.uint8)  # for the width of a row
        found = self._checked(self.encoder.embed(images), len(images))
        rows = np.full((len(inputs), found.shape[1]), np.nan, np.float32)
        rows[good] = found[: good.sum()]
        return rows

    def _checked(self, rows: Numbers, count: int) -> Numbers:
        if rows.ndim != 2 or len(rows) != count or not rows.shape[1]:
            raise PyriteError(f"{self.encoder} makes {rows.shape} of {count} samples, but must make one row of each")
        finite = np.isfinite(rows).all(1)
        if not finite.all():
            raise PyriteError(f"{self.encoder} makes numbers that are not finite of sample {int(finite.argmin())}")
        return rows


def checksum(net: nn.Module) -> str:
    """A checksum of the weights of a net."""
    hashed = hashlib.sha256()
    for name, tensor in net.state_dict().items():
        plain = tensor.detach().cpu().contiguous()
        hashed.update(f"{name} {plain.dtype} {tuple(plain.shape)}".encode())
        hashed.update(memoryview(plain.reshape(-1).view(torch.uint8).numpy()))
    return hashed.hexdigest()


def _part(inputs: Inputs, start: int, stop: int) -> Inputs:
    if isinstance(inputs, LazyImages):
        return inputs.some(np.arange(start, min(stop, len(inputs))))
    part: Inputs = inputs[start:stop]
    return part
