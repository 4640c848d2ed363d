"""The loop. It reads from top to bottom."""

from collections.abc import Callable, Sequence
from typing import Protocol

import torch

from pyrite.data import Batches
from pyrite.draws import TORCH_GENERATOR, Stream, torch_seed
from pyrite.methods import Step, Trainer
from pyrite.processes import rank

__all__ = ["Diverged", "Observer", "RunFailed", "fit"]


class Observer(Protocol):
    """What watches a run: every step, and the end of every epoch; epochs are counted from 1."""

    def after_step(self, step: Step) -> None: ...

    def after_epoch(self, epoch: int) -> None: ...


class RunFailed(Exception):  # noqa: N818  # it says what happened
    """A run that cannot go on, in words for its owner. Its last checkpoint is good."""


class Diverged(RunFailed):
    """A run that cannot go on because of its own settings: it would fail again."""


def fit(
    trainer: Trainer,
    batches: Batches,
    epochs: int,
    observers: Sequence[Observer] = (),
    stop: Callable[[], bool] = lambda: False,
) -> bool:
    """Train until ``epochs`` are done, from wherever ``batches`` stand. False if ``stop`` ended it before.

    What is random inside a net, such as dropout, depends on the seed of the batches and the number of the step, so that
    a resumed run draws the same. torch's global generator is restored afterwards; as threads share it, they train one
    after the other.

    Args:
        trainer: a method that was started on a bench: ``ERM(loss).start(bench)``.
        batches: those of the bench.
        epochs: how many in all.
        observers: told of every step and every epoch, in this order.
        stop: asked after every step.
    """
    cards = range(torch.cuda.device_count()) if torch.cuda.is_available() else ()
    with TORCH_GENERATOR, torch.random.fork_rng(devices=cards):
        while batches.epoch < epochs:
            epoch = batches.epoch
            if not batches.position:
                _seed(torch_seed(batches.seed, Stream.EPOCH, epoch), len(cards))
                trainer.begin_epoch(epoch + 1)
            for batch in batches:
                number = epoch * len(batches) + batches.position - 1
                _seed(torch_seed(batches.seed, Stream.DROPOUT, number, rank()), len(cards))
                try:
                    step = trainer.step(batch)
                except FloatingPointError as error:
                    raise Diverged(
                        f"{error}, in batch {batches.position} of {len(batches)} of epoch {epoch + 1}, at learning "
                        f"rate {trainer.rate:.3g}. Try a learning rate ten times lower, gradient clipping (clip 5), or "
                        "a loss with bounded weights such as gce(q=0.7)"
                    ) from None
                for observer in observers:
                    observer.after_step(step)
                if stop():
                    return False
            _seed(torch_seed(batches.seed, Stream.EPOCH, epoch, 1), len(cards))
            trainer.end_epoch()
            for observer in observers:
                observer.after_epoch(epoch + 1)
    return True


def _seed(seed: int, cards: int) -> None:
    """What ``torch.manual_seed`` does. For devices that are not there it formats the stack each time: a millisecond."""
    torch.default_generator.manual_seed(seed)
    if cards:
        torch.cuda.manual_seed_all(seed)
