"""Two nets that are trained on mixtures of samples, with targets from both: DivideMix and ELR+."""

import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from typing import Annotated, Final, NamedTuple, final

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid, one_hot

from pyrite.checks import Count, Fraction, NotNegative, number, whole_number
from pyrite.data import Batch
from pyrite.draws import Stream, uniforms
from pyrite.methods.learner import Learner, follow
from pyrite.methods.method import Context, Method, Step, Trainer
from pyrite.methods.past_predictions import class_balance, elr_penalty
from pyrite.methods.trainer import Pass
from pyrite.soft_margin import row_margin, row_margins, wide, wide_dtype, widened

_ROUNDS: Final = 10  # of EM at most, and the other numbers of the authors' code
_STABLE: Final = 1e-2
_LEAST_VARIANCE: Final = 5e-4

_Positive = Annotated[float, partial(number, above=0)]


class Shown(NamedTuple):
    """What the nets are shown of a batch. The views of a sample follow each other."""

    inputs: Tensor  # of this process
    targets: Tensor  # a table for each net, with the rows of all processes
    scores: Tensor  # of this process's samples, before the step, for observers


class MixedPair(Trainer):
    """Steps of two nets on mixtures of two samples each, with targets that are mixed alike (mixup).

    The fraction of the first sample is drawn from Beta(alpha, alpha), once for each step and net; it is the larger one.
    A subclass makes the inputs and targets. The first samples of the mixtures are those of the batch in their order.

    Zhang et al., 2018 ("mixup: beyond empirical risk minimization").
    """

    whole_batch = True
    views = 1  # of each sample

    def __init__(self, context: Context, alpha: float) -> None:
        super().__init__(context, nets=2)
        self.alpha = alpha
        self.shown: Shown | None = None  # in a step on mixtures
        self.everything = self.targets = torch.empty(0)  # the inputs of all processes, and a net's mixed targets
        self.which = 0  # the net of the pass

    @abstractmethod
    def show(self, batch: Batch) -> Shown | None:
        """Inputs and targets of a step; None for a step on the batch as it is."""

    def step(self, batch: Batch) -> Step:
        """Observers see the scores of the samples themselves, and the gradients of the mixtures that they lead."""
        self.shown = self.show(batch) if self.count(len(batch.labels)) else None
        if self.shown is None:
            return super().step(batch)
        self.everything = self.gather(self.shown.inputs)
        step = super().step(batch)
        return replace(step, scores=self.shown.scores, gradient=step.gradient[:: self.views], losses=None)

    def passes(self, net: Learner, batch: Batch, scorer: Callable[[Tensor], Tensor] | None = None) -> Iterator[Pass]:
        if self.shown is not None:
            self.which = 0 if net is self.nets[0] else 1
            drawn = uniforms(self.context.seed, Stream.MIXUP, 1 + len(self.everything), net.steps, self.which)
            fraction = larger_part(drawn[0], self.alpha)
            partner = torch.from_numpy(drawn[1:].argsort(kind="stable")).to(batch.labels.device, non_blocking=True)
            targets = self.shown.targets[self.which]
            self.targets = torch.lerp(targets[partner], targets, fraction)
            own = self.own(len(self.shown.inputs))
            inputs = torch.lerp(self.everything[partner[own]], self.everything[own], fraction)
            labels, index = (part.repeat_interleave(self.views) for part in (batch.labels, batch.index))
            batch = Batch(inputs, labels, index)
        yield from super().passes(net, batch, scorer)


def larger_part(drawn: float, alpha: float) -> float:
    """The larger of x and 1 − x, where x is the quantile of Beta(alpha, alpha) at a uniform number.

    >>> larger_part(0.1, alpha=1)
    0.9
    """
    from scipy.special import betaincinv  # slow to import

    part = float(betaincinv(alpha, alpha, drawn))
    return max(part, 1 - part)


@final
@dataclass(repr=False, eq=False)
class DivideMix(Method):
    """Two nets; each is trained on samples that the other divides into labelled and unlabelled ones, with mixup.

    After a warm-up with cross entropy, every epoch begins with a mixture of two normal distributions that is fitted to
    the losses of all training samples. The label of a sample is kept if it belongs to the component of small losses
    with a probability w above ``threshold``. Its target is w · label + (1 − w) · prediction of the net, and that of any
    other sample the mean prediction of both nets; predictions are means over two random views. All targets are
    sharpened, and all views are mixed. The loss is cross entropy for kept labels, the squared distance for others, and
    KL(uniform ‖ mean prediction).

    Li et al., 2020 ("DivideMix: learning with noisy labels as semi-supervised learning").
    """

    unlabelled: NotNegative = 25  # λ_u, the factor of the squared distance
    _: KW_ONLY
    # Epochs; None: a fifth of the run, at most 10, as in the paper for CIFAR-10.
    warm_up: Annotated[int, partial(whole_number, least=0)] | None = None
    threshold: Fraction = 0.5  # τ
    temperature: _Positive = 0.5  # T, of the sharpening
    alpha: _Positive = 4  # of the Beta distribution of mixup
    balance: NotNegative = 1  # λ_r, the factor of KL(uniform ‖ mean prediction)
    ramp: Count | None = None  # epochs in which λ_u grows from 0; None: 16, or a third of a shorter run
    entropy: NotNegative = 0  # what −H(p) is multiplied by in the warm-up; 1 in the paper for asymmetric noise

    @property
    def paced(self) -> "DivideMix":
        return replace(self, warm_up=0)

    def start(self, context: Context) -> "DivideMixTrainer":
        return DivideMixTrainer(self, context)


@final
class DivideMixTrainer(MixedPair):
    """Two nets, each of which divides the samples for the other."""

    views = 2
    clean: Tensor

    def __init__(self, method: DivideMix, context: Context) -> None:
        super().__init__(context, method.alpha)
        self.method, epochs = method, context.epochs
        self.warm_up = min(10, max(1, epochs // 5)) if method.warm_up is None else method.warm_up
        self.ramp = method.ramp or min(16, max(1, epochs // 3))
        nothing = torch.zeros(2, context.samples, dtype=wide_dtype(context.device), device=context.device)
        self.register_buffer("clean", nothing)  # the probability of each label that it is right, by each net
        self.kept = torch.empty(0)  # whether the labels of the rows of a step are, by net

    @property
    def factor(self) -> float:
        """λ_u in the epoch."""
        return self.method.unlabelled * min(max(0, self.epoch - self.warm_up) / self.ramp, 1.0)

    def begin_epoch(self, epoch: int) -> None:
        super().begin_epoch(epoch)
        if epoch <= self.warm_up:
            return
        trained_on, growth = self.context.labels >= 0, self.context.batches.growth
        for net, clean in zip(self.nets, self.clean, strict=True):

            def predict(inputs: Tensor, net: Learner = net) -> Tensor:  # of the size of the epoch before, from 0
                return net.evaluate(inputs if growth is None else growth.resized(inputs, max(0, epoch - 2)))

            scores = self.context.evaluate(predict)[trained_on]
            clean[trained_on] = small_losses(-logsigmoid(row_margin(scores, self.context.labels[trained_on])))

    def show(self, batch: Batch) -> Shown | None:
        if self.epoch <= self.warm_up:
            return None
        views = torch.stack([batch.inputs, self.context.batches.again(batch.index)], 1).flatten(0, 1)
        scores = [net.evaluate(views) for net in self.nets]
        each = [widened(rows).softmax(1).unflatten(0, (-1, 2)).mean(1) for rows in scores]
        predicted = self.gather(torch.stack(each, 1))
        index, given = self.gather(batch.index), one_hot(self.gather(batch.labels), self.context.classes)
        clean = self.clean.flip(0)[:, index].unsqueeze(2).to(predicted)  # by the other net
        kept = clean > self.method.threshold
        refined = clean * given + (1 - clean) * predicted.transpose(0, 1)
        targets = torch.where(kept, refined, predicted.mean(1)).log() / self.method.temperature
        self.kept = kept.squeeze(2).repeat_interleave(2, 1)
        return Shown(views, targets.softmax(2).repeat_interleave(2, 1), scores[0][::2].clone())

    def losses(self, scores: Tensor, batch: Batch) -> Tensor:
        if self.shown is not None:
            kept, factor = self.kept[self.which], self.factor
            return len(scores) * divide_mix_objective(scores, self.targets, kept, factor, self.method.balance)
        losses = super().losses(scores, batch)
        if self.method.entropy:
            log_p = widened(scores).log_softmax(1)
            losses = losses + self.method.entropy * (log_p.exp() * log_p).sum(1).to(losses)
        return losses

    def facts(self) -> Mapping[str, float]:
        """The fraction of samples whose labels are kept, of both nets, and λ_u; after the warm-up."""
        if self.epoch <= self.warm_up:
            return {}
        kept = self.clean[:, self.context.labels >= 0] > self.method.threshold
        return {"labelled_fraction": float(wide(kept).mean()), "unlabelled_factor": self.factor}

    def arrays(self) -> Mapping[str, Tensor]:
        return {"clean_probability": self.clean}


@final
@dataclass(repr=False, eq=False)
class ElrPlus(Method):
    """``elr`` with two nets, mixup, and targets from predictions of the other net's averaged weights.

    Liu et al., 2020 ("Early-learning regularization prevents memorization of noisy labels"), where it is ELR+.
    """

    coefficient: NotNegative = 3  # λ, the factor of the regulariser
    momentum: Annotated[float, partial(number, least=0, below=1)] = 0.7  # β, of the running mean at each visit
    _: KW_ONLY
    alpha: _Positive = 1  # of the Beta distribution of mixup
    decay: Annotated[float, partial(number, above=0, below=1)] = 0.997  # γ, of the average of weights at each step

    def __post_init__(self) -> None:
        super().__post_init__()
        self.largest_weight, self.needs_clipping = max(1.0, self.coefficient), self.coefficient > 0  # as ELR

    def start(self, context: Context) -> "ElrPlusTrainer":
        return ElrPlusTrainer(self, context)


@final
class ElrPlusTrainer(MixedPair):
    """Two nets with averages of their weights, which make the targets and predict."""

    complement: Tensor

    def __init__(self, method: ElrPlus, context: Context) -> None:
        super().__init__(context, method.alpha)
        self.method = method
        self.averages = nn.ModuleList(deepcopy(net.model) for net in self.nets)
        # 1 − t for each net, as in ``elr``.
        ones = torch.ones(2, context.samples, context.classes, dtype=self.learner.dtype, device=context.device)
        self.register_buffer("complement", ones)
        self.updated = self.index = torch.empty(0)  # rows of it after the step

    def show(self, batch: Batch) -> Shown | None:
        scores = [self.learner.evaluate(batch.inputs, average) for average in self.averages]
        others = self.gather(torch.stack([widened(rows) for rows in reversed(scores)], 1)).unbind(1)
        self.index = self.gather(batch.index)
        complement = torch.stack([torch.sigmoid(-row_margins(rows)) for rows in others])
        self.updated = torch.lerp(complement, self.complement[:, self.index].to(complement), self.method.momentum)
        given = one_hot(self.gather(batch.labels), self.context.classes).to(complement).expand_as(complement)
        return Shown(batch.inputs, torch.cat([given, self.updated], 2), scores[0].clone())

    def losses(self, scores: Tensor, batch: Batch) -> Tensor:
        targets, complement = self.targets.chunk(2, 1)
        entropy = -(targets * widened(scores).log_softmax(1)).sum(1)
        return entropy + self.method.coefficient * elr_penalty(widened(scores), complement)

    def after_step(self, step: Step) -> None:
        self.complement[:, self.index] = self.updated.to(self.complement)
        for average, net in zip(self.averages, self.nets, strict=True):
            follow(average, net.model, net.steps, self.method.decay / (1 - self.method.decay))

    @property
    def predictors(self) -> Sequence[nn.Module]:
        return [*self.averages]

    def facts(self) -> Mapping[str, float]:
        """The fraction of training samples whose running mean is largest for the given label, of both nets."""
        given = self.context.labels
        return {"target_is_label": float(wide(self.complement.argmin(2) == given)[:, given >= 0].mean())}


def small_losses(losses: Tensor) -> Tensor:
    """The probability of each loss that it is of the component of small losses; 0 for losses that are not known.

    As in the authors' code, losses are scaled to the range from 0 to 1, and EM begins with k-means and ends early.

    >>> small_losses(torch.tensor([0.0, 0.1, 0.2, 3.0, 3.2])).round()
    tensor([1., 1., 1., 0., 0.])
    """
    from sklearn.exceptions import ConvergenceWarning  # slow to import
    from sklearn.mixture import GaussianMixture

    known = losses.isfinite()
    values = losses[known].cpu().double().numpy()
    found = torch.zeros_like(losses)
    if len(values) < 4 or values.max() == values.min():
        return found.masked_fill(known, 1.0)
    values = (values - values.min()) / (values.max() - values.min())
    split, before = 0.5, -1.0
    while split != before:  # the lowest value is always below, and the highest above
        split, before = (values[values <= split].mean() + values[values > split].mean()) / 2, split
    groups = [values[values <= split], values[values > split]]
    mixture = GaussianMixture(
        2, max_iter=_ROUNDS, tol=_STABLE, reg_covar=_LEAST_VARIANCE,
        weights_init=[len(group) / len(values) for group in groups],
        means_init=[[group.mean()] for group in groups],
        precisions_init=[[[1 / (group.var() + _LEAST_VARIANCE)]] for group in groups],
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        mixture.fit(values[:, None])
    lower = int(mixture.means_[:, 0].argmin())
    return found.masked_scatter(known, torch.from_numpy(mixture.predict_proba(values[:, None])[:, lower]).to(found))


def divide_mix_objective(scores: Tensor, targets: Tensor, kept: Tensor, factor: float, balance: float) -> Tensor:
    """Cross entropy where labels are kept, the mean squared distance elsewhere, and KL(uniform ‖ mean prediction).

    >>> kept = torch.tensor([True, False])
    >>> divide_mix_objective(torch.zeros(2, 2), torch.eye(2), kept, factor=2, balance=1)
    tensor(1.1931)
    """
    log_p = widened(scores).log_softmax(1)
    targets = targets.to(log_p)
    entropy, distance = -(targets * log_p).sum(1), (log_p.exp() - targets).square().mean(1)
    part = [(rows * mask).sum() / mask.sum().clamp(min=1) for rows, mask in ((entropy, kept), (distance, ~kept))]
    uniform = log_p.new_full((log_p.shape[1],), 1 / log_p.shape[1])
    return (part[0] + factor * part[1] + balance * class_balance(log_p, uniform)).to(scores.dtype)
