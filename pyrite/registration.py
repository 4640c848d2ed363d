"""Names for what users have written themselves."""

import inspect
import keyword
import unicodedata
from collections.abc import Callable
from typing import Any, get_type_hints

from pyrite.data import DATASETS, Dataset
from pyrite.errors import PyriteError
from pyrite.features import FEATURES
from pyrite.losses import LOSSES
from pyrite.methods import METHODS
from pyrite.models import MODELS
from pyrite.noise import NOISES
from pyrite.spec import Registry
from pyrite.training.optimisers import OPTIMISERS, SCHEDULES

_RESERVED = ("between", "inf", "nan", "one_of")
"""Names that mean something else in a spec, or in the ranges of ``tune``."""


REGISTRIES: dict[str, Registry[Any]] = {
    "losses": LOSSES,
    "noises": NOISES,
    "methods": METHODS,
    "models": MODELS,
    "data": DATASETS,
    "features": FEATURES,
    "optimisers": OPTIMISERS,
    "schedules": SCHEDULES,
}


def register(name: str, thing: Any) -> None:
    """Register your own loss, method, noise model, net, encoder, optimiser, schedule or data set under a name.

    The name can then be used like a built-in one: in ``pyrite.train(data, loss="mine(sharpness=2)")``, in recipes, in
    comparisons and in the ranges of ``tune``. For the command line, declare an entry point (docs/training.md).

    Args:
        name: the name in spec strings. A name that is in use raises an error, unless the same object is defined again.
        thing: a class that derives from ``pyrite.Loss``, ``Method``, ``Noise``, ``Architecture`` or the like; a
            function whose return annotation is one of these, or ``pyrite.Dataset``; or a data set. A class must store
            its arguments as attributes of the same names, because spec strings are built from them.

    >>> import pyrite
    >>> def two_blobs(samples: int = 100) -> pyrite.Dataset:
    ...     return pyrite.data.load("blobs", classes=2, samples=samples)
    >>> register("two_blobs", two_blobs)
    >>> pyrite.data.load("two_blobs(samples=50)")
    <blobs: 50 features of 2, 2 classes, 10 for testing>
    >>> del pyrite.DATASETS["two_blobs"]
    """
    # Python reads other forms of letters, such as the ligature of f and i, as plain ones.
    is_name = isinstance(name, str) and unicodedata.normalize("NFKC", name) == name and name.isidentifier()
    if not is_name or keyword.iskeyword(name) or name in _RESERVED:
        raise PyriteError(
            f"name is {name!r}, but must be a text of letters, digits and underscores, and not a reserved word"
        )
    registry = _registry_for(name, thing)
    # Losses stand within methods, so that no loss may have the name of a method.
    for entries in (LOSSES, METHODS) if registry is LOSSES or registry is METHODS else (registry,):
        if name in entries and _definition(entries[name]) != _definition(thing):
            raise PyriteError(f"name is {name!r}, but that is a {registry.kind} already: choose another")
    registry[name] = _constant(thing) if isinstance(thing, Dataset) else thing


def _registry_for(name: str, thing: Any) -> Registry[Any]:
    made = Dataset if isinstance(thing, Dataset) else thing
    if inspect.isroutine(thing):
        try:
            made = get_type_hints(thing).get("return")
        except NameError as error:
            raise PyriteError(f"{name!r} is a function with unreadable annotations: {error}") from None
    for registry in REGISTRIES.values():
        if isinstance(made, type) and issubclass(made, registry.makes):
            return registry
    wanted = ", ".join(registry.makes.__name__ for registry in REGISTRIES.values())
    raise PyriteError(
        f"{name!r} is {thing!r}, but must be a class that derives from one of {wanted}, or a function whose return "
        "annotation is one of them"
    )


def _constant(data: Dataset) -> Callable[[], Dataset]:
    def given() -> Dataset:
        return data

    given.__doc__, given.__qualname__ = f"{data!r}, registered as an object.", f"dataset {id(data)}"
    return given


def _definition(thing: object) -> tuple[object, object]:
    """What stays the same when a definition is run again, as in a notebook."""
    if isinstance(thing, Dataset):
        return __name__, f"dataset {id(thing)}"
    return getattr(thing, "__module__", None), getattr(thing, "__qualname__", id(thing))
