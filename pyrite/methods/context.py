"""What a method is started on."""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import final

import torch
from torch import Tensor

from pyrite.data import Batches
from pyrite.errors import PyriteError
from pyrite.methods.learner import Learner
from pyrite.methods.memory import Memory

__all__ = ["Context"]

MakeLearner = Callable[[int, int], Learner]


@final
class Context:
    """What is known before the first step, and what makes learners.

    Args:
        batches: those that will be trained on.
        make_learner: called with the number of a net and the epochs that its schedule covers. The same number means
            the same initial weights, another number means others.
        epochs: the length of the run.
        classes: the number of classes.
        meta: batches of the meta set that the method declares by ``meta_set``.
        noise_matrix: T[i, j] = P(given j | true i) of the noise that made the labels, where it was simulated.
        held_out: batches of samples that are not trained on, with their given labels, if there are any.
    """

    def __init__(
        self,
        batches: Batches,
        make_learner: MakeLearner,
        *,
        epochs: int,
        classes: int,
        meta: Batches | None = None,
        noise_matrix: Tensor | None = None,
        held_out: Batches | None = None,
    ) -> None:
        self.batches, self.epochs, self.classes = batches, epochs, classes
        self._make, self._meta, self._noise_matrix = make_learner, meta, noise_matrix
        self.held_out = held_out
        self._made = 0
        self._learners: Sequence[Learner] = ()

    @property
    def seed(self) -> int:
        """Of the run. Whatever is random in a method comes from it."""
        return self.batches.seed

    @property
    def device(self) -> torch.device:
        """Where batches are."""
        return self.batches.device

    @property
    def steps_per_epoch(self) -> int:
        """Batches per epoch."""
        return len(self.batches)

    @cached_property
    def labels(self) -> Tensor:
        """The given label of every sample, by the numbers in ``Batch.index``; −1 for samples that are not trained on.

        Held-out samples are among the latter: a method must not learn from the labels that it is judged by.
        """
        labels = torch.full_like(self.batches.labels, -1)
        index = torch.from_numpy(self.batches.index)
        labels[index] = self.batches.labels[index]
        return labels.to(self.device)

    @property
    def meta(self) -> Batches:
        """Batches of the meta set."""
        if self._meta is None:
            raise PyriteError("meta is missing: the method needs batches of a meta set")
        return self._meta

    @property
    def noise_matrix(self) -> Tensor:
        """The matrix of the simulated noise, for methods that use it."""
        if self._noise_matrix is None:
            raise PyriteError(
                "the method needs the matrix of the run's noise, but no noise is simulated: give a matrix"
            )
        return self._noise_matrix

    def make_learner(self) -> Learner:
        """A net with its optimiser and schedule; each call makes another net, with initial weights of its own."""
        number, self._made = self._made, self._made + 1
        return self._learners[number] if number < len(self._learners) else self._make(number, self.epochs)

    def stage(self, epochs: int, learners: Sequence[Learner] = ()) -> "Context":
        """The context of a stage of so many epochs. Its learners start from the same initial weights as this one's.

        With ``learners``, training continues with those instead.
        """
        context = self._derived(self._make, epochs)
        context._learners = learners
        return context

    def member(self, number: int, members: int, adjust: Callable[[Learner], None] = lambda learner: None) -> "Context":
        """The context of one of several trainers that train side by side on the same batches.

        Args:
            number, members: which of how many it is. Each has nets with initial weights of their own.
            adjust: called with every learner that it makes, for a learning rate or a clipping of its own.
        """

        def make(net: int, epochs: int) -> Learner:
            learner = self._make(net * members + number, epochs)
            adjust(learner)
            return learner

        return self._derived(make, self.epochs)

    def part(self, kept: Tensor, number: int, parts: int) -> "Context":
        """As ``member``, for trainers that each train on some of the samples.

        Args:
            kept: True for the samples that it may learn from; the labels of all others are −1.
            number, parts: which of how many it is.
        """
        context = self.member(number, parts)
        context.labels = self.labels.where(kept, -1)
        left_out = (self.labels.ge(0) & ~kept).nonzero().squeeze(1).cpu().numpy()
        context.held_out = self.batches.in_order(index=left_out) if len(left_out) else None
        return context

    def _derived(self, make: MakeLearner, epochs: int) -> "Context":
        context = Context(
            self.batches, make, epochs=epochs, classes=self.classes, meta=self._meta, noise_matrix=self._noise_matrix,
            held_out=self.held_out,
        )  # fmt: skip
        context.labels = self.labels
        return context

    def evaluate(self, predict: Callable[[Tensor], Tensor]) -> Tensor:
        """Scores of every training sample, without augmentation: one row per sample, the same at every process.

        Rows of samples that are not trained on, or that cannot be read, are NaN.
        """
        scores: Memory | None = None
        for inputs, _, index in self.batches.in_order():
            rows = predict(inputs)
            if scores is None:
                scores = Memory(rows.new_full((len(self.labels), self.classes), torch.nan, device=self.device))
            scores.write(index, rows)
        assert scores is not None, "there is always a batch"
        return scores.rows
