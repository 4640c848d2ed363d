"""Train, leave out the labels that look wrong to the trained net, and train on."""

from collections.abc import Mapping
from typing import Any, Final, final

import torch
from torch import Tensor

from pyrite.auditing import FEWEST, audit_scores
from pyrite.checks import number
from pyrite.curves import CE
from pyrite.data import Batch
from pyrite.methods.bench import Bench
from pyrite.methods.descent import descend
from pyrite.methods.method import Around, Method, Trainer
from pyrite.methods.staged import Estimate, Stage, Stages, checked_share, stage_lengths
from pyrite.methods.step import Step
from pyrite.methods.transition import from_anchors, wrong_by_matrix
from pyrite.models import mirrored_scores
from pyrite.processes import all_gather

__all__ = ["Relearn", "by_anchors", "trusted"]

_HALF: Final = 0.5
_NEARLY_ALL: Final = 0.99  # of the labels: what an audit of right labels keeps
_ANCHORS: Final = 0.3  # the share of a class of whose samples a net should be sure, where labels are right
# Classes that are alike look like noise of a few per cent by their anchors: 3 to 5 % on clean labels (docs/methods.md).
_LEAST_NOISE: Final = 0.1
_TOO_SURE: Final = 0.05  # the mean probability of the predicted class, beyond how often that is the given one


@final
class Relearn(Around):
    """A method, an audit of the labels by its net, and cross entropy on the labels that are probably right.

    The first stage ends with a learning rate of 0, as a whole run does. Its net scores every training sample, without
    augmentation, and the labels are judged by these scores: by an audit or, if that finds next to nothing, by the
    samples that the net is surest of (Patrini et al., 2017). The second stage continues with the net (the first of
    several), along the schedule of the whole run, and leaves out the labels that are wrong with a probability of
    ``doubt`` or more. If noise and the net's own doubt cannot be told apart, none is left out. A sample that is left
    out costs no time.

    The net must not have memorised the labels, or it would find them right. So by default there is a second stage only
    where images are augmented, so that they are memorised late, and samples are held out to tell.

    Args:
        method: of the first stage.
        at: the share of the epochs that the first stage takes. By default a half, or all of them, as said above.
        doubt: the least probability of being wrong at which a label is left out.

    >>> from pyrite.methods import Curriculum
    >>> str(Relearn(Curriculum()))
    'relearn(curriculum(gain=4, most=1), doubt=0.2)'
    """

    def __init__(self, method: Method, at: float | None = None, doubt: float = 0.2) -> None:
        super().__init__(method)
        self.at = None if at is None else checked_share(at)
        self.doubt = number("doubt", doubt, above=0, most=1)

    @property
    def first_schedule(self) -> float:
        return (self.at or _HALF) * self.method.first_schedule

    def settled(self, *, augmented: bool, held_out: bool) -> Method:
        method = self.method.settled(augmented=augmented, held_out=held_out)
        if self.at is None and not (augmented and held_out):
            return method
        return Relearn(method, self.at or _HALF, self.doubt)

    def start(self, bench: Bench) -> Trainer:
        augmented, held_out = bench.batches.augment is not None, bench.held_out is not None
        settled = self.settled(augmented=augmented, held_out=held_out)
        return settled._start(bench) if isinstance(settled, Relearn) else settled.start(bench)

    def _start(self, bench: Bench) -> Stages:
        if bench.epochs == 1:  # of the default method, which must train for any length
            return Stages([Stage(1, lambda known, before: self.method.start(bench))])
        early, late = stage_lengths(self, bench.epochs, self.at or _HALF)
        scores = torch.zeros(0)  # of the first stage; in a resumed run they come from its state

        def first(known: Estimate, before: Trainer | None) -> Trainer:
            return self.method.start(bench.stage(early))

        def judged(trainer: Trainer) -> Estimate:
            nonlocal scores
            scores = _scores(trainer, bench, early - 1)
            kept = trusted(scores, bench.labels, self.doubt, bench.seed)
            return {"kept": kept, "kept_share": kept[bench.labels >= 0].double().mean()}

        def then(known: Estimate, before: Trainer | None) -> Trainer:
            return _Relearning(bench, late, known["kept"], scores, before)

        return Stages([Stage(early, first, judged), Stage(late, then)])


def _scores(trainer: Trainer, bench: Bench, epoch: int) -> Tensor:
    """Of every training sample, at the size that images had in an epoch, and mirrored as well if training mirrors."""
    augment, growth = bench.batches.augment, bench.batches.growth
    mirrors = augment is not None and augment.flip != "none"

    def predict(inputs: Tensor) -> Tensor:
        shown = inputs if growth is None else growth.resized(inputs, epoch)
        return mirrored_scores(trainer.predict, shown) if mirrors else trainer.predict(shown)

    return bench.evaluate(predict)


def trusted(scores: Tensor, labels: Tensor, doubt: float, seed: int) -> Tensor:
    """True for the labels that are wrong with a probability below ``doubt``; for all if it cannot be told which.

    Nor can it if fewer than half of the labels would be left.

    Args:
        scores: one row per sample, NaN where there are none.
        labels: the given ones; below 0 for samples that are not trained on, which are never trusted.
        doubt: see ``Relearn``.
        seed: of the audit.
    """
    trained = labels >= 0
    rows = (trained & scores.isfinite().all(1)).nonzero().squeeze(1)
    if len(rows) < FEWEST or len(labels[rows].unique()) < 2:
        return trained
    right = _by_audit(scores[rows], labels[rows], doubt, seed)
    if right.double().mean() > _NEARLY_ALL:
        right = by_anchors(scores[rows], labels[rows], doubt)
    if right.double().mean() < _HALF:  # a net that has not learned yet finds most labels wrong
        return trained
    kept = trained.clone()
    kept[rows] = right
    return kept


def _by_audit(scores: Tensor, labels: Tensor, doubt: float, seed: int) -> Tensor:
    """The labels that an audit finds right; all if it cannot tell noise from the net's own errors."""
    audit = audit_scores(labels.cpu().numpy(), scores=scores.cpu().numpy(), kind="logits", seed=seed)
    right = torch.from_numpy(audit.wrong_probability < doubt).to(labels.device)
    return right if audit.can_tell else torch.ones_like(right)


def by_anchors(scores: Tensor, labels: Tensor, doubt: float) -> Tensor:
    """The labels that are right if noise is the doubt that a net has of the samples that it is surest of.

    A net that is fitted to given labels may predict their noise as doubt, and nothing is then left for an audit to
    explain. But if two classes were merely alike, it would be sure of some of their samples. What it doubts even there
    is noise (Patrini et al., 2017). This holds for a net that is right about the given labels as often as it says; of
    one that is surer than that, or that finds little noise, all labels are kept.
    """
    share = torch.bincount(labels, minlength=scores.shape[1]).double() / len(labels)
    wrong = wrong_by_matrix(scores, labels, from_anchors(scores, 100 * (1 - _ANCHORS * share)))
    sureness, prediction = scores.double().softmax(1).max(1)
    too_sure = sureness.mean() - (prediction == labels).double().mean()
    believed = too_sure < _TOO_SURE and wrong.mean() >= _LEAST_NOISE
    return wrong < doubt if believed else torch.ones_like(labels, dtype=torch.bool)


@final
class _Relearning(Trainer):
    """Steps on the samples that are kept. Observers see the others as they were when they were left out."""

    def __init__(self, bench: Bench, epochs: int, kept: Tensor, scores: Tensor, before: Trainer | None) -> None:
        # The schedule of the whole run, from where it would be now if there had been no first stage.
        learner = bench.stage(bench.epochs).make_learner()
        learner.steps = (bench.epochs - epochs) * bench.steps_per_epoch
        if before is not None:
            learner.model.load_state_dict(before.learners[0].model.state_dict())
        self.learners, self.loss = [learner], CE(reduction="none")
        self.kept, self.scores = kept, scores

    def step(self, batch: Batch) -> Step:
        """A step on the labels that are kept."""
        kept = self.kept[batch.index]
        rows = kept.nonzero().squeeze(1)
        if sum(all_gather(len(rows))) < 2:  # a batch norm cannot normalise a single sample
            rows = rows[:0]
        share = torch.tensor(len(rows), dtype=torch.float64, device=batch.labels.device)
        step = descend(self.learners[0], Batch(*(part[rows] for part in batch)), self._cost, share)
        left_out = (~kept).nonzero().squeeze(1)
        scores = self.scores[batch.index[left_out]].to(step.scores)
        if not step.share:
            return step
        return Step(
            torch.cat([step.index, batch.index[left_out]]),
            torch.cat([step.labels, batch.labels[left_out]]),
            torch.cat([step.scores, scores]),
            torch.cat([step.gradient, torch.zeros_like(scores)]),
            step.loss,
            step.share,
            step.rate,
            torch.cat([torch.ones(len(rows)), torch.zeros(len(left_out))]).to(step.scores),
        )

    def _cost(self, scores: Tensor, piece: Batch) -> Tensor:
        losses: Tensor = self.loss(scores, piece.labels)
        return losses

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "scores": self.scores}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict(state)
        self.scores = state["scores"]
