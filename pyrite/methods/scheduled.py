"""Losses with a coefficient that changes from epoch to epoch: bootstrapping, peer loss, confidence regularisation, and
dimensionality-driven learning."""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, ClassVar, Literal, final

import numpy as np
import torch
from torch import Tensor, nn

from pyrite.checks import Fraction, NotNegative, number, whole_number
from pyrite.criterion import Loss, bare
from pyrite.curves import CE
from pyrite.data import Batches
from pyrite.diagnostics import local_intrinsic_dimension
from pyrite.draws import Stream, order
from pyrite.errors import PyriteError
from pyrite.losses import BootHard, BootSoft, Confidence, Peer
from pyrite.methods.method import Context, Method, Trainer
from pyrite.models import embed

_SAMPLES, _BATCH = 1280, 128  # of the authors' code: ten batches of the size that the paper estimates dimension in
_BETA = {"hard": 0.8, "soft": 0.95}

_OfRun = Annotated[float, partial(number, wanted="a fraction of the run, from 0 to 1", least=0, most=1)]


def ramped(first: float, last: float, warmup: float, length: float, epochs: int) -> Callable[[int], float]:
    """A value for each epoch: ``first`` in the warm-up, then along a line to ``last``; fractions of a run.

    >>> value_at = ramped(first=0, last=2, warmup=0.1, length=0.4, epochs=10)
    >>> [value_at(epoch) for epoch in range(1, 8)]
    [0.0, 0.0, 0.5, 1.0, 1.5, 2.0, 2.0]
    """

    def at(epoch: int) -> float:
        done = (epoch - 1) - warmup * epochs
        # Without a length it is a jump. Warm-ups such as 0.1 · 30 are not whole numbers in floating point.
        progress = float(done > -1e-9) if length * epochs <= 0 else min(max(done / (length * epochs), 0.0), 1.0)
        return (1 - progress) * first + progress * last

    return at


class ScheduledLoss(Trainer):
    """Empirical risk minimisation with a loss, one attribute of which is set at the beginning of every epoch."""

    saved: ClassVar[tuple[str, ...]] = (*Trainer.saved, "value")

    def __init__(self, context: Context, loss: Loss, coefficient: str, value_at: Callable[[int], float]) -> None:
        super().__init__(context, loss)
        self.coefficient, self.value_at = coefficient, value_at
        self.value = value_at(1)

    @property
    def value(self) -> float:
        """The coefficient as it is now."""
        return float(getattr(self.loss, self.coefficient))

    @value.setter
    def value(self, value: float) -> None:
        setattr(self.loss, self.coefficient, value)

    def begin_epoch(self, epoch: int) -> None:
        super().begin_epoch(epoch)
        self.value = self.value_at(epoch)

    def facts(self) -> Mapping[str, float]:
        return {f"loss_{self.coefficient}": self.value}  # "alpha" is taken: the history has α_t under it


@final
@dataclass(repr=False, eq=False)
class Bootstrap(Method):
    """Cross entropy with the target β e_y + (1 − β) p (soft), or with the one-hot prediction in place of p (hard).

    Reed et al., 2015.
    """

    kind: Literal["hard", "soft"] = "hard"
    beta: Fraction | None = None  # β after the warm-up; by default 0.8 (hard) or 0.95 (soft)
    warmup: _OfRun = 0.2  # the fraction of the run in which β is 1, because early predictions carry no information

    def __post_init__(self) -> None:
        super().__post_init__()
        self.beta = _BETA[self.kind] if self.beta is None else self.beta

    def start(self, context: Context) -> ScheduledLoss:
        assert self.beta is not None
        loss = BootHard() if self.kind == "hard" else BootSoft()
        return ScheduledLoss(context, loss, "beta", ramped(1.0, self.beta, self.warmup, 0.0, context.epochs))


class _Growing(Method):
    """A loss less a coefficient, which grows from 0, times what samples would cost under other labels."""

    coefficient: ClassVar[str]
    loss: Loss | None
    warmup: float
    ramp: float

    def __post_init__(self) -> None:
        super().__post_init__()
        self.loss = bare(CE() if self.loss is None else self.loss)
        left, last = 1 - self.warmup, getattr(self, self.coefficient)
        self.ramp = number("ramp", self.ramp, f"a fraction of the run, from 0 to {left:g}", least=0, most=left + 1e-9)
        # A sample's scores have a gradient by its own label and by others, which is the coefficient times as large.
        self.largest_weight, self.needs_clipping = 1 + last, last > 0

    @abstractmethod
    def penalised(self, loss: Loss, context: Context) -> Loss:
        """The loss less what samples would cost."""

    def start(self, context: Context) -> ScheduledLoss:
        assert self.loss is not None
        plan = ramped(0.0, getattr(self, self.coefficient), self.warmup, self.ramp, context.epochs)
        return ScheduledLoss(context, self.penalised(self.loss, context), self.coefficient, plan)


@final
@dataclass(repr=False, eq=False)
class ScheduledPeer(_Growing):
    """A loss minus α times the loss of a random input under a random label; α grows from 0.

    Liu & Guo, 2020.
    """

    coefficient = "alpha"

    loss: Loss | None = None  # cross entropy by default
    alpha: NotNegative = 1  # the last α
    warmup: _OfRun = 0.06  # the fraction of the run in which α is 0
    ramp: float = 0.94  # the fraction of the run in which it grows

    def penalised(self, loss: Loss, context: Context) -> Loss:
        return Peer(loss)


@final
@dataclass(repr=False, eq=False)
class ScheduledConfidence(_Growing):
    """A loss minus β times its mean over the distribution of the given labels; β grows from 0.

    Cheng et al., 2021 ("Learning with instance-dependent label noise: a sample sieve approach").
    """

    coefficient = "beta"

    loss: Loss | None = None  # cross entropy by default
    beta: NotNegative = 1  # the last β; above 1 the loss rewards certainty of any class, right or wrong
    warmup: _OfRun = 0.1  # the fraction of the run in which β is 0
    ramp: float = 0.3  # the fraction of the run in which it grows

    def penalised(self, loss: Loss, context: Context) -> Loss:
        return Confidence(loss, prior=context.class_frequencies.cpu())


@final
@dataclass(repr=False, eq=False)
class D2L(Method):
    """Cross entropy with the target α e_y + (1 − α) ŷ; α decreases with the local intrinsic dimension of the features.

    The local intrinsic dimension (LID) of the representations falls while the net learns what classes have in common,
    and rises when it memorises wrong labels. At the first epoch whose LID is above mean + 2 σ of the ``window`` epochs
    before it, the turning point, the weights go back to those of the epoch before. From then on
    α = exp(−(epoch / epochs) · LID / lowest LID); until then α is 1.

    Ma et al., 2018.
    """

    k: Annotated[int, partial(whole_number, least=2)] = 20  # neighbours from which the dimension is estimated
    window: Annotated[int, partial(whole_number, least=2)] = 5  # epochs that a turning point is compared with
    skip: _OfRun = 0.1  # the fraction of the run that passes before such a window may begin

    def start(self, context: Context) -> "D2LTrainer":
        return D2LTrainer(self, context)


def _embeds(model: nn.Module) -> bool:
    """Whether a net has embeddings, as a method and not as a layer of that name."""
    method = getattr(model, "embed", None)
    return callable(method) and not isinstance(method, nn.Module)


@final
class _Representation(nn.Module):
    """The embeddings of a net that has them; the scores of any other."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, inputs: Tensor) -> Tensor:
        features: Tensor = embed(self.model, inputs) if _embeds(self.model) else self.model(inputs)
        return features.flatten(1)


@final
class D2LTrainer(ScheduledLoss):
    """The target is that of hard bootstrapping, with α for its beta."""

    saved = (*ScheduledLoss.saved, "dimensions", "turning_point", "before")

    def __init__(self, method: D2L, context: Context) -> None:
        batches, count = context.batches, len(context.batches.index)
        if count <= method.k:
            raise PyriteError(f"k is {method.k}, but must be below the number of training samples, which is {count}")
        super().__init__(context, BootHard(), "beta", lambda epoch: 1.0)
        self.k, self.window, self.skipped = method.k, method.window, round(method.skip * context.epochs)
        # A fixed random subset of the training samples, without augmentation.
        drawn = order(context.seed, Stream.EPOCH, count, 0, 2)[:_SAMPLES]
        self.samples = Batches(
            batches.inputs, batches.labels.numpy(), batch_size=_BATCH, seed=batches.seed, index=batches.index[drawn],
            shuffle=False, normalise=batches.normalise, rank=batches.rank, world_size=batches.world_size,
            device=batches.device, workers=batches.workers,
        )  # fmt: skip
        self.dimensions: list[float] = []
        self.turning_point = 0  # the epoch at whose beginning it was detected; 0 until then
        self.before: dict[str, Tensor] = {}

    def begin_epoch(self, epoch: int) -> None:
        self.epoch = epoch
        measured = self.measure()
        # Where no finite value is measured, such as when all representations are equal, the last one is kept.
        self.dimensions = self.dimensions + ([measured] if np.isfinite(measured) else self.dimensions[-1:])
        model = self.learner.model
        if not self.turning_point:
            if _rises(self.dimensions, self.window, self.skipped):
                self.turning_point = epoch
                model.load_state_dict(self.before)
                self.before = {}
            else:
                self.before = {name: value.detach().clone() for name, value in model.state_dict().items()}
        if self.turning_point:
            expansion = self.dimensions[-1] / min(self.dimensions)
            self.value = float(np.exp(-(epoch - 1) / self.context.epochs * expansion))

    def measure(self) -> float:
        """The mean LID of a fixed subset of the training samples, each among the others of its batch."""
        representation = _Representation(self.learner.model)
        points = self.context.evaluate(lambda inputs: self.learner.evaluate(inputs, representation), self.samples)
        values = [np.empty(0)]
        for batch in points[torch.from_numpy(self.samples.index)].cpu().double().split(self.samples.batch_size):
            readable = batch[~batch.isnan().any(1)]
            if len(readable) > self.k:
                values.append(local_intrinsic_dimension(readable.numpy(), self.k))
        finite = np.concatenate(values)
        finite = finite[np.isfinite(finite)]
        return float(finite.mean()) if len(finite) else float("nan")

    def facts(self) -> Mapping[str, float]:
        """LID before the epoch, α in it, whether LID is that of scores, and the epoch of the turning point or 0."""
        known = {"lid": self.dimensions[-1]} if self.dimensions else {}
        of_scores = float(not _embeds(self.learner.model))
        return known | {"label_share": self.value, "lid_of_scores": of_scores, "turning_point": self.turning_point}


def _rises(dimensions: list[float], window: int, skip: int) -> bool:
    """Whether the last dimension is above mean + 2 σ of the window before it."""
    earlier = dimensions[-window - 1 : -1]
    return len(dimensions) > skip + window and bool(dimensions[-1] - np.mean(earlier) > 2 * np.std(earlier))
