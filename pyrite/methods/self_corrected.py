"""Training on labels that are corrected by an audit of the net itself, or of heads on its embeddings."""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Final, final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from pyrite.auditing import FEWEST
from pyrite.auditing.noise_fit import LabelGroups, NoiseFit, fit_noise
from pyrite.checks import Fraction, number
from pyrite.data import Batch, first_members
from pyrite.draws import Stream, uniforms
from pyrite.errors import PyriteError
from pyrite.methods.corrected import from_anchors, wrong_by_matrix
from pyrite.methods.learner import follow
from pyrite.methods.method import Context, Method, Step, Trainer
from pyrite.models import Network, seeded
from pyrite.soft_margin import wide, wide_dtype, widened

_AVERAGED: Final = 0.02  # of the run: the steps that weights are averaged over
_SHARPER: Final = 1.4, 2.0  # how much sharper than the net true classes may be
_NATS: Final = 6.0  # by which these must make all labels together more likely
_FITTED: Final = 4_000_000  # scores that the noise is fitted to; of a larger table, every n-th row
_BLOCK: Final = 100_000  # samples whose true classes are computed at a time
_ANCHORS: Final = 0.3  # the fraction of a class of whose samples a net should be sure, where labels are right
# Classes that are alike look like noise of a few per cent by their anchors: 3 to 5 % on clean labels (docs/methods.md).
_LEAST_NOISE: Final = 0.1
_MISJUDGED: Final = 0.05  # between the mean probability of the predicted class and how often that is the given one

# Of the heads on embeddings.
_FOLDS: Final = 5
_HIDDEN: Final = 256
_DROPPED: Final = 0.2, 0.5  # of the embeddings, and of the hidden units
_EPOCHS, _STEPS, _BATCH = 6, 300, 256  # of each head; small data has more epochs, so that there are as many steps
_RATE: Final = 2e-3


@final
@dataclass(repr=False, eq=False)
class SelfCorrected(Method):
    """Train with cross entropy, audit the labels with the net, then train on probabilities of the true classes.

    After the fraction ``at`` of the epochs, the noise matrix T[i, j] = P(given j | true i) is estimated from the scores
    of all training samples: by a fit like that of an audit or, if that finds nothing, by the samples that the net is
    surest of (Patrini et al., 2017). From then on the target of a sample with label y is Bayes' rule, in proportion to
    T[i, y] exp(m_i), where m is the running mean of the log-probabilities that the net gave to the sample's classes.
    Net, optimiser and schedule go on. If no noise is found, T is the identity, and the loss remains cross entropy.

    With ``momentum`` 0 this is forward correction: the gradient is that of -log sum_i T[i, y] p_i. The running mean
    keeps the predictions of a sample from before its label was memorised. The net that judges and predicts is an
    average of the weights over the last fiftieth of the run: in the middle of a run it is far better than the net.

    With ``at=0`` the labels are audited before training, for a net that begins with pretrained weights: small heads on
    its embeddings, cross-fitted, score every sample, and all training has corrected targets. The running mean takes in
    predictions of the first half of the epochs. This is the default where a pretrained net is fine-tuned.

    >>> str(SelfCorrected())
    'self_corrected(at=0.35, momentum=0.7)'
    """

    at: Annotated[float, partial(number, least=0, below=1)] = 0.35  # the fraction of the epochs before the audit
    momentum: Fraction = 0.7  # the fraction of the running mean that remains at each visit of the sample

    held_out = 0.05

    @property
    def paced(self) -> "SelfCorrected":
        return replace(self, at=self.at or 0.5)

    def start(self, context: Context) -> "SelfCorrectedTrainer":
        return SelfCorrectedTrainer(self, context)


@final
class SelfCorrectedTrainer(Trainer):
    """Steps with the given labels, and with probabilities of the true ones where the audit finds noise."""

    saved = (*Trainer.saved, "matrix", "memory")

    def __init__(self, method: SelfCorrected, context: Context) -> None:
        super().__init__(context)
        self.momentum = method.momentum
        self.average = deepcopy(self.learner.model)
        self.audited_after = max(1, round(method.at * context.epochs)) if method.at else 0
        # A pretrained net follows wrong labels late in a run, and predictions of then would make them targets.
        self.settled_after = context.epochs if method.at else -(-context.epochs // 2)
        if not method.at and not isinstance(self.learner.model, Network):
            raise PyriteError(
                "at is 0, so labels are audited by the net's embeddings, but this net has none: set at to a fraction "
                "of the run, such as at=0.35, or use a net of 'pyrite list models'"
            )
        self.matrix: Tensor | None = None  # until the labels are audited
        self.memory: Tensor | None = None  # until noise is found: a running mean of log-probabilities per sample

    def begin_epoch(self, epoch: int) -> None:
        super().begin_epoch(epoch)
        if epoch <= self.audited_after or self.matrix is not None:
            return
        labels, sharpness = self.context.labels, 1.0
        augment = self.context.batches.augment
        if self.audited_after:  # at the size of the epoch before, counted from 0; mirrored as well if training mirrors
            mirror = augment is not None and augment.flip != "none"
            scores = self.context.evaluate(partial(self.predict, epoch=epoch - 2, mirror=mirror))
        else:
            scores = self._scores_of_embeddings()
        self.matrix, fit = find_noise(scores, labels)
        if fit is not None and not self.audited_after:
            self.matrix, sharpness = expected_matrix(fit, scores, labels).to(self.matrix), float(fit.sharpness)
        if not self.matrix.equal(torch.eye(len(self.matrix)).to(self.matrix)):
            self.memory = (sharpness * scores.nan_to_num()).log_softmax(1)

    def _scores_of_embeddings(self) -> Tensor:
        """Of every training sample before any training, by heads that have not seen its label."""
        context, learner = self.context, self.learner
        assert isinstance(learner.model, Network)
        body = learner.model.body
        embeddings = context.evaluate(lambda inputs: learner.evaluate(inputs, body))
        learner.model.eval()  # as its body is now: the next step sets both to training
        return cross_fitted(
            embeddings, context.labels, classes=context.classes, seed=context.seed, groups=context.groups()
        )

    def losses(self, scores: Tensor, batch: Batch) -> Tensor:
        if self.memory is None or self.matrix is None:
            return super().losses(scores, batch)
        remembered = self._remembered(self.memory, scores.detach(), batch.index)
        targets = (self.matrix.log().to(remembered).mT[batch.labels] + remembered).softmax(1).to(scores)
        losses: Tensor = self.loss(scores, targets)
        return losses

    def _remembered(self, memory: Tensor, scores: Tensor, index: Tensor) -> Tensor:
        """The running mean of log-probabilities, with these scores in it unless it has settled."""
        log_p = widened(scores).log_softmax(1)
        if self.epoch > self.settled_after:
            return memory[index].to(log_p)
        return torch.lerp(log_p, memory[index].to(log_p), self.momentum)

    def after_step(self, step: Step) -> None:
        if self.memory is not None:
            self.memory[step.index] = self._remembered(self.memory, step.scores, step.index).to(self.memory.dtype)
        all_steps = self.context.epochs * self.context.steps_per_epoch
        follow(self.average, self.learner.model, self.learner.steps, _AVERAGED * all_steps)

    @property
    def predictors(self) -> Sequence[nn.Module]:
        return [self.average]

    def facts(self) -> Mapping[str, float]:
        """The noise rate of the matrix, if all classes are equally frequent, once it is known."""
        return {} if self.matrix is None else {"estimated_noise_rate": 1 - float(self.matrix.diagonal().mean())}

    def arrays(self) -> Mapping[str, Tensor]:
        """The matrix, once it is known."""
        return {} if self.matrix is None else {"matrix": self.matrix}


def find_noise(scores: Tensor, labels: Tensor) -> tuple[Tensor, NoiseFit | None]:
    """The noise matrix by a fit, and that fit; by anchors if the fit finds nothing; the identity if neither does.

    The net has learned these labels for a while, so the noise rate of an audit, which is learned from scores of samples
    that were not trained on, does not apply. If labels are right, scores that predict them best are those of the true
    classes: no sharper ones, with noise, make the labels more likely. If some make them more likely, labels are wrong.

    Rows of scores that are NaN and labels below 0, of samples that are not trained on, do not count.
    """
    classes = scores.shape[1]
    none = torch.eye(classes, dtype=wide_dtype(labels), device=labels.device)
    rows = ((labels >= 0) & scores.isfinite().all(1)).nonzero().squeeze(1)
    rows = rows[:: 1 + len(rows) * classes // _FITTED]
    if len(rows) < FEWEST or len(labels[rows].unique()) < 2:
        return none, None
    groups = LabelGroups(scores[rows].cpu().double().log_softmax(1).numpy(), labels[rows].cpu().numpy())
    if not groups.can_tell:
        return none, None
    as_sharp, *sharper = (groups.fit_matrix(power)[1] for power in (1.0, *_SHARPER))
    if len(rows) * (max(sharper) - as_sharp) > _NATS:
        fit = fit_noise(groups)
        return torch.from_numpy(fit.matrix).to(none), fit
    found = matrix_by_anchors(scores[rows], labels[rows])
    return none if found is None else found, None


def expected_matrix(fit: NoiseFit, scores: Tensor, labels: Tensor) -> Tensor:
    """The noise matrix of the expected counts of every true class with every given label, on the processor."""
    counts = torch.from_numpy(fit.matrix)
    for rows in scores.isfinite().all(1).nonzero().squeeze(1).split(_BLOCK):
        given = labels[rows].cpu()
        joint = fit.log_joint(scores[rows].cpu().double().log_softmax(1).numpy(), given.numpy())
        counts = counts.index_add(1, given, torch.from_numpy(joint).softmax(1).mT)
    return counts / counts.sum(1, keepdim=True)


def matrix_by_anchors(scores: Tensor, labels: Tensor) -> Tensor | None:
    """The noise matrix if noise is the doubt that a net has of the samples that it is surest of; None if that is none.

    A net that is fitted to given labels may predict their noise as doubt, and nothing is then left for an audit to
    explain. But if two classes were merely alike, it would be sure of some of their samples. What it doubts even there
    is noise (Patrini et al., 2017). This holds for a net that is right about the given labels as often as its
    probabilities are high. One that is surer has memorised some, and one that is less sure has not learned yet; neither
    is trusted, nor one that finds little noise.
    """
    frequency = wide(torch.bincount(labels, minlength=scores.shape[1])) / len(labels)
    matrix = from_anchors(scores, 100 * (1 - _ANCHORS * frequency))
    sureness, prediction = wide(scores).softmax(1).max(1)
    misjudged = (sureness.mean() - wide(prediction == labels).mean()).abs()
    trusted = misjudged < _MISJUDGED and wrong_by_matrix(scores, labels, matrix).mean() >= _LEAST_NOISE
    return matrix if trusted else None


def cross_fitted(
    embeddings: Tensor, labels: Tensor, *, classes: int, seed: int, groups: npt.NDArray[np.int64]
) -> Tensor:
    """Scores (N, K) of all samples, each by a head that was trained without the fold of the sample.

    Rows of samples without a label (−1) or with an embedding that is not finite are NaN, and so are all if there is
    only one group.
    """
    labels = labels.where(embeddings.isfinite().all(1), -1)
    scores = torch.full((len(embeddings), classes), torch.nan, device=embeddings.device)
    folds = min(_FOLDS, len(np.unique(groups[labels.cpu().numpy() >= 0])))
    if folds < 2:
        return scores
    fold = assign_folds(labels, folds, seed, groups)
    std, mean = torch.std_mean(embeddings[fold >= 0].float(), 0)
    inputs = (embeddings.float() - mean) / (std + 1e-6)
    with seeded(seed):
        for number in range(folds):
            head = _fitted(inputs, labels, ((fold >= 0) & (fold != number)).nonzero().squeeze(1), classes)
            with torch.no_grad():
                scores[fold == number] = head(inputs[fold == number])
    return scores


def _fitted(inputs: Tensor, labels: Tensor, rows: Tensor, classes: int) -> nn.Module:
    """A head in evaluation mode, trained on these rows with cross entropy."""
    head = nn.Sequential(
        nn.Dropout(_DROPPED[0]), nn.Linear(inputs.shape[1], _HIDDEN), nn.ReLU(),
        nn.Dropout(_DROPPED[1]), nn.Linear(_HIDDEN, classes),
    ).to(inputs.device)  # fmt: skip
    per_epoch = max(1, len(rows) // _BATCH)
    epochs = max(_EPOCHS, -(-_STEPS // per_epoch))
    optimiser = torch.optim.AdamW(head.parameters(), _RATE)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, _RATE, total_steps=epochs * per_epoch)
    for _ in range(epochs):
        for batch in rows[torch.randperm(len(rows)).to(rows.device)][: per_epoch * _BATCH].tensor_split(per_epoch):
            optimiser.zero_grad()
            cross_entropy(head(inputs[batch]), labels[batch]).backward()
            optimiser.step()
            schedule.step()
    return head.eval()


def assign_folds(labels: Tensor, folds: int, seed: int, groups: npt.NDArray[np.int64]) -> Tensor:
    """The fold of every sample, with every class spread evenly over the folds; −1 for samples that are not trained on.

    Groups are in one fold.

    >>> assign_folds(torch.tensor([0, 0, 1, -1, 1, 0]), 2, seed=0, groups=np.array([0, 1, 2, 3, 4, 0])).tolist()
    [1, 0, 1, -1, 0, 1]
    """
    given = labels.cpu().numpy()
    used = np.flatnonzero(given >= 0)
    member = used[first_members(groups[used])]
    if len(np.unique(member)) < folds:
        raise PyriteError(f"{len(np.unique(member))} groups cannot be divided into {folds} folds: use smaller groups")
    # Classes are dealt one after the other, so that the sizes of the folds differ by at most one.
    dealt = np.lexsort((uniforms(seed, Stream.FOLDS, len(given)), given))
    dealt = dealt[np.isin(dealt, member)]
    fold = np.full(len(given), -1)
    fold[dealt] = np.arange(len(dealt)) % folds
    fold[used] = fold[member]
    return torch.from_numpy(fold).to(labels.device)
