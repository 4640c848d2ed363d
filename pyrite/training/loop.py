"""The training loop."""

from collections.abc import Callable, Sequence
from typing import Protocol

import torch

from pyrite.data import Batches
from pyrite.draws import TORCH_GENERATOR, Stream, torch_seed
from pyrite.methods import Step, Trainer
from pyrite.methods.learner import CHECK_EVERY
from pyrite.processes import rank


class Observer(Protocol):
    """Called after every step and at the end of every epoch; epochs are counted from 1."""

    def after_step(self, step: Step) -> None:
        return None  # one that is not overridden is not called

    def after_epoch(self, epoch: int) -> None: ...


class RunFailed(Exception):  # noqa: N818  # the name tells what happened
    """Raised if a run cannot continue; the message contains the reason. The last checkpoint is intact.

    >>> import tempfile
    >>> import pyrite
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     try:
    ...         pyrite.train("digits", loss="ce", model="mlp", lr=1e30, epochs=1, samples=200, out=folder)
    ...     except RunFailed:
    ...         print("the run diverged")
    the run diverged
    """


class Diverged(RunFailed):
    """A run that cannot continue because of its own settings: it would fail again."""


def fit(
    trainer: Trainer,
    batches: Batches,
    epochs: int,
    observers: Sequence[Observer] = (),
    stop: Callable[[], object] | None = None,
) -> bool:
    """Train from the current position of ``batches`` until ``epochs`` epochs are completed.

    Random numbers inside a net, such as those of dropout, depend only on the seed of the batches, the epoch and the
    step, so a resumed run draws the same numbers. The global generator of PyTorch is restored afterwards. Threads share
    this generator, so calls in several threads run one after the other.

    Args:
        trainer: the trainer that ``Method.start`` returns, such as ``ERM(loss).start(context)``.
        batches: the batches of the context.
        epochs: the total number of epochs of the run.
        observers: called after every step and every epoch, in this order.
        stop: called after every step; training ends if it returns a true value.

    Returns:
        True if all epochs are completed, False if ``stop`` ended training.

    >>> import numpy as np
    >>> import pyrite
    >>> batches = pyrite.Batches(np.zeros((10, 2), np.float32), np.arange(10) % 2, batch_size=4, seed=0)
    >>> net = torch.nn.Linear(2, 2)
    >>> learner = pyrite.Learner(net, torch.optim.SGD(net.parameters(), lr=0.1))
    >>> context = pyrite.Context(batches, lambda number, epochs: learner, epochs=3, classes=2)
    >>> fit(pyrite.ERM(pyrite.GCE()).start(context), batches, epochs=3)
    True
    """
    gpus = range(torch.cuda.device_count()) if torch.cuda.is_available() else ()
    # Without a GPU, ``torch.manual_seed`` takes a millisecond for devices that are not available.
    manual_seed = torch.manual_seed if gpus else torch.default_generator.manual_seed
    seed, process = batches.seed, rank()
    hooks = [
        each.after_step for each in observers if getattr(type(each), "after_step", None) is not Observer.after_step
    ]
    with TORCH_GENERATOR, torch.random.fork_rng(devices=gpus):
        while batches.epoch < epochs:
            epoch = batches.epoch
            if not batches.position:
                manual_seed(torch_seed(seed, Stream.EPOCH, epoch))
                trainer.begin_epoch(epoch + 1)
            drawn = torch_seed(seed, Stream.DROPOUT, epoch, process)
            try:
                for batch in batches:  # an observer may end the epoch by fewer batches
                    manual_seed(drawn + batches.position)
                    step = trainer.step(batch)
                    if batches.position % CHECK_EVERY == 0:
                        trainer.check()
                    for after_step in hooks:
                        after_step(step)
                    if stop is not None and stop():
                        trainer.check()
                        return False
                trainer.check()
            except FloatingPointError as error:
                raise _diverged(error, trainer, batches) from None
            manual_seed(torch_seed(seed, Stream.EPOCH, epoch, 1))
            trainer.end_epoch()
            for observer in observers:
                observer.after_epoch(epoch + 1)
    return True


def _diverged(error: FloatingPointError, trainer: Trainer, batches: Batches) -> Diverged:
    """Numbers that are not finite as an error message with what to try."""
    steps, ended = len(batches), not batches.position  # after the last batch it is that of the next epoch
    last, epoch = (steps, batches.epoch) if ended else (batches.position, batches.epoch + 1)
    first = max(1, last - CHECK_EVERY + 1) if any(learner.deferred for learner in trainer.learners) else last
    where = f"batch {last}" if first == last else f"one of the batches {first} to {last}"
    return Diverged(
        f"{error}, in {where} of {steps} of epoch {epoch}, at learning rate "
        f"{trainer.learning_rate:.3g}. Try a learning rate ten times lower, gradient clipping "
        "(clip 5), or a loss with bounded weights such as gce(q=0.7)"
    )
