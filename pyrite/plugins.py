"""What other installed packages add to the registries, by entry points.

A distribution offers a loss under a name like this, in its ``pyproject.toml``::

    [project.entry-points."pyrite.losses"]
    my_loss = "my_package.losses:MyLoss"

Entry points are looked up when a name is not in a registry, and by ``pyrite list``. Nothing is imported before.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from pyrite.errors import PyriteError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

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
    """What an installed package offers under a name; None if none does. One that cannot be loaded is an error."""
    point = next((each for each in _entry_points(kind) if each.name == name), None)
    if point is None:
        return None
    offers = f"the plug-in {point.dist.name if point.dist else point.value} offers the {kind} {name!r}"
    try:
        loaded = point.load()
    except Exception as error:  # whatever somebody else's module does when it is imported
        reason = f"{type(error).__name__}: {' '.join(str(error).split()) or 'no reason given'}"
        raise PyriteError(f"{offers}, but {point.value} cannot be loaded: {reason}") from None
    if not callable(loaded):
        raise PyriteError(f"{offers}, but {point.value} cannot be called")
    return cast(Callable[..., Any], loaded)


def _entry_points(kind: str) -> "list[EntryPoint]":
    from importlib.metadata import entry_points

    return [point for group in GROUPS.get(kind, ()) for point in entry_points(group=group)]
