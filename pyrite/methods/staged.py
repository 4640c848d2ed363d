"""Methods in two stages: a first model, an estimate from it, then training with that estimate."""

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, replace
from typing import Annotated, Any, final

import torch
from torch import Tensor, nn

from pyrite.checks import Count, flag
from pyrite.data import Batch
from pyrite.errors import PyriteError
from pyrite.methods.context import Cycle
from pyrite.methods.method import Composed, Context, MetaSet, Method, RunPart, Step, Trainer

Estimate = Mapping[str, Tensor]


@final
class Stages(Trainer):
    """Two trainers, one after the other.

    Args:
        method, context: of the whole run.
        at: the fraction of the epochs that the first stage takes; both have one epoch at least.
        then: makes the trainer of the second stage from its context and what was estimated. A resumed run calls it
            too, and loads its state afterwards.
        first: makes the trainer of the first stage; with cross entropy if None.
        estimate: what is estimated from the first trainer when its stage ends, as tensors, which are saved.
        restart: the second stage starts from the initial weights, and each stage has a schedule of its own. Otherwise
            the second continues with the nets, optimisers and schedule of the first.
    """

    saved = (*Trainer.saved, "number", "known")

    def __init__(
        self,
        method: Method,
        context: Context,
        at: float,
        then: Callable[[Context, Estimate], Trainer],
        *,
        first: Callable[[Context], Trainer] = Trainer,
        estimate: Callable[[Trainer], Estimate] = lambda trainer: {},
        restart: bool = True,
    ) -> None:
        super().__init__(context, nets=0)
        epochs = context.epochs
        if epochs < 2:
            raise PyriteError(f"epochs is {epochs}, but {method} needs 2 or more: one for each stage")
        self.early = min(max(1, round(at * epochs)), epochs - 1)
        self.then, self.estimate, self.restart = then, estimate, restart
        self.number = 0
        self.known: Estimate = {}
        self._enter(first(context.stage(self.early if restart else epochs)))

    @property
    def current(self) -> Trainer:
        """The trainer of the stage."""
        return self.trainers[0]

    def _enter(self, trainer: Trainer) -> None:
        self.trainers = nn.ModuleList([trainer])  # type: ignore[assignment]

    def _enter_second(self, continued: bool) -> None:
        epochs = self.context.epochs
        if self.restart:
            stage = self.context.stage(epochs - self.early)
        else:
            stage = self.context.stage(epochs, self.learners if continued else ())
        self.number = 1
        self._enter(self.then(stage, self.known))

    def begin_epoch(self, epoch: int) -> None:
        if epoch > self.early and self.number == 0:
            self.known = self.estimate(self.current)
            self._enter_second(continued=True)
        self.epoch = epoch
        self.current.begin_epoch(epoch - self.early * self.number)

    def step(self, batch: Batch) -> Step:
        return self.current.step(batch)

    def facts(self) -> Mapping[str, float]:
        numbers = {name: float(value) for name, value in self.known.items() if value.dim() == 0}
        return {"stage": self.number + 1, **numbers, **self.current.facts()}

    def arrays(self) -> Mapping[str, Tensor]:
        return {**self.known, **self.current.arrays()}

    def predict(self, inputs: Tensor, epoch: int | None = None, mirror: bool = False) -> Tensor:
        return self.current.predict(inputs, epoch, mirror)

    def set_extra_state(self, state: Mapping[str, Any]) -> None:
        super().set_extra_state(state)
        if self.number:  # before torch loads the state of the trainers
            self._enter_second(continued=False)


@final
@dataclass(repr=False, eq=False)
class Staged(Composed):
    """One method after another, such as a warm-up with cross entropy before a robust loss."""

    first: Method
    then: Method
    _: KW_ONLY
    at: RunPart = 0.2  # the fraction of the epochs that the first stage takes
    restart: Annotated[bool, flag] = False  # begin with the initial weights, or go on with net, optimiser and schedule

    def __post_init__(self) -> None:
        super().__post_init__()
        self.take_needs(first=self.first, then=self.then)

    @property
    def paced(self) -> "Staged":
        return replace(self, first=self.first.paced)

    def start(self, context: Context) -> Stages:
        def then(stage: Context, known: Estimate) -> Trainer:
            return self.then.start(stage)

        return Stages(self, context, self.at, then, first=self.first.start, restart=self.restart)


@final
@dataclass(repr=False, eq=False)
class FineTune(Method):
    """Cross entropy on the given labels, then only on the clean labels of the meta set.

    Net, optimiser and schedule continue, so the second stage has the low learning rates at the end of the schedule.
    """

    size: Count = 1000  # samples in the meta set, whose labels are clean
    at: RunPart = 0.8  # the fraction of the epochs that the first stage has

    def __post_init__(self) -> None:
        super().__post_init__()
        self.meta_set = MetaSet(self.size, clean=True)

    def start(self, context: Context) -> Stages:
        meta = context.meta  # raises now, not after the first stage, if there is none
        return Stages(self, context, self.at, lambda stage, known: FineTuneTrainer(stage, Cycle(meta)), restart=False)


@final
class FineTuneTrainer(Trainer):
    """For every batch of the training samples, a step on a batch of the meta set."""

    def __init__(self, context: Context, meta: Cycle) -> None:
        super().__init__(context)
        self.meta = meta

    def step(self, batch: Batch) -> Step:
        """Observers see the training samples, which have no weight, so that their margins are still recorded."""
        scores = self.learner.evaluate(batch.inputs).clone()
        step = super().step(self.meta.next())
        return replace(
            step, index=batch.index, labels=batch.labels, scores=scores, gradient=torch.zeros_like(scores), losses=None
        )
