"""What a method is: a description with one spelling, and what it becomes once it has a model to train."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Protocol

from torch import Tensor

from pyrite.data import Batch
from pyrite.methods.learner import Learner, Step
from pyrite.spec import construct, spell

__all__ = ["Learning", "Method"]


class Learning(Protocol):
    """A method at work on a model."""

    @property
    def learner(self) -> Learner:
        """The model that is trained, with its optimiser."""
        ...

    def step(self, batch: Batch) -> Step:
        """One step on a batch. If loss or gradient is not finite, ``FloatingPointError``, and the weights stay."""
        ...

    def state_dict(self) -> Mapping[str, Tensor]:
        """What it holds beside the learner, for a resume."""
        ...

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go on where another left off."""
        ...


class Method(ABC):
    """How a model learns. ``str(method)`` is the text that makes it again."""

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
    def start(self, learner: Learner) -> Learning:
        """The method at work on a model."""

    def __str__(self) -> str:
        return spell(self)

    def __repr__(self) -> str:
        return construct(self)

    def __eq__(self, other: Any) -> bool:
        return type(self) is type(other) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))
