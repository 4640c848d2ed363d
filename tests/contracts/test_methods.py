"""What every method promises, tried with all of the registry and with two toys that need all of the contract."""

from collections.abc import Callable
from dataclasses import replace
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import pyrite
from pyrite.data import Batch, Batches, Dataset
from pyrite.methods import METHODS, Context, Learner, Step, Trainer, method
from pyrite.training import fit
from tests.children import differing
from tests.contracts.toys import TOYS
from tests.examples import METHOD_EXAMPLES
from tests.training.together import features

NAMES = [*METHODS, *TOYS]
EPOCHS = 4
BATCH = 11


@pytest.fixture(autouse=True)
def _toys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, toy in TOYS.items():
        monkeypatch.setitem(METHODS, name, toy)


def spec(name: str) -> str:
    return METHOD_EXAMPLES.get(name, name)


class Noisy(nn.Module):
    """A net of a user's own, with dropout, a batch norm, and an attribute that is no weight."""

    def __init__(self, shape: tuple[int, ...] = (4,), classes: int = 5) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(shape[0], 7), nn.BatchNorm1d(7), nn.ReLU(), nn.Dropout(0.3))
        self.head = nn.Linear(7, classes)

    def forward(self, inputs: Tensor) -> Tensor:
        scores: Tensor = self.head(self.body(inputs))
        return scores


def train(name: str, out: Path, data: Dataset | None = None, **options: Any) -> pyrite.Run:
    usual = {"noise": "symmetric(0.3)", "epochs": EPOCHS, "batch_size": BATCH, "model": Noisy, "validation": 0.2}
    return pyrite.train(data or features(), method=spec(name), out=out, progress=False, **usual | options)


def after(steps: int) -> Callable[[], bool]:
    answers = chain(repeat(False, steps - 1), [True])
    return lambda: next(answers)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Uninterrupted runs, each trained once."""
    folder, trained = tmp_path_factory.mktemp("whole"), dict[str, Path]()

    def run(name: str) -> Path:
        if name not in trained:
            trained[name] = train(name, folder / name).path
        return trained[name]

    return run


def test_every_method_has_an_example() -> None:
    """A method that needs arguments is given them in tests/examples.py."""
    for name in METHODS:
        assert str(method(str(method(spec(name))))) == str(method(spec(name)))
        assert method(spec(name)) == method(spec(name))


def test_no_algorithm_communicates_by_itself() -> None:
    """What a method overrides sees all processes already; only the parts of the step and the meta-gradient reduce."""
    files = Path(pyrite.methods.__file__).parent.glob("*.py")
    found = {path.stem for path in files if "pyrite.processes" in path.read_text()}
    assert found == {"context", "learner", "meta_gradient", "trainer"}


@pytest.mark.parametrize("name", NAMES)
def test_a_resumed_run_ends_with_the_same_bytes(name: str, whole: Callable[[str], Path], tmp_path: Path) -> None:
    """It is stopped in the first epoch, at the end of an epoch and in the second half, one after the other."""
    run = train(name, tmp_path / "run", stop=after(2))
    for steps in (1, 2, 5):
        assert not run.finished
        run = pyrite.train(features(), resume=run.path, model=Noisy, progress=False, stop=after(steps))
    run = pyrite.train(features(), resume=run.path, model=Noisy, progress=False)
    assert run.finished
    assert differing(whole(name), run.path) == []


@pytest.mark.parametrize("name", NAMES)
def test_what_is_saved_predicts_what_was_measured(name: str, whole: Callable[[str], Path], tmp_path: Path) -> None:
    data = features()
    run = train(name, tmp_path / "run", data, model="mlp(hidden=[6])")
    assert data.test is not None
    right = (run.scores(data.test.inputs).argmax(1) == data.test.labels).mean()
    assert right == pytest.approx(run.history[run.epoch - 1]["test_accuracy"]) == run.table["final_test_accuracy"]


@pytest.mark.parametrize("name", NAMES)
def test_no_method_sees_the_truth(name: str, tmp_path: Path) -> None:
    """The same given labels with another truth train the same net, unless the method asks for clean labels."""
    wanted = method(spec(name)).meta_set
    data = features()
    truths = [data.labels, data.labels if wanted and wanted.clean else (data.labels + 1) % 5]
    runs = [
        train(name, tmp_path / str(number), replace(data, true=true), noise=None) for number, true in enumerate(truths)
    ]
    assert len({(run.path / "model.safetensors").read_bytes() for run in runs}) == 1


@pytest.mark.parametrize("name", NAMES)
def test_held_out_labels_are_not_on_the_bench(name: str) -> None:
    batches, meta, labels = parts()
    context = Context(batches, lambda number, epochs: learner(number), epochs=EPOCHS, classes=5, meta=meta)
    assert (context.labels[:30].numpy() == labels[:30]).all()
    assert (context.labels[30:] == -1).all()
    assert context.steps_per_epoch == 3
    method(spec(name)).start(context)


def parts() -> tuple[Batches, Batches, np.ndarray]:
    rows = np.random.default_rng(0)
    inputs, labels = rows.normal(size=(45, 4)).astype(np.float32), np.arange(45) % 5
    batches = Batches(inputs, labels, batch_size=10, seed=0, index=np.arange(30))
    return batches, Batches(inputs, labels, batch_size=10, seed=0, index=np.arange(30, 45)), labels


def learner(number: int) -> Learner:
    net = pyrite.build_model("mlp(hidden=[6])", (4,), 5, seed=number).double()
    return Learner(net, torch.optim.SGD(net.parameters(), lr=0.1), precision="float64")


@pytest.mark.parametrize("name", NAMES)
def test_a_batch_of_nothing_and_a_batch_that_is_not_finite(name: str) -> None:
    batches, meta, _ = parts()
    context = Context(batches, lambda number, epochs: learner(number), epochs=EPOCHS, classes=5, meta=meta)
    trainer = method(spec(name)).start(context)
    trainer.begin_epoch(1)
    batch = next(iter(batches))
    before = [weight.clone() for own in trainer.learners for weight in own.weights]
    nothing = trainer.step(Batch(batch.inputs[:0], batch.labels[:0], batch.index[:0]))
    assert len(nothing.index) == len(nothing.margin) == len(nothing.weight) == 0
    with pytest.raises(FloatingPointError, match=r"not finite|the loss is"):
        trainer.step(batch._replace(inputs=batch.inputs * float("nan")))
    now = [weight for own in trainer.learners for weight in own.weights]
    assert all(torch.equal(one, two) for one, two in zip(before, now, strict=True))
    step = trainer.step(batch)
    assert step.index.tolist() == batch.index.tolist()
    assert step.scores.shape == (10, 5)
    assert step.weight.shape == step.margin.shape == (10,)
    assert not all(torch.equal(one, two) for one, two in zip(before, now, strict=True))
    trainer.end_epoch()
    assert all(np.isfinite(value) for value in trainer.facts().values())


class FactNames:
    """The names of a trainer's facts after all epochs."""

    def __init__(self, trainer: Trainer) -> None:
        self.trainer, self.names = trainer, set[str]()

    def after_step(self, step: Step) -> None:
        pass

    def after_epoch(self, epoch: int) -> None:
        self.names |= self.trainer.facts().keys()


@pytest.mark.parametrize("name", NAMES)
def test_facts_do_not_replace_numbers_of_the_history(name: str, whole: Callable[[str], Path]) -> None:
    """A line of the history is the record's numbers and then the facts: an equal name would hide a number."""
    recorded = pyrite.Run.load(whole("erm")).history[-1].keys()  # erm has no facts
    assert {"epoch", "loss", "alpha", "weight_max"} <= recorded
    batches, meta, _ = parts()
    context = Context(
        batches, lambda number, epochs: learner(number), epochs=EPOCHS, classes=5, meta=meta,
        noise_matrix=torch.full((5, 5), 0.1, dtype=torch.float64) + 0.5 * torch.eye(5),
    )  # fmt: skip
    trainer = method(spec(name)).start(context)
    facts = FactNames(trainer)
    fit(trainer, batches, EPOCHS, [facts])
    assert facts.names & recorded == set()
    # What a run records in its own epochs is all of both.
    assert pyrite.Run.load(whole(name)).history[-1].keys() >= recorded | trainer.facts().keys()


@pytest.mark.parametrize("name", NAMES)
def test_an_audit_reads_the_run_of_any_method(name: str, tmp_path: Path) -> None:
    run = pyrite.train(
        "blobs(samples=300, classes=3, features=4)", method=spec(name), noise="symmetric(0.3)", validation=0.3,
        batch_size=13, model="mlp(hidden=[8])", epochs=2, out=tmp_path / "run", progress=False,
    )  # fmt: skip
    found = pyrite.audit(run)
    assert len(found.labels) >= 250
    from pyrite.report.audit_page import write_audit_page

    assert write_audit_page(found, tmp_path / "report.html").stat().st_size > 10_000
