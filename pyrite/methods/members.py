"""Several trainers on the same batches: methods of which the best predict, the default method, and cross-fitting."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Final, NamedTuple, final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from pyrite.checks import whole_number
from pyrite.curves import CE
from pyrite.data import Batch, Batches
from pyrite.diagnostics import clearly_better
from pyrite.errors import PyriteError
from pyrite.methods.curriculum import Curriculum
from pyrite.methods.learner import Learner
from pyrite.methods.method import ERM, Composed, Context, Method, Step, Trainer
from pyrite.methods.past_predictions import ELR
from pyrite.methods.self_corrected import SelfCorrected, assign_folds
from pyrite.models import mean_scores

Hits = npt.NDArray[np.bool_]

_CLIP: Final = 1.0  # for methods whose scores could grow without bound, as in runs of their own


class Members(Trainer):
    """A trainer that is made of others. Its arrays are theirs, with their number in the names."""

    first_number = 0

    def __init__(self, context: Context, trainers: Sequence[Trainer]) -> None:
        super().__init__(context, nets=0)
        self.trainers = nn.ModuleList(trainers)  # type: ignore[assignment]

    def arrays(self) -> Mapping[str, Tensor]:
        return {
            f"{name}_{number}": values
            for number, trainer in enumerate(self.trainers, self.first_number)
            for name, values in trainer.arrays().items()
        }


@final
class Select(Composed):
    """Train several methods side by side; predict with those that are best on held-out given labels.

    Each method has a net and initial weights of its own. A method is left out of the prediction if the best one
    predicts clearly more of the held-out labels (``pyrite.diagnostics.clearly_better``). Given labels suffice for
    that: wrong ones lower the accuracy of all methods alike, except of those that follow them. Learning rates and
    clipping are as in runs of their own. Observers see the scores of the methods that predict, together, and the losses
    and weights of the best.
    """

    def __init__(self, *methods: Method) -> None:
        self.take_needs(**{f"method {number}": method for number, method in enumerate(methods, 1)})
        if len(methods) < 2:
            raise PyriteError(f"select has {len(methods)} methods, but needs 2 or more")
        self.methods, self.held_out = methods, max(0.05, self.held_out)
        self.largest_weight, self.needs_clipping = 1.0, False  # each method has them for itself

    def resolve_defaults(self, *, augmented: bool, held_out: bool, pretrained: bool = False) -> "Select":
        known = {"augmented": augmented, "held_out": held_out, "pretrained": pretrained}
        return Select(*(method.resolve_defaults(**known) for method in self.methods))

    @property
    def paced(self) -> "Select":
        return Select(*(method.paced for method in self.methods))

    def start(self, context: Context) -> "SelectTrainer":
        return SelectTrainer(self.methods, context)


def as_good_as_the_best(hits: Sequence[Hits]) -> list[int]:
    """The best of several predictors, of equals the first, and then those that it does not clearly beat.

    >>> as_good_as_the_best([np.array([1, 0, 0, 0], bool), np.array([1, 1, 1, 0], bool), np.array([1, 1, 0, 0], bool)])
    [1, 2]
    """
    best = max(range(len(hits)), key=lambda number: int(hits[number].sum()))
    others = (number for number in range(len(hits)) if number != best)
    return [best, *(number for number in others if not clearly_better(hits[best], hits[number]))]


@final
class SelectTrainer(Members):
    """One trainer per method."""

    saved = (*Members.saved, "selected")
    first_number = 1

    def __init__(self, methods: Sequence[Method], context: Context) -> None:
        def start(number: int, method: Method) -> Trainer:
            def adjust(learner: Learner) -> None:
                """Give a learner the learning rate and the clipping that its method has in a run of its own."""
                learner.learning_rates = [rate / method.largest_weight for rate in learner.learning_rates]
                if method.needs_clipping and learner.clip is None:
                    learner.clip = _CLIP

            return method.start(context.member(number, len(methods), adjust))

        super().__init__(context, [start(number, method) for number, method in enumerate(methods)])
        self.selected = list(range(len(methods)))

    def step(self, batch: Batch) -> Step:
        steps = [trainer.step(batch) for trainer in self.trainers]
        best, each = steps[self.selected[0]], [steps[number].scores for number in self.selected]
        if len(each) == 1 or any(scores.shape != each[0].shape for scores in each):  # one skips samples
            return best
        return replace(best, scores=mean_scores(torch.stack(each)))

    def end_epoch(self) -> None:
        super().end_epoch()
        held_out = self.context.held_out
        if held_out is not None:
            self.selected = as_good_as_the_best([self._hits(trainer, held_out) for trainer in self.trainers])

    def _hits(self, trainer: Trainer, held_out: Batches) -> Hits:
        """Which of the held-out labels a method predicts, for images of the size that it is trained on now."""
        epoch = max(0, self.context.batches.epoch - 1)
        scores = self.context.evaluate(partial(trainer.predict, epoch=epoch), held_out).cpu()
        hits: Hits = ((scores.argmax(1) == held_out.labels) & ~scores.isnan().any(1)).numpy()
        return hits

    def facts(self) -> Mapping[str, float]:
        """The number of the best method, counted from 1, and how many predict."""
        return {"best_method": self.selected[0] + 1, "selected": len(self.selected)}

    @property
    def predictors(self) -> Sequence[nn.Module]:
        return [net for number in sorted(self.selected) for net in self.trainers[number].predictors]


@final
class Auto(Method):
    """The default: ``self_corrected`` for convolutional nets on augmented images, ``select`` otherwise.

    Augmented images are learned slowly and memorised late, so that the net itself can tell which labels look wrong; a
    net with pretrained weights tells it before training, by its embeddings. Features, texts and embeddings are
    memorised within a few epochs, and which loss is best depends on the noise and on the length of training. Their nets
    are small, so three methods are trained side by side, and held-out labels decide. The recipe of a run has the method
    that was chosen.
    """

    held_out = 0.05

    def resolve_defaults(self, *, augmented: bool, held_out: bool, pretrained: bool = False) -> Method:
        if pretrained:
            return SelfCorrected(at=0)
        if augmented and held_out:
            return SelfCorrected()
        return Select(ERM(CE()), Curriculum(), ELR()).resolve_defaults(augmented=augmented, held_out=held_out)

    def start(self, context: Context) -> Trainer:
        augmented, held_out = context.batches.augment is not None, context.held_out is not None
        return self.resolve_defaults(augmented=augmented, held_out=held_out).start(context)


@final
@dataclass(repr=False, eq=False)
class CrossFit(Composed):
    """Cross-fitting: train one net per fold on all other folds, and score each fold with its net.

    Every training sample then has scores of a net that never saw its label, which is what an audit needs. With two
    folds the training costs as much as that of one net; scoring adds a forward pass. All nets predict.

    Chernozhukov et al., 2018 ("Double/debiased machine learning"), name the scheme.
    """

    method: Method
    folds: Annotated[int, partial(whole_number, least=2)] = 2  # the number of folds and of nets

    def __post_init__(self) -> None:
        super().__post_init__()
        self.take_needs(method=self.method)

    @property
    def paced(self) -> "CrossFit":
        return replace(self, method=self.method.paced)

    def start(self, context: Context) -> "CrossFitTrainer":
        return CrossFitTrainer(self, context)


@final
class CrossFitTrainer(Members):
    """One trainer per fold."""

    def __init__(self, method: CrossFit, context: Context) -> None:
        folds = method.folds
        fold = assign_folds(context.labels, folds, context.seed, context.groups())
        parts = [context.part(fold != each, each, folds) for each in range(folds)]
        super().__init__(context, [method.method.start(part) for part in parts])
        self.fold = fold

    def step(self, batch: Batch) -> Step:
        """Every net makes a step without its fold. Observers see a sample as the net of the next fold does."""
        fold, learning_rate = self.fold[batch.index], self.learning_rate
        each, left_out = list[Tensor](), list[Tensor]()  # every sample's scores by the net that is not trained on it
        for number, trainer in enumerate(self.trainers):
            left_out.append((fold == number).nonzero().squeeze(1))
            each += [trainer.predict(batch.inputs[left_out[-1]])] if len(left_out[-1]) else []
        unseen = torch.cat(each)[torch.cat(left_out).argsort()] if each else batch.inputs.new_zeros((0, 2))
        shown = []
        for number, trainer in enumerate(self.trainers):
            rows = (fold != number).nonzero().squeeze(1)
            if self.count(len(rows)) < 2:  # a batch norm cannot normalise a single sample
                rows = rows[:0]
            step = trainer.step(Batch(*(part[rows] for part in batch)))
            shown.append(_Shown(step, rows, (fold[rows] + 1) % len(self.trainers) == number))
        return _joined([part for part in shown if len(part.step.index)], batch, unseen, learning_rate)

    def facts(self) -> Mapping[str, float]:
        """The means of the facts of all trainers."""
        each = [trainer.facts() for trainer in self.trainers]
        return {name: float(np.mean([facts[name] for facts in each if name in facts])) for name in each[0]}


class _Shown(NamedTuple):
    step: Step  # of one net
    rows: Tensor  # the places of its samples in the batch
    shown: Tensor  # which of them observers see in this step


def _joined(parts: Sequence[_Shown], batch: Batch, unseen: Tensor, learning_rate: float) -> Step:
    """One step from those of all nets, with every sample once, in the order of the batch."""
    if not parts:
        return Step.empty(batch, learning_rate)
    rows = torch.cat([part.rows[part.shown] for part in parts])
    order = rows.argsort()
    total = sum(part.step.divisor for part in parts)
    denominator = total * len(rows) / sum(len(part.rows) for part in parts)  # each sample counts once

    def column(values: Sequence[Tensor]) -> Tensor:
        return torch.cat([each[part.shown] for each, part in zip(values, parts, strict=True)])[order]

    steps = [part.step for part in parts]
    trusts = [step.trust for step in steps if step.trust is not None]
    return Step(
        batch.index[rows[order]],
        batch.labels[rows[order]],
        column([step.scores for step in steps]),
        column([step.gradient * (step.divisor / denominator) for step in steps]),  # as part of the mean
        sum(step.mean * step.divisor for step in steps) / total,
        denominator,
        steps[0].learning_rate,
        column(trusts) if len(trusts) == len(steps) else None,
        unseen[rows[order]],
    )
