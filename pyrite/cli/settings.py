"""The command-line flags of everything that trains, made from ``pyrite.settings``."""

import inspect
import types
from collections.abc import Callable, Collection, Iterator
from functools import wraps
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import typer

from pyrite.settings import HINTS, SETTINGS, SHORT, Setting

Command = Callable[..., None]
_PANEL = "Training"


def with_settings(
    *,
    without: Collection[str] = (),
    only: Collection[str] | None = None,
    as_text: Collection[str] = (),
    defaults: bool = True,
) -> Callable[[Command], Command]:
    """Give a command one flag per setting, in place of its ``**options``.

    Flags that are not used are not among the options, so that a configuration file or the library decides. A parameter
    of the command itself replaces the setting of the same name.

    Args:
        without: settings without a flag.
        only: the settings that have one; all by default.
        as_text: settings whose flag is not read as a number.
        defaults: whether the help shows the defaults of the settings; False if the command has others.
    """

    def decorate(command: Command) -> Command:
        own = [p for p in inspect.signature(command).parameters.values() if p.kind is not p.VAR_KEYWORD]
        left_out = {*without, "data", *(p.name for p in own)}
        # The short forms first, because they are used most often.
        flags = [
            _flag(name, setting, name in as_text, defaults)
            for name, setting in {**SHORT, **SETTINGS}.items()
            if name not in left_out and (only is None or name in only)
        ]

        @wraps(command)
        def run(**values: Any) -> None:
            unset = [flag.name for flag in flags if values[flag.name] is None]
            command(**{name: value for name, value in values.items() if name not in unset})

        shown = [p.replace(kind=p.KEYWORD_ONLY) for p in own]
        run.__signature__ = inspect.Signature([*shown, *flags])  # type: ignore[attr-defined]
        run.__annotations__ = {p.name: p.annotation for p in [*shown, *flags]}
        return run

    return decorate


def _flag(name: str, setting: Setting, as_text: bool, defaults: bool) -> inspect.Parameter:
    default = str(setting.default) if defaults and setting.default else False
    option = typer.Option(help=setting.help, show_default=default, rich_help_panel=_PANEL)
    kind: Any = str if as_text else next(_types_of_text(get_args(HINTS[name])[0]))
    annotation: Any = Annotated[kind | None, option]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def _types_of_text(hint: Any) -> Iterator[Any]:
    """The types of a setting that a flag can be read as; its values are checked later."""
    if get_origin(hint) in (types.UnionType, Union):  # typing's own where a part is a Literal
        for part in get_args(hint):
            yield from _types_of_text(part)
    elif hint in (bool, int, float, str):
        yield hint
    elif get_origin(hint) is Literal or hint is object:
        yield str
