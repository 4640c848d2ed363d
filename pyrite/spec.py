"""One text form for everything that has a name and arguments: the spec string ``"gce(q=0.7)"`` <-> ``GCE(q=0.7)``.

The text is read as Python's syntax tree and walked: calls of registered names, literals, ``+`` and ``*``.
Nothing is evaluated, so a recipe found in a file can do nothing but name what a registry holds.

Other installed packages add to the registries by entry points, in their ``pyproject.toml``::

    [project.entry-points."pyrite.losses"]
    my_loss = "my_package.losses:MyLoss"

They are looked up when a name is not in a registry, and by ``pyrite list``. Nothing is imported before.
"""

import ast
import contextlib
import difflib
import inspect
import math
import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar, cast

from pyrite.checks import check_fields, is_number
from pyrite.errors import PyriteError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

_Made = TypeVar("_Made")
_Names = Mapping[str, Callable[..., Any]]
_signature: Callable[[Any], inspect.Signature] = cache(inspect.signature)  # which inspect makes anew each time
_LITERAL = (type(None), bool, int, float, str, list, tuple)


class Registry(dict[str, Callable[..., _Made]], Generic[_Made]):
    """What makes objects of one kind, by name, and the reader of their spec strings.

    Args:
        kind: the word for what it makes, for error messages and to find plug-ins.
        also: classes of objects that a function among the entries makes, or that ``+`` and ``*`` make, with the names
            that stand for them in spec strings.
        parts: the registry of what stands only in the arguments. There its names come first: ``forward`` is a method,
            and in ``erm(forward(...))`` a loss.
    """

    def __init__(
        self,
        kind: str,
        entries: Mapping[str, Callable[..., _Made]],
        makes: type,
        example: str,
        *,
        also: Mapping[type, str] | None = None,
        parts: "Registry[Any] | None" = None,
    ) -> None:
        super().__init__(entries)
        self.kind, self.makes, self.example, self.also, self.parts = kind, makes, example, also or {}, parts
        _REGISTRIES.append(self)

    def read(self, spec: object) -> _Made:
        """The object that a spec string describes; an object comes back as it is."""
        if isinstance(spec, self.makes):
            return cast(_Made, spec)
        if not isinstance(spec, str):
            example, name = self.example, self.makes.__name__
            raise PyriteError(f"{self.kind} is {spec!r}, but must be a text such as {example!r}, or a {name} object")
        parts: _Names = self.parts or {}
        made = build(spec, {**parts, **self}, self.kind, {**self, **parts}, self.example)
        return cast(_Made, made) if isinstance(made, self.makes) else self.check(spec, made)

    def check(self, text: str, made: object) -> _Made:
        """The object that a text made, if it has the right class; a plug-in may make anything."""
        if isinstance(made, self.makes):
            return cast(_Made, made)
        if self.parts is not None and isinstance(made, self.parts.makes):
            wrapped, part = f"{self.example.partition('(')[0]}({text})", self.parts.kind
            raise PyriteError(f"{_short(text)!r} is a {part}, not a {self.kind}: write {wrapped}, or pass it as {part}")
        raise PyriteError(f"{_short(text)!r} makes a {type(made).__name__}, not a {self.kind}")

    def plugins(self) -> list[str]:
        """The names that installed packages offer in addition."""
        return [name for name in _plugin_names(self.kind, own=True) if name not in self]


_REGISTRIES: list[Registry[Any]] = []
_FROM_PLUGINS: dict[type, str] = {}


def registered_name(cls: type) -> str | None:
    """The name under which a registry holds this very class; None if none does."""
    for registry in _REGISTRIES:
        if issubclass(cls, registry.makes):
            names = (name for name, factory in registry.items() if factory is cls)
            if (name := registry.also.get(cls) or next(names, None)) is not None:
                return name
    return _FROM_PLUGINS.get(cls)


def snake_case(name: str) -> str:
    """The key of a class in a registry.

    >>> snake_case("TruncatedGCE"), snake_case("SModel")
    ('truncated_gce', 's_model')
    """
    return re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=^[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def named(*entries: Callable[..., _Made]) -> dict[str, Callable[..., _Made]]:
    """Classes and functions by their keys in a registry.

    >>> list(named(dict, ast.BinOp))
    ['dict', 'bin_op']
    """
    return {snake_case(entry.__name__): entry for entry in entries}


def spec_string(thing: object) -> str | None:
    """The text from which a registry makes ``thing`` again.

    None if no registry holds its class or the class of one of its parts, or if an argument has no text.
    """
    plain = _plain(thing)
    if isinstance(plain, list | tuple):
        written = [spec_string(part) for part in plain]
        return None if None in written else f"[{', '.join(map(str, written))}]"
    if isinstance(plain, _LITERAL):
        return None if isinstance(plain, float) and not math.isfinite(plain) else repr(plain)
    if getattr(thing, "_spec", None) is not None:  # the text from which a function made it
        return _text(thing)
    if registered_name(type(thing)) is None:
        return None
    if (terms := getattr(thing, "spec_parts", None)) is not None:  # of a sum, which is no call
        parts = terms()
    else:
        parameters = _signature(type(thing)).parameters.values()
        parts = [getattr(thing, each.name, ...) for each in parameters if each.kind is not each.VAR_KEYWORD]
    return None if any(spec_string(part) is None for part in parts) else _text(thing)


def _text(thing: object) -> str:
    text: str | None = getattr(thing, "_spec", None)
    return text or (str(thing) if type(thing).__str__ is not object.__str__ else write_spec(thing))


def write_spec(thing: object, *, python: bool = False, **options: object) -> str:
    """The text from which ``build`` makes ``thing`` again, whether or not its class is registered.

    The arguments are those of the constructor, read from the attributes of the same names. One that is None is left
    out, and so is one that can only be given by name and is at its default. ``options`` are written after them. With
    ``python`` it is the call in Python: ``GCE(q=0.7)``.
    """
    if (text := getattr(thing, "_spec", None)) and not python:
        return cast(str, text)
    name = type(thing).__name__ if python else registered_name(type(thing)) or snake_case(type(thing).__name__)
    write, parts = repr if python else _text, list[str]()
    named = False  # what is wrapped comes first and goes without its name
    for parameter in _signature(type(thing)).parameters.values():
        value = getattr(thing, parameter.name, ...)
        if (
            parameter.kind is parameter.VAR_KEYWORD
            or value is None
            or (parameter.kind is parameter.KEYWORD_ONLY and value == parameter.default)
        ):
            continue  # an option that nobody set
        if value is ...:  # not kept: what is written is for people, and nothing can be built from it
            parts.append(f"{parameter.name}=...")
        elif parameter.kind is parameter.VAR_POSITIONAL:
            parts += [write(item) for item in value]
        else:
            plain = _plain(value)
            written = repr(plain) if isinstance(plain, _LITERAL) else write(value)
            named = named or isinstance(plain, _LITERAL) or parameter.kind is parameter.KEYWORD_ONLY
            parts.append(f"{parameter.name}={written}" if named else written)
    parts += [f"{name}={_plain(value)!r}" for name, value in options.items()]
    return f"{name}({', '.join(parts)})" if parts or python else name


construct = partial(write_spec, python=True)


class HasSpec:
    """What is written as the text that makes it again: ``str`` for people and files, ``repr`` for Python.

    The fields of a dataclass are checked by their annotations.
    """

    __post_init__ = check_fields

    def __str__(self) -> str:
        return write_spec(self)

    def __repr__(self) -> str:
        return construct(self)


def _plain(value: object) -> object:
    """Tensors and arrays are written as lists."""
    tolist = getattr(value, "tolist", None)
    return tolist() if tolist is not None else value


def _short(text: str) -> str:
    return text if len(text) <= 80 else text[:77] + "..."


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint for somebody who typed a name that is not there."""
    close = difflib.get_close_matches(name.lower(), [*known], n=1, cutoff=0.5)
    return f"did you mean {close[0]!r}?" if close else f"there are: {', '.join(sorted(set(known)))}"


def arguments(factory: Callable[..., Any]) -> str:
    """The arguments something takes, as a reader would write them: ``(q=0.7)``; nothing where there are none.

    >>> arguments(sorted)
    '(iterable, /, *, key=None, reverse=False)'
    """
    parameters = [each for each in _signature(factory).parameters.values() if each.kind is not each.VAR_KEYWORD]
    shown = [parameter.replace(annotation=parameter.empty) for parameter in parameters]
    return str(inspect.Signature(shown)) if shown else ""


def lookup(name: str, registry: _Names, kind: str) -> Callable[..., Any]:
    """What is registered under a name, or offered by a plug-in."""
    factory = registry.get(name) or _find_plugin(kind, name)
    if factory is None:
        raise PyriteError(f"unknown {kind} {name!r}: {nearest(name, [*registry, *_plugin_names(kind)])}")
    if name not in registry and isinstance(factory, type):
        _FROM_PLUGINS[factory] = name
    return factory


def call(name: str, factory: Callable[..., _Made], /, *args: Any, **named: Any) -> _Made:
    """Call what is registered under ``name``. Arguments that it does not take are a PyriteError with its signature."""
    try:
        _signature(factory).bind(*args, **named)
    except TypeError as error:
        raise PyriteError(f"{name}: {error}; the signature is {name}{arguments(factory)}") from None
    try:
        return factory(*args, **named)
    except ValueError:
        raise
    except Exception as error:  # what a user or a plug-in has written may raise anything
        reason = " ".join(str(error).split()) or "no reason given"
        raise PyriteError(f"{name} cannot be created: {type(error).__name__}: {reason}") from error


def build(text: str, registry: _Names, kind: str, nested: _Names | None = None, example: str = "") -> Any:
    """The object that ``text`` describes, made from the names in ``registry`` and those that plug-ins offer.

    ``nested`` is what names mean within the arguments of a call, if that differs. Messages show ``example``.

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
        built = _Reader(text, kind, registry if nested is None else nested).read(tree.body, registry)
    except RecursionError:
        raise PyriteError(f"cannot read the {kind} {_short(text)!r}: nested too deeply") from None
    if isinstance(built, _LITERAL):
        such = f" such as {example!r}" if example else ""
        raise PyriteError(f"{_short(text)!r} is a plain value, not a {kind}{such}")
    return built


class _Reader(NamedTuple):
    text: str
    kind: str
    nested: _Names

    @property
    def about(self) -> str:
        return f"the {self.kind} {_short(self.text)!r}"

    def read(self, node: ast.expr, names: _Names) -> Any:
        match node:
            case ast.Constant(value=bool() | int() | float() | str() | None):
                return node.value
            case ast.List() | ast.Tuple():
                return [self.read(item, names) for item in node.elts]
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
                return -value
            case ast.Name(id="nan" | "inf"):
                raise PyriteError(f"cannot read {node.id} in {self.about}: it is not a finite number")
            case ast.Name(id=name) | ast.Call(func=ast.Name(id=name)):
                factory = lookup(name, names, self.kind)
                args, words = (node.args, node.keywords) if isinstance(node, ast.Call) else ([], [])
                positional = [self.read(arg, self.nested) for arg in args]
                named = {word.arg: self.read(word.value, self.nested) for word in words if word.arg is not None}
                if len(named) < len(words):
                    raise PyriteError(f"cannot read {self.about}: ** is not allowed")
                made = call(name, factory, *positional, **named)
                if not isinstance(factory, type) and spec_string(made) is None:
                    with contextlib.suppress(AttributeError, TypeError):  # what has no room for it has no spec string
                        object.__setattr__(made, "_spec", ast.unparse(node))
                return made
            case ast.BinOp(op=ast.Add() | ast.Mult()):
                return self.combine(node, names)
        raise self.refused(node)

    def combine(self, node: ast.BinOp, names: _Names) -> Any:
        left, right = self.read(node.left, names), self.read(node.right, names)
        factors = sum(is_number(side) for side in (left, right))
        literals = sum(isinstance(side, _LITERAL) for side in (left, right))
        try:
            if isinstance(node.op, ast.Add) and literals == 0:
                return left + right
            if isinstance(node.op, ast.Mult) and literals == factors == 1:
                return left * right
        except TypeError:  # losses have sums and multiples; what else is registered has not
            raise PyriteError(f"cannot read {self.about}: a {self.kind} cannot be added or multiplied") from None
        raise self.refused(node)

    def refused(self, node: ast.expr) -> PyriteError:
        part = _short(ast.get_source_segment(self.text.strip(), node) or self.text)
        return PyriteError(
            f"cannot read {part!r} in {self.about}: only names, calls, numbers, texts in quotes, lists, "
            "a sum of terms and a number times a term are allowed"
        )


_ENTRY_POINTS: dict[str, tuple[str, ...]] = {
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


def _plugin_names(kind: str, *, own: bool = False) -> list[str]:
    """The names that installed packages offer; with ``own`` not those of the parts that it may be made of."""
    return sorted({point.name for point in _entry_points(kind) if not own or point.group == _ENTRY_POINTS[kind][0]})


def _find_plugin(kind: str, name: str) -> Callable[..., Any] | None:
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

    return [point for group in _ENTRY_POINTS.get(kind, ()) for point in entry_points(group=group)]
