"""Training on samples with small losses: self-paced learning, co-teaching, MentorNet, and the estimated noise rate."""

import math
import warnings
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Annotated, ClassVar, Final, final

import numpy as np
import torch
from torch import Tensor

from pyrite.checks import Count, Fraction, NotNegative, number
from pyrite.criterion import Loss
from pyrite.data import Batch
from pyrite.errors import PyriteError
from pyrite.methods.method import Context, Method, PerSampleLoss, Step, Trainer
from pyrite.soft_margin import row_margin, wide, wide_dtype

_ROUNDS: Final = 500  # of EM at most
_STABLE: Final = 1e-10  # EM ends when the log-likelihood per sample changes by less
_LEAST_SPREAD: Final = 1e-3  # relative to that of all margins, so that components do not shrink to points


def estimate_noise_rate(margins: Tensor) -> float:
    """The fraction of wrong labels among samples with these margins of their given labels.

    Two normal components with one standard deviation are fitted to the margins by EM; the weight of the lower one is
    the noise rate. Margins are close to normal, where losses are skewed. Components with standard deviations of their
    own tell easy from hard samples rather than right from wrong labels. The rate is 0 if the net mostly agrees with the
    lower component's labels (a mean margin above 0: hard samples, not wrong labels). For a net that has learned nothing
    yet the estimate means nothing.

    >>> right, wrong = torch.linspace(2, 6, 70), torch.linspace(-6, -2, 30)
    >>> round(estimate_noise_rate(torch.cat([right, wrong])), 3)
    0.3
    """
    from sklearn.exceptions import ConvergenceWarning  # slow to import
    from sklearn.mixture import GaussianMixture

    values = margins.cpu().double().flatten()
    values = values[values.isfinite()]
    if len(values) < 4 or float(values.std()) == 0:
        return 0.0
    spread, columns = float(values.std()), values.numpy()[:, None]
    halves = np.array_split(np.sort(columns, axis=0), 2)
    mixture = GaussianMixture(
        2, covariance_type="tied", tol=_STABLE, max_iter=_ROUNDS, reg_covar=(_LEAST_SPREAD * spread) ** 2,
        weights_init=[0.5, 0.5], means_init=[half.mean(0) for half in halves], precisions_init=[[4 / spread**2]],
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # components that overlap take many rounds
        mixture.fit(columns)
    lower = int(mixture.means_[:, 0].argmin())
    return float(mixture.weights_[lower]) if mixture.means_[lower, 0] < 0 else 0.0


class NoiseRateTrainer(Trainer):
    """A trainer with the noise rate of the run: given, or estimated when a warm-up has ended.

    The estimate uses each sample's mean margin over the warm-up: early margins carry little information, and late ones
    are those of memorised labels. The warm-up has a fifth of the epochs, from 3 to 10, but not all of them.
    """

    saved: ClassVar[tuple[str, ...]] = (*Trainer.saved, "noise_rate")
    margins: Tensor

    def __init__(self, context: Context, loss: Loss | None, given: float | None, *, nets: int = 1) -> None:
        super().__init__(context, loss, nets=nets)
        self.warm_up = max(1, min(context.epochs - 1, max(3, context.epochs // 5), 10))
        self.noise_rate, self.is_given = given, given is not None
        # The sums of the margins in the warm-up.
        self.register_buffer(
            "margins", torch.zeros(context.samples, dtype=wide_dtype(context.device), device=context.device)
        )

    def end_epoch(self) -> None:
        """In the warm-up, add the margins of the training samples; at its end, estimate the rate from their sum."""
        if self.noise_rate is not None:
            return
        trained_on = self.context.labels >= 0
        scores, labels = self.context.evaluate(self.predict)[trained_on], self.context.labels[trained_on]
        self.margins[trained_on] += row_margin(scores, labels)
        if self.epoch >= self.warm_up:
            self.noise_rate = estimate_noise_rate(self.margins[trained_on])

    def facts(self) -> Mapping[str, float]:
        if self.noise_rate is None:
            return {}
        return {"noise_rate_given" if self.is_given else "noise_rate_estimated": self.noise_rate}


def with_smallest(losses: Tensor, count: int, index: Tensor | None = None) -> Tensor:
    """1 for this number of the smallest losses, at least one of them, else 0; of equal ones, the lower index first."""
    first = torch.arange(len(losses), device=losses.device) if index is None else index.argsort()
    order = first[losses[first].argsort(stable=True)]
    return torch.zeros_like(losses).index_fill_(0, order[: max(1, count)], 1)


_Kept = Annotated[float, partial(number, above=0, most=1)]


@final
@dataclass(repr=False, eq=False)
class SelfPaced(Method):
    """Train on the samples with the smallest losses; their fraction grows with every epoch.

    After a warm-up on all samples the fraction grows linearly over the rest of the run. The samples are chosen at the
    beginning of an epoch, by the loss that each had when it was last seen.

    Kumar et al., 2010 ("Self-paced learning for latent variable models").
    """

    first: _Kept = 0.5  # the fraction after the warm-up
    last: _Kept | None = None  # in the last epoch; None: 1 minus the noise rate, estimated when the warm-up ends
    _: KW_ONLY
    loss: PerSampleLoss | None = None  # what samples are compared by, and trained with; cross entropy if None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.last is not None and self.last < self.first:
            raise PyriteError(f"last is {self.last}, but must not be below first, which is {self.first}")

    def start(self, context: Context) -> "SelfPacedTrainer":
        return SelfPacedTrainer(self, context)


@final
class SelfPacedTrainer(NoiseRateTrainer):
    """The samples with small losses, more of them in every epoch."""

    saved = (*NoiseRateTrainer.saved, "fraction")
    seen: Tensor
    chosen: Tensor

    def __init__(self, method: SelfPaced, context: Context) -> None:
        super().__init__(context, method.loss, None if method.last is None else 1 - method.last)
        self.first = method.first
        every = torch.ones(context.samples, dtype=wide_dtype(context.device), device=context.device)
        self.register_buffer("seen", every * torch.inf)  # the loss of every sample when it was last seen
        self.register_buffer("chosen", every)
        self.fraction = 1.0

    def begin_epoch(self, epoch: int) -> None:
        super().begin_epoch(epoch)
        if epoch <= self.warm_up:
            return
        last = 1 - (self.noise_rate or 0.0)
        first = min(self.first, last)
        progress = (epoch - self.warm_up - 1) / max(1, self.context.epochs - self.warm_up - 1)
        self.fraction = first + (last - first) * progress
        self.chosen = with_smallest(self.seen, round(self.fraction * int(self.seen.isfinite().sum())))

    def weights(self, batch: Batch, losses: Tensor | None) -> Tensor:
        return self.chosen[batch.index]

    def after_step(self, step: Step) -> None:
        assert step.losses is not None
        self.seen[step.index] = step.losses.to(self.seen)

    def facts(self) -> Mapping[str, float]:
        return {"share_trained_on": self.fraction, **super().facts()}


_Rate = Annotated[float, partial(number, wanted="from 0 to below 1, or None to estimate it", least=0, below=1)]


@final
@dataclass(repr=False, eq=False)
class CoTeaching(Method):
    """Two nets, each trained on the samples of a batch for which the other net has the smallest losses.

    The fraction of a batch that is left out, the forget rate, grows linearly from 0 to the noise rate: from the first
    epoch if that is given, else after the warm-up. Both nets predict.

    Han et al., 2018 ("Co-teaching: robust training of deep neural networks with extremely noisy labels").
    """

    rate: _Rate | None = None  # the noise rate; None to estimate it
    _: KW_ONLY
    loss: PerSampleLoss | None = None  # what samples are compared by, and trained with; cross entropy if None
    ramp: Count | None = None  # epochs of growth; None: 10, as in the paper, or a third of a shorter run

    def start(self, context: Context) -> "CoTeachingTrainer":
        return CoTeachingTrainer(self, context)


@final
class CoTeachingTrainer(NoiseRateTrainer):
    """Two nets, each of which chooses the samples of the other."""

    whole_batch = True
    saved = (*NoiseRateTrainer.saved, "forget_rate")

    def __init__(self, method: CoTeaching, context: Context) -> None:
        super().__init__(context, method.loss, method.rate, nets=2)
        self.ramp = method.ramp or min(10, max(1, context.epochs // 3))
        self.forget_rate = 0.0

    def begin_epoch(self, epoch: int) -> None:
        super().begin_epoch(epoch)
        since = epoch if self.is_given else max(0, epoch - self.warm_up)
        self.forget_rate = (self.noise_rate or 0.0) * min(since / self.ramp, 1.0)

    def weights(self, batch: Batch, losses: Tensor | None) -> Tensor:
        assert losses is not None
        kept = math.floor((1 - self.forget_rate) * len(batch.index) + 1e-9)  # (1 - 0.9) * 10 is a little less than 1
        return torch.stack([with_smallest(row, kept, batch.index) for row in losses.flip(0)])

    def facts(self) -> Mapping[str, float]:
        return {"forget_rate": self.forget_rate, **super().facts()}


@final
@dataclass(repr=False, eq=False)
class Mentornet(Method):
    """Weights that decrease with the loss of a sample, relative to a percentile of the losses in the batch.

    The threshold λ is a running mean of the ``percentile`` of the losses in a batch. v is 1 for ℓ ≤ λ, and falls
    linearly to 0 at ℓ = (1 + width) λ: the predefined curriculum of the paper.

    Jiang et al., 2018 ("MentorNet: learning data-driven curriculum for very deep neural networks on corrupted labels").
    """

    _: KW_ONLY
    # Of the losses, as a fraction. None: 1 minus the noise rate, which is estimated from the margins after a fifth of
    # the epochs, from 3 to 10; until then all samples count.
    percentile: Fraction | None = 0.7
    decay: Annotated[float, partial(number, least=0, below=1)] = 0.5  # the part of λ that is kept from batch to batch
    width: NotNegative = 1.0  # of the falling part, in multiples of λ; with 0, samples count or do not
    burn_in: Fraction = 0.2  # the fraction of the epochs in which all samples count
    loss: PerSampleLoss | None = None  # what the net is trained with; cross entropy if None

    def start(self, context: Context) -> "MentornetTrainer":
        return MentornetTrainer(self, context)


@final
class MentornetTrainer(NoiseRateTrainer):
    """Samples weighted by their losses and a threshold."""

    whole_batch = True
    saved = (*NoiseRateTrainer.saved, "threshold")

    def __init__(self, method: Mentornet, context: Context) -> None:
        super().__init__(context, method.loss, None if method.percentile is None else 1 - method.percentile)
        self.method, self.epoch = method, 1
        self.threshold = float("nan")  # until the first batch

    def weights(self, batch: Batch, losses: Tensor | None) -> Tensor:
        assert losses is not None
        losses = wide(losses)
        now = float(losses.cpu().double().quantile(1 - (self.noise_rate or 0.0)))
        decay = self.method.decay if self.threshold == self.threshold else 0.0
        self.threshold = decay * self.threshold + (1 - decay) * now if decay else now
        if self.noise_rate is None or self.epoch <= round(self.method.burn_in * self.context.epochs):
            return torch.ones_like(losses)
        over, width = losses - self.threshold, self.method.width * self.threshold
        return (1 - over / width).clamp(0, 1) if width > 0 else wide(over <= 0)

    def facts(self) -> Mapping[str, float]:
        known = {} if self.threshold != self.threshold else {"loss_threshold": self.threshold}
        return known | ({} if self.is_given else dict(super().facts()))
