"""The plan of the house, held: which room may import which, and that the docs name what there is."""

import ast
import importlib
import pkgutil
import re
from pathlib import Path
from types import ModuleType

import pytest

import pyrite
from pyrite.registration import REGISTRIES
from pyrite.spec import snake_case

ROOT = Path(__file__).parents[1]
FILES = [path for path in (ROOT / "pyrite").rglob("*.py") if path.parent.name != "pyrite" or "__" not in path.name]


def room_of(path: Path) -> str:
    return path.relative_to(ROOT / "pyrite").parts[0].removesuffix(".py")


def table_of(page: str) -> dict[str, set[str]]:
    """The rows "| `room` | what | `other`, `other` |" of the page: each room with the rooms it lists."""
    rows = re.findall(r"^\| `(\w+)` \|.*\|([^|]*)\|$", page, re.MULTILINE)
    every = {room for room, _ in rows}
    assert len(every) == len(rows), "a room is in the table twice"
    table = {}
    for room, cell in rows:
        listed = every - {room} if cell.strip() == "all" else set(re.findall(r"`(\w+)`", cell))
        rest = re.sub(r"`\w+`|,|all", "", cell).strip()
        assert not rest, f"the row of {room} says {rest!r}, which nobody checks"
        assert listed <= every, f"the row of {room} lists {listed - every}, which have no row"
        table[room] = listed
    return table


def with_what_they_import(table: dict[str, set[str]]) -> dict[str, set[str]]:
    """A room may import what it lists, and what those may import; a circle is refused."""

    def reach(room: str, above: tuple[str, ...] = ()) -> set[str]:
        assert room not in above, f"a circle: {' -> '.join([*above, room])}"
        return table[room].union(*(reach(other, (*above, room)) for other in table[room]))

    return {room: reach(room) for room in table}


MAY_IMPORT = with_what_they_import(table_of((ROOT / "docs" / "architecture.md").read_text()))


def rooms_of_public_names() -> dict[str, str]:
    stub = ast.parse((ROOT / "pyrite" / "__init__.pyi").read_text())
    return {
        alias.asname or alias.name: node.module.split(".")[-1 if node.level else 1]
        for node in ast.walk(stub)
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }


def imports(source: str, public: dict[str, str]) -> set[str]:
    """The rooms that a file imports from; a public name counts for the room where it is defined."""
    rooms: set[str] = set()
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            node.body = []  # what only types need is not imported
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: a relative import"
            if node.module == "pyrite":
                rooms |= {public.get(alias.name, alias.name) for alias in node.names}
            elif node.module and node.module.startswith("pyrite."):
                rooms.add(node.module.split(".")[1])
        elif isinstance(node, ast.Import):
            rooms |= {alias.name.split(".")[1] for alias in node.names if alias.name.startswith("pyrite.")}
            assert not [alias for alias in node.names if alias.name.startswith("pyrite") and alias.asname], node.lineno
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "pyrite":
            rooms.add(public.get(node.attr, node.attr))
    return rooms - {"__version__"}


def test_imports_point_one_way() -> None:
    assert len(FILES) > 100
    public = rooms_of_public_names()
    for path in FILES:
        room = room_of(path)
        assert room in MAY_IMPORT, f"{path}: the table in docs/architecture.md has no row for {room}"
        forbidden = imports(path.read_text(), public) - {room} - MAY_IMPORT[room]
        assert not forbidden, f"{path} imports {sorted(forbidden)}, which docs/architecture.md does not allow"


def test_rows_are_of_rooms_that_exist() -> None:
    assert set(MAY_IMPORT) == {room_of(path) for path in FILES}


def test_what_counts_as_an_import() -> None:
    public = rooms_of_public_names()
    for source, room in (
        ("import pyrite.cli.app", "cli"),
        ("from pyrite.report.page import Page", "report"),
        ("from pyrite import Audit", "auditing"),
        ("from pyrite import cli", "cli"),
        ("def f():\n    import pyrite\n    return pyrite.train", "training"),
        ("import pyrite\npyrite.report.page", "report"),
    ):
        assert imports(source, public) == {room}, source
    assert imports("import pyrite\nprint(pyrite.__version__)", public) == set()
    for hidden in ("from . import page", "import pyrite as p"):
        with pytest.raises(AssertionError):
            imports(hidden, public)


def test_table_is_read_strictly() -> None:
    table = table_of("| `a` | x | |\n| `b` | y | `a` |\n| `c` | z | `b` |\n| `d` | all of it | all |")
    assert table == {"a": set(), "b": {"a"}, "c": {"b"}, "d": {"a", "b", "c"}}
    assert with_what_they_import(table)["c"] == {"a", "b"}
    for wrong in ("| `a` | x | `b` |", "| `a` | x | most |", "| `a` | x | |\n| `a` | x | |"):
        with pytest.raises(AssertionError):
            table_of(wrong)
    with pytest.raises(AssertionError, match="a circle: a -> b -> a"):
        with_what_they_import({"a": {"b"}, "b": {"a"}})


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def test_what_is_listed_as_public_exists() -> None:
    for path in FILES:
        if "\n__all__" not in path.read_text() or path.parts[-2:] == ("integrations", "lightning.py"):
            continue  # Lightning itself is optional, and takes seconds to import
        module = importlib.import_module(module_of(path))
        listed = list(module.__all__)
        assert len(listed) == len(set(listed)), f"{path} lists a name twice"
        assert [name for name in listed if not hasattr(module, name)] == [], path


def test_other_rooms_use_public_names_only() -> None:
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("pyrite."):
                if node.module.split(".")[1] == room_of(path):
                    continue
                module = importlib.import_module(node.module)
                hidden = [alias.name for alias in node.names if alias.name not in offered(module) | submodules(module)]
                assert hidden == [], f"{path} imports {hidden}, which {node.module} does not offer"


def offered(module: ModuleType) -> set[str]:
    """What a module lists in ``__all__``; or else what it defines, but not imports, without an underscore."""
    if hasattr(module, "__all__"):
        return set(module.__all__)
    assert module.__file__ is not None
    defined: set[str] = set()
    for node in ast.parse(Path(module.__file__).read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            defined.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            defined |= {
                each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)
            }
    return {name for name in defined if not name.startswith("_")}


def submodules(module: ModuleType) -> set[str]:
    return {found.name for found in pkgutil.iter_modules(getattr(module, "__path__", []))}


@pytest.mark.parametrize("kind", REGISTRIES)
def test_registered_under_their_own_names(kind: str) -> None:
    """A key is the name of its class, but for methods that have the key of a loss: two classes never share a name."""
    shared = pyrite.LOSSES if kind == "methods" else {}
    for key, made in REGISTRIES[kind].items():
        assert (snake_case(made.__name__) == key) is (key not in shared), made


def test_every_loss_is_public() -> None:
    assert [name for name, made in pyrite.LOSSES.items() if getattr(pyrite, made.__name__, None) is not made] == []


def test_every_loss_has_a_card() -> None:
    cards = (ROOT / "docs" / "losses.md").read_text()
    assert [name for name in pyrite.LOSSES if f"\n### `{name}" not in cards] == []


def test_no_drawers_without_a_name() -> None:
    assert not [
        path for path in ROOT.joinpath("pyrite").rglob("*.py") if path.stem in ("utils", "helpers", "common", "misc")
    ]


def test_the_page_names_files_and_functions_that_exist() -> None:
    """Every `path/file.py`, and every `path/file.py: name`, in which the path is that of a file or begins in pyrite."""
    page = " ".join((ROOT / "docs" / "architecture.md").read_text().split())
    named = re.findall(r"`([\w/]+\.(?:pyi?|md))(?:: ([\w.]+))?`", page)
    assert len(named) > 50
    for path, name in named:
        found = [*ROOT.glob(path), *ROOT.glob(f"pyrite/{path}"), *ROOT.glob(f"pyrite/*/{path}")]
        assert found, path
        defined = re.findall(r"(?:class|def) (\w+)", found[0].read_text())
        assert not name or set(name.split(".")) <= set(defined), (path, name)
