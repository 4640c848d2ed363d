"""Where a net starts: its scores and margins before training, and losses that are moved there."""

from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import TypeVar, final

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from pyrite.checks import whole_number
from pyrite.criterion import Loss
from pyrite.curves import MEASURED, Scale, Shift
from pyrite.data import Batches, Dataset, Statistics
from pyrite.losses import Underfitting, loss as read_loss, underfitting
from pyrite.methods import Method
from pyrite.models import Architecture, Factory, build_model, default_architecture, seeded
from pyrite.soft_margin import margins

_FITTED = 2048  # inputs for the layers that are fitted to them, as in training
_SHAPE = (3, 32, 32)  # of the inputs where no data is given

Model = str | Architecture | nn.Module | Factory | None
Thing = TypeVar("Thing", Loss, Method)


@final
@dataclass(frozen=True)
class Start:
    """A net before training.

    Attributes:
        margins: of every class as the label, for each input of a batch; sorted.
        spread: the standard deviation of the scores of an input, over the classes: sigma of Eq. 4.
    """

    margins: npt.NDArray[np.float64]
    spread: float

    @property
    def margin(self) -> float:
        """The mean margin, to four digits: the E by which ``shift`` and ``scale`` move a curve."""
        return float(f"{self.margins.mean():.4g}")


def measure_start(
    model: Model,
    data: Dataset | None = None,
    *,
    shape: Sequence[int] = _SHAPE,
    classes: int | None = None,
    seed: int = 0,
    batch_size: int = 128,
) -> Start:
    """The margins of a net on one batch before training, in training mode, as its first step sees them.

    The mean is over all classes as labels, so that it depends on no labels.

    Args:
        model: as for ``train``.
        data: where the batch is from; without it, ``shape`` and ``classes`` say what the net is for, and the inputs
            are normal random numbers.
        shape: of an input.
        classes: the number of classes.
        seed: of the net's initial weights and of the batch.
        batch_size: the size of the batch.

    >>> start = measure_start("fast_cnn", classes=10)
    >>> start.margin < -2.19, start.spread < 0.3
    (True, True)
    """
    if data is not None:
        shape, classes = data.inputs.shape[1:], len(data.classes)
    count, size = whole_number("classes", classes, least=2), whole_number("batch_size", batch_size, least=2)
    if data is None:
        inputs = torch.randn((size, *shape), generator=torch.Generator().manual_seed(seed))
    else:
        rows = np.linspace(0, len(data) - 1, min(len(data), _FITTED)).astype(np.int64)
        scale = Statistics.of(data.numeric, rows)
        batches = Batches(data.numeric, data.labels, batch_size=_FITTED, seed=seed, normalise=scale)
        inputs = next(iter(batches)).inputs
    # A net that the user passed is trained later, and batch norms change in training mode.
    net = build_model(deepcopy(model) if isinstance(model, nn.Module) else model, shape, count, seed, inputs)
    first = next(net.parameters())
    with seeded(seed), torch.no_grad():
        scores = net.train()(inputs[:size].to(first.device, first.dtype)).double().cpu()
    return Start(np.sort(margins(scores).flatten().numpy()), float(scores.var(1).mean().sqrt()))


def with_margin(thing: Thing, margin: float) -> Thing:
    """A copy of a method or a loss, with this margin in place of ``MEASURED``."""
    copy = deepcopy(thing)
    for part in unmeasured(copy):
        part.start_at(margin)
    return copy


def unmeasured(thing: object) -> list[Scale | Shift]:
    """The curves within a method or a loss whose margin must be measured."""
    return [part for part in parts_of(thing) if isinstance(part, Scale | Shift) and part.margin == MEASURED]


def parts_of(thing: object) -> Iterator[object]:
    """The losses of a method, and those within a loss."""
    if isinstance(thing, nn.Module):
        yield from thing.modules()
    elif isinstance(thing, Method | list | tuple):
        for item in vars(thing).values() if isinstance(thing, Method) else thing:
            yield from parts_of(item)


def check_on_net(
    loss: str, model: Model = None, data: Dataset | None = None, classes: int | None = None, seed: int = 0
) -> Underfitting:
    """As ``underfitting``, at the margin that a net really has before training.

    >>> check_on_net("mae", "fast_cnn", classes=100).net
    'fast_cnn'
    """
    start = measure_start(model, data, classes=classes, seed=seed)
    count = len(data.classes) if data is not None else whole_number("classes", classes, least=2)
    name = model or default_architecture(_SHAPE if data is None else data.inputs.shape[1:])
    return underfitting(
        with_margin(read_loss(loss), start.margin), count, margin=start.margin, spread=start.spread, net=str(name)
    )
