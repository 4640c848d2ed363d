"""How long a run will take, and how much training fits into a given time."""

import math
import warnings
from bisect import bisect_right
from copy import deepcopy
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import mean
from time import perf_counter
from typing import Any, Final, final

from torch import nn

from pyrite.data import Growth
from pyrite.methods import Learner, Step
from pyrite.models import FastCNN
from pyrite.models.efficientnet import EfficientnetLite
from pyrite.processes import all_gather, join
from pyrite.training.build import Training
from pyrite.training.config import Job
from pyrite.training.loop import Observer, fit

_STEPS: Final = 4  # that are timed at least, if there is time; the one before them allocates memory and may compile
_MEASURED: Final = 0.1  # of the time, at most, for measuring
_ENOUGH: Final = 0.01  # of the time, for steps of one size: more steps even out what other programs take
_FORWARD: Final = 1 / 3  # of a step: going back through a net takes about twice as long as going forward
_MOST: Final = 300  # epochs; ten minutes of a small table would be thousands
_SPARE: Final = 0.05  # of the time, for what a method does between epochs
LEAST_TRAINED: Final = 0.1  # of the time, whatever was done before: a run that learned nothing is of no use
# Of an epoch, even if the time is up: images grow from one epoch to the next, and a net that has made one step on
# larger ones predicts them badly.
_LEAST_STEPS: Final = 0.05
_LEAST_EPOCH: Final = 1 / 3  # an epoch, without which fine-tuning is not begun

# A wider net gains more than further epochs, once there are so many (docs/results/default-method.md).
_WIDER: Final = (1.5, 2, 3, 4)
_EPOCHS, _UPDATES = 20, 4000
# And so do larger images in fine-tuning (docs/results/fine-tuning.md).
_SIZES: Final = (128, 160)
_FINE_TUNED: Final = 6  # epochs


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

    @classmethod
    def of(cls, training: Training, small: float, whole: float) -> "Pace":
        """The pace of a run whose steps take so long."""
        config, evaluation = training.config, training.evaluation
        views = 2 if config.mirror else 1  # of an image that is predicted
        tested = (part for part in (evaluation.test, evaluation.validation) if part is not None)
        return cls(
            small=small,
            whole=whole,
            steps=len(training.batches),
            trained=views * len(training.batches.index) / config.batch_size,
            evaluated=views * sum(len(part.index) for part in tested) / config.batch_size,
            first=config.grow,
        )

    def seconds(self, epochs: int) -> float:
        """Of so many epochs. At the end, the training samples are predicted once.

        >>> Pace(small=0.5, whole=0.5, steps=8, trained=7.5, evaluated=6).seconds(epochs=10)
        51.25
        """
        return sum(self.work(epoch, epochs) for epoch in range(epochs)) + self.last

    def work(self, epoch: int, epochs: int) -> float:
        """The time of an epoch, of so many."""
        # The time of a step grows with the number of pixels.
        pixels, small = (Growth(self.first, epochs).side(100, epoch) / 100) ** 2, self.first**2
        slope = 0.0 if small == 1 else (self.whole - self.small) / (1 - small)
        return (self.whole + slope * (pixels - 1)) * (self.steps + self.between)

    @property
    def between(self) -> float:
        """What is predicted after every epoch, in steps."""
        return _FORWARD * self.evaluated

    @property
    def last(self) -> float:
        """The time of the last prediction."""
        return _FORWARD * self.trained * self.whole

    def epochs(self, seconds: float) -> int:
        """The most epochs that take no longer; at least one.

        >>> Pace(small=0.5, whole=0.5, steps=8, trained=7.5, evaluated=6).epochs(seconds=51.3)
        10
        """
        return max(1, bisect_right(range(1, _MOST + 1), seconds, key=self.seconds))


@final
class Clock(Observer):
    """An observer that ends epochs early if a run would end late, because the machine has become slower.

    Methods and schedules depend on the number of epochs, which stays. The time that is left is divided among the epochs
    that are left, by their work. An epoch that has used its share has fewer steps; the steps that it lacks are skipped
    in the schedule of the learning rate. Every epoch has an order of its own, so that all samples come in time.
    """

    def __init__(self, training: Training, deadline: float) -> None:
        self.training, self.batches, self.deadline = training, training.batches, deadline
        self.whole = len(training.batches)
        self.pace = Pace.of(training, training.config.grow**2, 1.0)
        self.between = self.pace.between / (self.pace.between + self.whole)  # the fraction of an epoch without steps
        self._begun: float | None = None  # by the first step of an epoch, because a method may do something before it
        self._epoch = training.batches.epoch

    def after_step(self, step: Step) -> None:
        if self._begun is None:
            self._begun, epochs = perf_counter(), self.training.config.epochs
            first, *later = (self.pace.work(epoch, epochs) for epoch in range(self._epoch, epochs))
            left = (1 - _SPARE) * (self.deadline - self._begun)
            self._share = left * first / (first + sum(later) + self.pace.last)
        self._stepped = perf_counter()
        late = self._stepped - self._begun >= (1 - self.between) * self._share
        late = late and self.batches.position >= _LEAST_STEPS * self.whole
        if any(all_gather(late)):
            self.batches.most = self.batches.position
        if self.batches.position >= len(self.batches):
            for net in (part for part in self.training.trainer.modules() if isinstance(part, Learner)):
                net.steps += self.whole - self.batches.position

    def after_epoch(self, epoch: int) -> None:
        if self._begun is not None and (took := perf_counter() - self._begun) > 0:
            self.between = (perf_counter() - self._stepped) / took
        self.batches.most, self._begun, self._epoch = None, None, epoch


def measure_pace(job: Job, seconds: float = math.inf, least: float = 0.0) -> Pace:
    """The pace of a run, from its first steps on small and on whole images, which are made and thrown away.

    Steps are timed for ``least`` seconds, or a few if that is more, but no step that would end after ``seconds``. What
    a method does between epochs is not counted, nor that samples are encoded before training. With several processes
    it is that of the slowest.
    """
    config = job.config
    join(config.device)
    # Corrections change next to nothing, and a net that the user passed must not be trained here.
    net = deepcopy(config.model) if isinstance(config.model, nn.Module) else config.model
    plain = job.with_config(corrections=None, drop_suspects=0.0, model=net, method=config.method.paced)
    # Small images first: where there is no time for whole ones, those take longer by their pixels.
    small, used, training = _timed(plain, seconds, least)
    whole = small / config.grow**2
    if config.grow < 1 and all(all_gather(used + 2 * whole < seconds)):
        whole, _, _ = _timed(plain.with_config(grow=1.0), seconds - used, least)
    times = all_gather((small, whole))
    return Pace.of(training, max(own for own, _ in times), max(own for _, own in times))


def fitting(job: Job, seconds: float, *, widen: bool = False) -> dict[str, Any]:
    """The settings of a run that takes so long on this machine: ``epochs`` and, if it may be wider, ``model``.

    With ``widen``, where the time is long enough, ``fast_cnn`` may be wider, and the images of a pretrained net larger.
    Measuring takes at most a tenth of the time, and what it takes is not left for training. The few epochs of a
    pretrained net are one more than fit, and the clock shortens all of them. There are none if it may be replaced and
    the time is less than a third of an epoch.
    """
    join(job.config.device)
    seconds = min(all_gather(seconds))  # processes start and read at different speeds, but make the same steps
    begun, least = perf_counter(), _ENOUGH * seconds

    def fits(net: object, limit: float) -> tuple[Pace, int]:
        pace = measure_pace(job.with_config(model=net), limit, least)
        # What a method does once before the first step takes about as long as the last prediction.
        once = 0.0 if job.config.method.paced == job.config.method else pace.last
        left = (1 - _SPARE) * seconds - once - max(all_gather(perf_counter() - begun))
        return pace, pace.epochs(max(left, LEAST_TRAINED * seconds))

    narrow = job.config.model
    net, width = narrow, 1.0
    pace, epochs = fits(net, _MEASURED * seconds)
    fine_tuned = isinstance(net, EfficientnetLite) and net.pretrained
    if widen and fine_tuned and any(all_gather(_LEAST_EPOCH * pace.seconds(1) > seconds)):
        return {"epochs": 0}
    for size in _SIZES if widen else ():
        if isinstance(net, EfficientnetLite) and net.size:
            fewer = int(epochs * (net.size / size) ** 2)  # the time of a step grows with the number of pixels
            net, epochs = (replace(net, size=size), fewer) if fewer >= _FINE_TUNED else (net, epochs)
    for times in _WIDER if widen else ():
        # A net of twice the width takes at least twice as long, and so does its measurement.
        fewer = int(epochs * width / times)
        takes = max(2 * least, (1 + _STEPS) * (pace.small + pace.whole) * times / width)
        late = perf_counter() - begun + takes > _MEASURED * seconds
        if not isinstance(narrow, FastCNN) or fewer < max(_EPOCHS, _UPDATES / pace.steps) or any(all_gather(late)):
            break
        wider = FastCNN(widths=tuple(int(times * channels) for channels in narrow.widths))
        wider_pace, wider_epochs = fits(wider, takes)
        if wider_epochs < max(_EPOCHS, _UPDATES / wider_pace.steps):
            break
        net, width, pace, epochs = wider, times, wider_pace, wider_epochs
    return {"model": net, "epochs": epochs + fine_tuned}


def _timed(job: Job, seconds: float, least: float) -> tuple[float, float, Training]:
    """Seconds per step, of all steps, and the run that made them. What is embedded here is not embedded again."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the run itself will warn
        training = Training(job, progress=True)
        times = [perf_counter()]

        def enough() -> bool:  # asked after every step
            times.append(perf_counter())
            last, used = times[-1] - times[-2], times[-1] - times[0]
            measured = len(times) > 1 + _STEPS and times[-1] - times[1] >= least
            return any(all_gather(measured or used + last > seconds))  # processes make the same number of steps

        fit(training.trainer, training.batches, job.config.epochs, [training.record], enough)
    steps = [later - earlier for earlier, later in pairwise(times)]
    # The first step counts only where there is no other. The mean, because other programs take their time in bursts.
    return mean(steps[1:] or steps or [0.0]), times[-1] - times[0], training
