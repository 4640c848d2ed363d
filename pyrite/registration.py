"""Names for what users have written themselves."""

import inspect
import keyword
import unicodedata
from collections.abc import Callable
from typing import Any, get_type_hints

from pyrite.criterion import Loss
from pyrite.data import DATASETS, Dataset
from pyrite.errors import PyriteError
from pyrite.features import FEATURES
from pyrite.losses import LOSSES
from pyrite.methods import METHODS, Method
from pyrite.models import MODELS
from pyrite.noise import NOISES
from pyrite.spec import Registry
from pyrite.training.optimisers import OPTIMISERS
from pyrite.training.schedules import SCHEDULES

__all__ = ["REGISTRIES", "register"]


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
    """Put a loss, method, noise model, net, encoder, optimiser, schedule or data set of yours under a name.

    Afterwards the name works wherever pyrite's own do: ``pyrite.train(data, loss="mine(sharpness=2)")``, in recipes, in
    comparisons and in the ranges of ``tune``. For the command line, offer it by an entry point: docs/training.md.

    Args:
        name: as it will be written. It must not be taken; only what it stands for already may be defined anew.
        thing: a class that derives from ``pyrite.Loss``, ``Method``, ``Noise``, ``Architecture`` or the like; a
            function whose return annotation is one of these, or ``pyrite.Dataset``; or a data set. The arguments of a
            class must be kept as attributes of the same names, from which recipes spell them.

    >>> import pyrite
    >>> def two_blobs(samples: int = 100) -> pyrite.Dataset:
    ...     return pyrite.data.load("blobs", classes=2, samples=samples)
    >>> register("two_blobs", two_blobs)
    >>> pyrite.data.load("two_blobs(samples=50)")
    <blobs: 50 features of 2, 2 classes, 10 for testing>
    >>> del pyrite.DATASETS["two_blobs"]
    """
    if not isinstance(name, str) or not _is_name(name):
        raise PyriteError(
            f"name is {name!r}, but must be a text of letters, digits and underscores, and no word of a spec"
        )
    registry = _registry_for(name, thing)
    # Losses stand within methods, so that no loss may have the name of a method.
    shared = (LOSSES, METHODS) if registry.makes in (Loss, Method) else (registry,)
    for entries in shared:
        if name in entries and not _is_redefined(entries[name], thing):
            raise PyriteError(f"name is {name!r}, but that is a {registry.kind} already: choose another")
    if isinstance(thing, Dataset):
        thing = _constant(thing)
    registry[name] = thing


def _is_name(text: str) -> bool:
    """Whether a spec can hold it: what Python reads as this very name, and nothing that means something else there.

    Python reads other forms of letters, such as the ligature of f and i, as plain ones. Letters of other alphabets are
    fine.
    """
    plain = unicodedata.normalize("NFKC", text) == text
    return plain and text.isidentifier() and not keyword.iskeyword(text) and text not in _RESERVED


def _registry_for(name: str, thing: Any) -> Registry[Any]:
    made = Dataset if isinstance(thing, Dataset) else thing
    if inspect.isroutine(thing):
        try:
            made = get_type_hints(thing).get("return")
        except NameError as error:
            raise PyriteError(f"{name!r} is a function whose annotations cannot be read: {error}") from None
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

    given.__doc__ = f"{data!r}, registered as an object."
    return given


def _is_redefined(before: object, thing: object) -> bool:
    """Whether the same definition was run again, as in a notebook."""
    names = [(getattr(one, "__module__", None), getattr(one, "__qualname__", None)) for one in (before, thing)]
    return before is thing or (None not in names[0] and names[0] == names[1])
