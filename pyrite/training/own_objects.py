"""Checksums of objects with code of the user. A recipe has only their names, and the code may have changed since."""

import platform
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from pyrite.data import digest
from pyrite.errors import PyriteError
from pyrite.features import FEATURES
from pyrite.losses import LOSSES
from pyrite.methods import METHODS
from pyrite.models import MODELS
from pyrite.noise import NOISES
from pyrite.settings import SETTINGS
from pyrite.training.config import Config, Missing, python_name
from pyrite.training.optimisers import OPTIMISERS, SCHEDULES

_VALUES: Final = (type(None), bool, int, float, complex, str, bytes)
_REGISTRIES: Final = (FEATURES, LOSSES, METHODS, MODELS, NOISES, OPTIMISERS, SCHEDULES)
_LIBRARIES: Final = ("builtins", "numpy", "pyrite", "torch")  # whose code is not part of an object


def own_objects(config: Config) -> dict[str, str]:
    """Of every setting that was given as an object, or by names that the user registered: the version of Python, and
    checksums without and with tensors.

    They cover values, and the code of classes and functions in the bytecode of that version, but neither the weights of
    the net, which is trained in place, nor the code of other modules.
    """
    found, named, version = dict[str, str](), config.to_dict(), ".".join(platform.python_version_tuple()[:2])
    for name, value in config.given.items():
        text = named[name] if isinstance(named[name], str) else ""
        words = {*re.findall(r"[^\W\d]\w*", text)} if SETTINGS[name].spec else ()
        registered = [entries[word] for word in sorted(words) for entries in _REGISTRIES if word in entries]
        own = [entry for entry in registered if not _is_of_library(entry)]
        if own or (isinstance(named[name], dict) and name != "data" and not isinstance(value, Missing)):
            both = (digest(_parts([value, *own], {}, tensors)) for tensors in (False, name != "model"))
            found[name] = " ".join([version, *both])
    return found


def check_objects(config: Config, facts: Mapping[str, Any], folder: Path) -> None:
    """Raise ``PyriteError`` if an object is not the one that a run was begun with, as far as this Python shows it.

    A run that is continued has the tensors of objects in its state.
    """
    compared = slice(3 if facts.get("finished") else 2)
    for name, now in own_objects(config).items():
        began = str(facts.get("objects", {}).get(name, now))
        if began.split()[0] == now.split()[0] and began.split()[compared] != now.split()[compared]:
            raise PyriteError(
                f"{folder} was begun with another {name}: {python_name(getattr(config, name))} has other values or "
                "other code. Pass the same object, or use another folder"
            )


def _parts(value: Any, seen: dict[int, Any], tensors: bool) -> Iterator[bytes | npt.NDArray[Any]]:
    if isinstance(value, _VALUES):
        yield repr(value).encode("utf-8", "surrogatepass")
        return
    if id(value) in seen:
        return
    seen[id(value)] = value  # kept, because an object that is gone would leave its id to another
    inner: Any
    if isinstance(value, Tensor):
        inner = [str(value.dtype), tuple(value.shape)]
        if tensors:
            yield value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
    elif isinstance(value, np.ndarray):
        inner = [str(value.dtype), value.shape, *(value.ravel().tolist() if value.dtype == object else ())]
        if value.dtype != object:
            yield value
    elif isinstance(value, FunctionType):
        inner = [value.__qualname__, *([] if _is_of_library(value) else _of_function(value))]
    elif isinstance(value, CodeType):
        inner = [value.co_code, value.co_consts, value.co_names]
    elif isinstance(value, type):
        inner = [value.__qualname__, *([] if _is_of_library(value) else _of_class(value))]
    elif isinstance(value, nn.Module):
        inner = [type(value), {name: part for name, part in vars(value).items() if name != "training"}]
    elif isinstance(value, Mapping):
        inner = [part for item in value.items() for part in item]
    elif isinstance(value, list | tuple):
        inner = value
    elif isinstance(value, set | frozenset):
        inner = sorted(digest(_parts(part, dict(seen), tensors)) for part in value)
    else:
        try:
            made = value.__reduce_ex__(2)
            inner = [made] if isinstance(made, str) else [type(value), *made[1:3]]
        except Exception:  # what cannot be copied, such as an open file
            inner = [type(value)]
    yield f"{type(value).__name__} {len(inner)}".encode()
    for part in inner:
        yield from _parts(part, seen, tensors)


def _is_of_library(value: Any) -> bool:
    return str(value.__module__).partition(".")[0] in _LIBRARIES


def _of_function(function: FunctionType) -> list[Any]:
    """Its code, and what its names stand for, if that is a value or from the same module."""
    codes, names = [function.__code__], list[str]()
    for code in codes:
        names += code.co_names
        codes += [part for part in code.co_consts if isinstance(part, CodeType)]
    known = [function.__globals__[name] for name in names if name in function.__globals__]
    same = [
        part
        for part in known
        if isinstance(part, _VALUES)
        or (isinstance(part, FunctionType | type) and part.__module__ == function.__module__)
    ]
    cells = [cell.cell_contents for cell in function.__closure__ or () if cell != type(cell)()]
    return [function.__code__, function.__defaults__, function.__kwdefaults__, cells, same]


def _of_class(cls: type) -> list[Any]:
    """The values and functions of a class, and the classes that it is derived from."""
    found: list[Any] = [*cls.__bases__]
    for name, part in vars(cls).items():
        own = getattr(part, "__func__", getattr(part, "fget", part))  # of a static method, or of a property
        if isinstance(own, FunctionType) or (isinstance(own, _VALUES) and not name.startswith("__")):
            found += [name, own]
    return found
