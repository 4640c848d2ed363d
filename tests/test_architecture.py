"""The plan of the house, held: which room may import which, and that the docs name what there is."""

import ast
from pathlib import Path

import pytest

import pyrite
from pyrite.spec import registered_name

ROOT = Path(__file__).parents[1]

# room -> the rooms it may import from (docs/architecture.md)
MAY_IMPORT = {
    "spec": set(),
    "draws": set(),
    "pickles": set(),
    "soft_margin": set(),
    "criterion": {"soft_margin", "spec"},
    "curves": {"soft_margin", "spec", "criterion"},
    "losses": {"soft_margin", "spec", "criterion", "curves"},
    "noise": {"spec", "draws", "pickles", "files"},
    "data": {"spec", "draws", "pickles"},
    "diagnostics": set(),
    "files": set(),
    "processes": set(),
    "models": {"spec", "draws"},
    "methods": {
        "soft_margin",
        "spec",
        "draws",
        "criterion",
        "curves",
        "losses",
        "data",
        "diagnostics",
        "models",
        "processes",
    },
    "training": {
        "soft_margin",
        "spec",
        "draws",
        "files",
        "processes",
        "curves",
        "losses",
        "noise",
        "data",
        "models",
        "diagnostics",
        "methods",
    },
    "auditing": {"soft_margin", "curves", "files", "data", "diagnostics", "training"},
    "estimator": {"criterion", "curves", "draws", "losses", "data", "models", "methods", "training", "auditing"},
    "experiments": {"spec", "files", "processes", "losses", "data", "methods", "training"},
    "integrations": {
        "soft_margin",
        "processes",
        "criterion",
        "losses",
        "data",
        "diagnostics",
        "methods",
        "training",
        "auditing",
    },
    "report": {
        "files",
        "criterion",
        "curves",
        "losses",
        "noise",
        "data",
        "diagnostics",
        "training",
        "auditing",
        "experiments",
    },
    "cli": {
        "spec",
        "criterion",
        "curves",
        "losses",
        "noise",
        "data",
        "training",
        "auditing",
        "experiments",
        "integrations",
        "report",
    },
}


def room_of(path: Path) -> str:
    return path.relative_to(ROOT / "pyrite").parts[0].removesuffix(".py")


def imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("pyrite."):
            found.add(node.module.split(".")[1])
        elif isinstance(node, ast.Import):
            found |= {alias.name.split(".")[1] for alias in node.names if alias.name.startswith("pyrite.")}
    return found


def test_imports_point_one_way() -> None:
    files = [
        path
        for path in (ROOT / "pyrite").rglob("*.py")
        if path.stem not in ("__init__", "__main__") or path.parent.name != "pyrite"
    ]
    assert len(files) > 15
    for path in files:
        room = room_of(path)
        assert room in MAY_IMPORT, f"{path}: a new room needs a place in docs/architecture.md and here"
        assert imports(path) - {room} <= MAY_IMPORT[room], path


@pytest.mark.parametrize("registry", ["LOSSES", "NOISES", "MODELS"])
def test_registered_under_their_own_names(registry: str) -> None:
    held = getattr(pyrite, registry)
    assert {name: registered_name(cls) for name, cls in held.items()} == {name: name for name in held}


def test_every_loss_has_a_card() -> None:
    cards = (ROOT / "docs" / "losses.md").read_text()
    assert [name for name in pyrite.LOSSES if f"\n### `{name}" not in cards] == []


def test_every_room_is_in_the_architecture() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    rooms = {room_of(path) for path in (ROOT / "pyrite").rglob("*.py")} - {"__init__", "__main__"}
    assert [room for room in rooms if f"`{room}" not in page] == []


def test_no_drawers_without_a_name() -> None:
    assert not [
        path for path in ROOT.joinpath("pyrite").rglob("*.py") if path.stem in ("utils", "helpers", "common", "misc")
    ]
