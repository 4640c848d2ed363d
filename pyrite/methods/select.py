"""Several methods side by side, of which those predict that do best on held-out labels; and the default method."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final, final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from pyrite.curves import CE
from pyrite.data import Batch, Batches
from pyrite.diagnostics import clearly_better
from pyrite.errors import PyriteError
from pyrite.methods.curriculum import Curriculum
from pyrite.methods.elr import ELR
from pyrite.methods.erm import ERM
from pyrite.methods.learner import Learner
from pyrite.methods.method import Composed, Context, Method, Step, Trainer
from pyrite.methods.self_corrected import SelfCorrected

Hits = npt.NDArray[np.bool_]

_CLIP: Final = 1.0  # for methods whose scores could grow without bound, as in runs of their own


@final
class Select(Composed):
    """Train several methods side by side; after every epoch, those predict that are best on held-out given labels.

    Each method has a net of its own, with initial weights of its own, and makes a step on every batch. A method is
    left out of the prediction if the best one predicts more of the held-out labels by more than one standard error
    (``pyrite.diagnostics.clearly_better``); the prediction is the mean of the probabilities of the others. Given labels
    suffice for that: wrong ones lower the accuracy of all methods alike, except of those that follow them.

    The learning rate is that of cross entropy. A method that weights samples more has its rate divided by that weight,
    and the gradients of one whose scores could grow without bound are clipped, as in runs of their own. Observers see
    the steps of the best method. If nothing is held out, all methods predict.

    Args:
        methods: two or more.

    >>> from pyrite import CE
    >>> from pyrite.methods import ELR, ERM
    >>> str(Select(ERM(CE()), ELR()))
    'select(erm(ce), elr(coefficient=3, momentum=0.7))'

    McNemar, 1947, for the standard error.
    """

    def __init__(self, *methods: Method) -> None:
        super().__init__(**{f"method {number}": method for number, method in enumerate(methods, 1)})
        if len(methods) < 2:
            raise PyriteError(f"select has {len(methods)} methods, but must have 2 or more to select from")
        self.methods, self.held_out = methods, max(0.05, self.held_out)
        self.largest_weight, self.needs_clipping = 1.0, False  # each method has them for itself

    def resolve_defaults(self, *, augmented: bool, held_out: bool) -> "Select":
        return Select(*(method.resolve_defaults(augmented=augmented, held_out=held_out) for method in self.methods))

    def start(self, context: Context) -> "SelectTrainer":
        return SelectTrainer(self.methods, context)


def as_good_as_the_best(hits: Sequence[Hits]) -> list[int]:
    """The best of several predictors, of equals the first, and then those that it does not clearly beat.

    Each is described by which of the same labels it predicts.

    >>> as_good_as_the_best([np.array([1, 0, 0, 0], bool), np.array([1, 1, 1, 0], bool), np.array([1, 1, 0, 0], bool)])
    [1, 2]
    """
    best = max(range(len(hits)), key=lambda number: int(hits[number].sum()))
    others = (number for number in range(len(hits)) if number != best)
    return [best, *(number for number in others if not clearly_better(hits[best], hits[number]))]


@final
class SelectTrainer(Trainer):
    """One trainer per method."""

    saved = (*Trainer.saved, "selected")

    def __init__(self, methods: Sequence[Method], context: Context) -> None:
        super().__init__(context, nets=0)
        self.trainers = nn.ModuleList(  # type: ignore[assignment]
            method.start(context.member(number, len(methods), partial(_adjust, method)))
            for number, method in enumerate(methods)
        )
        self.selected = list(range(len(methods)))

    def step(self, batch: Batch) -> Step:
        steps = [trainer.step(batch) for trainer in self.trainers]
        return steps[self.selected[0]]

    def end_epoch(self) -> None:
        super().end_epoch()
        held_out = self.context.held_out
        if held_out is not None:
            self.selected = as_good_as_the_best([self._hits(trainer, held_out) for trainer in self.trainers])

    def _hits(self, trainer: Trainer, held_out: Batches) -> Hits:
        """Which of the held-out labels a method predicts, for images of the size that it is trained on now."""
        epoch = max(0, self.context.batches.epoch - 1)
        scores = self.context.predictions(
            lambda inputs: trainer.predict(self.context.resized(inputs, epoch)), held_out
        ).cpu()
        labels = held_out.labels[torch.from_numpy(held_out.index)]
        hits: Hits = ((scores.argmax(1) == labels) & ~scores.isnan().any(1)).numpy()
        return hits

    def facts(self) -> Mapping[str, float]:
        """The number of the best method, counted from 1, and how many predict."""
        return {"best_method": self.selected[0] + 1, "selected": len(self.selected)}

    def arrays(self) -> Mapping[str, Tensor]:
        """The arrays of all methods, with the number of the method in their names."""
        return numbered_arrays(self.trainers, 1)

    @property
    def predictors(self) -> Sequence[nn.Module]:
        return [net for number in sorted(self.selected) for net in self.trainers[number].predictors]


def numbered_arrays(trainers: Sequence[Trainer], first: int) -> dict[str, Tensor]:
    """The arrays of several trainers, with the number of the trainer in their names."""
    return {
        f"{name}_{number}": values
        for number, trainer in enumerate(trainers, first)
        for name, values in trainer.arrays().items()
    }


def _adjust(method: Method, learner: Learner) -> None:
    """Give a learner the learning rate and the clipping that its method has in a run of its own."""
    learner.learning_rates = [learning_rate / method.largest_weight for learning_rate in learner.learning_rates]
    if method.needs_clipping and learner.clip is None:
        learner.clip = _CLIP


@final
class Auto(Method):
    """The default: ``self_corrected`` for augmented images in nets with convolutions, ``select`` for all else.

    Augmented images are learned slowly and memorised late, so that the net itself can tell which labels look wrong.
    Features, texts and embeddings are memorised within a few epochs, and which loss is best depends on the noise and
    on the length of training. Their nets are small, so three methods are trained side by side, and held-out labels
    decide. The recipe of a run has the method that was chosen.

    >>> str(Auto().resolve_defaults(augmented=True, held_out=True))
    'self_corrected(at=0.35, momentum=0.7)'
    """

    held_out = 0.05

    def resolve_defaults(self, *, augmented: bool, held_out: bool) -> Method:
        corrected, select = _CHOICES
        chosen = corrected if augmented and held_out else select
        return chosen.resolve_defaults(augmented=augmented, held_out=held_out)

    def start(self, context: Context) -> Trainer:
        augmented, held_out = context.batches.augment is not None, context.held_out is not None
        return self.resolve_defaults(augmented=augmented, held_out=held_out).start(context)


_CHOICES = SelfCorrected(), Select(ERM(CE()), Curriculum(), ELR())
