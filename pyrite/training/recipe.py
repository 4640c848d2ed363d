"""A recipe: everything that decides a run, spelled out, as a TOML file."""

import json
import math
import os
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Self, TypedDict, final

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError
from torch import nn

from pyrite.checks import number
from pyrite.data import CropFlip, Dataset, load
from pyrite.errors import PyriteError
from pyrite.features import Encoder, default_features, encoder
from pyrite.methods import ERM, Method, method as read_method
from pyrite.models import MLP, Architecture, Factory, FastCNN, Linear as LinearNet, architecture, default_architecture
from pyrite.noise import Noise, noise_model
from pyrite.processes import fast_bfloat16
from pyrite.settings import READING, Keep, Precision, Settings, ShortForms
from pyrite.spec import Registry, nearest, write_spec
from pyrite.training.optimisers import SGD, Optimiser, optimiser
from pyrite.training.schedules import Linear, Schedule, schedule

__all__ = [
    "BEFORE",
    "GIVEN",
    "Checked",
    "Options",
    "OptionsButRate",
    "Recipe",
    "Short",
    "augmentation",
    "reading",
    "settled",
]

_LARGE_ENOUGH: Final = 24  # pixels of a side: images may be halved in the first epochs, and convolutions take the time

GIVEN = "given in Python: "
"""The prefix, in a recipe, of what has no spelling: data, a net, a loss or a method that was passed as an object."""

BEFORE: Final[Mapping[str, Any]] = {"grow": 1.0, "keep": "last", "mirror": False, "precision": "float32"}
"""The values of settings in runs that were trained before there were such settings, or such defaults."""


class OptionsButRate(TypedDict, total=False):
    """The keyword arguments of ``tune``, which has a learning rate of its own."""

    label: str | Sequence[Any] | None  # the name of the column, or the labels themselves
    text: str | None
    ignore: str | None
    name: str | None
    features: str | Encoder | nn.Module | None
    method: str | Method | None
    noise: str | Noise | None
    corrections: str | os.PathLike[str] | None
    drop_suspects: float | None
    model: str | Architecture | nn.Module | Factory | None
    epochs: int | None
    iterations: int | None
    batch_size: int | None
    optimiser: str | Optimiser | None
    schedule: str | Schedule | None
    clip: float | None
    accumulate: int | None
    augment: str | CropFlip | None
    grow: float | None
    mirror: bool | None
    samples: int | None
    validation: float | None
    keep: Keep | None
    precision: Precision | None
    compile: bool | None
    checkpoint_every: int | None
    seed: int | None
    device: str | None
    minutes: float | None
    loss: object  # a spec, a loss, or whatever is called as nn.CrossEntropyLoss(reduction="none") is
    config: str | os.PathLike[str] | None


class Options(OptionsButRate, total=False):
    """The keyword arguments of everything that trains: each setting of ``Settings``, as text or as an object.

    A test checks names and types against those of ``Settings`` and ``ShortForms``.
    """

    lr: float | None


class Checked(BaseModel):
    """Values that are checked, and not converted, when an object is made."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", allow_inf_nan=False, protected_namespaces=())

    @classmethod
    def checked(cls, values: Mapping[str, Any]) -> Self:
        """An object with these values, which may be numpy scalars; the first bad one raises ``ValueError``."""
        plain = {name: value.item() if isinstance(value, np.generic) else value for name, value in values.items()}
        try:
            return cls(**plain)
        except ValidationError as error:
            first = error.errors()[0]
            value = "missing" if first["type"] == "missing" else repr(first["input"])
            raise PyriteError(f"{'.'.join(map(str, first['loc']))} is {value}: {first['msg'].lower()}") from None


@final
class Short(Checked, ShortForms):
    """The short forms, checked."""


@final
class Recipe(Checked, Settings):
    """What a run depends on: the same recipe gives the same run. ``pyrite.settings`` explains each value."""

    @classmethod
    def make(cls, **values: Any) -> "Recipe":
        """A recipe from plain values; a bad value raises ``ValueError``."""
        for name in values:
            if name not in cls.model_fields:
                raise PyriteError(f"a recipe has no {name!r}: {nearest(name, cls.model_fields)}")
        recipe = cls.checked(values)
        if recipe.drop_suspects and not recipe.corrections:
            raise PyriteError(
                f"drop_suspects is {recipe.drop_suspects}, but nothing says which labels those are: pass the "
                "suspects.csv of an audit as corrections, or train with pyrite.train_without_suspects, which audits "
                "first (on the command line: pyrite train --drop-suspects)"
            )
        return recipe

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> dict[str, Any]:
        """The values in a TOML file, each of the type that it has in a recipe. What else is wrong ``make`` says."""
        try:
            values = tomllib.loads(Path(path).read_text(encoding="utf-8"))
            cls.checked({"data": "", **{name: value for name, value in values.items() if name in cls.model_fields}})
        except (OSError, ValueError, RecursionError) as error:
            raise PyriteError(f"cannot read {path}: {error}") from None
        return values

    def to_toml(self) -> str:
        """Every value, one per line. A JSON text, number or truth value is a TOML one."""
        values = self.model_dump(exclude_none=True)
        lines = (f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in values.items())
        return "\n".join(lines) + "\n"

    def load_data(self) -> Dataset:
        """The data set that it names, read as it says: which columns are labels, texts and names."""
        return load(self.data, **reading(self.model_dump()))

    def resolved(self, data: Dataset, method: Method | None = None, own: Encoder | None = None) -> Self:
        """The recipe with all defaults filled in that depend on the data or the net, and every spec written in full.

        Tables with other columns than numbers are encoded by ``table``, and texts by ``tfidf``. The net is ``fast_cnn``
        for images and ``mlp`` for features; the optimiser SGD at the learning rate that suits the net, divided by the
        method's strength except where clipping is enough; it rises for a fifth of the run and then falls to 0.
        Gradients are clipped to a norm of 1 if the method could make scores grow without bound. Images are shifted by
        up to a sixteenth of their size, and mirrored if they have colours: digits and letters, which must not be
        mirrored, are mostly grey. If images are mirrored in training, they are mirrored in prediction too. In
        ``fast_cnn`` images of 24 pixels or more grow from half their size, and are convolved in bfloat16 where the
        processor or GPU is fast at that; a method with a meta set needs float32. A tenth is held out for validation
        where the data has no test part; where it has one, as much as the method wants.

        Args:
            data: what is trained on.
            method: the method itself, if it is built already; then ``self.method`` stays as it is.
            own: the features, if they were passed as an object; then ``self.features`` stays as it is.
        """
        if self.label and self.label != data.label:
            column = f"those of the column {data.label!r}" if data.label else "in no column"
            raise PyriteError(f"label is {self.label!r}, but the labels of {data.name} are {column}")
        features = self.features or default_features(data.inputs)
        described = encoder(features) if own is None else own
        if described is not None:
            described.check(data)
            features = features if own is not None else str(described)
        shape = tuple(data.inputs.shape[1:]) if features == "none" else (1,)  # of the kind; the width is known later
        wanted = self.model or ("" if described is None else described.model)
        net = None if wanted.startswith(GIVEN) else architecture(wanted or default_architecture(shape))
        chosen = read_method(self.method) if method is None else method
        validation = _held_out(data, chosen) if self.validation is None else self.validation
        epochs = self.epochs if self.iterations is None else self._epochs(len(data), validation)
        suits = 0.1 if net is None else net.learning_rate
        if described is not None and described.rate is not None:
            suits = described.rate
        clip = float(_grows(chosen)) if self.clip is None else self.clip
        if self.mirror and len(shape) != 3:
            raise PyriteError("mirror is True, but the net is given no images that could be mirrored: leave it out")
        strength = 1.0 if self.clip is None and clip and _clipping_is_enough(net, chosen) else chosen.largest_weight
        rate = float(f"{suits / strength:.3g}")
        augment = _spelled(augmentation(self.augment)) if self.augment else _default_augmentation(shape)
        return self.model_copy(
            update={
                "label": data.label,
                "features": features,
                "method": str(chosen) if method is None else self.method,
                "noise": str(noise_model(self.noise)) if self.noise else "",
                "model": self.model if net is None else str(net),
                "optimiser": str(optimiser(self.optimiser or SGD(lr=rate))),
                "clip": clip,
                "schedule": str(schedule(self.schedule or Linear(warmup=epochs / 5))),
                "epochs": epochs,
                "grow": _growth(net, shape) if self.grow is None else self._checked_growth(net, shape),
                "augment": augment,
                "mirror": _mirrored(augment, shape) if self.mirror is None else self.mirror,
                "validation": validation,
                "precision": self.precision or _precision(net, shape, chosen, self.device),
            }
        )

    def _checked_growth(self, net: Architecture | None, shape: tuple[int, ...]) -> float | None:
        if self.grow is None or self.grow == 1:
            return self.grow
        if len(shape) != 3:
            raise PyriteError(f"grow is {self.grow}, but these are features: only images can grow")
        if net is not None and not net.any_size:
            raise PyriteError(f"grow is {self.grow}, but {net} takes images of one size only: leave out grow")
        return self.grow

    def _epochs(self, samples: int, validation: float) -> int:
        """The fewest epochs of at most all samples that have as many steps as ``iterations``."""
        trained = max(1, round((self.samples or samples) * (1 - validation)))
        return math.ceil((self.iterations or 1) / math.ceil(trained / self.batch_size))


def reading(values: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that say how data are read, where they say anything."""
    given = {name: values.get(name) for name in READING}
    return {name: value for name, value in given.items() if value is not None and not _is_empty(value)}


def _is_empty(value: object) -> bool:
    return isinstance(value, str) and not value


AUGMENTATIONS: Registry[CropFlip] = Registry("augmentation", {"crop_flip": CropFlip}, CropFlip, "crop_flip(pad=4)")


def augmentation(spec: str) -> CropFlip | None:
    """What ``augment`` spells."""
    if spec == "none":
        return None
    return AUGMENTATIONS.read(spec)


def settled(method: Method, augment: str, validation: float | None, data: Dataset, net: Architecture | None) -> Method:
    """The method with what suits the run filled in. A net without convolutions memorises shifted images as any others.

    Args:
        method: as it was given.
        augment, validation: of the recipe.
        data: what is trained on.
        net: None for a net of the user's own.
    """
    augmented = augment != "none" and not isinstance(net, MLP | LinearNet)
    return method.resolve_defaults(augmented=augmented, held_out=bool(validation) or data.validation is not None)


def _spelled(augment: CropFlip | None) -> str:
    return "none" if augment is None else write_spec(augment)


def _default_augmentation(shape: tuple[int, ...]) -> str:
    pad = min(shape[1:]) // 16 if len(shape) == 3 else 0
    return (
        write_spec(CropFlip(pad=pad, flip="alternate" if shape[0] == 3 else "none", edge="reflect")) if pad else "none"
    )


def _growth(net: Architecture | None, shape: tuple[int, ...]) -> float:
    """Images grow from half their size in the default net, unless they are small already. docs/training.md has why."""
    return 0.5 if isinstance(net, FastCNN) and min(shape[1:]) >= _LARGE_ENOUGH else 1.0


def _precision(net: Architecture | None, shape: tuple[int, ...], method: Method, device: str) -> Precision:
    """bfloat16 for images in the default net where it is fast, and where no meta-gradients need more digits."""
    convolves = isinstance(net, FastCNN) and min(shape[1:]) >= _LARGE_ENOUGH and method.meta_set is None
    return "bfloat16" if convolves and fast_bfloat16(device) else "float32"


def _mirrored(augment: str, shape: tuple[int, ...]) -> bool:
    """Whether the net is trained on images and on their mirror images."""
    found = augmentation(augment)
    return found is not None and found.flip != "none" and len(shape) == 3


def _held_out(data: Dataset, method: Method) -> float:
    """The share that is held out by default. A validation part of the data's own is enough for a method."""
    if data.test is None:
        return 0.1
    wanted = number("held_out", method.held_out, least=0, below=1)
    return 0.0 if data.validation is not None else float(wanted)


def _clipping_is_enough(net: Architecture | None, method: Method) -> bool:
    """Whether clipped gradients bound the steps of a loss well enough, so that the rate need not be divided too.

    Measured for ``imae`` (its card in docs/losses.md): one bound is harmless, and both together cost residual nets the
    lead over cross entropy on CIFAR-10. Perceptrons are best with both. ``fast_cnn`` loses by both on CIFAR-10, but
    clipping alone costs it more on digits.
    """
    return isinstance(method, ERM) and net is not None and net.averages


def _grows(method: Method) -> bool:
    """Whether scores could grow without bound, which is measured on simulated scores of some number of classes.

    A user's own loss may not take those; then the gradients are clipped, which is safe.
    """
    try:
        return method.needs_clipping
    except Exception:
        return True
