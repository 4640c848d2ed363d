"""Cross-fitting: every net leaves out a part of the training samples, and judges the labels of that part."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, final

import numpy as np
import torch
from torch import Tensor, nn

from pyrite.checks import whole_number
from pyrite.data import Batch
from pyrite.draws import Stream, uniforms
from pyrite.methods.method import Composed, Context, Method, Step, Trainer
from pyrite.methods.select import numbered_arrays


@final
class CrossFit(Composed):
    """Train ``folds`` nets with a method, each without its fold of the samples, and score every fold by its net.

    Every training sample then has scores of a net that never saw its label, which is what an audit needs. With two
    folds each sample trains one net, so that the training costs as much as that of one net; scoring adds a forward
    pass. All nets predict.

    Args:
        method: what each net is trained with.
        folds: the number of folds and of nets, 2 or more.

    >>> from pyrite import CE
    >>> from pyrite.methods import ERM
    >>> str(CrossFit(ERM(CE()), folds=3))
    'cross_fit(erm(ce), folds=3)'

    Chernozhukov et al., 2018 ("Double/debiased machine learning"), name the scheme.
    """

    def __init__(self, method: Method, folds: int = 2) -> None:
        super().__init__(method=method)
        self.method = method
        self.folds = whole_number("folds", folds, least=2)

    def start(self, context: Context) -> "CrossFitTrainer":
        return CrossFitTrainer(self, context)


@final
class CrossFitTrainer(Trainer):
    """One trainer per fold."""

    def __init__(self, method: CrossFit, context: Context) -> None:
        super().__init__(context, nets=0)
        folds = method.folds
        self.fold = _assigned(context.labels, folds, context.seed)
        self.trainers = nn.ModuleList(  # type: ignore[assignment]
            method.method.start(context.part(self.fold != each, each, folds)) for each in range(folds)
        )

    def step(self, batch: Batch) -> Step:
        """Every net makes a step without its fold. Observers see a sample as the net of the next fold does."""
        fold, learning_rate = self.fold[batch.index], self.learning_rate
        unseen = self._score_unseen(batch, fold)
        shown = []
        for number, trainer in enumerate(self.trainers):
            rows = (fold != number).nonzero().squeeze(1)
            if self.total(len(rows)) < 2:  # a batch norm cannot normalise a single sample
                rows = rows[:0]
            step = trainer.step(Batch(*(part[rows] for part in batch)))
            shown.append(_Shown(step, rows, (fold[rows] + 1) % len(self.trainers) == number))
        return _joined([part for part in shown if len(part.step.index)], batch, unseen, learning_rate)

    def _score_unseen(self, batch: Batch, fold: Tensor) -> Tensor:
        """The scores of every sample by the net that is not trained on it."""
        rows = [(fold == number).nonzero().squeeze(1) for number in range(len(self.trainers))]
        each = [
            trainer.predict(batch.inputs[own]) for trainer, own in zip(self.trainers, rows, strict=True) if len(own)
        ]
        return torch.cat(each)[torch.cat(rows).argsort()] if each else batch.inputs.new_zeros((0, 2))

    def facts(self) -> Mapping[str, float]:
        """The means of the facts of all trainers."""
        each = [trainer.facts() for trainer in self.trainers]
        return {name: float(np.mean([facts[name] for facts in each if name in facts])) for name in each[0]}

    def arrays(self) -> Mapping[str, Tensor]:
        """The arrays of all trainers, with the number of the fold in their names."""
        return numbered_arrays(self.trainers, 0)


def _assigned(labels: Tensor, folds: int, seed: int) -> Tensor:
    """The fold of every sample, with every class spread evenly over the folds; −1 for samples that are not trained on.

    >>> _assigned(torch.tensor([0, 0, 1, -1, 1, 0]), 2, seed=0).tolist()
    [0, 1, 0, -1, 1, 0]
    """
    given = labels.cpu().numpy()
    # Classes are dealt one after the other, so that the sizes of the folds differ by at most one.
    dealt = np.lexsort((uniforms(seed, Stream.FOLDS, len(given)), given))
    dealt = dealt[given[dealt] >= 0]
    fold = np.full(len(given), -1)
    fold[dealt] = np.arange(len(dealt)) % folds
    return torch.from_numpy(fold).to(labels.device)


class _Shown(NamedTuple):
    """The step of one net, the places of its samples in the batch, and which of them observers see in this step."""

    step: Step
    rows: Tensor
    shown: Tensor


def _joined(parts: Sequence[_Shown], batch: Batch, unseen: Tensor, learning_rate: float) -> Step:
    """One step from those of all nets, with every sample once, in the order of the batch."""
    if not parts:
        return Step.empty(batch, learning_rate)
    rows = torch.cat([part.rows[part.shown] for part in parts])
    order = rows.argsort()
    total = sum(part.step.denominator for part in parts)
    denominator = total * len(rows) / sum(len(part.rows) for part in parts)  # each sample counts once

    def column(values: Sequence[Tensor]) -> Tensor:
        return torch.cat([each[part.shown] for each, part in zip(values, parts, strict=True)])[order]

    steps = [part.step for part in parts]
    trusts = [step.trust for step in steps if step.trust is not None]
    return Step(
        batch.index[rows[order]],
        batch.labels[rows[order]],
        column([step.scores for step in steps]),
        column([step.gradient * (step.denominator / denominator) for step in steps]),  # as part of the mean
        sum(step.loss * step.denominator for step in steps) / total,
        denominator,
        steps[0].learning_rate,
        column(trusts) if len(trusts) == len(steps) else None,
        unseen[rows[order]],
    )
