"""Dimensionality-driven learning: when the dimension of the representations rises, labels get less weight."""

from collections.abc import Mapping
from typing import final

import numpy as np
from torch import Tensor, nn

from pyrite.checks import number, whole_number
from pyrite.data import Batches
from pyrite.diagnostics import local_intrinsic_dimension
from pyrite.draws import Stream, order
from pyrite.errors import PyriteError
from pyrite.losses import BootHard
from pyrite.methods.method import Context, Method
from pyrite.methods.scheduled import ScheduledLoss
from pyrite.models import embed

_SAMPLES, _BATCH = 1280, 128  # of the authors' code: ten batches of the size that the paper estimates dimension in


@final
class D2L(Method):
    """Cross entropy with the target α e_y + (1 − α) ŷ, where ŷ is the one-hot prediction and α follows the dimension.

    Before every epoch the local intrinsic dimension (LID) of the representations is measured. While the net learns what
    the classes have in common it falls; when it memorises wrong labels it rises. At the first epoch whose LID is
    above mean + 2 σ of the ``window`` epochs before it, the turning point, the weights go back to those of the epoch
    before. From then on α = exp(−(epoch / epochs) · LID / lowest LID); until then α is 1.

    Args:
        k: neighbours from which the dimension at a sample is estimated.
        window: epochs that a turning point is compared with.
        skip: the fraction of the run that passes before such a window may begin.

    >>> str(D2L())
    'd2l(k=20, window=5, skip=0.1)'

    Ma et al., 2018.
    """

    def __init__(self, k: int = 20, window: int = 5, skip: float = 0.1) -> None:
        self.k = whole_number("k", k, least=2)
        self.window = whole_number("window", window, least=2)
        self.skip = number("skip", skip, "a fraction of the run, from 0 to 1", least=0, most=1)

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
        count = len(context.batches.index)
        if count <= method.k:
            raise PyriteError(f"k is {method.k}, but must be below the number of training samples, which is {count}")
        super().__init__(context, BootHard(), "beta", lambda epoch: 1.0)
        self.k, self.window, self.skipped = method.k, method.window, round(method.skip * context.epochs)
        self.samples = _subset(context)
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
        points = self.context.predictions(lambda inputs: self.learner.evaluate(inputs, representation), self.samples)
        values = [np.empty(0)]
        for batch in points.cpu().double().split(self.samples.batch_size):
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
    if len(dimensions) <= skip + window:
        return False
    earlier = dimensions[-window - 1 : -1]
    return bool(dimensions[-1] - np.mean(earlier) > 2 * np.std(earlier))


def _subset(context: Context) -> Batches:
    """A fixed random subset of the training samples, without augmentation."""
    batches = context.batches
    drawn = order(context.seed, Stream.EPOCH, len(batches.index), 0, 2)[:_SAMPLES]
    return Batches(
        batches.inputs, batches.labels.numpy(), batch_size=_BATCH, seed=batches.seed, index=batches.index[drawn],
        shuffle=False, normalise=batches.normalise, rank=batches.rank, world_size=batches.world_size,
        device=batches.device, workers=batches.workers,
    )  # fmt: skip
