"""Losses with a coefficient that changes from epoch to epoch: bootstrapping, peer loss, confidence regularisation."""

from collections.abc import Callable, Mapping
from typing import ClassVar, Literal, NamedTuple, final

from pyrite.checks import number, one_of
from pyrite.criterion import Loss, bare
from pyrite.curves import CE
from pyrite.losses import BootHard, BootSoft, Confidence, Peer
from pyrite.methods.method import Context, Method, Trainer


class Ramp(NamedTuple):
    """From one value to another: constant at first, then along a line, then constant.

    Attributes:
        first: the value of the first epochs.
        last: the value of the last epochs.
        warmup: the fraction of the run that keeps the first value.
        ramp: the fraction of the run that the change takes; with 0 it is a jump.

    >>> plan = Ramp(first=0, last=2, warmup=0.1, ramp=0.4)
    >>> [plan.at(epoch, epochs=10) for epoch in range(1, 8)]
    [0.0, 0.0, 0.5, 1.0, 1.5, 2.0, 2.0]
    """

    first: float
    last: float
    warmup: float
    ramp: float

    def at(self, epoch: int, epochs: int) -> float:
        """The value in an epoch, counted from 1, of a run of so many epochs."""
        done = (epoch - 1) - self.warmup * epochs
        length = self.ramp * epochs
        # Warm-ups such as 0.1 · 30 are not whole numbers in floating point.
        progress = float(done > -1e-9) if length <= 0 else min(max(done / length, 0.0), 1.0)
        return (1 - progress) * self.first + progress * self.last


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


def _ramped(context: Context, loss: Loss, coefficient: str, plan: Ramp) -> ScheduledLoss:
    return ScheduledLoss(context, loss, coefficient, lambda epoch: plan.at(epoch, context.epochs))


def _check_fractions(warmup: float, ramp: float = 0.0) -> tuple[float, float]:
    """Fractions of a run that a user gave; together they must not be more than the run."""
    warmup = number("warmup", warmup, "a fraction of the run, from 0 to 1", least=0, most=1)
    ramp = number("ramp", ramp, f"a fraction of the run, from 0 to {1 - warmup:g}", least=0, most=1 - warmup + 1e-9)
    return warmup, ramp


_BETA = {"hard": 0.8, "soft": 0.95}


@final
class Bootstrap(Method):
    """Cross entropy with the target β e_y + (1 − β) p (soft), or with the one-hot prediction in place of p (hard).

    Args:
        kind: ``"hard"`` or ``"soft"``.
        beta: β after the warm-up; by default 0.8 (hard) or 0.95 (soft).
        warmup: the fraction of the run in which β is 1, because early predictions carry no information.

    >>> str(Bootstrap("soft"))
    "bootstrap(kind='soft', beta=0.95, warmup=0.2)"

    Reed et al., 2015.
    """

    def __init__(self, kind: Literal["hard", "soft"] = "hard", beta: float | None = None, warmup: float = 0.2) -> None:
        one_of("kind", kind, _BETA)
        self.kind = kind
        self.beta = number("beta", _BETA[kind] if beta is None else beta, least=0, most=1)
        self.warmup, _ = _check_fractions(warmup)

    def start(self, context: Context) -> ScheduledLoss:
        loss = BootHard() if self.kind == "hard" else BootSoft()
        return _ramped(context, loss, "beta", Ramp(1.0, self.beta, self.warmup, 0.0))


@final
class ScheduledPeer(Method):
    """A loss less α times the loss of another sample's scores under a third sample's label; α grows from 0.

    Args:
        loss: cross entropy by default.
        alpha: the last α.
        warmup: the fraction of the run in which α is 0.
        ramp: the fraction of the run in which it grows.

    >>> str(ScheduledPeer())
    'peer(ce, alpha=1, warmup=0.06, ramp=0.94)'

    Liu & Guo, 2020.
    """

    def __init__(self, loss: Loss | None = None, alpha: float = 1, warmup: float = 0.06, ramp: float = 0.94) -> None:
        self.loss = bare(CE() if loss is None else loss)
        self.alpha = number("alpha", alpha, least=0)
        self.warmup, self.ramp = _check_fractions(warmup, ramp)
        # A sample's scores have a gradient as its own and one as another sample's peer, α times as large.
        self.largest_weight, self.needs_clipping = 1 + self.alpha, self.alpha > 0

    def start(self, context: Context) -> ScheduledLoss:
        return _ramped(context, Peer(self.loss), "alpha", Ramp(0.0, self.alpha, self.warmup, self.ramp))


@final
class ScheduledConfidence(Method):
    """A loss less β times its mean over labels drawn as the given labels are distributed; β grows from 0.

    Args:
        loss: cross entropy by default.
        beta: the last β. Above 1 the loss rewards certainty of any class, right or wrong.
        warmup: the fraction of the run in which β is 0.
        ramp: the fraction of the run in which it grows.

    >>> str(ScheduledConfidence())
    'confidence(ce, beta=1, warmup=0.1, ramp=0.3)'

    Cheng et al., 2021 ("Learning with instance-dependent label noise: a sample sieve approach").
    """

    def __init__(self, loss: Loss | None = None, beta: float = 1, warmup: float = 0.1, ramp: float = 0.3) -> None:
        self.loss = bare(CE() if loss is None else loss)
        self.beta = number("beta", beta, least=0)
        self.warmup, self.ramp = _check_fractions(warmup, ramp)
        # The regulariser's gradient is β times a mean of gradients of the loss.
        self.largest_weight, self.needs_clipping = 1 + self.beta, self.beta > 0

    def start(self, context: Context) -> ScheduledLoss:
        loss = Confidence(self.loss, prior=context.class_frequencies.cpu())
        return _ramped(context, loss, "beta", Ramp(0.0, self.beta, self.warmup, self.ramp))
