"""How large the package is for a reader: lines, functions, and what one training step and one run pass through.

    python -m benchmarks.size                a table; takes about ten seconds
    python -m benchmarks.size --names        also lists the functions of a step, by file
    python -m benchmarks.size --names run    also lists the functions of a run, by file

Functions are counted by a profile of real training: a step is everything between two calls of an observer (the batch,
the method, the loss, the optimiser, the record), a run is ``pyrite train`` on a folder of photographs with the default
settings. Functions of other libraries do not count, nor do comprehensions.
"""

import argparse
import ast
import statistics
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy as np
from PIL import Image

import pyrite
from pyrite.cli.app import app

PACKAGE = Path(pyrite.__file__).parent
INNER = ("<listcomp>", "<dictcomp>", "<setcomp>", "<genexpr>", "<module>")
SETTINGS = {"method", "loss", "lr", "epochs", "batch_size", "optimiser", "schedule", "noise", "model", "minutes"}


class Passed:
    """The functions of the package that a profile has entered, and how often it changed from file to file."""

    def __init__(self) -> None:
        self.codes: set[CodeType] = set()
        self.changes, self._last = 0, ""

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(str(PACKAGE)) and code.co_name not in INNER:
            self.codes.add(code)
            self.changes += code.co_filename != self._last
            self._last = code.co_filename

    @property
    def files(self) -> set[str]:
        return {code.co_filename for code in self.codes}


@contextmanager
def profiled(passed: Passed) -> Iterator[None]:
    sys.setprofile(passed)
    try:
        yield
    finally:
        sys.setprofile(None)


class OneStep:
    """An observer that profiles the step after the third one."""

    def __init__(self) -> None:
        self.passed, self.steps = Passed(), 0

    def after_step(self, step: Any) -> None:
        self.steps += 1
        sys.setprofile(self.passed if self.steps == 3 else None)

    def after_epoch(self, epoch: int) -> None:
        sys.setprofile(None)


def one_step(folder: Path) -> Passed:
    observer = OneStep()
    pyrite.train(
        "digits", loss="gce(q=0.7)", model="mlp", epochs=1, out=folder / "step", progress=False, observers=[observer]
    )
    return observer.passed


def whole_run(folder: Path) -> Passed:
    draw = np.random.default_rng(0)
    for name in ("cat", "dog"):
        (folder / "photos" / name).mkdir(parents=True)
        for number in range(20):
            pixels = draw.integers(0, 256, (32, 32, 3), np.uint8)
            Image.fromarray(pixels).save(folder / "photos" / name / f"{number}.png")
    passed = Passed()
    with warnings.catch_warnings(), profiled(passed):
        warnings.simplefilter("ignore")
        app(["train", str(folder / "photos"), "--epochs", "2", "--out", str(folder / "run")], standalone_mode=False)
    return passed


def configuration_types(trees: list[ast.Module]) -> list[str]:
    """Classes with three or more settings as fields, and those that are derived from one or hold one in a field.

    The fields of a method are its own arguments.
    """
    classes = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    fields = {
        node.name: {
            part.target.id: ast.unparse(part.annotation)
            for part in node.body
            if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name)
        }
        for node in classes
    }
    methods = {node.name for node in classes if "Method" in map(ast.unparse, node.bases)}
    found = {name for name, own in fields.items() if len(SETTINGS & own.keys()) >= 3} - methods
    while True:
        more = {
            node.name
            for node in classes
            if found & ({ast.unparse(base) for base in node.bases} | set(fields[node.name].values()))
        }
        if more <= found:
            return sorted(found)
        found |= more


def table(names: str | None) -> None:
    files = sorted(PACKAGE.rglob("*.py"))
    trees = [ast.parse(path.read_text()) for path in files]
    kinds = ast.FunctionDef | ast.AsyncFunctionDef
    functions = [node for tree in trees for node in ast.walk(tree) if isinstance(node, kinds)]
    lengths = [len(node.body) and node.body[-1].end_lineno - node.body[0].lineno + 1 for node in functions]  # type: ignore[operator]
    with tempfile.TemporaryDirectory() as folder:
        step, run = one_step(Path(folder)), whole_run(Path(folder))
    types = configuration_types(trees)
    print(
        f"lines of pyrite/          {sum(len(path.read_text().splitlines()) for path in files):,} in {len(files)} files"
    )
    print(f"functions                 {len(functions):,}, median length {statistics.median(lengths):.0f} lines")
    print(f"one training step         {len(step.codes)} functions in {len(step.files)} files, {step.changes} changes")
    print(f"a run on photographs      {len(run.codes)} functions in {len(run.files)} files")
    print(f"types of configuration    {len(types)}: {', '.join(types)}")
    if names:
        listed = run if names == "run" else step
        for code in sorted(listed.codes, key=lambda code: (code.co_filename, code.co_firstlineno)):
            print(f"  {Path(code.co_filename).relative_to(PACKAGE)}:{code.co_firstlineno} {code.co_qualname}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--names", nargs="?", const="step", choices=("step", "run"), help="list the functions of one")
    table(parser.parse_args().names)
