"""Margins before training: measured, and put into the losses that ask for them."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import pyrite
from pyrite.data import load
from pyrite.models import build_model

SMALL: dict[str, Any] = {"samples": 200, "epochs": 1, "model": "mlp(hidden=[8])", "noise": "symmetric(0.4)"}


def test_margins_of_a_net_are_those_of_its_scores() -> None:
    """The same net, and the definition of the margin written out."""
    drawn = torch.randn((64, 3, 32, 32), generator=torch.Generator().manual_seed(3))
    net = build_model("resnet20", (3, 32, 32), 7, seed=3).train()
    with torch.no_grad():
        scores = net(drawn).double()
    found = pyrite.measure_start("resnet20", classes=7, seed=3, batch_size=64)
    expected = [
        float(row[label]) - math.log(sum(math.exp(float(row[other])) for other in range(7) if other != label))
        for row in scores
        for label in range(7)
    ]
    np.testing.assert_allclose(found.margins, np.sort(expected), rtol=1e-5)
    assert found.margin == pytest.approx(np.mean(expected), rel=1e-3)
    spread = math.sqrt(np.mean([np.var(row.numpy(), ddof=1) for row in scores]))
    assert found.spread == pytest.approx(spread, rel=1e-6)


def test_a_net_of_the_user_stays_as_it_is() -> None:
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.BatchNorm1d(64), torch.nn.Linear(64, 10))
    before = {name: value.clone() for name, value in net.state_dict().items()}
    pyrite.measure_start(net, load("digits"))
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())


def test_training_measures_once_and_writes_the_number(tmp_path: Path) -> None:
    method = "erm(unit(scale(mae, tau=1.5, margin='measured')))"
    run = pyrite.train("digits", method=method, out=tmp_path / "a", **SMALL)
    start = pyrite.measure_start(SMALL["model"], load("digits"))
    assert str(run.config.method) == f"erm(unit(scale(mae, tau=1.5, margin={start.margin})))"
    assert -4 < start.margin < -math.log(9)
    again = pyrite.train(config=tmp_path / "a" / "recipe.toml", out=tmp_path / "b")
    assert again.history == run.history
    same = pyrite.compare("digits", [method], out=tmp_path / "c", **SMALL).rows[0].runs[0]
    assert same.history == pyrite.compare("digits", [method], out=tmp_path / "c", **SMALL).rows[0].runs[0].history
    assert str(same.config.method) == str(run.config.method)


def test_a_stopped_run_continues_with_the_number(tmp_path: Path) -> None:
    method = "erm(shift(mae, tau=1.5, margin='measured'))"
    whole = pyrite.train("digits", method=method, out=tmp_path / "a", **SMALL)
    stopped = pyrite.train("digits", method=method, out=tmp_path / "b", stop=lambda: True, **SMALL)
    assert not stopped.finished
    resumed = pyrite.train(resume=tmp_path / "b")
    assert (resumed.config, resumed.history) == (whole.config, whole.history)


def test_until_then_it_says_what_is_missing() -> None:
    loss = pyrite.loss("scale(mae, tau=1.5, margin='measured')")
    assert str(loss) == "scale(mae, tau=1.5, margin='measured')"
    assert (math.isnan(loss.peak().margin), loss.peak().weight) == (True, 0.5)
    with pytest.raises(ValueError, match=r"has no margin yet: training measures it"):
        loss(torch.zeros(2, 3), torch.tensor([0, 1]))
    with pytest.raises(ValueError, match="margin is 'mesured', but must be 'measured' or a negative number"):
        pyrite.loss("scale(mae, tau=1.5, margin='mesured')")


def test_a_margin_is_measured_within_a_loss_of_ones_own(tmp_path: Path) -> None:
    class Own(pyrite.Loss):
        def __init__(self, curve: pyrite.Curve) -> None:
            super().__init__()
            self.curve = curve

        def at_label(self, scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
            return self.curve.at_label(scores, labels)

    loss = Own(pyrite.scale(pyrite.MAE(), tau=1, margin="measured"))
    whole = pyrite.train("digits", loss=loss, out=tmp_path / "a", **SMALL)
    assert 'method = {python = "erm(own(scale(mae, tau=1, margin=-2.' in (tmp_path / "a" / "recipe.toml").read_text()
    pyrite.train("digits", loss=loss, out=tmp_path / "b", stop=lambda: True, **SMALL)
    assert pyrite.train(resume=tmp_path / "b", loss=loss).history == whole.history


def test_what_is_encoded_needs_the_number(tmp_path: Path) -> None:
    rows = "".join(f"{'red' if row % 2 else 'blue'},{row},{'ab'[row % 2]}\n" for row in range(40))
    (tmp_path / "t.csv").write_text(f"colour,size,label\n{rows}")
    loss = "scale(mae, tau=1, margin='measured')"
    with pytest.raises(ValueError, match="cannot be measured on inputs that are encoded by table"):
        pyrite.train(tmp_path / "t.csv", loss=loss, out=tmp_path / "a")


def test_the_classifier_measures_too() -> None:
    labels = np.arange(90) % 3
    rows = np.eye(3)[labels] + 0.1 * np.random.default_rng(0).normal(size=(90, 3))
    model = pyrite.RobustClassifier(loss="scale(mae, tau=1.5, margin='measured')", epochs=10)
    assert np.mean(model.fit(rows, labels).predict(rows) == labels) > 0.9


def test_the_check_uses_what_was_measured() -> None:
    start = pyrite.measure_start("fast_cnn", classes=100)
    found = pyrite.check_on_net("mae", "fast_cnn", classes=100)
    p = 1 / (1 + math.exp(-start.margin))
    assert (found.expected_margin, found.spread, found.net) == (start.margin, start.spread, "fast_cnn")
    assert found.initial == pytest.approx(4 * p * (1 - p), rel=1e-5)
    assert "fast_cnn before training has a mean margin of -4.6" in str(found)
    assert "scores have a measured spread of 0.1" in str(found)
    assert found.cures[0] == "scale(mae, tau=2.63, margin='measured')"
    cured = pyrite.check_on_net(found.cures[0], "fast_cnn", classes=100)
    assert cured.initial == pytest.approx(0.25, abs=5e-3)
    digits = pyrite.check_on_net("mae", data=load("digits"))
    assert (digits.net, digits.classes) == ("cnn4", 10)
