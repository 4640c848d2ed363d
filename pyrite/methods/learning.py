"""What a method is: a description with one spelling, and what it becomes once it has a model to train."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pyrite.data import Batch, Batches
from pyrite.methods.learner import Learner, Step
from pyrite.spec import Spelled

__all__ = ["Learning", "Meta", "Method"]


class Meta(NamedTuple):
    """What a method wants held out to be guided by: how many samples, with true labels or given ones."""

    size: int
    clean: bool = False


class Learning(ABC):
    """A method at work on a model."""

    learner: Learner

    @abstractmethod
    def step(self, batch: Batch) -> Step:
        """One step on a batch. If loss or gradient is not finite, ``FloatingPointError``, and the weights stay."""

    def end_epoch(self) -> Mapping[str, float]:
        """Close an epoch: what the method has to say of it, for the history."""
        return {}

    def arrays(self) -> Mapping[str, npt.NDArray[np.floating[Any]]]:
        """What it has learned beside the model, with a row an epoch."""
        return {}

    def state_dict(self) -> Mapping[str, Any]:
        """What it holds beside the learner, for a resume."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:  # noqa: B027  # most hold nothing
        """Go on where another left off."""


class Method(Spelled, ABC):
    """How a model learns. ``str(method)`` is the text that makes it again."""

    @property
    def wants(self) -> Meta | None:
        """The meta set it needs; None if none."""
        return None

    @property
    def strength(self) -> float:
        """The largest weight it gives a sample, of those above that of cross entropy, which is 1.

        Learning rates suit cross entropy. A method that weighs samples more makes larger steps, and needs a lower one.
        """
        return 1.0

    @property
    def grows(self) -> bool:
        """Whether it goes on pushing samples that are learned, so that scores can grow without bound.

        Then gradients grow with the scores, and steps must be bounded: they are clipped if nobody says otherwise.
        """
        return False

    @abstractmethod
    def start(self, learner: Learner, meta: Batches | None = None) -> Learning:
        """The method at work on a model; ``meta`` are batches of the meta set it wants."""

    def __eq__(self, other: Any) -> bool:
        return type(self) is type(other) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))
