"""How long a run will take, before it is begun."""

import warnings
from itertools import pairwise
from time import perf_counter
from typing import Final

from pyrite.methods import Step
from pyrite.processes import join
from pyrite.training.assembly import assemble
from pyrite.training.loop import fit
from pyrite.training.plan import Plan

__all__ = ["expected_seconds"]

_STEPS: Final = 2  # that are timed; the one before them allocates memory and may compile
_FORWARD: Final = 1 / 3  # of a step: going back through a net takes about twice as long as going forward


class _Clock:
    """An observer that notes when a step is done."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def after_step(self, step: Step) -> None:
        self.times.append(perf_counter())

    def after_epoch(self, epoch: int) -> None:
        """A short epoch may end before enough steps are made."""

    @property
    def enough(self) -> bool:
        return len(self.times) > _STEPS


def expected_seconds(plan: Plan) -> float:
    """The time that a run will take, from its first three steps, which are made and thrown away.

    Work that a method does between epochs is not counted. A run with fewer than two steps takes no time.

    Args:
        plan: of a run whose net and method are written in words; a net that is passed as an object would be changed.
    """
    join(plan.recipe.device)
    clock, epochs = _Clock(), plan.recipe.epochs
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the run itself will warn
        parts = assemble(plan.recipe, plan.data, plan.method, features=plan.features)
        recorder = parts.recorder
        fit(parts.trainer, parts.batches, epochs, [recorder, clock], lambda: clock.enough)
    if len(clock.times) < 2:
        return 0.0
    # The shortest, because an epoch may have ended between two steps.
    step = min(later - earlier for earlier, later in pairwise(clock.times))
    evaluated = sum(len(part.index) for part in (recorder.test, recorder.validation) if part is not None)
    passes = (epochs * evaluated + len(parts.batches.index)) / plan.recipe.batch_size
    return step * (epochs * len(parts.batches) + _FORWARD * passes)
