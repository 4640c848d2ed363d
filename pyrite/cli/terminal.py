"""What commands have in common: arguments, flags of settings, completion, printing by one process, and failures."""

import ast
import inspect
import json
import os
import re
import types
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import typer

from pyrite.errors import PyriteError
from pyrite.settings import HINTS, SETTINGS, SHORT, Setting
from pyrite.spec import snake_case

Command = Callable[..., None]

AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
DataName = Annotated[str, typer.Argument(help=SETTINGS["data"].help)]
_BEGUN = perf_counter()  # about when the program was started
_PACKAGE = Path(__file__).parents[1]
_REGISTERED = {  # where the names are that complete a flag or an argument
    "loss": "losses/registry.py",
    "method": "methods/__init__.py",
    "model": "models/__init__.py",
    "noise": "noise/__init__.py",
    "optimiser": "training/optimisers.py",
    "schedule": "training/optimisers.py",
}


def keep_input(data: str, out: Path) -> None:
    """Raise ``PyriteError`` if a file that is read would be overwritten by one that is written."""
    named = (data, *re.findall(r"""["'](.+?)["']""", data))  # a path, or the paths in a spec string
    if out.exists() and any(os.path.exists(path) and os.path.samefile(path, out) for path in named):
        raise PyriteError(f"{out} is the input and would be overwritten: choose another --out")


def names_of(kind: str) -> list[str]:
    """The names of a registry. They are read from its source: to import torch would take seconds at each Tab."""
    if kind == "recipe":
        return sorted(path.stem for path in (_PACKAGE / "papers" / "recipes").glob("*.toml"))
    for call in ast.walk(ast.parse((_PACKAGE / _REGISTERED[kind]).read_text(encoding="utf-8"))):
        if isinstance(call, ast.Call) and len(call.args) > 1:
            first, entries = call.args[:2]
            if isinstance(first, ast.Constant) and first.value == kind:
                return _keys(entries)
    raise LookupError(kind)


def _keys(entries: ast.expr) -> list[str]:
    """The keys of a dict, or of the classes and functions that ``named`` is called with."""
    if isinstance(entries, ast.Call):
        return [snake_case(ast.unparse(entry).rpartition(".")[2]) for entry in entries.args]
    assert isinstance(entries, ast.Dict)
    pairs = zip(entries.keys, entries.values, strict=True)
    return [name for key, value in pairs for name in (_keys(value) if key is None else [ast.literal_eval(key)])]


def completes(*kinds: str) -> Callable[[str], list[str]]:
    """For ``autocompletion``: the names of these registries that begin as the word does."""
    return lambda incomplete: [name for kind in kinds for name in names_of(kind) if name.startswith(incomplete)]


RunPath = Annotated[Path, typer.Argument(help="A run directory.")]
Seed = Annotated[int, typer.Option(help="Seed of all random numbers.")]


@contextmanager
def failures() -> Iterator[None]:
    """A failed run prints one sentence and exits with code 1; one that was stopped exits with 130, as in shells."""
    from pyrite.training import RunFailed

    try:
        yield
    except (RunFailed, KeyboardInterrupt) as error:
        if is_first():
            warn(str(error) or "stopped")  # before the first step nothing is said
        raise typer.Exit(1 if isinstance(error, RunFailed) else 130) from None


def is_first() -> bool:
    """Whether this is the first of several processes, the only one that prints."""
    return os.environ.get("RANK", "0") == "0"


def warn(message: object) -> None:
    """Print one line on standard error."""
    echo(f"pyrite: {message}", err=True)


def echo(text: object, err: bool = False) -> None:
    """Print a text. Control characters, which names in data may have, are shown and do not reach the terminal."""
    typer.echo(_shown(str(text)), err=err)


def _shown(text: str) -> str:
    return re.sub(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", lambda found: repr(found[0])[1:-1], text)


def print_json(values: object) -> None:
    """Print a result for a program to read."""
    typer.echo(json.dumps(values, indent=2))


def print_table(
    headings: Sequence[str], rows: Sequence[Sequence[str]], *, left: int = 1, caption: str | None = None
) -> None:
    """Print a table, in columns; without ``headings`` if those are empty.

    The first ``left`` columns have text, which is aligned to the left and wraps in a narrow window. In the others,
    which contain numbers, the headings wrap.
    """
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    columns = len(headings) or len(rows[0])
    table = Table(box=None, header_style="bold", caption=caption, show_header=bool(headings))
    for place in range(columns):
        heading = headings[place] if headings else ""
        if place < left:
            table.add_column(heading, overflow="fold")
        else:
            width = max(map(len, [*heading.split(), *(row[place] for row in rows)]), default=1)
            table.add_column(heading, justify="right", width=width)
    for row in rows:
        table.add_row(*(Text(_shown(cell)) for cell in row))
    # If the output is not a terminal, its width is unknown, and lines are not broken.
    console = Console()
    (console if console.is_terminal else Console(width=200)).print(table)


def with_settings(
    *,
    without: Collection[str] = (),
    only: Collection[str] | None = None,
    as_text: Collection[str] = (),
    defaults: bool = True,
) -> Callable[[Command], Command]:
    """Give a command one flag per setting, in place of its ``**options``.

    Flags that are not used are not among the options, so that a configuration file or the library decides. A parameter
    of the command itself replaces the setting of the same name. Flags of ``as_text`` are not read as numbers. Without
    ``defaults``, the help shows no defaults, because the command has others.
    """

    def decorate(command: Command) -> Command:
        own = [p for p in inspect.signature(command).parameters.values() if p.kind is not p.VAR_KEYWORD]
        left_out = {*without, "data", *(p.name for p in own)}
        # The short forms first, because they are used most often; a group stands where its first flag does.
        flags = [
            _flag(name, setting, name in as_text, defaults)
            for name, setting in {**SHORT, **SETTINGS}.items()
            if name not in left_out and (only is None or name in only)
        ]

        @wraps(command)
        def run(**values: Any) -> None:
            unset = [flag.name for flag in flags if values[flag.name] is None]
            if (values.get("minutes") or 0) > 0:
                if is_first():
                    echo("timing a few steps to estimate how many epochs fit", err=True)
                values["minutes"] = _left(values["minutes"])
            command(**{name: value for name, value in values.items() if name not in unset})

        shown = [p.replace(kind=p.KEYWORD_ONLY) for p in own]
        run.__signature__ = inspect.Signature([*shown, *flags])  # type: ignore[attr-defined]
        run.__annotations__ = {p.name: p.annotation for p in [*shown, *flags]}
        return run

    return decorate


def _left(minutes: float) -> float:
    """What is left of them since the program began, with torch loaded: on a busy machine that takes long."""
    import pyrite.training  # noqa: F401

    return max(0.1 * minutes, minutes - (perf_counter() - _BEGUN) / 60)


def _flag(name: str, setting: Setting, as_text: bool, defaults: bool) -> inspect.Parameter:
    default = str(setting.default) if defaults and setting.default else False
    option = typer.Option(
        help=setting.help,
        show_default=default,
        rich_help_panel=setting.group or None,
        autocompletion=completes(name) if name in _REGISTERED else None,
    )
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
