"""From the user's arguments to a job: the defaults that suit the data, the net and the method.

Also where a net starts: its scores and margins before training, and losses that are moved there.
"""

import math
import os
import sys
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any, Final, TypeVar, Unpack, final

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from pyrite.checks import number, whole_number
from pyrite.criterion import Loss
from pyrite.curves import MEASURED, Scale, Shift
from pyrite.data import DATASETS, Batches, CropFlip, Data, Dataset, Statistics, is_object
from pyrite.errors import PyriteError
from pyrite.features import Encoder, default_features
from pyrite.features.embedding import EfficientnetLite
from pyrite.features.registry import FEW, are_photographs
from pyrite.files import is_pattern
from pyrite.losses import OwnLoss, Underfitting, loss as read_loss, underfitting
from pyrite.methods import ERM, Auto, Method
from pyrite.models import (
    MLP,
    MODELS,
    TINY,
    Architecture,
    EfficientnetLite0,
    Factory,
    FastCNN,
    Linear as LinearNet,
    build_model,
    default_architecture,
    seeded,
)
from pyrite.processes import fast_bfloat16, pick_device
from pyrite.settings import Settings
from pyrite.soft_margin import margins
from pyrite.text_tables import counted
from pyrite.training.config import Config, Job, Missing, given_settings, load_data
from pyrite.training.optimisers import SGD, Adamw, Linear
from pyrite.training.pace import LEAST_TRAINED, fitting

_FITTED = 2048  # inputs for the layers that are fitted to them, as in training
_SHAPE = (3, 32, 32)  # of the inputs where no data is given

Model = str | Architecture | nn.Module | Factory | None
Thing = TypeVar("Thing", Loss, Method)
_FINE_TUNED: Final = EfficientnetLite0(size=96, pretrained=True)
_SMALLEST: Final = 32  # pixels of a side of images that are fine-tuned on (CIFAR-10)
_OF_IMAGES: Final = ("augment", "grow", "mirror")
_EMBEDDED: Final = 0.6  # of the time of a run, at most, for embeddings: a head learns from them in seconds
_LARGE_ENOUGH: Final = 24  # pixels of a side: images may be halved in the first epochs, and convolutions take the time


def resolve(
    data: Data | None = None,
    *,
    loaded: Dataset | None = None,
    fine_tune: bool = False,
    shown: bool = False,
    **settings: Unpack[Settings],
) -> Job:
    """The job of these arguments.

    ``loaded`` is the data set, if it has been read already. With ``fine_tune``, as in ``train``, many colour images are
    learned by fine-tuning a pretrained net; runs that are compared have the same net instead. With ``shown``, a line is
    printed before images are embedded to measure the pace.
    """
    given, begun = given_settings(settings), perf_counter()
    if is_object(data):
        data = load_data(data, given) if loaded is None else loaded
    if not isinstance(given.get("label", ""), str):  # the labels themselves; they are in the data set now
        given["label"] = data.label if isinstance(data, Dataset) else ""
    lr, minutes, loss = (given.pop(name, None) for name in ("lr", "minutes", "loss"))
    if minutes is not None:
        number("minutes", minutes, above=0)
    if loss is not None:
        given["method"] = ERM(read_loss(loss))
    if isinstance(data, Dataset):
        given["data"] = Missing(data.name)
    elif data is not None and not isinstance(data, str | os.PathLike):
        raise PyriteError(f"data is of type {type(data).__name__}, but must be a name, a path or samples")
    elif data is not None:  # a relative path would be wrong when the run is resumed from another folder
        several = is_pattern(str(data)) and not str(data).strip().endswith(")")  # a spec may have brackets in it
        is_path = str(data) not in DATASETS and (os.path.exists(str(data)) or several)
        given["data"] = os.path.abspath(str(data)) if is_path else str(data)
        if os.path.isdir(str(data)) and isinstance(given.get("label"), str) and given["label"]:  # a table of labels
            given["label"] = os.path.abspath(os.path.expanduser(given["label"]))
    if given.get("corrections"):
        given["corrections"] = os.path.abspath(os.path.expanduser(str(given["corrections"])))
    config = Config(given).require_objects()
    source = loaded or (data if isinstance(data, Dataset) else load_data(config.data, config.to_dict()))
    job = resolve_defaults(config, source, fine_tune)
    if minutes is not None:
        job = _within(job, config, begun, 60 * minutes, fine_tune, shown)
    return job if lr is None else job.with_config(optimiser=replace(job.config.optimiser, lr=lr))


def _within(job: Job, config: Config, begun: float, seconds: float, fine_tune: bool, shown: bool) -> Job:
    """A job that ends so many seconds after ``begun``, in place of one with the default length.

    What was done before, such as loading the program, may have taken nearly all of the time, or more.
    """

    def left() -> float:
        return max(begun + seconds - perf_counter(), LEAST_TRAINED * seconds)

    source, features = job.data, job.config.features
    if isinstance(features, EfficientnetLite) and "features" not in config.given:
        config = config.replace(features=features.within(job.data, job.config.samples, _EMBEDDED * left()))
        job = resolve_defaults(config, source, fine_tune)
    if shown:
        announce_embedding(job)
    found = fitting(job, left(), widen="model" not in config.given)
    if not found["epochs"]:  # fine-tuning is too slow for the time
        job = resolve_defaults(config, source)
        found = fitting(job, left(), widen=True)
    # A net that is named would be trained on the samples as they are.
    chosen = config.replace(features=job.config.features, **found)
    return replace(resolve_defaults(chosen, source), deadline=perf_counter() + left())


def announce_embedding(job: Job) -> None:
    """Print a line if a pretrained net embeds images."""
    if isinstance(job.config.features, EfficientnetLite):
        count = counted(job.config.samples or len(job.data), "image")
        words = f"embedding {count} with the pretrained net {job.config.features}; --features none trains from scratch"
        print(words, file=sys.stderr, flush=True)


def resolve_defaults(config: Config, data: Dataset, fine_tune: bool = False) -> Job:
    """The job with all defaults filled in that depend on the data, the net or the method.

    Tables with other columns than numbers are encoded by ``table``, and texts by ``tfidf``. The net is ``fast_cnn``
    for images, ``cnn4`` for tiny images and ``mlp`` for features; the optimiser SGD at the learning rate that suits
    the net, divided by the method's largest weight except where clipping is enough; it rises for a fifth of the run
    and then falls to 0. A net with pretrained weights, the default for many colour images, has AdamW, small batches
    and few epochs. Gradients are clipped to a norm of 1 if the method could make scores grow without bound. A tenth
    is held out for validation where the data has no test part; where it has one, as much as the method wants.
    """
    config = config.replace(device=pick_device(config.device))
    if config.label and config.label != data.label:
        column = f"those of the column {data.label!r}" if data.label else "in no column"
        raise PyriteError(f"label is {config.label!r}, but the labels of {data.name} are {column}")
    # Who names a net, or how images change, or measures margins of images, trains on images.
    from_scratch = any(name in config.given for name in ("model", *_OF_IMAGES)) or bool(unmeasured(config.method))
    count = None if from_scratch else config.samples or len(data)
    features = config.features if "features" in config.given else default_features(data.inputs, count)
    if features is not None:
        features.check(data)
    # Of features the kind; their width is known when they are fitted.
    shape = tuple(data.inputs.shape[1:]) if features is None else (1,)
    if "model" in config.given:
        net = config.model
    elif features is not None and features.model:
        net = MODELS.read(features.model)
    elif (
        fine_tune and features is None and count is not None and count >= FEW and isinstance(config.method, Auto)
        and are_photographs(data.inputs, _SMALLEST) and _FINE_TUNED.source.installed
    ):  # fmt: skip
        net = _FINE_TUNED
    else:
        net = default_architecture(shape)
    if isinstance(net, Architecture):
        net.check(shape, len(data.classes))
    method, validation = config.method, config.validation
    # Pretrained weights need few epochs, and small batches of a large net stay in the processor's cache.
    pretrained = isinstance(net, Architecture) and bool(getattr(net, "pretrained", False))
    batch_size: int = config.batch_size or (32 if pretrained else 128)
    epochs: int = config.epochs or (4 if pretrained else 30)
    if unmeasured(method):
        if features is not None:  # they are fitted later, on the samples that are trained on
            raise PyriteError(
                f"margin={MEASURED!r} cannot be measured on inputs that are encoded by {features}: pass a number, as "
                "in margin=-4.6"
            )
        start = measure_start(net, data, seed=config.seed, batch_size=batch_size)
        method = with_margin(method, start.margin)
    if validation is None:  # a validation part of the data's own is enough for a method
        wanted = 0.1 if data.test is None else float(number("held_out", method.held_out, least=0, below=1))
        validation = wanted if data.test is None or data.validation is None else 0.0
    clip = config.clip
    if clip is None:
        # Whether scores could grow without bound is measured on simulated scores of some number of classes. A user's
        # own loss may not take those; then the gradients are clipped, which is safe.
        try:
            clip = float(method.needs_clipping)
        except Exception:
            clip = 1.0
    lr = _learning_rate(net, features, method, clipped_by_default=config.clip is None and clip > 0)
    if config.iterations is not None:  # the fewest epochs of at most all samples that have as many steps
        trained = max(1, round((config.samples or len(data)) * (1 - validation)))
        epochs = math.ceil(config.iterations / math.ceil(trained / batch_size))
    images = _resolve_images(config, net, shape)
    # A net without convolutions memorises shifted images as any others.
    augmented = images["augment"] is not None and not isinstance(net, MLP | LinearNet)
    held_out = bool(validation) or data.validation is not None
    method = method.resolve_defaults(augmented=augmented, held_out=held_out, pretrained=pretrained)
    for part in parts_of(method):
        if isinstance(part, OwnLoss):
            part.try_out(len(data.classes))
    return Job(
        config.replace(
            label=data.label,
            features=features,
            method=method,
            model=net,
            optimiser=config.optimiser or (Adamw(lr=lr) if pretrained else SGD(lr=lr)),
            schedule=config.schedule or Linear(warmup=epochs / 5),
            clip=clip,
            epochs=epochs,
            batch_size=batch_size,
            validation=validation,
            **images,
        ),
        data,
    )


def _resolve_images(config: Config, net: object, shape: tuple[int, ...]) -> dict[str, Any]:
    """Augmentation, growth, mirroring and precision.

    Images are shifted by up to a sixteenth of their size, and mirrored if they have colours: digits and letters, which
    must not be mirrored, are mostly grey. If images are mirrored in training, they are mirrored in prediction too. In
    ``fast_cnn`` images of 24 pixels or more grow from half their size: docs/training.md has why. They are trained on in
    bfloat16 where it is fast, and where no meta-gradients need more digits.
    """
    are_images = len(shape) == 3
    convolves = isinstance(net, FastCNN) and min(shape[1:]) >= _LARGE_ENOUGH
    if config.mirror and not are_images:
        raise PyriteError("mirror is True, but the inputs of the net are not images: omit mirror")
    augment, grow = config.augment, config.grow
    if "augment" not in config.given and are_images and (pad := min(shape[1:]) // TINY):
        augment = CropFlip(pad=pad, flip="alternate" if shape[0] == 3 else "none", edge="reflect")
    if grow is None:
        grow = 0.5 if convolves else 1.0
    elif grow < 1 and not are_images:
        raise PyriteError(f"grow is {grow}, but the inputs of the net are not images: omit grow")
    elif grow < 1 and isinstance(net, Architecture) and not net.any_size:
        raise PyriteError(f"grow is {grow}, but {net} requires images of one size: omit grow")
    mirrored = augment is not None and augment.flip != "none" and are_images
    fast = convolves and config.method.meta_set is None and fast_bfloat16(config.device)
    return {
        "augment": augment,
        "grow": grow,
        "mirror": mirrored if config.mirror is None else config.mirror,
        "precision": config.precision or ("bfloat16" if fast else "float32"),
    }


def _learning_rate(net: object, features: Encoder | None, method: Method, clipped_by_default: bool) -> float:
    """The rate that suits the net, divided by the largest weight unless clipped gradients bound the steps well enough.

    Measured for ``imae`` (docs/results/imae.md): one bound is harmless, and both together cost residual nets the
    lead over cross entropy on CIFAR-10. Perceptrons are best with both. ``fast_cnn`` loses by both on CIFAR-10, but
    clipping alone costs it more on digits.
    """
    suits = net.learning_rate if isinstance(net, Architecture) else 0.1
    suits = suits if features is None or features.learning_rate is None else features.learning_rate
    averages = isinstance(net, Architecture) and net.averages
    bounded = clipped_by_default and isinstance(method, ERM) and averages
    return float(f"{suits / (1.0 if bounded else method.largest_weight):.3g}")


@final
@dataclass(frozen=True)
class Start:
    """The margins of a net before training.

    Attributes:
        margins: the sorted margins of a batch, for each input with every class as the label.
        spread: the standard deviation of the scores of an input over the classes, which is sigma in Eq. 4.

    >>> measure_start("mlp", shape=(20,), classes=10).margins.shape
    (1280,)
    """

    margins: npt.NDArray[np.float64]
    spread: float

    @property
    def margin(self) -> float:
        """The mean margin, rounded to four digits: E of ``shift`` and ``scale``."""
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
    """Measure the margins of a net on one batch before training, in training mode, as in the first step.

    The mean is taken over all classes as labels, so it does not depend on the labels of the batch.

    Args:
        model: as for ``train``.
        data: the data set from which the batch is drawn. Without it, inputs are normal random numbers of ``shape``.
        shape: the shape of one input.
        classes: the number of classes.
        seed: the seed of the initial weights and of the batch.
        batch_size: the size of the batch.

    Returns:
        The margins and the spread of the scores.

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
        scores = net.train()(inputs[:size].to(first.device, first.dtype)).cpu().double()
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
    """Test whether a loss will underfit, at the measured margin of a net before training.

    Args:
        loss: the spec of a loss.
        model: as for ``train``.
        data: the data set from which the batch is drawn; without it, inputs are random numbers.
        classes: the number of classes, if ``data`` is not given.
        seed: the seed of the initial weights and of the batch.

    Returns:
        The report of ``underfitting``.

    >>> check_on_net("mae", "fast_cnn", classes=100).net
    'fast_cnn'
    """
    start = measure_start(model, data, classes=classes, seed=seed)
    count = len(data.classes) if data is not None else whole_number("classes", classes, least=2)
    name = model or default_architecture(_SHAPE if data is None else data.inputs.shape[1:])
    return underfitting(
        with_margin(read_loss(loss), start.margin), count, margin=start.margin, spread=start.spread, net=str(name)
    )
