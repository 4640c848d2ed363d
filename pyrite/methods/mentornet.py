"""MentorNet: a mentor weights every sample by its loss; it is predefined, or trained on a run with known labels."""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final, final

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from pyrite.checks import Fraction, NotNegative, number, require
from pyrite.data import Batch
from pyrite.errors import PyriteError
from pyrite.methods.method import Context, Method, PerSampleLoss, Step
from pyrite.methods.small_loss import NoiseRateTrainer
from pyrite.models import seeded
from pyrite.npz_files import read_npz
from pyrite.soft_margin import wide, wide_dtype

PREDEFINED: Final = "predefined"
_RECORDED: Final = 2000  # samples whose losses are saved to train other mentors: enough for three inputs
_STEPS: Final = 300  # of Adam, on all rows at once; the loss has converged by then
_HIDDEN: Final = 20  # as the authors' fully connected layer

Lesson = tuple[Tensor, Tensor]
"""Features of samples, one row of three for each, and whether their labels are right."""


def _check_mentor(name: str, mentor: Any) -> str:
    require(isinstance(mentor, str) and mentor != "", name, mentor, f"'{PREDEFINED}' or the folder of a run")
    return str(mentor)


@final
@dataclass(repr=False, eq=False)
class Mentornet(Method):
    """A mentor computes a weight v for every sample's loss ℓ; the weighted sum is divided by the sum of the weights.

    The threshold λ is a running mean of the ``percentile`` of the losses in a batch. The predefined mentor is
    v = 1 for ℓ ≤ λ, falling linearly to 0 at ℓ = (1 + width) λ. A data-driven mentor is a small network of ℓ, ℓ − λ and
    the fraction of the run that is over.

    Jiang et al., 2018 ("MentorNet: learning data-driven curriculum for very deep neural networks on corrupted labels").
    """

    # Or the folder of a finished run of ``mentornet`` on data whose true labels are known: a network learns there which
    # labels are right, and gives the weights here.
    mentor: Annotated[str, _check_mentor] = PREDEFINED
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
    """Samples weighted by a mentor, from their losses."""

    whole_batch = True
    saved = (*NoiseRateTrainer.saved, "threshold", "past_losses", "past_thresholds")
    seen: Tensor

    def __init__(self, method: Mentornet, context: Context) -> None:
        super().__init__(context, method.loss, None if method.percentile is None else 1 - method.percentile)
        self.method, self.epoch = method, 1
        self.mentor = None
        if method.mentor != PREDEFINED:
            self.mentor = train_mentor(read_lesson(method.mentor)).to(context.device, wide_dtype(context.device))
        self.threshold = float("nan")  # until the first batch
        trained_on = np.flatnonzero(context.labels.cpu().numpy() >= 0)
        self.recorded = trained_on[:: max(1, -(-len(trained_on) // _RECORDED))]
        # The loss of every sample when it was last seen, and what is recorded of them after every epoch.
        self.register_buffer("seen", torch.full((context.samples,), torch.nan, device=context.device))
        self.past_losses, self.past_thresholds = self.seen.new_zeros(0, len(self.recorded)), list[float]()

    def weights(self, batch: Batch, losses: Tensor | None) -> Tensor:
        assert losses is not None
        losses = wide(losses)
        now = float(losses.cpu().double().quantile(1 - (self.noise_rate or 0.0)))
        decay = self.method.decay if self.threshold == self.threshold else 0.0
        self.threshold = decay * self.threshold + (1 - decay) * now if decay else now
        epochs = self.context.epochs
        if self.noise_rate is None or self.epoch <= round(self.method.burn_in * epochs):
            return torch.ones_like(losses)
        if self.mentor is not None:
            logits: Tensor = self.mentor(features_of(losses, self.threshold, self.epoch / epochs))
            return logits.sigmoid()
        over, width = losses - self.threshold, self.method.width * self.threshold
        return (1 - over / width).clamp(0, 1) if width > 0 else wide(over <= 0)

    def after_step(self, step: Step) -> None:
        assert step.losses is not None
        self.seen[step.index] = step.losses.to(self.seen.dtype)

    def end_epoch(self) -> None:
        super().end_epoch()
        self.past_losses = torch.cat([self.past_losses, self.seen[None, self.recorded]])
        self.past_thresholds = [*self.past_thresholds, self.threshold]

    def facts(self) -> Mapping[str, float]:
        known = {} if self.threshold != self.threshold else {"loss_threshold": self.threshold}
        return known | ({} if self.is_given else dict(super().facts()))

    def arrays(self) -> Mapping[str, Tensor]:
        """Losses of some samples after every epoch, and the threshold: another mentor can be trained on them."""
        if not self.past_thresholds:
            return {}
        return {
            "mentor_index": torch.from_numpy(self.recorded).double(),
            "mentor_losses": self.past_losses,
            "mentor_thresholds": torch.tensor(self.past_thresholds, dtype=torch.float64),
        }


def features_of(losses: Tensor, threshold: Tensor | float, progress: Tensor | float) -> Tensor:
    """The inputs of a mentor: loss, distance to the threshold, and the fraction of the run that is over."""
    losses = wide(losses)
    return torch.stack((losses, losses - threshold, torch.zeros_like(losses) + progress), -1)


def train_mentor(lesson: Lesson) -> nn.Module:
    """From the features of samples to logits of the probabilities that their labels are right.

    The same lesson gives the same mentor.
    """
    features, is_right = lesson
    with seeded(0):
        mentor = nn.Sequential(nn.Linear(3, _HIDDEN), nn.Tanh(), nn.Linear(_HIDDEN, 1), nn.Flatten(0)).double()
    optimiser = torch.optim.Adam(mentor.parameters(), lr=0.05)
    with torch.enable_grad():
        for _ in range(_STEPS):
            optimiser.zero_grad()
            binary_cross_entropy_with_logits(mentor(features), is_right).backward()
            optimiser.step()
    return mentor.requires_grad_(False)


def read_lesson(folder: str) -> Lesson:
    """The lesson of a finished run of ``mentornet`` whose true labels are known."""
    try:
        labels, arrays = (read_npz(Path(folder) / f"{name}.npz") for name in ("labels", "method"))
        given, true = labels["given"], labels.get("true")
        index, losses, thresholds = (arrays[f"mentor_{name}"] for name in ("index", "losses", "thresholds"))
    except (ValueError, KeyError) as error:
        raise PyriteError(f"mentor is {folder!r}, but that is not the folder of a run of mentornet: {error}") from None
    if true is None:
        raise PyriteError(f"mentor is {folder!r}, but the true labels of that run are not known")
    fits = losses.ndim == 2 and losses.shape == thresholds.shape + index.shape and given.shape == true.shape
    if not fits or not losses.size or not ((index >= 0) & (index < given.size)).all():
        raise PyriteError(f"mentor is {folder!r}, but its labels.npz and method.npz are not of one run")
    epochs = len(losses)
    threshold, progress = (
        torch.from_numpy(np.asarray(column, np.float64)).unsqueeze(1)
        for column in (thresholds, np.arange(1, epochs + 1) / epochs)
    )
    rows = index.astype(np.int64)
    is_right = torch.from_numpy((given == true)[rows].astype(np.float64)).expand(epochs, -1)
    features = features_of(torch.from_numpy(losses), threshold, progress)
    seen = features.isfinite().all(-1)
    return features[seen], is_right[seen]
