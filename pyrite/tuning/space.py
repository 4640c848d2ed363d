"""The search space: spec strings of losses and methods, with ranges in place of numbers."""

import ast
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice, product
from math import sqrt
from typing import Any, Final, final

from pyrite.checks import flag, number
from pyrite.comparing import loss_or_method
from pyrite.criterion import Loss
from pyrite.errors import PyriteError
from pyrite.methods import ERM, Method
from pyrite.spec import build


@final
@dataclass(frozen=True)
class Between:
    """Any number from ``low`` to ``high``, both included; with ``log`` the logarithm is uniformly distributed."""

    low: float
    high: float
    log: bool = False

    def __post_init__(self) -> None:
        for name, value in (("low", self.low), ("high", self.high)):
            number(f"between: {name}", value)
        flag("between: log", self.log)
        if not self.low < self.high:
            raise PyriteError(f"between: low is {self.low} and high {self.high}, but low must be below high")
        if self.log and self.low <= 0:
            raise PyriteError(f"between: low is {self.low}, but must be above 0 with log=True")

    def rounded(self, value: float) -> float:
        """The value with three digits, which are easy to type again, and within the range."""
        return min(max(float(f"{value:.3g}"), float(self.low)), float(self.high))

    @property
    def middle(self) -> float:
        return self.rounded(sqrt(self.low * self.high) if self.log else (self.low + self.high) / 2)

    @property
    def ends(self) -> tuple[Any, ...]:
        return float(self.low), float(self.high)


@final
@dataclass(frozen=True)
class OneOf:
    """One of several values, losses or methods."""

    choices: tuple[Any, ...]

    def __post_init__(self) -> None:
        if not self.choices:
            raise PyriteError("one_of has no choices")
        if len(self.ends) > len(set(self.ends)):
            raise PyriteError(f"one_of has a choice twice: {', '.join(map(str, self.ends))}")

    @property
    def ends(self) -> tuple[Any, ...]:
        """The choices as JSON can contain them: numbers and strings as they are, losses by their spec strings."""
        return tuple(c if isinstance(c, bool | int | float | str) else str(c) for c in self.choices)

    @property
    def middle(self) -> Any:
        return self.ends[0]


Range = Between | OneOf
Choose = Callable[[str, Range], Any]
"""Gives a value for the range of a parameter with this name; for ``OneOf``, the name of a choice."""

METHOD: Final = "method"


def default_methods(classes: int) -> tuple[str, ...]:
    """The default methods of a search: cross entropy, and robust losses with the ranges in which they differ."""
    # With two classes there is no expected margin to scale MAE by, and it does not underfit.
    mae = f"unit(scale(mae, tau=between(0.5, 4), classes={classes}))" if classes > 2 else "unit(mae)"
    return ("ce", "gce(q=between(0.1, 1))", "imae(T=between(0.5, 16, log=True))", mae)


@final
class Space:
    """Losses or methods to choose from, and the ranges of their parameters.

    Every one is built at the ends of its ranges, so that errors are raised before anything is trained. ``rate`` is the
    range of the learning rate, or of a factor of the default one; None if it is not searched. ``ranges`` are by the
    names of parameters, such as ``gce.q``; that of a second ``gce`` is ``gce.q 2``.
    """

    def __init__(self, methods: Sequence[str], rate: Range | None = None, by_factor: bool = True) -> None:
        if isinstance(methods, str) or not methods:
            raise PyriteError(f"methods is {methods!r}, but must be a list of losses or methods, at least one")
        for item in methods:
            if not isinstance(item, str | Loss | Method):
                raise PyriteError(f"methods has {item!r}: give it a name with pyrite.register, and write that")
        self.methods = tuple(str(item).strip() for item in methods)
        twice = [text for text, count in Counter(self.methods).items() if count > 1]
        if twice:
            raise PyriteError(f"methods has {twice[0]!r} twice")
        self.rate, self.rate_name = rate, "lr_factor" if by_factor else "lr"
        self.ranges: dict[str, Range] = {METHOD: OneOf(self.methods)}
        self._names: dict[str, list[str]] = {}
        taken: Counter[str] = Counter()
        for text in self.methods:
            names = self._names[text] = []
            for name in _range_names(text):
                taken[name] += 1
                names.append(name if taken[name] == 1 else f"{name} {taken[name]}")
            self._check(text)
        if rate is not None:
            self.ranges[self.rate_name] = rate

    def pick(self, choose: Choose) -> tuple[Method, float | None]:
        """A method with its parameters, and the number for its learning rate, all chosen by ``choose``."""
        method = self.read(choose(METHOD, self.ranges[METHOD]), choose)
        return method, None if self.rate is None else float(choose(self.rate_name, self.rate))

    def read(self, text: str, choose: Choose) -> Method:
        """One of the methods, with ``choose`` filling in its ranges."""
        names = iter(self._names[text])

        def chosen(written: Range) -> Any:
            name = next(names)
            value = choose(name, self.ranges.setdefault(name, written))
            return written.choices[written.ends.index(value)] if isinstance(written, OneOf) else value

        ranges: dict[str, Callable[..., Any]] = {
            "between": lambda low, high, log=False: chosen(Between(low, high, log)),
            "one_of": lambda *choices: chosen(OneOf(choices)),
        }
        return loss_or_method(text, ranges)

    def _check(self, text: str) -> None:
        """Build a method once, which finds its ranges, and then at up to 1,000 combinations of their ends."""
        self.read(text, lambda name, allowed: allowed.ends[0])
        names = self._names[text]
        for values in islice(product(*(self.ranges[name].ends for name in names)), 1000):
            fixed = dict(zip(names, values, strict=True))
            self.read(text, lambda name, allowed, fixed=fixed: fixed[name])  # type: ignore[misc]


def read_range(text: str, name: str) -> Range:
    """The range in a text: ``between(0.01, 1, log=True)``."""
    built = build(text, {"between": Between, "one_of": lambda *choices: OneOf(choices)}, "range")
    if not isinstance(built, Between | OneOf):
        raise PyriteError(f"{name} is {text!r}, but must be a number or a range such as 'between(0.01, 1, log=True)'")
    return built


def short(method: Method) -> str:
    """The short name of a method: that of its loss, if it is ``erm``."""
    return str(method.loss) if isinstance(method, ERM) and str(ERM(method.loss)) == str(method) else str(method)


def _range_names(text: str) -> list[str]:
    """The names of the parameters that have ranges, in the order in which ``build`` reads them.

    >>> _range_names("0.5*gce(q=between(0.1, 1)) + scale(one_of(mae, ce), tau=between(1, 2), classes=10)")
    ['gce.q', 'scale.1', 'scale.tau']
    """
    try:
        tree = ast.parse(text, mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []  # ``build`` raises the error

    def named(node: ast.AST, name: str) -> list[str]:
        if not isinstance(node, ast.Call):
            return [one for part in ast.iter_child_nodes(node) for one in named(part, name)]
        called = node.func.id if isinstance(node.func, ast.Name) else ""
        parts = [*((str(place), part) for place, part in enumerate(node.args, 1))]
        parts += [(str(word.arg), word.value) for word in node.keywords]
        inner = [one for under, part in parts for one in named(part, f"{called}.{under}")]
        if called not in ("between", "one_of"):
            return inner
        if inner:
            raise PyriteError(f"cannot read {text!r}: a range within a range")
        return [name]

    return named(tree.body, "factor")
