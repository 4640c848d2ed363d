"""Names for what users wrote: by ``pyrite.register``, and by the entry points of a package that is installed."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import pyrite
from pyrite.data import Dataset
from pyrite.training.optimisers import Optimiser
from tests import children

SMALL: dict[str, Any] = {"samples": 200, "epochs": 1, "model": "mlp(hidden=[8])"}


pytestmark = pytest.mark.usefixtures("registries_as_before")


class Power(pyrite.Loss):
    """(1 − p)^power."""

    def __init__(self, power: float = 2.0) -> None:
        super().__init__()
        self.power = power

    def at_label(self, scores: Tensor, labels: Tensor) -> Tensor:
        return (1 - scores.softmax(1).gather(1, labels[:, None]).squeeze(1)) ** self.power


class Wrapped(pyrite.Method):
    """Another method under a name of its own."""

    def __init__(self, inner: pyrite.Method) -> None:
        self.inner = inner

    def start(self, *given: Any) -> Any:
        return self.inner.start(*given)


@dataclass(frozen=True, repr=False)
class Shallow(pyrite.Architecture):
    """One layer."""

    width: int = 4

    def parts(self, shape: tuple[int, ...], classes: int) -> tuple[nn.Module, nn.Module]:
        return nn.Sequential(nn.Flatten(), nn.Linear(int(np.prod(shape)), self.width)), nn.Linear(self.width, classes)


@dataclass(frozen=True, repr=False)
class Plain(Optimiser):
    """SGD without momentum."""

    lr: float = 0.1

    def build(self, weights: Any) -> torch.optim.Optimizer:
        return torch.optim.SGD(weights, self.lr)


@dataclass(frozen=True, repr=False)
class OneUp(pyrite.noise.ClassNoise):
    """Every label but the last may become the next one."""

    rate: float

    def matrix(self, classes: int, seed: int = 0) -> np.ndarray:
        table = (1 - self.rate) * np.eye(classes) + self.rate * np.eye(classes, k=1)
        table[-1, -1] = 1
        return table


def few(samples: int = 60) -> Dataset:
    """A few points."""
    return pyrite.data.load("blobs", samples=samples)


def test_everything_can_have_a_name(tmp_path: Path) -> None:
    things = {"power_loss": Power, "wrapper": Wrapped, "shallow_net": Shallow, "plain_sgd": Plain}
    for name, thing in {**things, "few": few, "one_up": OneUp}.items():
        pyrite.register(name, thing)
    run = pyrite.train(
        "few(samples=90)", method="wrapper(erm(power_loss(power=3)))", noise="one_up(0.2)", epochs=2,
        model="shallow_net(width=5)", optimiser="plain_sgd(lr=0.05)", out=tmp_path / "run", stop=lambda: True,
    )  # fmt: skip
    recipe = run.config.to_dict()
    assert recipe["method"] == "wrapper(erm(power_loss(power=3)))"
    assert recipe["model"] == "shallow_net(width=5)"
    assert recipe["optimiser"] == "plain_sgd(lr=0.05)"
    assert recipe["noise"].startswith("one_up(rate=0.2")
    assert len(run.labels["given"]) == 90
    assert pyrite.train(resume=run.path).finished  # from the folder alone
    objects = pyrite.train("few", method=Wrapped(pyrite.ERM(Power(3.0))), epochs=1, out=tmp_path / "objects")
    assert str(objects.config.method) == "wrapper(erm(power_loss(power=3.0)))"
    assert str(pyrite.loss("0.5*power_loss + 0.5*ce")) == "0.5*power_loss(power=2.0) + 0.5*ce"


def test_a_registered_loss_in_a_search(tmp_path: Path) -> None:
    pyrite.register("power_loss", Power)
    tuning = pyrite.tune("digits", ["power_loss(power=between(1, 3))"], out=tmp_path, trials=2, **SMALL)
    assert tuning.trials[0].method == "erm(power_loss(power=2.0))"
    assert tuning.command is not None
    assert "power_loss" in tuning.command


def test_functions_are_known_by_what_they_return(tmp_path: Path) -> None:
    def torch_ce() -> pyrite.Loss:
        return pyrite.loss(nn.CrossEntropyLoss())

    pyrite.register("torch_ce", torch_ce)
    run = pyrite.train("digits", loss="torch_ce", out=tmp_path / "run", stop=lambda: True, **SMALL)
    assert str(run.config.method) == "erm(torch_ce)"
    assert pyrite.train(resume=run.path).finished
    pyrite.register("points", few(30))
    assert len(pyrite.data.load("points")) == 30


def no_annotation() -> Any:
    return None


@pytest.mark.parametrize(
    ("name", "thing", "said"),
    [
        ("ce", Power, "name is 'ce', but that is a loss already: choose another"),
        ("erm", Power, "name is 'erm', but that is a loss already"),
        ("gce", Wrapped, "name is 'gce', but that is a method already"),
        ("digits", few, "name is 'digits', but that is a data set already"),
        ("not a name", Power, "name is 'not a name', but must be a text of letters"),
        (3, Power, "name is 3"),
        ("mine", 3, "'mine' is 3, but must be a class that derives from one of Loss, Noise, Method, Architecture"),
        ("mine", no_annotation, "or a function whose return annotation is one of them"),
        ("mine", nn.Linear, "must be a class that derives from"),
    ],
)
def test_what_cannot_be_registered(name: Any, thing: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        pyrite.register(name, thing)
    assert pyrite.LOSSES["ce"] is pyrite.CE


def test_the_same_definition_may_run_again() -> None:
    def define() -> type:
        class Mine(Power):
            """Defined in a cell of a notebook."""

        return Mine

    pyrite.register("mine", define())
    again = define()
    pyrite.register("mine", again)
    assert type(pyrite.loss("mine")) is again
    with pytest.raises(ValueError, match="choose another"):
        pyrite.register("mine", Power)


# --- entry points ---------------------------------------------------------------------------------------------------

MODULE = '''
import torch
import pyrite

class SoftMae(pyrite.Loss):
    """Absolute error with a temperature."""

    def __init__(self, temperature: float = 1.0) -> None:
        super().__init__()
        self.temperature = temperature

    def at_label(self, scores, labels):
        return 2 - 2 * (scores / self.temperature).softmax(1).gather(1, labels[:, None]).squeeze(1)

def tiny_blobs(samples: int = 60) -> pyrite.Dataset:
    """A few points."""
    return pyrite.data.load("blobs", samples=samples)
'''
ENTRIES = """
[pyrite.losses]
soft_mae = pyrite_extras:SoftMae
ce = pyrite_extras:SoftMae
gone = pyrite_extras:Nothing
torn = pyrite_torn:Loss
number = pyrite_extras:__name__
not_a_loss = pyrite_extras:tiny_blobs

[pyrite.data]
tiny_blobs = pyrite_extras:tiny_blobs
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as pip leaves it when a small distribution is installed."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "pyrite_extras.py").write_text(MODULE)
    (folder / "pyrite_torn.py").write_text("raise RuntimeError('built for\\nanother torch')")
    facts = folder / "pyrite_extras-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: pyrite-extras\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text(ENTRIES)
    return folder


def typed(installed: Path, folder: Path, *words: str) -> tuple[int, str, str]:
    """The exit code, the output and the errors of the command."""
    log, errors = installed / "log", installed / "errors"
    code, said = children.run(*words, log=log, errors=errors, folder=folder, trouble=("finds", str(installed)))
    return code, said, errors.read_text()


def test_the_command_line_knows_plug_ins(installed: Path, tmp_path: Path) -> None:
    words = ["--loss", "soft_mae(temperature=2)", "--epochs", "1", "--out", "run", "--json"]
    code, _, errors = typed(installed, tmp_path, "train", "tiny_blobs(samples=80)", *words)
    assert code == 0, errors
    recipe = pyrite.Run.load(tmp_path / "run").config.to_dict()
    assert recipe["method"] == "erm(soft_mae(temperature=2))"
    assert recipe["data"] == "tiny_blobs(samples=80)"
    assert len(pyrite.Run.load(tmp_path / "run").labels["given"]) == 80


def test_list_shows_them(installed: Path, tmp_path: Path) -> None:
    code, said, errors = typed(installed, tmp_path, "list", "losses", "--json")
    assert code == 0, errors
    rows = {row["name"]: row for row in json.loads(said)}
    assert rows["soft_mae"]["call"] == "soft_mae(temperature=1.0)"
    assert rows["soft_mae"]["about"] == "Absolute error with a temperature."
    assert "temperature" not in rows["ce"]["call"]  # pyrite's own come first
    lines = errors.splitlines()
    assert all(line.startswith("pyrite: the plug-in pyrite-extras offers the loss ") for line in lines)
    assert len(lines) == 3


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("torn", "the plug-in pyrite-extras offers the loss 'torn', but pyrite_torn:Loss cannot be loaded: "
                 "RuntimeError: built for another torch"),
        ("gone", "but pyrite_extras:Nothing cannot be loaded: AttributeError: "),
        ("number", "but pyrite_extras:__name__ cannot be called"),
        ("not_a_loss", "'not_a_loss' makes a Dataset, not a loss"),
        ("soft_maee", "unknown loss 'soft_maee': did you mean 'soft_mae'?"),
    ],
)  # fmt: skip
def test_a_broken_plug_in_is_one_sentence(spec: str, said: str, installed: Path, tmp_path: Path) -> None:
    code, _, errors = typed(installed, tmp_path, "train", "digits", "--loss", spec, "--out", "run")
    assert code == 2, errors
    assert said in errors
    assert len(errors.splitlines()) == 1
    assert not (tmp_path / "run").exists()
