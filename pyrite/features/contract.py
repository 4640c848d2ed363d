"""The contract: an encoder describes how samples become numbers, and what it fits to the training part does it."""

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from pyrite.data import Dataset, InputKind, Inputs, kind_of
from pyrite.errors import PyriteError
from pyrite.files import npz_bytes
from pyrite.npz_files import read_npz
from pyrite.spec import HasSpec

_FACTS: Final = "facts"
_PLURAL: Final = {"images": "images", "numbers": "plain numbers", "table": "a table of several kinds", "text": "texts"}


class State(NamedTuple):
    """All that fitted features consist of: arrays of numbers or texts, and facts that JSON can hold."""

    arrays: Mapping[str, npt.NDArray[Any]]
    facts: Mapping[str, Any]


class Features(ABC):
    """What turns samples into numbers, fitted to the training part."""

    names: tuple[str, ...] = ()  # one per number, where they mean something
    one_scale: bool = False  # the sizes of the numbers mean something: one standard deviation divides all of them

    @abstractmethod
    def transform(self, inputs: Inputs, progress: bool = False) -> npt.NDArray[Any]:
        """Float32 or float64 of shape (N, F). A sample that cannot be read is a row of NaN."""

    def unfamiliar(self, inputs: Inputs) -> tuple[str, ...]:
        """Sentences about values that were not in the training part, which the model has never seen."""
        return ()

    @abstractmethod
    def state(self) -> State:
        """What ``Encoder.restore`` makes the same features of."""


@dataclass(frozen=True, repr=False)
class Encoder(HasSpec, ABC):
    """The configuration of an encoder of samples. ``str(encoder)`` is its spec string.

    >>> import pyrite
    >>> str(pyrite.FEATURES["tfidf"]())
    'tfidf(size=300)'
    """

    takes: ClassVar[frozenset[InputKind]] = frozenset()
    """The kinds of samples that it can encode."""

    of_bytes: ClassVar[bool] = True
    """Whether images must be bytes, from 0 to 255."""

    model: ClassVar[str] = ""
    """The net that suits its features; empty for the default of features."""

    learning_rate: ClassVar[float | None] = None
    """The learning rate that suits them, as ``Architecture.learning_rate`` is; None for that of the net."""

    @abstractmethod
    def fit(self, inputs: Inputs, rows: npt.NDArray[np.int64], progress: bool = False) -> Features:
        """Fit the encoder to these rows of the inputs only."""

    @abstractmethod
    def restore(self, state: State) -> Features:
        """Restore fitted features from their state. Raises ValueError if the state does not match."""

    def check(self, data: Dataset) -> None:
        """Raise ValueError if the encoder cannot encode the samples of a data set."""
        kind = kind_of(data.inputs)
        if kind not in self.takes:
            wanted = " or ".join(sorted(self.takes))
            raise PyriteError(f"features is {self}, which requires {wanted}, but {data.name} has {_PLURAL[kind]}")
        if kind == "images" and self.of_bytes and data.numeric.dtype != np.uint8:
            raise PyriteError(
                f"features is {self}, which requires uint8 images from 0 to 255, but those of {data.name} are "
                f"{data.numeric.dtype}: pass the original images"
            )


def state_bytes(state: State) -> bytes:
    """The content of ``features.npz``. Facts are JSON within it, so that both are always of one run."""
    return npz_bytes({_FACTS: np.frombuffer(json.dumps(dict(state.facts)).encode(), np.uint8), **state.arrays})


def read_state(path: str | Path) -> State:
    """The state in a ``features.npz``. Nothing in it is executed, and a damaged file is a ValueError."""
    arrays = read_npz(path)
    try:
        facts = json.loads(arrays.pop(_FACTS).astype(np.uint8).tobytes())
    except (KeyError, ValueError, RecursionError, TypeError):
        facts = None
    if not isinstance(facts, dict):
        raise PyriteError(f"{path} is damaged: it does not describe its features")
    return State(arrays, facts)
