"""Methods in two stages: a first model, an estimate from it, then training with that estimate."""

from collections.abc import Callable, Mapping
from typing import Any, final

from torch import Tensor, nn

from pyrite.checks import flag, number
from pyrite.data import Batch
from pyrite.errors import PyriteError
from pyrite.methods.method import Composed, Context, Method, Step, Trainer

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
        """The number of the stage, estimates that are single numbers, and the facts of the current stage."""
        numbers = {name: float(value) for name, value in self.known.items() if value.dim() == 0}
        return {"stage": self.number + 1, **numbers, **self.current.facts()}

    def arrays(self) -> Mapping[str, Tensor]:
        """What was estimated, and the arrays of the current stage."""
        return {**self.known, **self.current.arrays()}

    def predict(self, inputs: Tensor) -> Tensor:
        return self.current.predict(inputs)

    def set_extra_state(self, state: Mapping[str, Any]) -> None:
        super().set_extra_state(state)
        if self.number:  # before torch loads the state of the trainers
            self._enter_second(continued=False)


def stage_fraction(at: float) -> float:
    """``at``, if it is above 0 and below 1, so that both stages have epochs."""
    return number("at", at, above=0, below=1)


@final
class Staged(Composed):
    """One method after another, such as a warm-up with cross entropy before a robust loss.

    Args:
        first: the method of the first stage.
        then: the method of the second stage.
        at: the fraction of the epochs that the first stage takes.
        restart: start the second stage from the initial weights. Otherwise it continues with the nets, optimisers and
            schedule of the first.

    >>> from pyrite import CE, MAE
    >>> from pyrite.methods import ERM
    >>> str(Staged(ERM(CE()), ERM(MAE()), at=0.1))
    'staged(erm(ce), erm(mae), at=0.1)'
    """

    def __init__(self, first: Method, then: Method, *, at: float = 0.2, restart: bool = False) -> None:
        super().__init__(first=first, then=then)
        self.first, self.then, self.at, self.restart = first, then, stage_fraction(at), flag("restart", restart)

    def start(self, context: Context) -> Stages:
        return Stages(
            self, context, self.at, lambda stage, known: self.then.start(stage), first=self.first.start,
            restart=self.restart,
        )  # fmt: skip
