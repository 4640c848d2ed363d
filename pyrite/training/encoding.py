"""The features of a run: fitted to its training part, and applied to all its samples."""

from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np
import numpy.typing as npt

from pyrite.data import Dataset, Inputs, LazyImages, Part, Unreadable
from pyrite.features import Encoder, Features, State
from pyrite.processes import all_gather, rank

__all__ = ["Encoded", "encode_data"]


@final
@dataclass(frozen=True)
class Encoded:
    """A data set whose inputs are numbers or images.

    Attributes:
        data: the data set.
        features: what made numbers of its inputs; None if they were trained on as they are.
        unreadable: samples without numbers, by their index; a run sets them aside.
    """

    data: Dataset
    features: Features | None
    unreadable: npt.NDArray[np.int64]


def encode_data(
    described: Encoder | None,
    data: Dataset,
    part: npt.NDArray[np.int8],
    saved: State | None = None,
    progress: bool = False,
) -> Encoded:
    """The data set of a run with encoded inputs.

    The features are fitted to the training part alone, by process 0 for all, or are those that were ``saved``, because
    another machine might fit other last digits. Samples that a run does not use become zeros.
    """
    if described is None:
        return Encoded(data, None, np.zeros(0, np.int64))
    if saved is None:
        rows = np.flatnonzero(part == Part.TRAIN)
        state = described.fit(data.inputs, rows, progress).state() if rank() == 0 else None
        saved = all_gather(state)[0]
        assert saved is not None
    features = described.restore(saved)

    def encoded(source: Dataset | None) -> Dataset | None:
        if source is None:
            return None
        numbers, bad = _without_nan(features.transform(source.inputs, progress))
        keep = np.setdiff1d(np.arange(len(source)), bad)
        some = replace(source, inputs=numbers, columns=())
        return some if not len(bad) else replace(
            some, inputs=numbers[keep], labels=source.labels[keep], paths=tuple(np.array(source.paths)[keep]),
            unreadable=(*source.unreadable, *_unreadable(source, bad)),
        )  # fmt: skip

    used = np.flatnonzero(part != Part.UNUSED)
    found, bad = _without_nan(features.transform(_some(data.inputs, used), progress))
    numbers, bad = np.zeros((len(data), found.shape[1]), found.dtype), used[bad]
    numbers[used] = found
    some = replace(
        data, inputs=numbers, columns=(), test=encoded(data.test), clean=encoded(data.clean),
        validation=encoded(data.validation), unreadable=(*data.unreadable, *_unreadable(data, bad)),
    )  # fmt: skip
    return Encoded(some, features, bad)


def _some(inputs: Inputs, rows: npt.NDArray[np.int64]) -> Inputs:
    if len(rows) == len(inputs):
        return inputs
    part: Inputs = inputs.some(rows) if isinstance(inputs, LazyImages) else inputs[rows]
    return part


def _without_nan(numbers: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
    """Numbers with zeros in the rows of samples that could not be read, and which rows these are."""
    bad = np.flatnonzero(np.isnan(numbers).all(1))
    if len(bad):
        numbers = numbers.copy()
        numbers[bad] = 0
    return numbers, bad


def _unreadable(data: Dataset, rows: npt.NDArray[np.int64]) -> list[Unreadable]:
    names = [data.paths[row] if data.paths else f"sample {row}" for row in rows.tolist()]
    return [Unreadable(name, f"{name}: cannot be read") for name in names]
