"""The contract of methods: a description with one spelling, and the trainer that it becomes for one run."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from pyrite.criterion import Loss
from pyrite.data import Batch
from pyrite.errors import PyriteError
from pyrite.methods.context import Context
from pyrite.methods.learner import Learner
from pyrite.methods.step import Step
from pyrite.models import Ensemble, mean_scores
from pyrite.spec import HasSpec

__all__ = ["Around", "MetaSet", "Method", "Trainer"]


class MetaSet(NamedTuple):
    """The meta set that a method needs: the number of samples, and whether their labels are true ones or given ones."""

    size: int
    clean: bool = False


class Trainer(ABC):
    """A method that was started for one run.

    A subclass sets ``learners`` in its constructor and implements ``step``. Whatever else it keeps between steps goes
    into ``state_dict``, so that a resumed run ends with the same bytes. With several processes each of them has a
    trainer, which sees its share of every batch: sums over samples are all-reduced, and numbers
    that are kept per sample are a ``Memory``.
    """

    learners: Sequence[Learner]

    @abstractmethod
    def step(self, batch: Batch) -> Step:
        """One step on a batch.

        If the loss or the gradient is not finite, ``FloatingPointError`` is raised, and the weights stay as they were.
        """

    def begin_epoch(self, epoch: int) -> None:  # noqa: B027  # most have nothing to do
        """Called before the first batch of an epoch; epochs are counted from 1."""

    def end_epoch(self) -> None:  # noqa: B027
        """Called after the last batch of an epoch, before anything is evaluated."""

    def facts(self) -> Mapping[str, float]:
        """Numbers about the epoch that has ended, for the history, under names that the history does not use itself."""
        return {}

    def arrays(self) -> Mapping[str, npt.NDArray[np.floating[Any]]]:
        """What was learned beside the nets, under names of the method's own; written to ``method.npz``."""
        return {}

    @property
    def learning_rate(self) -> float:
        """The learning rate of the next step."""
        return self.learners[0].learning_rate

    @property
    def predictors(self) -> Sequence[nn.Module]:
        """The nets that predict; of several, the mean of their probabilities is the prediction."""
        return [learner.model for learner in self.learners]

    def predict(self, inputs: Tensor) -> Tensor:
        """Scores of inputs, as the trained model gives them."""
        each = [self.learners[0].evaluate(inputs, net) for net in self.predictors]
        return each[0] if len(each) == 1 else mean_scores(torch.stack(each))

    @property
    def model(self) -> nn.Module:
        """The nets that predict, as one module, which a run saves."""
        nets = self.predictors
        return nets[0] if len(nets) == 1 else Ensemble(nets)

    def state_dict(self) -> dict[str, Any]:
        """All that a resume needs. A subclass adds to it.

        Losses that are attributes of the trainer are part of it, because a user's own loss may have buffers that
        change. With several processes, those of the first are saved.
        """
        learners = {str(number): learner.state_dict() for number, learner in enumerate(self.learners)}
        return {"learners": learners, "criteria": {name: loss.state_dict() for name, loss in self._criteria().items()}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue where another trainer of the same method stopped."""
        for number, learner in enumerate(self.learners):
            learner.load_state_dict(state["learners"][str(number)])
        for name, loss in self._criteria().items():
            loss.load_state_dict(state["criteria"][name])

    def _criteria(self) -> dict[str, Loss]:
        return {name: value for name, value in vars(self).items() if isinstance(value, Loss)}


class Method(HasSpec, ABC):
    """A description of a training algorithm. ``str(method)`` is the text that builds it again."""

    @property
    def meta_set(self) -> MetaSet | None:
        """The meta set that it needs; None if it needs none."""
        return None

    @property
    def largest_weight(self) -> float:
        """The largest weight it gives a sample, at least 1, which is that of cross entropy.

        Default learning rates suit cross entropy. A method that weights samples more makes larger steps, so its default
        rate is lower.
        """
        return 1.0

    @property
    def needs_clipping(self) -> bool:
        """Whether it keeps pushing samples that are learned, so that scores can grow without bound.

        Then gradients grow with the scores, so they are clipped unless a recipe says otherwise.
        """
        return False

    @property
    def held_out(self) -> float:
        """The share of samples that is best held out, by whose given labels the epoch to save is chosen.

        Data without a test part have a tenth held out in any case. A recipe may say otherwise.
        """
        return 0.0

    def resolve_defaults(self, *, augmented: bool, held_out: bool) -> "Method":
        """The method with what suits a run filled in, so that its recipe tells it.

        Args:
            augmented: whether every epoch shows other images.
            held_out: whether some samples are held out with their given labels.
        """
        return self

    @abstractmethod
    def start(self, context: Context) -> Trainer:
        """Start the method for one run."""

    def __eq__(self, other: Any) -> bool:
        return type(self) is type(other) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))


class Around(Method):
    """A method that trains with another one, and needs what that needs."""

    def __init__(self, method: Method) -> None:
        if not isinstance(method, Method):
            raise PyriteError(f"method is {method!r}, but must be a method, such as erm(ce)")
        self.method = method

    @property
    def meta_set(self) -> MetaSet | None:
        return self.method.meta_set

    @property
    def largest_weight(self) -> float:
        return self.method.largest_weight

    @property
    def needs_clipping(self) -> bool:
        return self.method.needs_clipping

    @property
    def held_out(self) -> float:
        return self.method.held_out
