"""``pyrite list``: what there is."""

import inspect
import json
from enum import StrEnum
from importlib import import_module
from typing import Annotated

import typer

from pyrite.spec import arguments


class Kind(StrEnum):
    """What can be listed."""

    losses = "losses"
    noises = "noises"
    methods = "methods"
    models = "models"
    data = "data"


_REGISTRY = {
    Kind.losses: ("pyrite.losses", "LOSSES"),
    Kind.noises: ("pyrite.noise", "NOISES"),
    Kind.methods: ("pyrite.methods", "METHODS"),
    Kind.models: ("pyrite.models", "MODELS"),
    Kind.data: ("pyrite.data", "DATASETS"),
}


def list_names(
    kind: Annotated[Kind, typer.Argument(help="What to list.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print it for a program to read.")] = False,
) -> None:
    """List what can be named: with its arguments, and a line about it."""
    room, name = _REGISTRY[kind]
    rows = [
        {"name": key, "call": key + arguments(thing), "about": (inspect.getdoc(thing) or "").splitlines()[0]}
        for key, thing in getattr(import_module(room), name).items()
    ]
    if kind is Kind.losses:
        for row in rows:
            settings = import_module(room).PAPER_SETTINGS.get(row["name"], ())
            row["papers"] = "; ".join(f"{setting.spec} ({setting.where})" for setting in settings)
    if as_json:
        typer.echo(json.dumps(rows, indent=2))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, header_style="bold")
    table.add_column(kind.value, overflow="fold")
    table.add_column("")
    for row in rows:
        table.add_row(Text(row["call"]), Text(row["about"]))
        if row.get("papers"):
            table.add_row("", Text(f"paper's setting: {row['papers']}"))
    # Off a terminal nothing is known of a width, so no line is broken.
    console = Console()
    console.print(table) if console.is_terminal else Console(width=200).print(table)
