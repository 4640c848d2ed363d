"""What a method is started with."""

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from functools import cached_property
from typing import Any, final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from pyrite.data import Batch, Batches
from pyrite.errors import PyriteError
from pyrite.methods.learner import Learner, Stateful
from pyrite.processes import gather
from pyrite.soft_margin import wide

MakeLearner = Callable[[int, int], Learner]


@final
class Cycle(Stateful):
    """Batches of a small set, such as a meta set, that start again, in a new order, whenever they end."""

    saved = ("batches",)

    def __init__(self, batches: Batches) -> None:
        super().__init__()
        self.batches = batches
        self._iterator = iter(batches)

    def next(self) -> Batch:
        """The next batch."""
        try:
            return next(self._iterator)
        except StopIteration:
            self._iterator = iter(self.batches)
            return next(self._iterator)

    def set_extra_state(self, state: Mapping[str, Any]) -> None:
        super().set_extra_state(state)
        self._iterator = iter(self.batches)


@final
class Context:
    """The data and settings of a run before its first step, and the factory of learners.

    Args:
        batches: the training batches.
        make_learner: a function of the number of a net and the number of epochs of its schedule. The number determines
            the initial weights.
        epochs: the number of epochs of the run.
        classes: the number of classes.
        meta: batches of the meta set, if the method has a ``meta_set``.
        noise_matrix: T[i, j] = P(given j | true i), if the noise is simulated.
        held_out: batches of samples that are not trained on, with their given labels, if there are any.
        soft_labels: with several annotators, the probability of every class, one row per sample.
        groups: a function that returns the group number of every sample. Methods hold out whole groups.

    Attributes:
        seed: the seed of the run, for all random numbers of a method.
        device: the device of the batches.
        samples: the number of all samples, including those that are not trained on; the number of rows of per-sample
            state.
        steps_per_epoch: batches per epoch.

    >>> import pyrite
    >>> batches = pyrite.Batches(np.zeros((10, 2), np.float32), np.arange(10) % 2, batch_size=4, seed=0)
    >>> net = torch.nn.Linear(2, 2)
    >>> learner = Learner(net, torch.optim.SGD(net.parameters(), lr=0.1))
    >>> context = Context(batches, lambda number, epochs: learner, epochs=3, classes=2)
    >>> context.samples, context.steps_per_epoch
    (10, 3)
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
        soft_labels: Tensor | None = None,
        groups: Callable[[], npt.NDArray[np.int64]] | None = None,
    ) -> None:
        self.batches, self.epochs, self.classes, self.held_out = batches, epochs, classes, held_out
        self.seed, self.device = batches.seed, batches.device
        self.samples, self.steps_per_epoch = len(batches.labels), len(batches)
        self.groups = groups or (lambda: np.arange(self.samples))
        self._make, self._meta, self._noise_matrix = make_learner, meta, noise_matrix
        self.soft_labels = None if soft_labels is None else soft_labels.to(self.device)
        self._made = 0
        self._learners: Sequence[Learner] = ()

    @cached_property
    def labels(self) -> Tensor:
        """The given label of every sample, indexed by ``Batch.index``; −1 for samples that are not trained on.

        Held-out samples have −1 too, because a method must not learn from the labels by which it is evaluated.
        """
        labels = torch.full_like(self.batches.labels, -1)
        index = torch.from_numpy(self.batches.index)
        labels[index] = self.batches.labels[index]
        return labels.to(self.device)

    @cached_property
    def class_frequencies(self) -> Tensor:
        """The fraction of training samples with each given label."""
        counts = wide(torch.bincount(self.labels[self.labels >= 0], minlength=self.classes))
        return counts / counts.sum()

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
                "the method uses the matrix of the simulated noise, but the run has no noise: pass a matrix"
            )
        return self._noise_matrix

    def make_learner(self) -> Learner:
        """Create a net with its optimiser and schedule; each call creates another net with different initial
        weights.
        """
        number, self._made = self._made, self._made + 1
        return self._learners[number] if number < len(self._learners) else self._make(number, self.epochs)

    def stage(self, epochs: int, learners: Sequence[Learner] = ()) -> "Context":
        """The context of a stage with this number of epochs. Its learners have the same initial weights as those of
        this context.

        If ``learners`` are passed, training continues with them instead.
        """
        return self._derived(epochs=epochs, _learners=learners)

    def member(self, number: int, members: int, adjust: Callable[[Learner], None] = lambda learner: None) -> "Context":
        """The context of one of several trainers that train side by side, each with its own initial weights.

        ``adjust`` is called with every new learner, for example to change its learning rate or clipping.
        """

        def make(net: int, epochs: int) -> Learner:
            learner = self._make(net * members + number, epochs)
            adjust(learner)
            return learner

        return self._derived(_make=make)

    def part(self, kept: Tensor, number: int, parts: int) -> "Context":
        """As ``member``, for a trainer that learns only from the samples in ``kept``."""
        left_out = (self.labels.ge(0) & ~kept).nonzero().squeeze(1).cpu().numpy()
        held_out = self.batches.in_order(index=left_out) if len(left_out) else None
        return self.member(number, parts)._derived(labels=self.labels.where(kept, -1), held_out=held_out)

    def _derived(self, **changes: object) -> "Context":
        context = copy(self)
        vars(context).pop("class_frequencies", None)
        vars(context).update({"_made": 0, "_learners": (), **changes})
        return context

    def evaluate(self, predict: Callable[[Tensor], Tensor], batches: Batches | None = None) -> Tensor:
        """Compute the scores of the training samples without augmentation, or of other batches, in every process.

        The result has one row for every sample of the data. Rows of samples that are not in the batches or cannot be
        read are NaN.
        """
        rows: Tensor | None = None
        for inputs, _, index in self.batches.in_order() if batches is None else batches:
            values = gather(predict(inputs))
            if rows is None:
                count = self.samples if batches is None else len(batches.labels)
                rows = values.new_full((count, *values.shape[1:]), torch.nan)
            rows[gather(index).to(rows.device)] = values
        assert rows is not None, "there is always a batch"
        return rows
