"""A recipe: everything that decides a run, spelled out, as a TOML file."""

import json
import tomllib
from pathlib import Path
from typing import Any, Self, final

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pyrite.data import CropFlip, Dataset
from pyrite.methods import method
from pyrite.methods.learner import Precision
from pyrite.models import architecture, default_architecture
from pyrite.noise import noise_model
from pyrite.spec import build, nearest, spell
from pyrite.training.optimisers import SGD, optimiser
from pyrite.training.schedules import Linear, schedule

__all__ = ["GIVEN", "Recipe", "augmentation"]

GIVEN = "given in Python: "
"""How a recipe names what has no spelling: a data set or a net that was handed over as an object."""


@final
class Recipe(BaseModel):
    """What a run depends on: the same recipe gives the same run. An empty text stands for what ``resolved`` fills in.

    Attributes:
        data: a name, a spec, a folder or a file, as ``pyrite.data.load`` reads it.
        method: such as ``erm(gce(q=0.7))``.
        noise: makes labels wrong first, such as ``symmetric(0.4)``; what is corrected are the labels after it.
        corrections: a file that ``Corrections`` reads: labels that a review corrected, samples that it dropped; or the
            ranking of an audit.
        drop_suspects: leave out labels that ``corrections`` says are wrong with this probability or more, but for
            those that somebody decided to keep or relabel; 0 for none.
        model: a net by its spec.
        epochs: times over the data.
        batch_size: samples a step, over all processes.
        optimiser: such as ``sgd(lr=0.1)``.
        schedule: of the learning rate, such as ``cosine``.
        clip: the largest norm of a gradient; 0 for any.
        accumulate: in how many pieces a batch goes through the net.
        augment: such as ``crop_flip(pad=4)``, or ``none``.
        samples: train on so many samples, chosen by the seed with each class's share kept; 0 for all.
        validation: the share of the samples that is held out and predicted every epoch, with its given labels.
        precision: float32, float64, or bfloat16, which is torch's autocast.
        compile: run the net through ``torch.compile``.
        checkpoint_every: save the state after so many steps too, not only after every epoch.
        seed: everything random comes from it.
        device: cpu, cuda or cuda:1.
    """

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", protected_namespaces=())

    data: str
    method: str = "erm(gce(q=0.7))"
    noise: str = ""
    corrections: str = ""
    drop_suspects: float = Field(0.0, ge=0, le=1, allow_inf_nan=False)
    model: str = ""
    epochs: int = Field(10, ge=1)
    batch_size: int = Field(128, ge=1)
    optimiser: str = ""
    schedule: str = ""
    clip: float | None = Field(None, ge=0, allow_inf_nan=False)
    accumulate: int = Field(1, ge=1)
    augment: str = ""
    samples: int = Field(0, ge=0)
    validation: float | None = Field(None, ge=0, lt=1)
    precision: Precision = "float32"
    compile: bool = False
    checkpoint_every: int = Field(0, ge=0)
    seed: int = Field(0, ge=0)
    device: str = "cpu"

    @classmethod
    def make(cls, **values: Any) -> "Recipe":
        """A recipe from plain values; what is wrong is one sentence."""
        for name in values:
            if name not in cls.model_fields:
                raise ValueError(f"a recipe has no {name!r}: {nearest(name, cls.model_fields)}")
        plain = {name: value.item() if isinstance(value, np.generic) else value for name, value in values.items()}
        try:
            return cls(**plain)._checked()
        except ValidationError as error:
            first = error.errors()[0]
            value = "missing" if first["type"] == "missing" else repr(first["input"])
            raise ValueError(f"{'.'.join(map(str, first['loc']))} is {value}: {first['msg'].lower()}") from None

    def _checked(self) -> Self:
        if self.drop_suspects and not self.corrections:
            raise ValueError(
                f"drop_suspects is {self.drop_suspects}, but nothing says which labels those are: pass the "
                "suspects.csv of an audit as corrections (on the command line, --drop-suspects alone audits first)"
            )
        return self

    @classmethod
    def read(cls, path: Path) -> dict[str, Any]:
        """The values that a TOML file holds."""
        try:
            return tomllib.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise ValueError(f"cannot read {path}: {error}") from None

    def to_toml(self) -> str:
        """Every value, one a line. A JSON text, number or truth value is a TOML one."""
        values = self.model_dump(exclude_none=True)
        lines = (f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in values.items())
        return "\n".join(lines) + "\n"

    def resolved(self, data: Dataset) -> Self:
        """The same with nothing left open: defaults that depend on the data or the net, every spec written in full.

        The net is ``fast_cnn`` for images and ``mlp`` for features; the optimiser SGD at the learning rate that suits
        the net, divided by the method's strength; it rises for a fifth of the run and then falls to nothing. Gradients
        are clipped to a norm of 1 if the method could make scores grow without bound. Images are
        shifted by up to a sixteenth of their size, and mirrored if they have colours: digits and letters, which must
        not be, are mostly grey. A tenth is held out for validation where the data has no test part.
        """
        shape = tuple(data.inputs.shape[1:])
        net = None if self.model.startswith(GIVEN) else architecture(self.model or default_architecture(shape))
        chosen = method(self.method)
        rate = float(f"{(0.1 if net is None else net.rate) / chosen.strength:.3g}")
        return self.model_copy(
            update={
                "method": str(chosen),
                "noise": str(noise_model(self.noise)) if self.noise else "",
                "model": self.model if net is None else str(net),
                "optimiser": str(optimiser(self.optimiser or SGD(lr=rate))),
                "clip": float(chosen.grows) if self.clip is None else self.clip,
                "schedule": str(schedule(self.schedule or Linear(warmup=self.epochs / 5))),
                "augment": _spelled(augmentation(self.augment)) if self.augment else _suits(shape),
                "validation": (0.1 if data.test is None else 0.0) if self.validation is None else self.validation,
            }
        )


def augmentation(spec: str) -> CropFlip | None:
    """What ``augment`` spells."""
    if spec == "none":
        return None
    built: CropFlip = build(spec, {"crop_flip": CropFlip}, "augmentation")
    return built


def _spelled(augment: CropFlip | None) -> str:
    return "none" if augment is None else spell(augment)


def _suits(shape: tuple[int, ...]) -> str:
    pad = min(shape[1:]) // 16 if len(shape) == 3 else 0
    return spell(CropFlip(pad=pad, flip="alternate" if shape[0] == 3 else "none", edge="reflect")) if pad else "none"
