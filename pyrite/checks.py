"""Checks of arguments, with one form of message: ``NAME is VALUE, but must be WANTED``.

Numbers of numpy are numbers; truth values are not. NaN and infinities are refused. What cannot fit into memory is
refused before it is allocated, because a process that takes too much is killed silently.
"""

import math
import numbers
import os
from collections.abc import Collection
from dataclasses import fields
from functools import cache, partial
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Literal, TypeGuard, get_args, get_origin

from pyrite.errors import PyriteError

# Files in which Linux states the memory limit of a container, for control groups v2 and v1.
_LIMITS = "/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"


def require(condition: bool, name: str, value: object, wanted: str) -> None:
    """Raise the ``ValueError`` that every refused argument gets, unless ``condition`` holds."""
    if not condition:
        raise PyriteError(f"{name} is {value!r}, but must be {wanted}")


def is_number(value: object) -> TypeGuard[float]:
    """Whether ``value`` is a real number, be it infinite or NaN."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def is_whole(value: object) -> TypeGuard[int]:
    """Whether ``value`` is an integer; 2.0 is not."""
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def number(
    name: str,
    value: Any,
    wanted: str | None = None,
    *,
    least: float | None = None,
    above: float | None = None,
    most: float | None = None,
    below: float | None = None,
) -> float:
    """``value`` as a Python number within the bounds; an integer stays one, so that it is written as it was given.

    ``wanted`` is what the message asks for, where the bounds are not enough.

    >>> number("q", 0, above=0, most=1)
    Traceback (most recent call last):
    pyrite.PyriteError: q is 0, but must be a number above 0 and at most 1
    """
    is_real: bool = not isinstance(value, bool) and isinstance(value, numbers.Real)
    fits = (
        is_real
        and math.isfinite(value)
        and (least is None or value >= least)
        and (above is None or value > above)
        and (most is None or value <= most)
        and (below is None or value < below)
    )
    if not fits:
        require(False, name, value, wanted or _range_text("a number", least, above, most, below))
    return int(value) if isinstance(value, numbers.Integral) else float(value)


def whole_number(
    name: str, value: Any, least: int | None = None, most: int | None = None, wanted: str | None = None
) -> int:
    """``value`` as a Python integer within the bounds.

    >>> whole_number("epochs", True, least=1)
    Traceback (most recent call last):
    pyrite.PyriteError: epochs is True, but must be a whole number, 1 or more
    """
    whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if not whole or (least is not None and value < least) or (most is not None and value > most):
        require(False, name, value, wanted or _range_text("a whole number", least, None, most, None))
    return int(value)


def flag(name: str, value: Any) -> bool:
    """``value`` if it is True or False; 1 and 0 are neither."""
    if not isinstance(value, bool):
        require(False, name, value, "True or False")
    return bool(value)


def one_of(name: str, value: Any, allowed: Collection[Any]) -> None:
    """Refuse what is not among ``allowed``.

    >>> one_of("edge", "mirror", ("zeros", "reflect"))
    Traceback (most recent call last):
    pyrite.PyriteError: edge is 'mirror', but must be one of 'zeros', 'reflect'
    """
    if not any(type(value) is type(each) and value == each for each in allowed):
        require(False, name, value, f"one of {', '.join(map(repr, allowed))}")


def check_fields(thing: Any) -> None:
    """Check the fields of a dataclass by their annotations: ``q: Annotated[float, partial(number, above=0)]``.

    A field keeps what its check returns. None passes where the annotation allows it; a ``Literal`` lists what does.
    """
    for field in fields(thing):
        name, hint, value = field.name, field.type, getattr(thing, field.name)
        if get_origin(hint) is Literal:
            one_of(name, value, get_args(hint))
        if value is None and NoneType in get_args(hint):
            continue
        for part in (hint, *get_args(hint)):
            for check in getattr(part, "__metadata__", ()):
                object.__setattr__(thing, name, check(name, value))


NotNegative = Annotated[float, partial(number, least=0)]
Fraction = Annotated[float, partial(number, least=0, most=1)]
Count = Annotated[int, partial(whole_number, least=1)]


def _range_text(noun: str, least: float | None, above: float | None, most: float | None, below: float | None) -> str:
    if least is not None and most is not None:
        return f"{noun} from {least} to {most}"
    if least is not None and below is None:
        return f"{noun}, {least} or more"
    words = (("at least", least), ("above", above), ("at most", most), ("below", below))
    bounds = " and ".join(f"{word} {bound}" for word, bound in words if bound is not None)
    return f"{noun} {bounds}".strip()


@cache
def memory_size() -> int | None:
    """The memory of this machine or container in bytes; None where the system does not report it."""
    try:
        size = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None
    for path in _LIMITS:
        try:
            size = min(size, int(Path(path).read_text()))
        except (OSError, ValueError):  # the file is missing, or holds "max"
            continue
    return size if size > 0 else None


def check_memory(needed: int, what: str) -> None:
    """Raise ValueError if ``what`` needs more bytes than this machine has.

    >>> check_memory(10**18, "a net of 1e17 weights")
    Traceback (most recent call last):
    ...
    pyrite.PyriteError: a net of 1e17 weights would take 931,322,575 GiB of memory, more than this machine has
    """
    size = memory_size()
    if size is not None and needed > size:
        raise PyriteError(f"{what} would take {needed / 2**30:,.0f} GiB of memory, more than this machine has")
