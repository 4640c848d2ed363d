"""The extras are extra: without any of them, and with a broken torchvision, all else works."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EXTRAS = (
    "accelerate", "cleanlab", "dask", "distributed", "lightning", "mlflow", "optuna", "polars", "pyarrow",
    "pytorch_lightning", "skorch", "tensorboard", "timm", "torchmetrics", "torchvision", "transformers", "wandb",
    "webdataset", "wordllama",
)  # fmt: skip
PUBLIC = [
    alias.asname or alias.name
    for node in ast.walk(ast.parse((ROOT / "pyrite" / "__init__.pyi").read_text()))
    if isinstance(node, ast.ImportFrom)
    for alias in node.names
]

# What is not to be found is not there for find_spec either, so nobody can tell it from a package that is not installed.
WITHOUT = f"""
import sys

class Without:
    def __init__(self, finder):
        self.finder = finder
    def find_spec(self, name, *more):
        return None if name.partition(".")[0] in {EXTRAS!r} else self.finder.find_spec(name, *more)
    def __getattr__(self, name):
        return getattr(self.finder, name)

sys.meta_path[:] = [Without(finder) for finder in sys.meta_path]
"""

# What needs no extra: names, a loss, the command line, training with a logger.
SOME = f"""
import sys
import pyrite
heavy = {{"torch", "sklearn", "matplotlib", *{EXTRAS!r}}} & {{name.partition(".")[0] for name in sys.modules}}
assert not heavy, f"import pyrite has imported {{heavy}}"
import pyrite.cli.app, pyrite.comparing, pyrite.report.page, pyrite.tuning, pyrite.without_suspects
assert "pyrite.papers" not in sys.modules, "recipes and claims are read before they are asked for"
for name in {PUBLIC!r}:
    getattr(pyrite, name)
import torch
from typer.testing import CliRunner
from pyrite.cli.app import app
assert "torchvision" not in sys.modules
scores, labels = torch.zeros(2, 3, requires_grad=True), torch.tensor([0, 2])
pyrite.IMAE(T=8)(scores, labels).backward()
assert abs(pyrite.hf_loss("ce")((scores,), labels, num_items_in_batch=2).item() - 1.0986) < 1e-4
helped = CliRunner().invoke(app, ["--help"])
assert helped.exit_code == 0 and "audit" in helped.output
options = {{"epochs": 1, "samples": 400, "model": "mlp(hidden=[8])", "validation": 0.2}}
class Log:
    def log(self, values, step):
        self.values = values
log = Log()
run = pyrite.train("digits", noise="symmetric(0.2)", out="run", observers=[pyrite.Logged(log)], **options)
assert log.values["epoch/validation_accuracy"] == run.history[-1]["validation_accuracy"]
imported = {{name.partition(".")[0] for name in sys.modules}} & set({EXTRAS!r})
print("imported:", *sorted(imported))
"""

# And the rest of it: an audit, a comparison, a data set with indices, a classifier.
REST = f"""
assert len(pyrite.audit(run).ranking) == 400
pyrite.compare("digits", ["ce", "mae"], out="side", **options)
pyrite.integrations.Indexed([(0, 1)])[0]
rows = [[number % 7, number % 5, number] for number in range(60)]
pyrite.RobustClassifier(epochs=1, folds=2, members=1).fit(rows, ["even", "odd"] * 30).predict(rows)
imported = {{name.partition(".")[0] for name in sys.modules}} & set({EXTRAS!r})
assert not imported, imported
"""

ADAPTERS = {
    "lightning": "import pyrite.integrations.lightning",
    "tensorboard": "import pyrite; pyrite.TensorBoard()",
    "tune": "import pyrite; pyrite.tune('digits', out='search')",
    "parquet": "import pyrite; pyrite.data.load('table.parquet')",
}


def run(program: str, folder: Path, *more: Path) -> subprocess.CompletedProcess[str]:
    paths = f"import sys; sys.path[:0] = {[str(path) for path in (*more, ROOT)]!r}\n"
    words = [sys.executable, "-W", "ignore", "-c", paths + program]
    return subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=300)


def test_everything_works_without_the_extras(tmp_path: Path) -> None:
    """And each adapter says in one sentence what to install."""
    (tmp_path / "table.parquet").write_bytes(b"PAR1")
    tries = "\n".join(
        f"try:\n    {program}\nexcept (ImportError, ValueError) as error:\n    print({extra!r}, error, sep=': ')"
        for extra, program in ADAPTERS.items()
    )
    done = run(f"{WITHOUT}{SOME}{REST}\n{tries}", tmp_path)
    assert done.returncode == 0, done.stderr
    imported, *said = done.stdout.splitlines()
    assert imported.split() == ["imported:"]
    assert [line.partition(":")[0] for line in said] == list(ADAPTERS)
    for line, extra in zip(said, ADAPTERS, strict=True):
        assert "pip install" in line
        assert f"pyrite-labels[{extra}]" in line


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    """A torchvision that was built for another torch."""
    package = tmp_path / "broken" / "torchvision"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise RuntimeError('operator torchvision::nms does not exist')")
    return package.parent


def test_training_and_adapters_work_with_a_broken_torchvision(broken: Path, tmp_path: Path) -> None:
    """Lightning itself cannot be imported then, which its adapter says; all others can."""
    others = """
run = pyrite.train("digits", observers=[pyrite.TensorBoard()], out="board", **options)
import numpy, skorch
net = skorch.NeuralNetClassifier(torch.nn.Linear(4, 3), criterion=pyrite.IMAE, criterion__T=8, verbose=0)
net.fit(numpy.eye(4, dtype="float32").repeat(5, 0), numpy.arange(20) % 3)
assert "torchvision" not in sys.modules
try:
    import pyrite.integrations.lightning
except ImportError as error:
    print(error)
"""
    done = run(SOME + others, tmp_path, broken)
    assert done.returncode == 0, done.stderr
    said = done.stdout.splitlines()
    assert "torchvision" not in said[0]
    expected = "Lightning is installed, but cannot be imported (operator torchvision::nms does not exist)"
    assert len(said) == 1 or said[1].startswith(expected)
