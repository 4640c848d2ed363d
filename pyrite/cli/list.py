"""``pyrite list``: the names of losses, methods, data sets and so on."""

import inspect
from enum import StrEnum
from typing import Annotated

import typer

from pyrite.cli.terminal import AsJson, print_json, print_table, warn
from pyrite.spec import arguments, lookup

Kind = StrEnum(
    "Kind", ["losses", "noises", "methods", "models", "data", "features", "optimisers", "schedules", "recipes"]
)


def list_names(kind: Annotated[Kind, typer.Argument(help="What to list.")], as_json: AsJson = False) -> None:
    """List registered names with their arguments and a short description."""
    if kind is Kind.recipes:
        _list_recipes(as_json)
        return
    from pyrite.registration import REGISTRIES

    registry = REGISTRIES[kind.value]
    entries = dict(registry)
    for name in registry.plugins():
        try:
            entries.setdefault(name, lookup(name, registry, registry.kind))
        except ValueError as error:  # the others are listed all the same
            warn(error)
    rows = [
        {"name": name, "call": name + arguments(thing), "about": (inspect.getdoc(thing) or "").partition("\n")[0]}
        for name, thing in entries.items()
    ]
    if kind is Kind.losses:
        from pyrite.losses import PAPER_SETTINGS

        for row in rows:
            settings = PAPER_SETTINGS.get(row["name"], {})
            row["papers"] = "; ".join(f"{spec} ({where})" for spec, where in settings.items())
    if as_json:
        print_json(rows)
    else:
        lines = []
        for row in rows:
            lines.append((row["call"], row["about"]))
            if row.get("papers"):
                lines.append(("", f"paper's setting: {row['papers']}"))
        print_table((kind.value, ""), lines, left=2)


def _list_recipes(as_json: bool) -> None:
    from pyrite.papers import RECIPES, PaperRecipe

    rows: list[dict[str, str]] = []
    for name in RECIPES:
        recipe = PaperRecipe.load(name)
        claims = " ".join([*recipe.compute, *(claimed.id for claimed in recipe.claims)])
        about = f"{recipe.article}, {recipe.title}"
        rows.append({"name": name, "about": about, "claims": claims, "scales": " ".join(recipe.scales()) or "exact"})
    if as_json:
        print_json(rows)
    else:
        print_table(("recipes", "", "claims", "scales"), [tuple(row.values()) for row in rows], left=4)
