"""Methods in stages: a first model, an estimate from it, then training with that estimate."""

from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple, final

import numpy as np
import numpy.typing as npt
from torch import Tensor, nn

from pyrite.checks import flag, number
from pyrite.data import Batch
from pyrite.errors import PyriteError
from pyrite.methods.context import Context
from pyrite.methods.method import MetaSet, Method, Trainer
from pyrite.methods.step import Step

__all__ = ["Estimate", "Stage", "Staged", "Stages", "checked_share", "stage_lengths"]

Estimate = Mapping[str, Tensor]


def _nothing(trainer: Trainer) -> Estimate:
    return {}


class Stage(NamedTuple):
    """A part of a run with a trainer of its own.

    Attributes:
        epochs: its length.
        start: makes its trainer from what earlier stages estimated and the trainer of the previous stage. The latter is
            None in the first stage, and in a resumed run, whose state is loaded afterwards.
        estimate: what is estimated from its trainer when it ends, as tensors; they are saved for a resume.
    """

    epochs: int
    start: Callable[[Estimate, Trainer | None], Trainer]
    estimate: Callable[[Trainer], Estimate] = _nothing


@final
class Stages(Trainer):
    """The trainers of several stages, one after the other."""

    def __init__(self, stages: Sequence[Stage]) -> None:
        self.stages = stages
        self.ends = list(accumulate(stage.epochs for stage in stages))
        self.number = 0
        self.known: Estimate = {}
        self._enter(None)

    def begin_epoch(self, epoch: int) -> None:
        while epoch > self.ends[self.number] and self.number + 1 < len(self.stages):
            self.known = {**self.known, **self.stages[self.number].estimate(self.current)}
            self.number += 1
            self._enter(self.current)
        self.current.begin_epoch(epoch - (self.ends[self.number - 1] if self.number else 0))

    def _enter(self, before: Trainer | None) -> None:
        self.current = self.stages[self.number].start(self.known, before)
        self.learners = self.current.learners

    def step(self, batch: Batch) -> Step:
        return self.current.step(batch)

    def end_epoch(self) -> None:
        self.current.end_epoch()

    def facts(self) -> Mapping[str, float]:
        """The number of the stage, estimates that are single numbers, and the facts of the current stage."""
        numbers = {name: float(value) for name, value in self.known.items() if value.dim() == 0}
        return {"stage": self.number + 1, **numbers, **self.current.facts()}

    def arrays(self) -> Mapping[str, npt.NDArray[np.floating[Any]]]:
        """What was estimated, and the arrays of the current stage."""
        return {name: value.cpu().numpy() for name, value in self.known.items()} | dict(self.current.arrays())

    @property
    def predictors(self) -> Sequence[nn.Module]:
        return self.current.predictors

    def predict(self, inputs: Tensor) -> Tensor:
        return self.current.predict(inputs)

    def state_dict(self) -> dict[str, Any]:
        return {"stage": self.number, "known": dict(self.known), "now": self.current.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.number, self.known = state["stage"], state["known"]
        if self.number:
            self._enter(None)
        self.current.load_state_dict(state["now"])


def checked_share(at: float) -> float:
    """``at``, if it is above 0 and below 1, so that both stages have epochs."""
    return number("at", at, above=0, below=1)


def stage_lengths(method: Method, epochs: int, at: float) -> tuple[int, int]:
    """The epochs of two stages, at least one each; the first has the share ``at``."""
    if epochs < 2:
        raise PyriteError(f"epochs is {epochs}, but {method} needs 2 or more: one for each stage")
    early = min(max(1, round(at * epochs)), epochs - 1)
    return early, epochs - early


@final
class Staged(Method):
    """One method after another, such as a warm-up with cross entropy before a robust loss.

    Args:
        first: the method of the first stage.
        then: the method of the second stage.
        at: the share of the epochs that the first stage takes.
        restart: start the second stage from the initial weights. Otherwise it continues with the nets, optimisers and
            schedule of the first.

    >>> from pyrite import CE, MAE
    >>> from pyrite.methods import ERM
    >>> str(Staged(ERM(CE()), ERM(MAE()), at=0.1))
    'staged(erm(ce), erm(mae), at=0.1)'
    """

    def __init__(self, first: Method, then: Method, *, at: float = 0.2, restart: bool = False) -> None:
        for name, method in (("first", first), ("then", then)):
            if not isinstance(method, Method):
                raise PyriteError(f"{name} is {method!r}, but must be a method, such as erm(ce)")
        if first.meta_set and then.meta_set and first.meta_set != then.meta_set:
            raise PyriteError("first and then want different meta sets: give both the same size and labels")
        self.first, self.then, self.at, self.restart = first, then, checked_share(at), flag("restart", restart)

    @property
    def meta_set(self) -> MetaSet | None:
        return self.first.meta_set or self.then.meta_set

    @property
    def largest_weight(self) -> float:
        return max(self.first.largest_weight, self.then.largest_weight)

    @property
    def needs_clipping(self) -> bool:
        return self.first.needs_clipping or self.then.needs_clipping

    @property
    def held_out(self) -> float:
        return max(self.first.held_out, self.then.held_out)

    def start(self, context: Context) -> Stages:
        early, late = stage_lengths(self, context.epochs, self.at)

        def first(known: Estimate, before: Trainer | None) -> Trainer:
            return self.first.start(context.stage(early if self.restart else context.epochs))

        def then(known: Estimate, before: Trainer | None) -> Trainer:
            if self.restart:
                return self.then.start(context.stage(late))
            return self.then.start(context.stage(context.epochs, before.learners if before else ()))

        return Stages([Stage(early, first), Stage(late, then)])
