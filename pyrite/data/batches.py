"""Batches of ``(inputs, labels, index)``: the same for any number of workers and ranks, resumable at any position."""

import math
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, Final, NamedTuple, final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from pyrite.arrays import to_ints
from pyrite.checks import whole_number
from pyrite.data.augment import CropFlip, Draws, Growth, crop_and_flip, jittered
from pyrite.data.dataset import Labels, Numeric, check_inputs
from pyrite.data.images import LazyImages, Unreadable
from pyrite.data.statistics import Statistics, check_finite
from pyrite.draws import Stream, order
from pyrite.errors import PyriteError


class Batch(NamedTuple):
    """The data that a method receives. It contains no true labels: observers join them on ``index``."""

    inputs: Tensor
    labels: Tensor
    index: Tensor  # type: ignore[assignment]  # hides tuple.index, which a batch does not need


class _Epoch(NamedTuple):
    """The random draws of an epoch: the order of the samples, their crops and their flips. And its number, from 0.

    Labels are in this order, and inputs if they are few, because one copy takes less time than one for each batch.
    """

    samples: Labels
    labels: Tensor
    inputs: Tensor | None
    draws: Draws | None
    number: int


Prepared = tuple[Batch, list[Unreadable]]
_FEW: Final = 1 << 24  # numbers of all images, which take 64 MiB as float32
_MOVED: Final = "the position of these batches was changed during the iteration: start a new iteration"


@final
class Batches:
    """Batches of a data set in an order that depends only on the seed and the epoch.

    One iteration is one epoch; the next iteration is the next epoch. An interrupted iteration can be continued, also in
    another process: after ``load_state_dict(state_dict())``, the remaining batches are identical, with the same crops
    and flips, because every draw depends only on the seed, the epoch and the position.

    Args:
        inputs: images or features, in the formats of ``Dataset``.
        labels: the given labels, one per input.
        batch_size: samples per batch, over all ranks together.
        seed: the seed of the order, crops and flips.
        index: the samples to use, such as ``split(...).train``; all by default.
        shuffle: whether to shuffle the samples in every epoch.
        augment: how images are cropped and flipped.
        growth: the sizes of images in the first epochs; by default, images have their full size.
        normalise: the mean and standard deviation for normalisation. Features are standardised in float64, then
            converted to float32. By default, uint8 images are scaled to [0, 1], and other inputs are unchanged.
        drop_last: whether to drop the last batch if it is smaller than the others.
        most: the maximum number of batches per epoch. Samples are shuffled in every epoch, so all samples are
            eventually used.
        rank, world_size: each rank receives a slice of every batch. The slices of all ranks, in order, form the batch
            of a single process. Their sizes differ by at most one; slices of a small last batch can be empty.
        device: the device of the batches. If the whole data set fits on it, it is kept there.
        workers: the number of threads that read ahead, for images that are read lazily.

    >>> batches = Batches(np.zeros((10, 2), np.float32), np.arange(10) % 2, batch_size=4, seed=0)
    >>> [len(batch.labels) for batch in batches]
    [4, 4, 2]
    """

    def __init__(
        self,
        inputs: Numeric,
        labels: npt.ArrayLike,
        *,
        batch_size: int = 128,
        seed: int,
        index: npt.ArrayLike | None = None,
        shuffle: bool = True,
        augment: CropFlip | None = None,
        growth: Growth | None = None,
        normalise: Statistics | None = None,
        drop_last: bool = False,
        most: int | None = None,
        rank: int = 0,
        world_size: int = 1,
        device: str | torch.device = "cpu",
        workers: int = 0,
    ) -> None:
        self.batch_size = whole_number("batch_size", batch_size, 1)
        self.world_size = whole_number("world_size", world_size, 1)
        self.rank = whole_number("rank", rank, 0, self.world_size - 1)
        self.workers = whole_number("workers", workers, 0)
        if not isinstance(inputs, LazyImages):
            check_inputs(inputs, "inputs")
            if inputs.ndim == 2:
                check_finite(inputs, lambda row, column: f"features, row {row}, column {column}")
        column = to_ints(labels, "labels")
        if len(column) != len(inputs):
            raise PyriteError(f"labels has {len(column)} labels, but there are {len(inputs)} inputs")
        self.inputs, self.labels = inputs, torch.from_numpy(column.copy())  # batches may change it
        self.index = np.arange(len(inputs)) if index is None else to_ints(index, "index", least=0)
        if not self.index.size or self.index.max() >= len(inputs):
            wrong = f"is {self.index.max()}, but there are {len(inputs)} samples" if self.index.size else "is empty"
            raise PyriteError(f"index {wrong}")
        self.most = None if most is None else whole_number("most", most, 1)
        self.seed, self.shuffle, self.drop_last = whole_number("seed", seed, least=0), shuffle, drop_last
        self.device = torch.device(device)
        self.augment, self.growth, self.normalise = augment, growth, normalise
        self.epoch = self.position = 0
        self._views: tuple[int, Draws] | None = None  # the second draws for all samples, and their epoch
        self._identity = {"seed": self.seed, "samples": len(self.index), "batch_size": self.batch_size}
        self.unreadable: dict[str, Unreadable] = {}
        if normalise is not None and len(normalise.mean) != inputs.shape[1]:
            raise PyriteError(f"normalise has {len(normalise.mean)} means, the inputs have {inputs.shape[1]} channels")
        if inputs.ndim == 4:  # scale and shift that turn images into the inputs of a model
            largest = 255 if inputs.dtype == np.uint8 else 1
            if augment is not None and augment.jitter is not None and largest == 1:
                raise PyriteError(f"jitter changes colours from 0 to 255; these are {inputs.dtype}: leave it out")
            std, mean = (1.0, 0.0) if normalise is None else (np.array(normalise.std), np.array(normalise.mean))
            affine = (np.asarray(a, np.float32).reshape(-1, 1, 1) for a in (1 / (std * largest), -mean / std))
            self._scale, self._shift = (torch.from_numpy(a).to(self.device) for a in affine)
            self._crop_size = None if augment is None else augment.size(inputs.shape[2], inputs.shape[3])
        elif augment is not None:
            raise PyriteError("augment crops images, but the samples are features: omit it")
        elif growth is not None:
            raise PyriteError("growth changes the size of images, but the samples are features: omit it")
        if not len(self):
            raise PyriteError(
                f"drop_last leaves nothing: there are {len(self.index)} samples, batch_size is {batch_size}"
            )
        whole = None if isinstance(inputs, LazyImages) else inputs
        # Few images that are not augmented are scaled once.
        self._scaled = whole is not None and whole.ndim == 4 and augment is None and whole.size <= _FEW
        self._tensor = None if whole is None else self._as_tensor(whole)

    def __len__(self) -> int:
        """Batches per epoch."""
        whole, rest = divmod(len(self.index), self.batch_size)
        every = whole + (rest > 0 and not self.drop_last)
        return every if self.most is None else min(every, self.most)

    def __iter__(self) -> Iterator[Batch]:
        index, draws, start = self.index, None, self.position
        if self.shuffle:
            index = index[order(self.seed, Stream.SHUFFLE, len(index), self.epoch)]
        if self.augment is not None:
            height, width = self.inputs.shape[2:]
            draws = self.augment.draw(height, width, index, len(self.inputs), self.seed, self.epoch)
        rows = torch.from_numpy(index)
        inputs = self._tensor[rows.to(self.device)] if self._scaled and self._tensor is not None else None
        epoch = _Epoch(index, self.labels[rows], inputs, draws, self.epoch)
        prepared = self._read_ahead if isinstance(self.inputs, LazyImages) and self.workers else map
        for position, (batch, bad) in enumerate(prepared(partial(self._batch, epoch), range(start, len(self))), start):
            if (self.epoch, self.position) != (epoch.number, position):
                raise RuntimeError(_MOVED)
            for entry in bad:
                self.unreadable[entry.path] = entry
            self.position = position + 1
            yield batch
            if self.position >= len(self):  # ``most`` was lowered
                break
        if (self.epoch, self.position) != (epoch.number, len(self)):
            raise RuntimeError(_MOVED)
        self.epoch, self.position = epoch.number + 1, 0

    def in_order(self, index: Labels | None = None) -> "Batches":
        """Batches for evaluation: the same samples, or those of ``index``, in ascending order, without augmentation.

        Batches have up to 500 samples. They need about as much memory as training batches, because no gradients are
        stored.
        """
        chosen = np.sort(self.index if index is None else index)
        return Batches(
            self.inputs, self.labels.numpy(), batch_size=min(500, 4 * self.batch_size), seed=self.seed, index=chosen,
            shuffle=False, normalise=self.normalise, rank=self.rank, world_size=self.world_size, device=self.device,
            workers=self.workers,
        )  # fmt: skip

    def state_dict(self) -> dict[str, int]:
        """The epoch and position as plain numbers, and the settings that determine the order."""
        return {"epoch": self.epoch, "position": self.position, **self._identity}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Move to the position of another iteration over the same data."""
        for name, value in self._identity.items():
            if state.get(name) != value:
                raise PyriteError(f"the state is of batches with {name} {state.get(name)!r}, these have {value}")
        self.seek(state.get("epoch", -1), state.get("position", -1))

    def seek(self, epoch: int, position: int = 0) -> None:
        """Move to a batch of an epoch."""
        epoch, position = whole_number("epoch", epoch, 0), whole_number("position", position, 0)
        if position > len(self):
            raise PyriteError(f"position is {position}: an epoch has {len(self)} batches")
        self.epoch, self.position = epoch, position

    def _batch(self, epoch: _Epoch, position: int) -> Prepared:
        """This rank's slice of a batch, and the images that it lacks because they cannot be read."""
        start = position * self.batch_size
        size, rest = divmod(min(self.batch_size, len(self.index) - start), self.world_size)
        begin = start + self.rank * size + min(self.rank, rest)
        place: Any = slice(begin, begin + size + (self.rank < rest))
        numbers, bad = epoch.samples[place], list[Unreadable]()
        source, rows = epoch.inputs, place
        if source is None and isinstance(self.inputs, LazyImages):
            pixels, good, bad = self.inputs.read(numbers)
            place, numbers = np.arange(place.start, place.stop)[good], numbers[good]
            source, rows = torch.from_numpy(pixels), torch.arange(len(pixels))
        elif source is None:
            source, rows = self._rows(numbers)
        draws = None if epoch.draws is None else epoch.draws.at(place)
        index, labels = torch.from_numpy(numbers), epoch.labels[place]
        inputs = self._shown(source, rows, draws, epoch.number)
        if self.device.type != "cpu":
            labels, index = self._moved(labels), self._moved(index)
        return Batch(inputs, labels, index), bad

    def again(self, index: Tensor) -> Tensor:
        """These samples as the current epoch would show them with other random crops, flips and colours.

        The draws depend on the seed, the epoch and the sample. An image that alternating flips mirror in a batch is not
        mirrored here. Without augmentation these are the inputs of the batch again.
        """
        on_device = self._tensor is not None and self._tensor.device == index.device
        index = index if on_device else index.cpu()
        source, rows = self._tensor, index
        if isinstance(self.inputs, LazyImages):
            pixels, _, bad = self.inputs.read(index.numpy(), max(1, self.workers))
            if bad:
                raise PyriteError(bad[0].reason)
            source, rows = torch.from_numpy(pixels), torch.arange(len(pixels))
        elif not on_device:
            source, rows = self._rows(index.numpy())
        assert source is not None
        draws = None
        if self.augment is not None:
            if self._views is None or self._views[0] != self.epoch:
                (height, width), count = self.inputs.shape[2:], len(self.inputs)
                drawn = self.augment.draw(height, width, np.arange(count), count, self.seed, self.epoch, view=1)
                self._views = self.epoch, drawn.moved(index.device)
            draws = self._views[1].at(index)
        return self._shown(source, rows, draws, self.epoch)

    def _rows(self, numbers: Labels) -> tuple[Tensor, Any]:
        """A tensor with these samples of data in memory, and their rows in it."""
        if self._tensor is None:
            return _to_tensor(np.asarray(self.inputs[numbers]), self.normalise), slice(None)
        rows = torch.from_numpy(numbers)
        return self._tensor, rows if self._tensor.is_cpu else self._moved(rows)

    def _shown(self, source: Tensor, rows: Any, draws: Draws | None, number: int) -> Tensor:
        """Rows of a tensor as an epoch shows them, on the device of the batches."""
        colour = None
        if draws is None or self.augment is None or self._crop_size is None:
            inputs = source[rows]
        else:
            source = self.augment.padded(source) if isinstance(self.inputs, LazyImages) else source
            draws = draws if source.is_cpu else Draws(*(p if p is None else self._moved(p) for p in draws))  # type: ignore[arg-type]
            inputs, colour = crop_and_flip(source, rows, draws, self._crop_size), draws.colour
        if self.device.type != "cpu":
            inputs = self._moved(inputs)
            colour = None if colour is None else self._moved(colour)
        inputs = inputs.float()
        if colour is not None:
            inputs = jittered(inputs, colour)
        if inputs.ndim == 4 and not self._scaled:
            inputs = inputs.mul_(self._scale).add_(self._shift)
        return inputs if self.growth is None else self.growth.resized(inputs, number)

    def _moved(self, rows: Tensor) -> Tensor:
        """Rows on the device of the batches. From pinned memory they are copied while the device works."""
        if not rows.is_cpu:
            return rows
        return (rows.pin_memory() if self.device.type == "cuda" else rows).to(self.device, non_blocking=True)

    def _read_ahead(self, prepare: Callable[[int], Prepared], positions: range) -> Iterator[Prepared]:
        """Batches in order, while threads read the next ones. Image decoders release the GIL."""
        waiting: deque[Future[Prepared]] = deque()
        # A thread that pins memory without a device of its own would take memory of the first GPU.
        begin = partial(torch.cuda.set_device, self.device) if self.device.type == "cuda" else None
        with ThreadPoolExecutor(self.workers, initializer=begin) as pool:
            try:
                for position in positions:
                    waiting.append(pool.submit(prepare, position))
                    if len(waiting) > 2 * self.workers:
                        yield waiting.popleft().result()
                while waiting:
                    yield waiting.popleft().result()
            finally:
                for future in waiting:
                    future.cancel()

    def _as_tensor(self, inputs: npt.NDArray[Any]) -> Tensor | None:
        """The whole data set as one tensor; None for features on the CPU, whose batches are converted one at a time.

        What takes more than half of the free GPU memory is not copied there: batches are copied one at a time.
        """
        most = torch.cuda.mem_get_info(self.device)[0] // 2 if self.device.type == "cuda" else math.inf
        if inputs.ndim == 2:
            if self.device.type == "cpu" or 4 * inputs.size > most:
                return None
            return _to_tensor(inputs, self.normalise).to(self.device)
        # Shares memory with the caller's array where torch can.
        whole = torch.from_numpy(np.require(inputs, requirements=["C", "W"]))
        if self._scaled:
            return whole.to(self.device).float().mul(self._scale).add_(self._shift)
        whole = self.augment.padded(whole) if self.augment is not None else whole
        return whole if whole.nbytes > most else whole.to(self.device)


def _to_tensor(features: npt.NDArray[Any], normalise: Statistics | None) -> Tensor:
    """Features as inputs of a model. They are centred before the conversion to float32."""
    if normalise is not None:
        return torch.from_numpy(normalise.standardise(features))
    if features.dtype != np.float32 and np.abs(features).max(initial=0) > np.finfo(np.float32).max:
        raise PyriteError(f"features up to {np.abs(features).max()!r} do not fit into float32: pass normalise")
    return torch.from_numpy(features.astype(np.float32))
