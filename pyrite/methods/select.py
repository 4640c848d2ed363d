"""Several methods side by side, of which those predict that do best on held-out labels."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final, final

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from pyrite.data import Batch, Batches
from pyrite.diagnostics import clearly_better
from pyrite.errors import PyriteError
from pyrite.methods.context import Context
from pyrite.methods.learner import Learner
from pyrite.methods.method import MetaSet, Method, Trainer
from pyrite.methods.step import Step
from pyrite.processes import all_gather

__all__ = ["Select", "as_good_as_the_best"]

Hits = npt.NDArray[np.bool_]

_CLIP: Final = 1.0  # for methods whose scores could grow without bound, as in runs of their own


@final
class Select(Method):
    """Train several methods side by side; after every epoch, those predict that are best on held-out given labels.

    Each method has a net of its own, with initial weights of its own, and makes a step on every batch. A method is
    left out of the prediction if the best one predicts more of the held-out labels by more than one standard error
    (``pyrite.diagnostics.clearly_better``); the prediction is the mean of the probabilities of the others. Given labels
    suffice for that: wrong ones lower the accuracy of all methods alike, except of those that follow them.

    The learning rate is that of cross entropy. A method that weights samples more has its rate divided by that weight,
    and the gradients of one whose scores could grow without bound are clipped, as in runs of their own. Observers see
    the steps of the best method. If nothing is held out, all methods predict.

    Args:
        methods: two or more.

    >>> from pyrite import CE
    >>> from pyrite.methods import ELR, ERM
    >>> str(Select(ERM(CE()), ELR()))
    'select(erm(ce), elr(coefficient=3, momentum=0.7))'

    McNemar, 1947, for the standard error.
    """

    def __init__(self, *methods: Method) -> None:
        for number, method in enumerate(methods, 1):
            if not isinstance(method, Method):
                raise PyriteError(f"method {number} is {method!r}, but must be a method, such as erm(ce)")
        if len(methods) < 2:
            raise PyriteError(f"select has {len(methods)} methods, but must have 2 or more to select from")
        if len({method.meta_set for method in methods if method.meta_set}) > 1:
            raise PyriteError("the methods want different meta sets: give all of them the same size and labels")
        self.methods = methods

    @property
    def meta_set(self) -> MetaSet | None:
        return next((method.meta_set for method in self.methods if method.meta_set), None)

    @property
    def held_out(self) -> float:
        return max(0.05, *(method.held_out for method in self.methods))

    def resolve_defaults(self, *, augmented: bool, held_out: bool) -> "Select":
        return Select(*(method.resolve_defaults(augmented=augmented, held_out=held_out) for method in self.methods))

    def start(self, context: Context) -> "_Selecting":
        return _Selecting(self.methods, context)


def as_good_as_the_best(hits: Sequence[Hits]) -> list[int]:
    """The best of several predictors, of equals the first, and then those that it does not clearly beat.

    Args:
        hits: of every predictor, which of the same labels it predicts.

    >>> as_good_as_the_best([np.array([1, 0, 0, 0], bool), np.array([1, 1, 1, 0], bool), np.array([1, 1, 0, 0], bool)])
    [1, 2]
    """
    best = max(range(len(hits)), key=lambda number: int(hits[number].sum()))
    others = (number for number in range(len(hits)) if number != best)
    return [best, *(number for number in others if not clearly_better(hits[best], hits[number]))]


@final
class _Selecting(Trainer):
    """One trainer per method."""

    def __init__(self, methods: Sequence[Method], context: Context) -> None:
        self.context = context
        self.trainers = [
            method.start(context.member(number, len(methods), partial(_suit, method)))
            for number, method in enumerate(methods)
        ]
        self.selected = list(range(len(methods)))
        self._gather_learners()

    def _gather_learners(self) -> None:
        self.learners = [learner for trainer in self.trainers for learner in trainer.learners]

    def begin_epoch(self, epoch: int) -> None:
        for trainer in self.trainers:
            trainer.begin_epoch(epoch)
        self._gather_learners()  # a method in stages may go on with others

    def step(self, batch: Batch) -> Step:
        steps = [trainer.step(batch) for trainer in self.trainers]
        return steps[self.selected[0]]

    def end_epoch(self) -> None:
        for trainer in self.trainers:
            trainer.end_epoch()
        if self.context.held_out is not None:
            self.selected = as_good_as_the_best(
                [self._hits(trainer, self.context.held_out) for trainer in self.trainers]
            )

    def _hits(self, trainer: Trainer, held_out: Batches) -> Hits:
        """Which of the held-out labels a method predicts, for images of the size that it is trained on now."""
        growth, epoch = self.context.batches.growth, max(0, self.context.batches.epoch - 1)
        own = [torch.zeros(0, dtype=torch.long)]
        for inputs, labels, index in held_out:
            shown = inputs if growth is None else growth.resized(inputs, epoch)
            own.append(index[trainer.predict(shown).argmax(1) == labels].cpu())
        held_out.seek(0)
        return np.isin(held_out.index, torch.cat([rows for part in all_gather(own) for rows in part]).numpy())

    def facts(self) -> Mapping[str, float]:
        """The number of the best method, counted from 1, and how many predict."""
        return {"best_method": self.selected[0] + 1, "selected": len(self.selected)}

    def arrays(self) -> Mapping[str, npt.NDArray[np.floating[Any]]]:
        """The arrays of all methods, with the number of the method in their names."""
        return {
            f"{name}_{number}": values
            for number, trainer in enumerate(self.trainers, 1)
            for name, values in trainer.arrays().items()
        }

    @property
    def predictors(self) -> Sequence[nn.Module]:
        return [net for number in sorted(self.selected) for net in self.trainers[number].predictors]

    def state_dict(self) -> dict[str, Any]:
        trainers = {str(number): trainer.state_dict() for number, trainer in enumerate(self.trainers)}
        return {"trainers": trainers, "selected": self.selected}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        for number, trainer in enumerate(self.trainers):
            trainer.load_state_dict(state["trainers"][str(number)])
        self.selected = [int(number) for number in state["selected"]]
        self._gather_learners()


def _suit(method: Method, learner: Learner) -> None:
    """Give a learner the rate and the clipping that its method has in a run of its own."""
    learner.learning_rates = [rate / method.largest_weight for rate in learner.learning_rates]
    if method.needs_clipping and learner.clip is None:
        learner.clip = _CLIP
