"""``Config``: the settings of a run as objects, parsed from text once and written as text once, into its recipe."""

import json
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self, final

import numpy as np
from pydantic import ConfigDict, TypeAdapter, ValidationError
from torch import nn

from pyrite.checks import number
from pyrite.data import CropFlip, Dataset, is_object, load
from pyrite.errors import PyriteError
from pyrite.features import FEATURES, Encoder, OwnModule
from pyrite.models import MODELS
from pyrite.settings import HINTS, READING, SETTINGS, SHORT, VERSION, Settings
from pyrite.spec import Registry, nearest, spec_string
from pyrite.training.optimisers import OPTIMISERS, Optimiser, states_rate

if TYPE_CHECKING:
    from pyrite.methods import Method
    from pyrite.noise import Noise
    from pyrite.settings import Model
    from pyrite.training.optimisers import Schedule


AUGMENTATIONS: Registry[CropFlip] = Registry("augmentation", {"crop_flip": CropFlip}, CropFlip, "crop_flip(pad=4)")


class Missing(NamedTuple):
    """What stands for an object that a recipe names, but that cannot be made from it."""

    name: str  # of an object that was given in Python, or a spec string
    problem: str = ""  # why the spec string cannot be read, in this process; empty if the object was given in Python

    def __str__(self) -> str:
        return self.name


@final
class Config:
    """The settings of a run, with the names of ``pyrite.settings`` and objects in place of spec strings.

    A setting that is not given and has no fixed default is None until ``resolve`` determines it from the data.
    ``str(config.method)`` is the spec string of the method. Two configurations are equal if their recipes are equal.

    Attributes:
        given: the values that were given, by name.

    Args:
        values: the values by name, as text or as objects.

    >>> config = Config({"data": "digits", "method": "erm(gce(q=0.7))", "epochs": 5})
    >>> str(config.method), config.epochs
    ('erm(gce(q=0.7))', 5)
    """

    method: "Method"
    noise: "Noise | None"
    features: Encoder | None
    model: "Model"
    optimiser: Optimiser
    schedule: "Schedule"
    augment: CropFlip | None
    given: Mapping[str, Any]

    def __init__(self, values: Mapping[str, Any]) -> None:
        for name in values:
            if name not in SETTINGS:
                raise PyriteError(f"unknown setting {name!r}: {nearest(name, SETTINGS)}")
        checked: dict[str, Any] = {}
        for name, setting in SETTINGS.items():
            value = values.get(name, "" if setting.spec else None)
            # None is the same as no value at all, and so is an empty text in place of a spec string.
            if (value is None and not setting.none) or (setting.spec and isinstance(value, str) and not value):
                value = setting.default
                if value is None:
                    continue
            checked[name] = _checked(name, value)
        vars(self).update(dict.fromkeys(SETTINGS) | checked, given=checked)
        if "data" not in checked:
            raise PyriteError("data is missing: pass a name such as 'digits', a folder of images, or a file")
        if self.drop_suspects and not self.corrections:
            raise PyriteError(
                f"drop_suspects is {self.drop_suspects}, but no file lists the suspects: pass the suspects.csv of an "
                "audit as corrections, or train with pyrite.train_without_suspects, which audits first (on the command "
                "line: pyrite train --drop-suspects)"
            )

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read the recipe of a run; its last line is the version of the format."""
        values = read_file(path)
        try:
            if "version" not in values:
                raise PyriteError("its end is missing")
            return cls({name: _read_or_missing(name, value) for name, value in values.items() if name != "version"})
        except ValueError as error:
            lost = "train the run again, in another folder"
            raise PyriteError(f"cannot read {path} ({error}): {lost}") from None

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("a configuration cannot be changed: config.replace(...) makes another one")

    def replace(self, **changes: Any) -> Self:
        """The same configuration with other values."""
        return type(self)({**self.given, **changes})

    def to_dict(self) -> dict[str, Any]:
        """The plain values: an object becomes its spec string or, if it has none, its name in Python."""
        values: dict[str, Any] = {}
        for name, value in self.given.items():
            if value is None or isinstance(value, bool | int | float | str):
                values[name] = "none" if value is None else value
            else:
                text = (value.problem and value.name) if isinstance(value, Missing) else spec_string(value)
                values[name] = text or {"python": python_name(value)}
        return values

    @cached_property
    def recipe(self) -> dict[str, Any]:
        """The plain values with the version at the end."""
        return {**self.to_dict(), "version": VERSION}

    def to_toml(self) -> str:
        """The recipe, one value per line. JSON texts, numbers and truth values are TOML."""
        lines = []
        for name, value in self.recipe.items():
            own = isinstance(value, dict)
            text = json.dumps(value["python"] if own else value, ensure_ascii=False)
            if not text.isprintable() and any("\ud800" <= letter <= "\udfff" for letter in text):
                raise PyriteError(f"{name} is {value!a}, which is not UTF-8: rename the file")
            lines.append(f"{name} = {{python = {text}}}\n" if own else f"{name} = {text}\n")
        return "".join(lines)

    def differences(self, saved: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
        """The settings that differ from a saved recipe, with the saved and the current values.

        The device is not compared, because a run can be continued on another machine.
        """
        version = saved.get("version", VERSION)
        then = {name: setting.default_in(version) for name, setting in SETTINGS.items()} | dict(saved)
        now = self.to_dict()
        return {
            name: (then.get(name), now.get(name))
            for name in SETTINGS
            if name != "device" and then.get(name) != now.get(name)
        }

    def require_objects(self, of: str = "") -> Self:
        """Return the configuration; raise ``PyriteError`` if an object that was passed in Python, other than the data,
        is missing.
        """
        for name, value in self.given.items():
            if isinstance(value, Missing) and value.problem:
                raise PyriteError(value.problem)
            if isinstance(value, Missing) and name != "data":
                again = "method or loss" if name == "method" else name
                raise PyriteError(f"the {name}{of} was given in Python: {value}: pass it again as {again}")
        return self

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Config) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash(self.to_toml())

    def __repr__(self) -> str:
        return f"Config({self.to_dict()})"


@final
@dataclass(frozen=True, eq=False)
class Job:
    """Everything that decides a run."""

    config: Config  # with all defaults filled in
    data: Dataset
    deadline: float | None = None  # when a run of so many minutes ends, by ``time.perf_counter``

    def with_config(self, **changes: Any) -> "Job":
        """The same job with other values of settings."""
        return replace(self, config=self.config.replace(**changes))


def read_file(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The settings in a TOML file. What a recipe of an earlier version leaves out has the default of that version."""
    try:
        values = tomllib.loads(Path(path).read_text(encoding="utf-8"))
        version = values.get("version", VERSION)
        if not isinstance(version, int) or not 1 <= version <= VERSION:
            raise PyriteError(
                f"its version is {version!r}, but this version of pyrite reads recipes up to {VERSION}: update pyrite"
            )
        _check_plain(values)
    except (OSError, ValueError, RecursionError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise PyriteError(f"cannot read {path}: {reason}") from None
    other = {name: setting.default_in(version) for name, setting in SETTINGS.items() if setting.earlier}
    return {name: value for name, value in other.items() if value != SETTINGS[name].default} | values


def given_settings(settings: Settings) -> dict[str, Any]:
    """The settings that are given as keywords or in the file ``config``; keywords override the file.

    Each length of training, and a method or a loss, is in it at most once.
    """
    own: dict[str, Any] = {name: value for name, value in settings.items() if value is not None}
    path = own.pop("config", None)
    file = {} if path is None else read_file(path)
    file.pop("version", None)
    for source in (own, file):
        if "optimizer" in source:
            if "optimiser" in source:
                raise PyriteError("optimiser and optimizer are two spellings of one setting: omit one")
            source["optimiser"] = source.pop("optimizer")
        for name in source:
            if name not in SETTINGS and name not in SHORT:
                raise PyriteError(f"unknown setting {name!r}: {nearest(name, [*SETTINGS, *SHORT])}")
    if "iterations" in file:  # a recipe has the number of epochs too that follows from it
        file.pop("epochs", None)
    for group in (("epochs", "iterations", "minutes"), ("method", "loss")):
        for source in (own, file):
            given = [name for name in group if name in source]
            if len(given) > 1:
                reason = (
                    "pass the loss as an argument of the method"
                    if "loss" in given
                    else "each sets the length of training; omit one"
                )
                raise PyriteError(f"{' and '.join(given)} are both given: {reason}")
        if any(name in own for name in group):
            file = {name: value for name, value in file.items() if name not in group}
    for source in (own, file):
        if "lr" in source:
            number("lr", source["lr"], least=0)
            if states_rate(source.get("optimiser")):
                raise PyriteError(
                    f"lr is given twice, alone and in the optimiser: omit one, or change {str(source['optimiser'])!r}"
                )
    if "optimiser" in own:
        file.pop("lr", None)
    elif "lr" in own and isinstance(file.get("optimiser"), str):  # the optimiser of the file, at another rate
        file["optimiser"] = replace(OPTIMISERS.read(file["optimiser"]), lr=own.pop("lr"))
    return file | own


def load_data(source: Any, settings: Mapping[str, Any]) -> Dataset:
    """A data set, read as the settings require."""
    if isinstance(source, Missing):
        raise PyriteError(f"the data was given in Python: {source}: pass it again, as in pyrite.train(data, ...)")
    found = {name: settings[name] for name in READING if settings.get(name) is not None}
    return load(source, **{name: value for name, value in found.items() if not isinstance(value, str) or value})


def read_once(data: Any, settings: Settings) -> tuple[Any, Settings]:
    """Data for several runs, read if they are an object, and the settings without those that decided how."""
    if not is_object(data):
        return data, settings
    read = load_data(data, given_settings(settings))
    return read, {name: value for name, value in settings.items() if name not in READING}  # type: ignore[return-value]


def read_model(value: object) -> object:
    """A net: a spec string, an architecture, an ``nn.Module``, or a function that makes one."""
    if isinstance(value, MODELS.makes | nn.Module) or (callable(value) and not isinstance(value, str)):
        return value
    if not isinstance(value, str):
        raise PyriteError(f"model is {value!r}, but must be a text such as 'resnet20', an nn.Module or a factory")
    return MODELS.read(value)


def read_features(value: object) -> Encoder:
    """An encoder: a spec string, an encoder, or an ``nn.Module``."""
    if not isinstance(value, str | Encoder | nn.Module):
        raise PyriteError(f"features is {value!r}, but must be a text such as 'tfidf', an nn.Module or an encoder")
    return OwnModule(value) if isinstance(value, nn.Module) else FEATURES.read(value)


def _read_or_missing(name: str, value: object) -> object:
    """The object of a spec string; a run may be looked at without what its names stand for."""
    setting = SETTINGS.get(name)
    if setting is None or not setting.spec or not isinstance(value, str) or not value:
        return value
    try:
        return _checked(name, value)
    except PyriteError as error:
        return Missing(value, str(error))


def _check_plain(values: Mapping[str, Any]) -> None:
    """Refuse values of another type than their setting has; what a spec string describes is read later."""
    for name, value in values.items():
        if name in SETTINGS and not SETTINGS[name].spec:
            _checked(name, value)
        elif name in SETTINGS and not isinstance(value, str | dict):
            raise PyriteError(f"{name} is {value!r}, but must be a valid string")


def _checked(name: str, value: object) -> object:
    """A value of the type of its setting: not converted, except from a spec string to the object it describes."""
    if isinstance(value, Missing):
        return value
    if isinstance(value, dict) and list(value) == ["python"] and isinstance(value["python"], str):
        return Missing(value["python"])
    if isinstance(value, np.generic):
        value = value.item()
    if SETTINGS[name].spec:
        if value is None or (SETTINGS[name].none and isinstance(value, str) and value == "none"):
            return None
        module, _, reader = SETTINGS[name].spec.partition(":")
        makes = getattr(import_module(module), reader)
        return makes.read(value) if isinstance(makes, Registry) else makes(value)
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    try:
        return _adapter(name).validate_python(value)
    except ValidationError as error:
        shown = " ".join(repr(value).split())  # an array has several lines
        reason = f": {error.errors()[0]['msg']}".replace(": Input should be", ", but must be")
        raise PyriteError(f"{name} is {shown[:100]}{reason}") from None


@cache
def _adapter(name: str) -> TypeAdapter[Any]:
    return TypeAdapter(HINTS.get(name, str), config=ConfigDict(strict=True, allow_inf_nan=False))


def python_name(value: object) -> str:
    """The name of an object, for recipes and messages."""
    if isinstance(value, nn.Module):
        return type(value).__name__
    return str(getattr(value, "__name__", value))
