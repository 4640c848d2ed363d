"""One spelling for everything that has a name and arguments: ``"gce(q=0.7)"`` <-> ``GCE(q=0.7)``.

The text is read as Python's syntax tree and walked: calls of registered names, literals, ``+`` and ``*``.
Nothing is evaluated, so a recipe found in a file can do nothing but name what a registry holds.
"""

import ast
import difflib
import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from pyrite.checks import is_number
from pyrite.errors import PyriteError
from pyrite.plugins import find_plugin, plugin_names

__all__ = [
    "Spelled",
    "arguments",
    "build",
    "call",
    "construct",
    "lookup",
    "nearest",
    "register_class",
    "registered_name",
    "spell",
]

Made = TypeVar("Made")


def build(
    text: str,
    registry: Mapping[str, Callable[..., Any]],
    kind: str,
    expected: type = object,
    nested: Mapping[str, Callable[..., Any]] | None = None,
) -> Any:
    """The object that ``text`` spells, made from the names in ``registry`` and those that plug-ins offer.

    Args:
        text: a call, a name, or for losses a sum.
        registry: what makes an object, by name.
        kind: the word for what the registry holds, for error messages and to find plug-ins.
        expected: the class that the object must have; a plug-in may make anything.
        nested: what names mean within the arguments of a call, if that differs: ``forward`` is a method, and in
            ``erm(forward(...))`` a loss.

    >>> from fractions import Fraction
    >>> build("half(1, denominator=2)", {"half": Fraction}, "fraction")
    Fraction(1, 2)
    """
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        reason = error.msg if isinstance(error, SyntaxError) else str(error) or type(error).__name__
        raise PyriteError(f"cannot read the {kind} {_short(text)!r}: {reason}") from None
    try:
        built = _Reader(text, registry, kind, nested).read(tree.body)
    except RecursionError:
        raise PyriteError(f"cannot read the {kind} {_short(text)!r}: nested too deeply") from None
    if _is_literal(built):
        raise PyriteError(f"{_short(text)!r} is a plain value, not a {kind}")
    if not isinstance(built, expected):
        raise PyriteError(f"{_short(text)!r} makes a {type(built).__name__}, not a {kind}")
    return built


def lookup(name: str, registry: Mapping[str, Callable[..., Any]], kind: str) -> Callable[..., Any]:
    """What is registered under a name, or offered by a plug-in."""
    factory = registry.get(name)
    if factory is not None:
        return factory
    factory = find_plugin(kind, name)
    if factory is None:
        known = dict.fromkeys([*registry, *plugin_names(kind)])
        raise PyriteError(f"unknown {kind} {name!r}: {nearest(name, known)}")
    if isinstance(factory, type):
        register_class(name, factory)
    return factory


def call(name: str, factory: Callable[..., Made], /, *args: Any, **named: Any) -> Made:
    """Call what is registered under ``name``; arguments it does not take are a ValueError that says what it takes."""
    try:
        inspect.signature(factory).bind(*args, **named)
    except TypeError as error:
        raise PyriteError(f"{name}: {error}; it is called as {name}{arguments(factory)}") from None
    try:
        return factory(*args, **named)
    except ValueError:
        raise
    except Exception as error:  # what a user or a plug-in has written may raise anything
        reason = " ".join(str(error).split()) or "no reason given"
        raise PyriteError(f"{name} cannot be made: {type(error).__name__}: {reason}") from error


def arguments(factory: Callable[..., Any]) -> str:
    """The arguments something takes, as a reader would write them: ``(q=0.7)``; nothing where there are none.

    >>> arguments(sorted)
    '(iterable, /, *, key=None, reverse=False)'
    """
    shown = [
        parameter.replace(annotation=parameter.empty)
        for parameter in inspect.signature(factory).parameters.values()
        if parameter.kind is not parameter.VAR_KEYWORD
    ]
    return str(inspect.Signature(shown)) if shown else ""


def spell(thing: object, **options: object) -> str:
    """The text from which ``build`` makes ``thing`` again.

    The arguments are those of the constructor, read from the attributes of the same names; an argument
    that is None is left out, and so is one that can only be given by name and is at its default. ``options`` are
    written after them.
    """
    return registered_name(type(thing)) + _bracketed(thing, str, options)


class Spelled:
    """What is written as the text that makes it again: ``str`` for people and files, ``repr`` for Python."""

    def __str__(self) -> str:
        return spell(self)

    def __repr__(self) -> str:
        return construct(self)


def construct(thing: object, **options: object) -> str:
    """The Python call that makes ``thing`` again: ``GCE(q=0.7)``."""
    return type(thing).__name__ + (_bracketed(thing, repr, options) or "()")


def registered_name(cls: type) -> str:
    """The name under which a registry holds a class.

    >>> registered_name(type("TruncatedGCE", (), {})), registered_name(type("SModel", (), {}))
    ('truncated_gce', 's_model')
    """
    return _NAMES.get(cls) or re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=^[A-Z])(?=[A-Z][a-z])", "_", cls.__name__).lower()


_NAMES: dict[type, str] = {}


def register_class(name: str, cls: type) -> None:
    """Spell the objects of a class with another name than that of the class."""
    _NAMES[cls] = name


def nearest(name: str, known: Mapping[str, object]) -> str:
    """What to say to somebody who typed a name that is not there."""
    close = difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.5)
    return f"did you mean {close[0]!r}?" if close else f"there are: {', '.join(sorted(known))}"


class _Reader:
    def __init__(
        self,
        text: str,
        registry: Mapping[str, Callable[..., Any]],
        kind: str,
        nested: Mapping[str, Callable[..., Any]] | None = None,
    ) -> None:
        self.text, self.registry, self.kind = text, registry, kind
        self.nested = self if nested is None else _Reader(text, nested, kind)

    def read(self, node: ast.expr) -> Any:
        match node:
            case ast.Constant(value=bool() | int() | float() | str() | None):
                return node.value
            case ast.List() | ast.Tuple():
                return [self.read(item) for item in node.elts]
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
                return -value
            case ast.Name(id="nan" | "inf"):
                raise PyriteError(
                    f"cannot read {node.id} in the {self.kind} {_short(self.text)!r}: it is no finite number"
                )
            case ast.Name():
                return self.call(node.id, [], [])
            case ast.Call(func=ast.Name(id=name)):
                return self.call(name, node.args, node.keywords)
            case ast.BinOp(op=ast.Add() | ast.Mult()):
                return self.combine(node)
        raise self.refused(node)

    def call(self, name: str, args: list[ast.expr], keywords: list[ast.keyword]) -> Any:
        factory = lookup(name, self.registry, self.kind)
        positional = [self.nested.read(arg) for arg in args]
        named = {word.arg: self.nested.read(word.value) for word in keywords if word.arg is not None}
        if len(named) < len(keywords):
            raise PyriteError(f"cannot read the {self.kind} {_short(self.text)!r}: ** is not allowed")
        return call(name, factory, *positional, **named)

    def combine(self, node: ast.BinOp) -> Any:
        left, right = self.read(node.left), self.read(node.right)
        factors = sum(is_number(side) for side in (left, right))
        literals = sum(_is_literal(side) for side in (left, right))
        try:
            if isinstance(node.op, ast.Add) and literals == 0:
                return left + right
            if isinstance(node.op, ast.Mult) and literals == factors == 1:
                return left * right
        except TypeError:  # losses have sums and multiples; what else is registered has not
            raise PyriteError(
                f"cannot read the {self.kind} {_short(self.text)!r}: a {self.kind} is neither added nor multiplied"
            ) from None
        raise self.refused(node)

    def refused(self, node: ast.expr) -> PyriteError:
        part = _short(ast.get_source_segment(self.text.strip(), node) or self.text)
        return PyriteError(
            f"cannot read {part!r} in the {self.kind} {_short(self.text)!r}: only names, calls, numbers, "
            "texts in quotes, lists, a sum of terms and a number times a term are allowed"
        )


def _bracketed(thing: object, write: Callable[[object], str], options: Mapping[str, object]) -> str:
    parts: list[str] = []
    named = False  # what is wrapped comes first and goes without its name
    for parameter in inspect.signature(type(thing)).parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD or (value := getattr(thing, parameter.name, ...)) is None:
            continue
        if parameter.kind is parameter.VAR_POSITIONAL and value is not ...:
            parts += [write(item) for item in value]
            continue
        if value is ...:  # not kept: what is written is for people, and nothing can be built from it
            parts.append(f"{parameter.name}=...")
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and value == parameter.default:
            continue  # an option that nobody set
        plain = _plain(value)
        written = repr(plain) if _is_literal(plain) else write(value)
        named = named or _is_literal(plain) or parameter.kind is parameter.KEYWORD_ONLY
        parts.append(f"{parameter.name}={written}" if named else written)
    parts += [f"{name}={_plain(value)!r}" for name, value in options.items()]
    return f"({', '.join(parts)})" if parts else ""


def _plain(value: object) -> object:
    """Tensors and arrays are written as lists."""
    tolist = getattr(value, "tolist", None)
    return tolist() if tolist is not None else value


def _is_literal(value: object) -> bool:
    return value is None or isinstance(value, bool | int | float | str | list | tuple)


def _short(text: str) -> str:
    return text if len(text) <= 80 else text[:77] + "..."
