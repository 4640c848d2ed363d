"""Losses, methods and nets of a user's own, in no registry: trained, resumed to the same bytes, audited."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import pyrite
from pyrite.training import resolve
from tests.children import RESULTS

SMALL: dict[str, Any] = {"noise": "symmetric(0.4)", "samples": 300, "epochs": 2, "model": "mlp(hidden=[8])"}


class Squared(pyrite.Loss):
    """(1 − p)², with an argument that is not kept under its name."""

    def __init__(self, power: float = 2.0) -> None:
        super().__init__()
        self._exponent = power

    def at_label(self, scores: Tensor, labels: Tensor) -> Tensor:
        return (1 - scores.softmax(1).gather(1, labels[:, None]).squeeze(1)) ** self._exponent


class Linear(pyrite.Curve):
    """CE under another name, with a factor."""

    def __init__(self, factor: float = 1.0) -> None:
        super().__init__()
        self.factor = factor

    def phi(self, margin: Tensor) -> Tensor:
        return self.factor * functional.softplus(-margin)

    def w(self, margin: Tensor) -> Tensor:
        return self.factor * torch.sigmoid(-margin)


class GCE(Squared):
    """Has the name of a loss of pyrite's, and is another one."""


class Module(nn.Module):
    """Called as torch's losses are."""

    def __init__(self, reduction: str = "mean") -> None:
        super().__init__()
        self.reduction = reduction

    def forward(self, scores: Tensor, labels: Tensor) -> Tensor:
        return functional.cross_entropy(scores, labels, reduction=self.reduction)


def plain(scores: Tensor, labels: Tensor) -> Tensor:
    return functional.cross_entropy(scores, labels, reduction="none")


def same_bytes(one: Path, other: Path) -> None:
    for name in RESULTS:
        assert (one / name).read_bytes() == (other / name).read_bytes(), name


@pytest.mark.parametrize(
    ("loss", "named"),
    [
        (Squared(3.0), "erm(squared(power=...))"),
        (Linear(factor=2.0), "erm(linear(factor=2.0))"),
        (GCE(), "erm(gce(power=...))"),
        (plain, "erm(plain)"),
        (Module(), "erm(Module)"),
        (0.5 * pyrite.CE() + 0.5 * Squared(), "erm(0.5*ce + 0.5*squared(power=...))"),
    ],
)
def test_own_losses_train_resume_and_are_audited(loss: Any, named: str, tmp_path: Path) -> None:
    whole = pyrite.train("digits", loss=loss, out=tmp_path / "whole", **SMALL)
    assert str(whole.config.method) == named
    asked = iter([False, True])
    out = tmp_path / "stopped"
    stopped = pyrite.train("digits", loss=loss, out=out, stop=lambda: next(asked), **SMALL)
    assert not stopped.finished
    with pytest.raises(ValueError, match=r"given in Python: .*: pass it again as method or loss"):
        pyrite.train(resume=out)
    with pytest.raises(ValueError, match=r"was given in Python: .*, not erm\(ce\)$"):
        pyrite.train(resume=out, loss=pyrite.CE())
    with pytest.raises(ValueError, match="omit all other options"):
        pyrite.train(resume=out, loss="ce")
    assert pyrite.train(resume=out, loss=loss).finished
    same_bytes(tmp_path / "whole", out)
    assert len(pyrite.audit(whole).ranking) == 300
    assert pyrite.Run.load(out).model is not None


@pytest.mark.parametrize(
    "loss",
    [nn.CrossEntropyLoss(), nn.CrossEntropyLoss(reduction="sum"), Module(), plain,
     partial(functional.cross_entropy, reduction="none")],
    ids=["torch", "sum", "module", "function", "partial"],
)  # fmt: skip
def test_cross_entropy_of_torch_is_ce(loss: Any, tmp_path: Path) -> None:
    options = {**SMALL, "precision": "float64"}
    ours = pyrite.train("digits", loss="ce", out=tmp_path / "ours", **options)
    theirs = pyrite.train("digits", loss=loss, out=tmp_path / "theirs", **options)
    assert theirs.config.clip == ours.config.clip == 0
    assert str(theirs.config.optimiser) == str(ours.config.optimiser)
    for one, other in zip(ours.history, theirs.history, strict=True):
        assert one["loss"] == pytest.approx(other["loss"], rel=1e-9)
        assert one["test_accuracy"] == other["test_accuracy"]
    np.testing.assert_allclose(ours.samples["weight_mean"], theirs.samples["weight_mean"], rtol=1e-6)


def test_a_reduction_is_not_changed_in_place() -> None:
    loss = Module("sum")
    assert pyrite.loss(loss)(torch.zeros(4, 2), torch.zeros(4, dtype=torch.long)).item() == pytest.approx(0.6931, 1e-4)
    assert loss.reduction == "sum"


def test_labels_that_a_loss_of_torch_ignores(tmp_path: Path) -> None:
    loss = nn.CrossEntropyLoss(ignore_index=3)
    ours = pyrite.train("digits", loss="ce(ignore_index=3)", out=tmp_path / "ours", **SMALL)
    theirs = pyrite.train("digits", loss=loss, out=tmp_path / "theirs", **SMALL)
    assert [line["loss"] for line in theirs.history] == pytest.approx([line["loss"] for line in ours.history], rel=1e-5)


class Several(nn.Module):
    def forward(self, scores: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        return scores.sum(1), scores.sum(1)


def mean(scores: Tensor, labels: Tensor) -> Tensor:
    return functional.cross_entropy(scores, labels)


@pytest.mark.parametrize(
    ("loss", "said"),
    [
        (mean, r"loss is mean, which gives a value of shape \(\) for 2 samples, but must give one number per sample"),
        (lambda scores, labels: scores, r"gives a value of shape \(2, 10\) for 2 samples"),
        (lambda scores, labels: labels, r"must give one number per sample"),
        (Several(), "loss is Several, which gives a value of type tuple"),
        (3, "loss is 3, but must be a text such as"),
        (nn.CrossEntropyLoss, "must be a text such as"),
        (
            nn.CrossEntropyLoss(weight=torch.ones(10)),
            r"pass those to pyrite, .* pyrite.loss\(CrossEntropyLoss\(\), wei",
        ),
    ],
)
def test_what_is_no_loss_is_said_before_anything_is_written(loss: Any, said: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=said):
        pyrite.train("digits", loss=loss, out=tmp_path / "run", **SMALL)
    assert not (tmp_path / "run").exists()


def test_class_weights_go_to_pyrite() -> None:
    weight = torch.arange(1.0, 11.0)
    scores, labels = torch.randn(20, 10, generator=torch.Generator().manual_seed(0)), torch.arange(20) % 10
    expected = nn.CrossEntropyLoss(weight=weight)(scores, labels)
    assert torch.isclose(pyrite.loss(nn.CrossEntropyLoss(), weight=weight)(scores, labels), expected)


def test_a_loss_that_takes_no_simulated_scores_is_clipped(tmp_path: Path) -> None:
    """Whether scores grow without bound is measured with 10 classes in float64; this one takes 3 in float32."""
    factors = torch.tensor([1.0, 2.0, 3.0])

    def three(scores: Tensor, labels: Tensor) -> Tensor:
        return functional.cross_entropy(scores * factors, labels, reduction="none")

    job = resolve("blobs(classes=3)", loss=three)
    assert job.config.clip == 1.0


# --- methods --------------------------------------------------------------------------------------------------------


@dataclass(eq=False, repr=False)
class Wrapped(pyrite.Method):
    """Another method under a name of its own."""

    inner: pyrite.Method

    def start(self, *given: Any) -> Any:
        return self.inner.start(*given)


def test_own_methods_train_and_resume(tmp_path: Path) -> None:
    whole = pyrite.train("digits", method=Wrapped(pyrite.ERM(pyrite.CE())), out=tmp_path / "whole", **SMALL)
    assert str(whole.config.method) == "wrapped(erm(ce))"
    same = pyrite.train("digits", method="erm(ce)", out=tmp_path / "same", **SMALL)
    assert same.history == whole.history
    out = tmp_path / "stopped"
    pyrite.train("digits", method=Wrapped(pyrite.ERM(pyrite.CE())), out=out, stop=lambda: True, **SMALL)
    with pytest.raises(ValueError, match=r"was given in Python: wrapped\(erm\(ce\)\): pass it again as method or loss"):
        pyrite.train(resume=out)
    with pytest.raises(ValueError, match=r"not wrapped\(erm\(mae\)\)"):
        pyrite.train(resume=out, method=Wrapped(pyrite.ERM(pyrite.MAE())))
    pyrite.train(resume=out, method=Wrapped(pyrite.ERM(pyrite.CE())))
    same_bytes(tmp_path / "whole", out)
    with pytest.raises(ValueError, match="method is 3, but must be a text"):
        pyrite.train("digits", method=3, out=tmp_path / "b")  # type: ignore[arg-type]


def test_objects_that_are_spelled_need_not_be_handed_over_again(tmp_path: Path) -> None:
    run = pyrite.train("digits", loss=pyrite.GCE(q=0.5), out=tmp_path / "run", stop=lambda: True, **SMALL)
    assert str(run.config.method) == "erm(gce(q=0.5))"
    with pytest.raises(ValueError, match=r"has the method erm\(gce\(q=0.5\)\): omit loss"):
        pyrite.train(resume=run.path, loss=pyrite.GCE(q=0.5))
    with pytest.raises(ValueError, match=r"has the model mlp\(hidden=\(8,\)\): omit model"):
        pyrite.train(resume=run.path, model=nn.Linear(64, 10))
    assert pyrite.train(resume=run.path).finished


def test_a_recipe_with_objects_is_no_config(tmp_path: Path) -> None:
    run = pyrite.train("digits", loss=plain, out=tmp_path / "run", **SMALL)
    with pytest.raises(ValueError, match=r"the method was given in Python: erm\(plain\): pass it again"):
        resolve(config=run.path / "recipe.toml")
    assert resolve(config=run.path / "recipe.toml", loss=plain).config == run.config


# --- nets -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Narrow(pyrite.Architecture):
    """A description of a net that is in no registry."""

    width: int = 4

    def parts(self, shape: tuple[int, ...], classes: int) -> tuple[nn.Module, nn.Module]:
        return nn.Sequential(nn.Flatten(), nn.Linear(int(np.prod(shape)), self.width)), nn.Linear(self.width, classes)


def test_own_architectures(tmp_path: Path) -> None:
    options = {**SMALL, "model": Narrow(width=5)}
    whole = pyrite.train("digits", out=tmp_path / "whole", **options)
    assert str(whole.config.model) == "narrow(width=5)"
    pyrite.train("digits", out=tmp_path / "stopped", stop=lambda: True, **options)
    pyrite.train(resume=tmp_path / "stopped", model=Narrow(width=5))
    same_bytes(tmp_path / "whole", tmp_path / "stopped")


@dataclass(frozen=True, repr=False)
class Ours(pyrite.training.optimisers.Optimiser):
    lr: float = 0.1

    def build(self, weights: Any) -> torch.optim.Optimizer:
        return torch.optim.SGD(weights, self.lr)


def test_own_optimisers(tmp_path: Path) -> None:
    whole = pyrite.train("digits", out=tmp_path / "whole", optimiser=Ours(lr=0.05), **SMALL)
    assert 'optimiser = {python = "ours(lr=0.05)"}' in (tmp_path / "whole" / "recipe.toml").read_text()
    pyrite.train("digits", out=tmp_path / "stopped", stop=lambda: True, optimiser=Ours(lr=0.05), **SMALL)
    with pytest.raises(ValueError, match=r"the optimiser of .* was given in Python: ours\(lr=0.05\): pass it again"):
        pyrite.train(resume=tmp_path / "stopped")
    pyrite.train(resume=tmp_path / "stopped", optimizer=Ours(lr=0.05))
    same_bytes(whole.path, tmp_path / "stopped")


# --- side by side ---------------------------------------------------------------------------------------------------


def test_comparisons_take_objects(tmp_path: Path) -> None:
    methods = ["ce", plain, pyrite.GCE(q=0.5), Wrapped(pyrite.ERM(pyrite.CE()))]
    comparison = pyrite.compare("digits", methods, out=tmp_path, **SMALL)
    assert [row.name for row in comparison.rows] == ["ce", "plain", "gce(q=0.5)", "wrapped(erm(ce))"]
    first, second, _, fourth = (row.runs[0].history for row in comparison.rows)
    assert first == fourth
    assert second[-1]["loss"] == pytest.approx(first[-1]["loss"], rel=1e-4)
    again = pyrite.compare("digits", methods, out=tmp_path, **SMALL)
    assert again.to_markdown() == comparison.to_markdown()
    with pytest.raises(ValueError, match="two entries named 'plain'"):
        pyrite.compare("digits", [plain, plain], out=tmp_path / "b", **SMALL)


def test_a_comparison_goes_on_with_what_makes_a_net(tmp_path: Path) -> None:
    """What was handed over is still at hand when a run that was stopped is gone on with."""

    def make(shape: tuple[int, ...], classes: int) -> nn.Module:
        return nn.Sequential(nn.Flatten(), nn.Linear(int(np.prod(shape)), classes))

    options = {**SMALL, "model": make}
    whole = pyrite.compare("digits", [plain], out=tmp_path / "whole", **options)
    pyrite.train("digits", loss=plain, out=tmp_path / "b" / "plain-0", stop=lambda: True, **options)
    assert pyrite.compare("digits", [plain], out=tmp_path / "b", **options).rows[0].runs[0].history == (
        whole.rows[0].runs[0].history
    )


def test_a_search_says_that_it_needs_names(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"give it a name with pyrite\.register"):
        pyrite.tune("digits", [plain], out=tmp_path)  # type: ignore[list-item]
