"""Deliberate faults, each put into a copy of the tree on its own: the tests of that package must catch it.

    python -m benchmarks.faults                        tries what docs/results/faults.json does not hold yet
    python -m benchmarks.faults --rooms noise data     only of these packages
    python -m benchmarks.faults --again                tries them once more
    python -m benchmarks.faults --each 20 --seed 1     other faults, and more of them, which are only printed

Faults are found in the syntax tree, so none is tied to a name or a line: a condition is negated, ``and`` becomes
``or``, plus becomes minus, times becomes divided by, a comparison excludes its bound, a number in a formula grows by
one, a statement is left out. A seed chooses the same number of them in every package. The exit code is 1 if fewer than
nine of ten are caught; each one that survives is listed, because it is either a gap in the tests or a change without an
effect.
"""

import argparse
import ast
import importlib
import json
import os
import random
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs" / "results" / "faults.json"
PAGE = ROOT / "docs" / "testing.md"
EACH: Final = 3  # faults of every package
ENOUGH: Final = 0.9  # the fraction that must be caught
# What tests import and what takes long; nothing of the tree is among it.
PRELOADED = ("matplotlib.pyplot", "mpmath", "scipy.stats", "sklearn.datasets", "torch._dynamo")
BEGIN, END = "<!-- faults -->", "<!-- end of faults -->"

# The tests of a package are those in the folder of its name. Others cover it too, or in place of such a folder.
COVERED_BY = {
    "checks": ["test_checks.py"],
    "criterion": ["contracts/test_losses.py", "losses"],
    "curves": ["curves", "contracts/test_losses.py"],
    "draws": ["test_draws.py"],
    "files": ["test_files.py"],
    "losses": ["losses", "contracts/test_losses.py"],
    "methods": ["methods", "contracts/test_methods.py"],
    "processes": ["training/test_processes.py"],
    "soft_margin": ["test_soft_margin.py", "contracts/test_losses.py"],
    "spec": ["test_spec.py", "test_registration.py"],
}


class Fault(NamedTuple):
    """A change in one function: ``before`` becomes ``after``, the ``number``-th such place of the file."""

    file: str
    function: str
    before: str
    after: str
    number: int

    @property
    def room(self) -> str:
        return room_of(self.file)


def room_of(file: str) -> str:
    """The package of a file in ``pyrite/``."""
    return file.partition("/")[0].removesuffix(".py")


_OPERATORS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.And: ast.Or, ast.Or: ast.And,
    ast.LtE: ast.Lt, ast.GtE: ast.Gt, ast.Lt: ast.LtE, ast.Gt: ast.GtE, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
}  # fmt: skip


def changed(node: ast.AST) -> ast.AST | None:
    """The node with a fault in it; None if there is none for nodes of its kind."""
    new: Any = deepcopy(node)
    if isinstance(new, ast.BinOp | ast.BoolOp) and type(new.op) in _OPERATORS:
        new.op = _OPERATORS[type(new.op)]()
    elif isinstance(new, ast.Compare) and type(new.ops[0]) in _OPERATORS:
        new.ops[0] = _OPERATORS[type(new.ops[0])]()
    elif isinstance(new, ast.If | ast.IfExp):
        new.test = ast.UnaryOp(ast.Not(), new.test)
    elif (isinstance(new, ast.Expr) and isinstance(new.value, ast.Call)) or isinstance(new, ast.AugAssign):
        new = ast.Pass()
    elif isinstance(new, ast.Constant) and type(new.value) in (int, float):
        new.value += 1
    else:
        return None
    return ast.copy_location(new, node)


def places(tree: ast.Module) -> Iterator[tuple[str, ast.AST]]:
    """Every node within a function that may be changed, with the name of the function.

    What is not tried: types, defaults and decorators; messages of errors and warnings, whose words are free; numbers
    outside of formulas, such as the axis of a sum.
    """

    def walk(node: ast.AST, function: str, formula: bool) -> Iterator[tuple[str, ast.AST]]:
        if isinstance(node, ast.Raise | ast.Assert | ast.JoinedStr) or "warn" in ast.unparse(node).partition("(")[0]:
            return
        name = getattr(node, "name", "")
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            inside = f"{function}.{name}".lstrip(".")
            for child in node.body:
                yield from walk(child, inside, False)
            return
        if isinstance(node, ast.AnnAssign):
            if node.value is not None:
                yield from walk(node.value, function, False)
            return
        if function and (formula or not isinstance(node, ast.Constant)):
            yield function, node
        for child in ast.iter_child_nodes(node):
            yield from walk(child, function, isinstance(node, ast.BinOp))

    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield from walk(node, "", False)


def faults_of(file: str, source: str) -> Iterator[Fault]:
    """All faults that can be put into a file."""
    for number, (function, node) in enumerate(places(ast.parse(source))):
        if (new := changed(node)) is not None:
            yield Fault(file, function, first_line(node), first_line(new), number)


def first_line(node: ast.AST) -> str:
    return ast.unparse(node).partition("\n")[0]


def with_fault(source: str, fault: Fault) -> str:
    """The source with the fault in place of the node that it names; comments and layout are lost."""
    tree = ast.parse(source)
    target = next(node for number, (_, node) in enumerate(places(tree)) if number == fault.number)
    new = changed(target)

    class Put(ast.NodeTransformer):
        def visit(self, node: ast.AST) -> Any:
            return new if node is target else self.generic_visit(node)

    return ast.unparse(ast.fix_missing_locations(Put().visit(tree)))


def chosen(each: int, rooms: list[str] | None = None, seed: int = 0) -> list[Fault]:
    """The same number of faults of every package, in its files at random; of functions rather than of lines."""
    found: list[Fault] = []
    files: dict[str, list[Path]] = {}
    for path in sorted((ROOT / "pyrite").rglob("*.py")):
        room = room_of(path.relative_to(ROOT / "pyrite").as_posix())
        files.setdefault(room, []).append(path)
    for room, paths in sorted(files.items()):
        if not tests_of(room) or (rooms and room not in rooms):
            continue
        by_function: dict[tuple[str, str], list[Fault]] = {}
        for path in paths:
            for fault in faults_of(path.relative_to(ROOT / "pyrite").as_posix(), path.read_text(encoding="utf-8")):
                by_function.setdefault((fault.file, fault.function), []).append(fault)
        draw = random.Random(f"{seed} {room}")
        functions = draw.sample(sorted(by_function), min(each, len(by_function)))
        found += [draw.choice(by_function[function]) for function in functions]
    return found


def tests_of(room: str) -> list[str]:
    return COVERED_BY.get(room, [room] if (ROOT / "tests" / room).is_dir() else [])


def copy_tree(target: Path) -> None:
    for name in ("pyrite", "tests", "docs", "benchmarks"):
        shutil.copytree(ROOT / name, target / name, ignore=shutil.ignore_patterns("__pycache__"))
    for path in ROOT.iterdir():
        if path.is_file() and not path.name.startswith("."):
            shutil.copy(path, target)


def try_fault(fault: Fault, tree: Path) -> dict[str, Any]:
    """Put the fault in, run the tests of its package until one fails, and take it out again: then that one must pass.

    Tests of the fault's own file come first, because they mostly catch it.
    """
    path = tree / "pyrite" / fault.file
    whole = path.read_text(encoding="utf-8")
    start = time.perf_counter()
    path.write_text(with_fault(whole, fault), encoding="utf-8")
    own = [str(test.relative_to(tree / "tests")) for test in (tree / "tests").rglob(f"test_{path.stem}.py")]
    try:
        failed = (own and first_failure(own, tree)) or first_failure(tests_of(fault.room), tree)
    finally:
        path.write_text(whole, encoding="utf-8")
    if failed and first_failure([failed], tree):
        raise SystemExit(f"{failed} fails without a fault too")
    caught = failed.partition("[")[0] if failed else None
    return {**fault._asdict(), "caught_by": caught, "seconds": round(time.perf_counter() - start, 1)}


def first_failure(words: list[str], tree: Path) -> str | None:
    """The first test that fails, of files, folders and tests in ``tests``; None if all pass.

    They run in a process forked from this one, which has imported what takes long but nothing of the tree.
    """
    tests = [f"tests/{word}" if (tree / "tests" / word.partition("::")[0]).exists() else word for word in words]
    output = tree / "output"
    child = os.fork()
    if not child:
        os.dup2(os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 1)
        os.dup2(1, 2)
        os.chdir(tree)
        os.environ["PYTHONPATH"] = str(tree)
        sys.path[:] = [str(tree), *(path for path in sys.path if path and Path(path) != ROOT)]
        code = 3
        try:
            code = int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", *tests]))
        finally:
            sys.stdout.flush()
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code == 0:
        return None
    text = output.read_text()
    failed = re.search(r"^(?:FAILED|ERROR) tests/(.*?)(?: - .*)?$", text, re.MULTILINE)
    if failed is None and "ImportError while loading conftest" not in text:
        raise SystemExit(text)
    return failed[1] if failed else tests[0].removeprefix("tests/")


def table(results: list[dict[str, Any]]) -> str:
    """How many are caught in every package, and the ones that are not, as Markdown."""

    def code(text: str) -> str:
        shown = text.replace("|", "\\|")
        return f"`{shown}`"

    rooms: dict[str, list[bool]] = {}
    for result in results:
        rooms.setdefault(room_of(result["file"]), []).append(result["caught_by"] is not None)
    caught = sum(sum(of_room) for of_room in rooms.values())
    lines = [f"{caught} of {len(results)} faults are caught.", "", "| package | caught | of |", "|---|---|---|"]
    lines += [f"| `{room}` | {sum(of_room)} | {len(of_room)} |" for room, of_room in sorted(rooms.items())]
    survivors = [result for result in results if result["caught_by"] is None]
    if survivors:
        lines += ["", "These survive:", "", "| function | instead of | stands |", "|---|---|---|"]
        lines += [
            f"| {code(one['file'] + ': ' + one['function'])} | {code(one['before'])} | {code(one['after'])} |"
            for one in survivors
        ]
    return "\n".join(lines) + "\n"


def write_table(results: list[dict[str, Any]]) -> None:
    page = PAGE.read_text(encoding="utf-8")
    start, end = page.index(BEGIN) + len(BEGIN), page.index(END)
    PAGE.write_text(f"{page[:start]}\n\n{table(results)}\n{page[end:]}", encoding="utf-8")


def try_all(faults: list[Fault], known: list[dict[str, Any]], keep: Callable[[list[dict[str, Any]]], None]) -> float:
    """Try the faults that have no result yet, and keep the results of all; the fraction that is caught."""
    key = Fault._fields
    results = {tuple(result[name] for name in key): result for result in known}
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        copy_tree(tree)
        for fault in faults:
            if tuple(fault) not in results:
                result = results[tuple(fault)] = try_fault(fault, tree)
                change = f"{fault.file}, {fault.function}: {fault.before} -> {fault.after}"
                print(f"{result['caught_by'] or 'SURVIVED':70} {change}", flush=True)
            keep([results[tuple(one)] for one in faults if tuple(one) in results])
    return sum(results[tuple(fault)]["caught_by"] is not None for fault in faults) / len(faults)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--again", action="store_true", help="try every fault, whatever the results hold")
    parser.add_argument("--rooms", nargs="*", help="only these packages")
    parser.add_argument("--each", type=int, default=EACH, help="faults of every package")
    parser.add_argument("--seed", type=int, default=0, help="chooses the faults")
    options = parser.parse_args()
    for name in PRELOADED:
        importlib.import_module(name)
    sys.dont_write_bytecode = True
    os.environ |= {"OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    faults = chosen(options.each, options.rooms, options.seed)
    is_record = options.each == EACH and not options.seed
    record: list[dict[str, Any]] = json.loads(RESULTS.read_text()) if RESULTS.exists() else []
    others = [one for one in record if room_of(one["file"]) not in {fault.room for fault in faults}]

    def keep(results: list[dict[str, Any]]) -> None:
        if is_record:
            ordered = sorted(others + results, key=lambda one: (room_of(one["file"]), one["file"], one["number"]))
            RESULTS.write_text(json.dumps(ordered, indent=1) + "\n")
            write_table(ordered)

    fraction = try_all(faults, record if is_record and not options.again else [], keep)
    print(f"{fraction:.0%} of {len(faults)} faults are caught")
    sys.exit(fraction < ENOUGH)


if __name__ == "__main__":
    main()
