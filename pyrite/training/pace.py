"""How long a run will take, and how much training fits into a given time."""

import warnings
from bisect import bisect_right
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from time import perf_counter
from typing import Any, Final, final

from torch import nn

from pyrite.data import Dataset, Growth
from pyrite.features import Encoder
from pyrite.methods import Method, Step
from pyrite.models import Architecture, Factory, FastCNN, architecture
from pyrite.processes import all_gather, join
from pyrite.training.assembly import Parts, assemble
from pyrite.training.loop import fit
from pyrite.training.recipe import GIVEN, Recipe

__all__ = ["Pace", "fitting", "measure_pace"]

_STEPS: Final = 4  # that are timed; the one before them allocates memory and may compile
_FORWARD: Final = 1 / 3  # of a step: going back through a net takes about twice as long as going forward
_MOST: Final = 300  # epochs; ten minutes of a small table would be thousands
_SPARE: Final = 0.05  # of the time, for what a method does between epochs

# A wider net gains more than further epochs, once there are so many (docs/results.md, the default method).
_WIDER: Final = (1.5, 2, 3, 4)
_EPOCHS, _UPDATES = 20, 4000


@final
@dataclass(frozen=True)
class Pace:
    """The time that a run takes.

    Attributes:
        small: seconds per step on the images of the first epoch.
        whole: seconds per step on whole images.
        steps: per epoch.
        trained: batches of all training samples.
        evaluated: batches that are predicted after every epoch.
        first: the side of images in the first epoch, as a share.
    """

    small: float
    whole: float
    steps: int
    trained: float
    evaluated: float
    first: float = 1.0

    def seconds(self, epochs: int) -> float:
        """Of so many epochs. At the end, the training samples are predicted once.

        >>> Pace(small=0.5, whole=0.5, steps=8, trained=7.5, evaluated=6).seconds(epochs=10)
        51.25
        """
        growth = Growth(self.first, epochs)
        steps = sum(self._step(growth.side(100, epoch) / 100) for epoch in range(epochs))
        return steps * (self.steps + _FORWARD * self.evaluated) + _FORWARD * self.trained * self.whole

    def epochs(self, seconds: float) -> int:
        """The most epochs that take no longer; at least one.

        >>> Pace(small=0.5, whole=0.5, steps=8, trained=7.5, evaluated=6).epochs(seconds=51.3)
        10
        """
        return max(1, bisect_right(range(1, _MOST + 1), seconds, key=self.seconds))

    def _step(self, side: float) -> float:
        """The time of a step grows with the number of pixels."""
        if self.first == 1:
            return self.whole
        return self.small + (self.whole - self.small) * (side**2 - self.first**2) / (1 - self.first**2)


def measure_pace(
    recipe: Recipe,
    data: Dataset,
    method: Method,
    model: Architecture | nn.Module | Factory | None = None,
    features: Encoder | None = None,
) -> Pace:
    """The pace of a run, from its first steps on small and on whole images, which are made and thrown away.

    What a method does between epochs is not counted, nor that samples are encoded before training. With several
    processes it is that of the slowest. The arguments are those of ``assemble``.
    """
    join(recipe.device)
    plain = recipe.model_copy(update={"corrections": "", "drop_suspects": 0.0})  # they change next to nothing
    grow = 1.0 if plain.grow is None else plain.grow

    def timed(share: float) -> tuple[float, Parts]:
        # A net that the user passed must not be trained here.
        net = deepcopy(model) if isinstance(model, nn.Module) else model
        return _timed(plain.model_copy(update={"grow": share}), data, method, net, features)

    whole, parts = timed(1.0)
    small = whole if grow == 1 else timed(grow)[0]
    times = all_gather((small, whole))
    tested = (part for part in (parts.evaluation.test, parts.evaluation.validation) if part is not None)
    return Pace(
        small=max(own for own, _ in times),
        whole=max(own for _, own in times),
        steps=len(parts.batches),
        trained=len(parts.batches.index) / plain.batch_size,
        evaluated=(2 if plain.mirror else 1) * sum(len(part.index) for part in tested) / plain.batch_size,
        first=grow,
    )


def fitting(
    seconds: float,
    recipe: Recipe,
    data: Dataset,
    method: Method,
    model: Architecture | nn.Module | Factory | None = None,
    features: Encoder | None = None,
    *,
    widen: bool = False,
) -> dict[str, Any]:
    """The settings of a run that takes so long on this machine: ``epochs`` and, if it may be wider, ``model``.

    Args:
        seconds: the time.
        recipe, data, method, model, features: of a run of any length, with all defaults filled in.
        widen: whether a wider net may be taken where the time is long enough. Only ``fast_cnn`` is widened.
    """
    found: dict[str, Any] = {}
    for net in (recipe.model, *(_wider(recipe.model) if widen else ())):
        pace = measure_pace(recipe.model_copy(update={"model": net}), data, method, model, features)
        epochs = pace.epochs((1 - _SPARE) * seconds)
        if found and (epochs < _EPOCHS or epochs * pace.steps < _UPDATES):
            break
        found = {"model": net, "epochs": epochs}
    return found


def _wider(spec: str) -> Iterator[str]:
    net = None if spec.startswith(GIVEN) else architecture(spec)
    if isinstance(net, FastCNN):
        yield from (str(FastCNN(widths=tuple(int(times * width) for width in net.widths))) for times in _WIDER)


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


def _timed(
    recipe: Recipe,
    data: Dataset,
    method: Method,
    model: Architecture | nn.Module | Factory | None,
    features: Encoder | None,
) -> tuple[float, Parts]:
    """Seconds per step, and the parts of the run that made them. What is embedded here is not embedded again."""
    clock = _Clock()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the run itself will warn
        parts = assemble(recipe, data, method, model, features=features, progress=True)
        fit(parts.trainer, parts.batches, recipe.epochs, [parts.record, clock], lambda: clock.enough)
    times = [later - earlier for earlier, later in pairwise(clock.times)]
    return median(times) if times else 0.0, parts
