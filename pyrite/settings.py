"""Every setting of training, defined once: name, type, limits, default and help text.

Keyword arguments and their types, command-line flags, checks and the recipe of a run all come from ``Settings``: a new
setting is one line there. This module imports neither torch nor pydantic, so that ``pyrite --help`` stays quick.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeAlias, TypedDict, get_args, get_type_hints

from annotated_types import Ge, Gt, Le, Lt

if TYPE_CHECKING:
    from torch import nn

    from pyrite.data import CropFlip
    from pyrite.features import Encoder
    from pyrite.methods import Method
    from pyrite.models import Architecture, Factory
    from pyrite.noise import Noise
    from pyrite.training.optimisers import Optimiser, Schedule

    Features: TypeAlias = Encoder | nn.Module
    Model: TypeAlias = Architecture | nn.Module | Factory
else:  # on the command line and in files they are text
    CropFlip = Features = Method = Model = Noise = Optimiser = Schedule = str

__all__ = ["HINTS", "READING", "SETTINGS", "SHORT", "VERSION", "Model", "Precision", "Setting", "Settings"]

VERSION: Final = 1
"""The version of recipes. It is raised when a default changes or a setting is added whose default changes results."""

Precision = Literal["float32", "float64", "bfloat16", "float16"]


_COLUMNS, _DATA, _IMAGES = "Columns of a table", "Data and labels", "Images"
_STEPS, _RUNNING = "Optimisation", "Running"


@dataclass(frozen=True)
class Setting:
    """What is known of a setting beside its type and limits."""

    help: str  # of its flag
    default: Any = None  # the value without it; None for what suits the data, the net and the method
    spec: str = ""  # where the registry or function is that makes an object of its text: ``"module:name"``
    none: bool = False  # whether ``"none"`` is a value, for which None stands
    reads: bool = False  # whether it decides which column of a table is what
    short: bool = False  # whether it is only another form of other settings
    group: str = ""  # the title of its flag's group in the help; empty for those that are used first
    earlier: Mapping[int, Any] = field(default_factory=dict)  # other defaults, by the last version that had them

    def default_in(self, version: int) -> Any:
        """The default in force when recipes had this version."""
        return next((value for last, value in sorted(self.earlier.items()) if version <= last), self.default)


class Settings(TypedDict, total=False):
    """The keyword arguments of everything that trains, as text or as objects. None is the same as leaving one out."""

    # fmt: off
    loss: Annotated[object, Setting("A loss, such as 'gce(q=0.7)'; see 'pyrite list losses'.", short=True)]
    lr: Annotated[float | str | None, Setting(
        "The learning rate; 'pyrite tune' also accepts a range, such as 'between(0.01, 1, log=True)'.", short=True)]
    minutes: Annotated[float | None, Gt(0), Setting(
        "Time limit of the command in minutes, in place of --epochs; with 'compare' and 'tune', the limit of each run. "
        "With a longer limit, the default net is wider.",
        short=True)]
    config: Annotated[str | os.PathLike[str] | None, Setting(
        "A TOML file of settings, such as a recipe.toml; flags override it.", short=True, group=_RUNNING)]
    label: Annotated[str | Sequence[Any] | None, Setting(  # a column, or the labels themselves
        "The label column, or those of several annotators, separated by commas; by default a column called 'label' or "
        "similar, or the last column if it has few values. For a folder, a table of files and labels.", reads=True)]
    text: Annotated[str | None, Setting(
        "The text column or columns, separated by commas; all other columns are ignored.", reads=True,
        group=_COLUMNS)]
    ignore: Annotated[str | None, Setting(
        "Columns to ignore, separated by commas, such as 'id,url'.", reads=True, group=_COLUMNS)]
    types: Annotated[str | None, Setting(
        "Types of columns, such as 'zip=category,joined=dmy'; 'pyrite check DATA' prints the detected types.",
        reads=True, group=_COLUMNS)]
    name: Annotated[str | None, Setting(
        "The column that identifies a sample in reports; it is not a feature.", reads=True, group=_COLUMNS)]
    sample: Annotated[str | None, Setting(
        "The column that identifies the sample, for a table with one row per label or a table of files.", reads=True,
        group=_COLUMNS)]
    annotator: Annotated[str | None, Setting(
        "The column that identifies the annotator, for a table with one row per label.", reads=True, group=_COLUMNS)]
    group: Annotated[str | Sequence[Any] | None, Setting(  # a column, or the groups themselves
        "The column of groups of dependent samples, such as 'patient'; whole groups are held out.", reads=True,
        group=_COLUMNS)]
    features: Annotated[str | Features | None, Setting(
        "The encoder of samples, such as 'tfidf', or none; see 'pyrite list features'. The default depends on the "
        "data.",
        spec="pyrite.training.config:read_features", none=True, group=_DATA)]
    method: Annotated[str | Method | None, Setting(
        "A method; see 'pyrite list methods'. --loss LOSS is short for 'erm(LOSS)'.", "auto",
        spec="pyrite.methods:METHODS")]
    noise: Annotated[str | Noise | None, Setting(
        "Corrupt the labels with a noise model, such as 'symmetric(0.4)'; corrections are applied afterwards.",
        spec="pyrite.noise:NOISES", group=_DATA)]
    corrections: Annotated[str | os.PathLike[str] | None, Setting(
        "The corrections exported from the review page, or the suspects.csv of an audit.", group=_DATA)]
    drop_suspects: Annotated[float | None, Ge(0), Le(1), Setting(
        "Drop samples whose label is wrong with this probability or more, according to --corrections; without "
        "corrections, 'pyrite train' runs an audit first.", 0.0, group=_DATA)]
    model: Annotated[str | Model | None, Setting(
        "A net, such as 'resnet20'; see 'pyrite list models'. The default depends on the data.",
        spec="pyrite.training.config:read_model")]
    epochs: Annotated[int | None, Ge(1), Setting(
        "Number of passes over the data; by default 30, 4 for a pretrained net, and 10 to 30 for an audit.")]
    iterations: Annotated[int | None, Ge(1), Setting(
        "Number of training steps, in place of --epochs.", group=_STEPS)]
    batch_size: Annotated[int | None, Ge(1), Setting(
        "Number of samples per step, over all processes; by default 128, or 32 for a pretrained net.", group=_STEPS)]
    optimiser: Annotated[str | Optimiser | None, Setting(
        "The optimiser, such as 'adam(lr=1e-3, eps=0.1)'; by default SGD with momentum, or AdamW for a pretrained net.",
        spec="pyrite.training.optimisers:OPTIMISERS", group=_STEPS)]
    optimizer: Annotated[str | Optimiser | None, Setting("Alias of --optimiser.", short=True, group=_STEPS)]
    schedule: Annotated[str | Schedule | None, Setting(
        "The learning-rate schedule, such as linear, cosine or 'steps(at=[40, 80])'.",
        spec="pyrite.training.optimisers:SCHEDULES", group=_STEPS)]
    clip: Annotated[float | None, Ge(0), Setting(
        "Maximum norm of the gradient, or 0 for no clipping; the default depends on the method.", group=_STEPS)]
    accumulate: Annotated[int | None, Ge(1), Setting(
        "Divide each batch into this many pieces and accumulate their gradients, to save memory.", 1,
        group=_STEPS)]
    augment: Annotated[str | CropFlip | None, Setting(
        "Augmentation, such as 'crop_flip(pad=4)', or none; the default depends on the image size.",
        spec="pyrite.training.config:AUGMENTATIONS", none=True, group=_IMAGES)]
    grow: Annotated[float | None, Ge(0.5), Le(1), Setting(
        "Image size in the first epoch, as a fraction of the full size, which is reached after two thirds of the run.",
        group=_IMAGES)]
    mirror: Annotated[bool | None, Setting(
        "Average the predictions for an image and its mirror image; by default, if training mirrors images.",
        group=_IMAGES)]
    samples: Annotated[int | None, Ge(1), Setting("Use only this many samples, stratified by class.",
        group=_DATA)]
    validation: Annotated[float | None, Ge(0), Lt(1), Setting(
        "Fraction of the training samples to hold out; they keep their given labels.",
        group=_DATA)]
    keep: Annotated[Literal["best", "last"] | None, Setting(
        "The model to save: last, or best; best is the best epoch on held-out labels if it is significantly better "
        "than the last epoch.",
        "best", group=_STEPS)]
    precision: Annotated[Precision | None, Setting(
        "float32, float64, bfloat16 or float16 (autocast); the default depends on the net and the processor.",
        group=_RUNNING)]
    compile: Annotated[bool | None, Setting("Compile the net with torch.compile.", False, group=_RUNNING)]
    checkpoint_every: Annotated[int | None, Ge(0), Setting(
        "Also save a checkpoint after this many steps; 0 saves only after each epoch.", 0, group=_RUNNING)]
    seed: Annotated[int | None, Ge(0), Setting("Seed of all random numbers.", 0, group=_RUNNING)]
    device: Annotated[str | None, Setting("cpu, cuda, cuda:1 or mps; auto selects a GPU if available.", "auto")]
    # fmt: on


HINTS: Final[Mapping[str, Any]] = get_type_hints(Settings, include_extras=True)
"""The annotations of the settings, in which the objects that a spec string describes are text."""

_ALL: Final = {name: next(part for part in get_args(hint) if isinstance(part, Setting)) for name, hint in HINTS.items()}
SETTINGS: Final[Mapping[str, Setting]] = {
    # The first argument of everything that trains.
    "data": Setting("A folder, a file, or the name of a data set; see 'pyrite list data'."),
    **{name: setting for name, setting in _ALL.items() if not setting.short},
}
SHORT: Final[Mapping[str, Setting]] = {name: setting for name, setting in _ALL.items() if setting.short}
READING: Final = tuple(name for name, setting in SETTINGS.items() if setting.reads)
