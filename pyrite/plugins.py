"""What other installed packages add to the registries, by entry points.

A distribution offers a loss under a name like this, in its ``pyproject.toml``::

    [project.entry-points."pyrite.losses"]
    my_loss = "my_package.losses:MyLoss"

Entry points are looked up when a name is not in a registry, and by ``pyrite list``. Nothing is imported before.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from pyrite.errors import PyriteError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = ["GROUPS", "find_plugin", "plugin_names"]

GROUPS: dict[str, tuple[str, ...]] = {
    "loss": ("pyrite.losses",),
    "method": ("pyrite.methods", "pyrite.losses"),
    "noise": ("pyrite.noises",),
    "model": ("pyrite.models",),
    "data set": ("pyrite.data",),
    "features": ("pyrite.features",),
    "optimiser": ("pyrite.optimisers",),
    "schedule": ("pyrite.schedules",),
}
"""By the word for what is looked for, the groups of entry points that offer it. A method may be made of losses."""


def plugin_names(kind: str, *, own: bool = False) -> list[str]:
    """The names that installed packages offer; with ``own`` not those of the parts that it may be made of."""
    return sorted({point.name for point in _entry_points(kind) if not own or point.group == GROUPS[kind][0]})


def find_plugin(kind: str, name: str) -> Callable[..., Any] | None:
    """What an installed package offers under a name; None if none does. One that cannot be loaded is a ValueError."""
    for point in _entry_points(kind):
        if point.name == name:
            return _load(kind, point)
    return None


def _entry_points(kind: str) -> "Iterable[EntryPoint]":
    from importlib.metadata import entry_points

    return [point for group in GROUPS.get(kind, ()) for point in entry_points(group=group)]


def _load(kind: str, point: "EntryPoint") -> Callable[..., Any]:
    source = f"the plug-in {point.dist.name if point.dist else point.value}"
    try:
        loaded = point.load()
    except Exception as error:  # whatever somebody else's module does when it is imported
        reason = " ".join(str(error).split()) or "no reason given"
        raise PyriteError(
            f"{source} offers the {kind} {point.name!r}, but {point.value} cannot be loaded: "
            f"{type(error).__name__}: {reason}"
        ) from None
    if not callable(loaded):
        raise PyriteError(f"{source} offers the {kind} {point.name!r}, but {point.value} cannot be called")
    result: Callable[..., Any] = loaded
    return result
