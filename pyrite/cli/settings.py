"""The command-line flags of everything that trains, made from ``pyrite.settings``."""

import inspect
import types
from collections.abc import Callable, Collection, Iterator
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import typer

from pyrite.settings import Settings, ShortForms

__all__ = ["with_settings"]

Command = Callable[..., None]
_PANEL = "Training"


def with_settings(
    *, without: Collection[str] = (), only: Collection[str] | None = None, defaults: bool = True
) -> Callable[[Command], Command]:
    """Give a command one flag per setting, in place of its ``**options``.

    Flags that are not used are not among the options, so that a configuration file or the library decides. A parameter
    of the command itself replaces the setting of the same name.

    Args:
        without: settings without a flag.
        only: the settings that have one; all by default.
        defaults: whether the help shows the defaults of ``Settings``; False if the command has others.
    """

    def decorate(command: Command) -> Command:
        own = [p for p in inspect.signature(command).parameters.values() if p.kind is not p.VAR_KEYWORD]
        left_out = set(without) | {p.name for p in own}
        flags = [flag for flag in _flags(left_out, defaults) if only is None or flag.name in only]

        @wraps(command)
        def run(**values: Any) -> None:
            unset = [flag.name for flag in flags if values[flag.name] is None]
            command(**{name: value for name, value in values.items() if name not in unset})

        shown = [p.replace(kind=p.KEYWORD_ONLY) for p in own]
        run.__signature__ = inspect.Signature([*shown, *flags])  # type: ignore[attr-defined]
        run.__annotations__ = {p.name: p.annotation for p in [*shown, *flags]}
        return run

    return decorate


def _flags(without: Collection[str], defaults: bool) -> Iterator[inspect.Parameter]:
    for definition in (ShortForms, Settings):  # the short forms first, because they are used most often
        for name, hint in get_type_hints(definition, include_extras=True).items():
            if name not in without:
                default = getattr(definition, name, None) if defaults else None
                kind, *metadata = get_args(hint)
                yield _flag(name, _type_of_flag(kind), metadata[-1], str(default) if default else False)
    if "config" not in without:
        yield _flag("config", Path, "A TOML file of settings, such as a recipe.toml; flags override it.", False)


def _flag(name: str, kind: Any, text: str, default: str | bool) -> inspect.Parameter:
    option = typer.Option(help=text, show_default=default, rich_help_panel=_PANEL)
    annotation = Annotated[kind | None, option]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def _type_of_flag(hint: Any) -> Any:
    """The type that a flag is read as; the recipe checks its values."""
    if get_origin(hint) in (types.UnionType, Union):  # typing's own where a part is a Literal
        hint = next(part for part in get_args(hint) if part is not types.NoneType)
    return str if get_origin(hint) is Literal else hint
