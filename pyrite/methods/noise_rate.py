"""The fraction of wrong labels, estimated from the margins of a net that has not memorised them yet."""

import warnings
from collections.abc import Mapping
from typing import ClassVar, Final

import numpy as np
import torch
from torch import Tensor

from pyrite.checks import number
from pyrite.criterion import Loss
from pyrite.errors import PyriteError
from pyrite.methods.context import Context
from pyrite.methods.trainer import Trainer
from pyrite.soft_margin import row_margin

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

    values = margins.double().flatten()
    values = values[values.isfinite()]
    if len(values) < 4 or float(values.std()) == 0:
        return 0.0
    spread, columns = float(values.std()), values.cpu().numpy()[:, None]
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

    The estimate uses each sample's mean margin over the warm-up, because that separates wrong labels better than the
    margins of a single epoch: early margins carry little information, and late ones are those of memorised labels. The
    warm-up has a fifth of the epochs, at least 3 and at most 10, but not all of them.
    """

    saved: ClassVar[tuple[str, ...]] = (*Trainer.saved, "noise_rate")
    margins: Tensor

    def __init__(self, context: Context, loss: Loss | None, given: float | None, *, nets: int = 1) -> None:
        super().__init__(context, loss, nets=nets)
        self.warm_up = max(1, min(context.epochs - 1, max(3, context.epochs // 5), 10))
        self.noise_rate, self.is_given = given, given is not None
        # The sums of the margins in the warm-up.
        self.register_buffer("margins", torch.zeros(context.samples, dtype=torch.float64, device=context.device))

    def ramped_noise_rate(self, ramp: int) -> float:
        """The noise rate times a factor that grows to 1 over ``ramp`` epochs.

        It grows from the first epoch if the rate was given, and from the end of the warm-up if it is estimated.
        """
        since = self.epoch if self.is_given else max(0, self.epoch - self.warm_up)
        return (self.noise_rate or 0.0) * min(since / ramp, 1.0)

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
        """The rate, under a name that tells whether it was given or estimated; nothing before it is known."""
        if self.noise_rate is None:
            return {}
        return {"noise_rate_given" if self.is_given else "noise_rate_estimated": self.noise_rate}


def check_rate(name: str, rate: float | None) -> None:
    """Raise ``ValueError`` unless ``rate`` is None or a fraction of wrong labels."""
    if rate is not None:
        number(name, rate, "from 0 to below 1, or None to estimate it", least=0, below=1)


def check_loss(loss: Loss | None) -> None:
    """Raise ``ValueError`` unless the loss has one value per sample that depends on that sample alone."""
    if loss is None:
        return
    if not isinstance(loss, Loss):
        raise PyriteError(f"loss is {loss!r}, but must be a loss")
    if any(part.couples for part in loss.modules() if isinstance(part, Loss)):
        raise PyriteError(f"loss is {str(loss)!r}, in which samples depend on each other: they cannot be weighted")
    if loss.reduction != "mean" or loss.weight is not None:
        raise PyriteError(f"loss is {str(loss)!r}: samples are weighted here, so leave out reduction and weight")
