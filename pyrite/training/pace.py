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

from pyrite.data import Growth
from pyrite.models import FastCNN
from pyrite.processes import all_gather, join
from pyrite.training.build import Training
from pyrite.training.config import Job
from pyrite.training.loop import fit

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
    """The time that a run takes."""

    small: float  # seconds per step on the images of the first epoch
    whole: float  # seconds per step on whole images
    steps: int  # per epoch
    trained: float  # batches of all training samples
    evaluated: float  # batches that are predicted after every epoch
    first: float = 1.0  # the side of images in the first epoch, as a fraction

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


def measure_pace(job: Job) -> Pace:
    """The pace of a run, from its first steps on small and on whole images, which are made and thrown away.

    What a method does between epochs is not counted, nor that samples are encoded before training. With several
    processes it is that of the slowest.
    """
    config = job.config
    join(config.device)
    # Corrections change next to nothing, and a net that the user passed must not be trained here.
    net = deepcopy(config.model) if isinstance(config.model, nn.Module) else config.model
    plain = job.with_config(corrections=None, drop_suspects=0.0, model=net)
    whole, training = _timed(plain.with_config(grow=1.0))
    small = whole if config.grow == 1 else _timed(plain)[0]
    times = all_gather((small, whole))
    tested = (part for part in (training.evaluation.test, training.evaluation.validation) if part is not None)
    return Pace(
        small=max(own for own, _ in times),
        whole=max(own for _, own in times),
        steps=len(training.batches),
        trained=len(training.batches.index) / config.batch_size,
        evaluated=(2 if config.mirror else 1) * sum(len(part.index) for part in tested) / config.batch_size,
        first=config.grow,
    )


def fitting(job: Job, seconds: float, *, widen: bool = False) -> dict[str, Any]:
    """The settings of a run that takes so long on this machine: ``epochs`` and, if it may be wider, ``model``.

    With ``widen``, a wider net may be taken where the time is long enough. Only ``fast_cnn`` is widened.
    """
    found: dict[str, Any] = {}
    for net in (job.config.model, *(_wider(job.config.model) if widen else ())):
        pace = measure_pace(job.with_config(model=net))
        epochs = pace.epochs((1 - _SPARE) * seconds)
        if found and (epochs < _EPOCHS or epochs * pace.steps < _UPDATES):
            break
        found = {"model": net, "epochs": epochs}
    return found


def _wider(net: object) -> Iterator[FastCNN]:
    if isinstance(net, FastCNN):
        yield from (FastCNN(widths=tuple(int(times * width) for width in net.widths)) for times in _WIDER)


def _timed(job: Job) -> tuple[float, Training]:
    """Seconds per step, and the run that made them. What is embedded here is not embedded again."""
    times: list[float] = []

    def enough() -> bool:  # asked after every step
        times.append(perf_counter())
        return len(times) > _STEPS

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the run itself will warn
        training = Training(job, progress=True)
        fit(training.trainer, training.batches, job.config.epochs, [training.record], enough)
    steps = [later - earlier for earlier, later in pairwise(times)]
    return median(steps) if steps else 0.0, training
