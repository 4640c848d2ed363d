"""How long a run will take, and what fits into a time: by a simulated clock, and in real runs."""

import math
import shutil
from dataclasses import replace
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import pyrite
from pyrite.curves import CE
from pyrite.data import Dataset
from pyrite.methods import ERM, method as read_method
from pyrite.models import EfficientnetLite0
from pyrite.training import Observer, Pace, Record, Run, defaults, measure_pace, pace, resolve, train_job
from tests.children import both, run as run_command


def coloured(samples: int = 600, side: int = 24) -> Dataset:
    generator = np.random.default_rng(0)
    pixels = generator.integers(0, 256, (samples, 3, side, side), dtype=np.uint8)
    labels = np.arange(samples) % 3
    test = Dataset("test", pixels[:100], labels[:100], ("a", "b", "c"))
    return Dataset("coloured", pixels, labels, ("a", "b", "c"), test)


def test_the_seconds_of_a_run_are_those_of_its_steps_and_predictions() -> None:
    # 12 epochs of 10 steps; images have half their side, then grow along a line over 8 epochs.
    measured = Pace(small=1.0, whole=4.0, steps=10, trained=10, evaluated=3, first=0.5)
    shares = [0.5 + 0.5 * epoch / 8 for epoch in range(8)] + [1.0] * 4
    steps = [4 * share**2 for share in shares]  # the time of a step grows with the pixels: 1 at half, 4 at the whole
    expected = sum(11 * step for step in steps) + 4 * 10 / 3
    assert measured.seconds(12) == pytest.approx(expected, rel=0.02)  # sides are whole numbers of pixels


@pytest.mark.parametrize("seconds", [3, 50, 100.0, 834.5])
def test_the_epochs_are_the_most_that_fit(seconds: float) -> None:
    measured = Pace(small=0.02, whole=0.08, steps=50, trained=50, evaluated=20, first=0.5)
    epochs = measured.epochs(seconds)
    assert measured.seconds(epochs) <= seconds < measured.seconds(epochs + 1) or epochs == 1


def test_there_is_at_least_one_epoch_and_an_end() -> None:
    measured = Pace(small=1.0, whole=1.0, steps=50, trained=50, evaluated=0)
    assert measured.epochs(0.1) == 1
    assert measured.epochs(1e9) == 300


@pytest.fixture
def by_pixels(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Time is not measured but counted: pixels that go forward through a convolution in training, times its width."""
    clock = SimpleNamespace(now=0.0)
    forward = nn.Conv2d.forward

    def counted(self: nn.Conv2d, inputs: Tensor) -> Tensor:
        clock.now += inputs.shape[2] * inputs.shape[3] * self.out_channels / 1e6 if self.training else 0
        return forward(self, inputs)

    monkeypatch.setattr(nn.Conv2d, "forward", counted)
    for module in (pace, defaults):
        monkeypatch.setattr(module, "perf_counter", lambda: clock.now)
    return clock


@pytest.mark.usefixtures("by_pixels")
def test_steps_are_timed_on_small_and_on_whole_images() -> None:
    job = resolve(coloured(), validation=0.1, batch_size=50, epochs=6)
    found = measure_pace(job)
    assert found.first == 0.5
    assert found.whole > 2 * found.small > 0  # a quarter of the pixels, but for borders
    assert found.steps == 11  # 540 samples
    assert found.evaluated == 2 * (60 + 100) / 50  # held out and tested, each image and its mirror image


def test_a_longer_run_has_more_epochs_and_then_a_wider_net(
    by_pixels: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pace, "_UPDATES", 100)
    base = measure_pace(resolve(coloured(), batch_size=50))

    def fitted(seconds: float, **options: Any) -> tuple[int, str, float]:
        before = by_pixels.now
        config = resolve(coloured(), batch_size=50, minutes=seconds / 60, **options).config
        return config.epochs, str(config.model), by_pixels.now - before

    epochs, net, used = fitted(base.seconds(10) / 0.95 * 1.001)
    assert (epochs, net) == (9, "fast_cnn")  # one for the measurement
    seconds = 1.01 * base.seconds(58) / 0.95
    epochs, net, used = fitted(seconds)
    assert net == "fast_cnn(widths=(64, 128, 256))"
    twice = replace(base, small=2 * base.small, whole=2 * base.whole)  # twice the widths take so long by this clock
    assert epochs == twice.epochs(0.95 * seconds - used) > 20
    assert used <= 0.1 * seconds
    epochs, net, used = fitted(seconds, model="fast_cnn")
    assert (epochs, net) == (base.epochs(0.95 * seconds - used), "fast_cnn")


@pytest.mark.parametrize("epochs", [0.1, 1, 3, 10, 40])
def test_a_measurement_takes_a_tenth_of_the_time_at_most(epochs: float, by_pixels: SimpleNamespace) -> None:
    """Or the one step without which nothing is measured; and the budget is kept with what it takes."""
    base = measure_pace(resolve(coloured(), batch_size=50))
    seconds, before = base.seconds(10) / 10 * epochs, by_pixels.now
    found = resolve(coloured(), batch_size=50, minutes=seconds / 60).config.epochs
    used = by_pixels.now - before
    assert used <= max(0.1 * seconds, 1.01 * base.small)
    assert found == 1 or used + base.seconds(found) < 1.2 * seconds
    assert used + base.seconds(found + 1) > 0.8 * seconds


def test_time_that_other_programs_take_counts(by_pixels: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every fourth step takes ten times as long: the median step would fit three times as many epochs."""
    steps = count()

    def slow(*_: object, **__: object) -> None:
        by_pixels.now += 10.0 if next(steps) % 4 == 0 else 1.0

    monkeypatch.setattr(Record, "after_step", slow)
    step = (10 + 3) / 4
    seconds = 3000 * step
    found = measure_pace(resolve(coloured(), batch_size=50, grow=1.0), 0.1 * seconds, 0.02 * seconds)
    assert found.whole == pytest.approx(step, rel=0.2)


@pytest.mark.parametrize("slower", [1.0, 2.0, 3.0])
@pytest.mark.parametrize("method", ["erm(ce)", "self_corrected", "co_teaching(rate=0.2)"])
def test_the_budget_is_kept_by_a_machine_that_becomes_slower(
    slower: float, method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a simulated clock: steps take a second, and an epoch two more; after the measurement both slow down."""
    clock, counted, measured = SimpleNamespace(now=0.0, pace=1.0), Record.after_step, Record.after_epoch
    for module in (pace, defaults):
        monkeypatch.setattr(module, "perf_counter", lambda: clock.now)

    def step(self: Record, step: Any) -> None:
        clock.now += clock.pace
        counted(self, step)

    def epoch(self: Record, number: int) -> None:
        clock.now += 2 * clock.pace
        measured(self, number)

    monkeypatch.setattr(Record, "after_step", step)
    monkeypatch.setattr(Record, "after_epoch", epoch)
    seconds = 600
    job = resolve("digits", model="linear", method=method, minutes=seconds / 60)
    clock.pace = slower
    run = train_job(job, tmp_path / "run", progress=False)
    assert 0.8 * seconds < clock.now < 1.2 * seconds
    assert len(run.history) == run.config.epochs == job.config.epochs > 20  # all stages of the method took place
    rates = [line["learning_rate"] for line in run.history]
    assert rates[-1] < 0.1 * max(rates)  # the schedule ended too
    assert resolve(config=tmp_path / "run" / "recipe.toml").config == run.config


def test_every_epoch_has_a_twentieth_of_its_steps(tmp_path: Path) -> None:
    """With one step on images that grew after the time was up, a net on MNIST went from 99.5 % to 87.6 %."""
    job = replace(resolve("digits", model="linear", method="erm(ce)", epochs=2, batch_size=30), deadline=0.0)
    steps = count()

    class Counting(Observer):
        def after_step(self, step: Any) -> None:
            next(steps)

        def after_epoch(self, epoch: int) -> None:
            assert next(steps) == 3 * epoch + epoch - 1  # of 48

    assert len(train_job(job, tmp_path / "run", observers=[Counting()], progress=False).history) == 2


@pytest.mark.parametrize(("deadline", "some"), [(0.0, 206), (math.inf, 1437)])
def test_the_last_prediction_ends_in_time(deadline: float, some: int, tmp_path: Path) -> None:
    """One part of seven is predicted in any case."""
    job = replace(resolve("digits", model="linear", method="erm(ce)", epochs=1), deadline=deadline)
    run = train_job(job, tmp_path / "run", progress=False)
    sentence = f"the time was up: what the model learned was measured on {some} of 1,437 samples"
    assert run.facts["warnings"] == ([sentence] if some < 1437 else [])
    rows = np.flatnonzero(run.labels["part"] == 0)[:: 7 if some < 1437 else 1]
    predicted = run.scores(job.data.inputs[rows]).argmax(1)
    assert run.facts["final_model"]["final_train_accuracy"] == np.mean(predicted == run.labels["given"][rows])
    assert len(rows) == some


def test_a_tenth_is_trained_where_the_time_was_up_before(
    by_pixels: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    base, filled = measure_pace(resolve(coloured(), batch_size=50)), defaults.resolve_defaults
    seconds = base.seconds(100)

    def late(*arguments: Any) -> Any:
        by_pixels.now += 2 * seconds
        return filled(*arguments)

    monkeypatch.setattr(defaults, "resolve_defaults", late)
    job = resolve(coloured(), batch_size=50, minutes=seconds / 60)
    assert 5 <= job.config.epochs <= 10
    assert job.deadline == pytest.approx(by_pixels.now + 0.1 * seconds, rel=0.02)


def test_a_run_that_was_stopped_is_resumed_without_a_clock(tmp_path: Path) -> None:
    """Twice with the same bytes: what the clock decided is in the state, and what is left has whole epochs."""
    job = replace(resolve("digits", model="linear", method="erm(ce)", epochs=4, samples=640), deadline=0.0)  # too late
    steps = count(1)
    stopped = train_job(job, tmp_path / "a", stop=lambda: next(steps) == 3, progress=False)
    assert [line["epoch"] for line in stopped.history] == [1, 2]  # one step each
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    first, second = (pyrite.train(resume=tmp_path / name, progress=False) for name in "ab")
    assert (first.path / "model.safetensors").read_bytes() == (second.path / "model.safetensors").read_bytes()
    assert len(first.history) == 4


def test_the_recipe_of_a_real_run_says_its_length(tmp_path: Path) -> None:
    run = pyrite.train("digits", model="mlp", method="erm(ce)", minutes=0.05, out=tmp_path / "run", progress=False)
    assert len(run.history) == run.config.epochs
    assert resolve(config=tmp_path / "run" / "recipe.toml").config == run.config  # so it is repeated and resumed


def test_a_net_of_the_users_own_is_not_trained_by_the_measurement() -> None:
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    before = {name: value.clone() for name, value in net.state_dict().items()}
    resolve("digits", model=net, minutes=0.05)
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())


def test_some_of_the_texts() -> None:
    words = [f"{'good' if number % 2 else 'bad'} film {number}" for number in range(200)]
    names = ["yes" if number % 2 else "no" for number in range(200)]
    job = resolve(words, label=names, minutes=0.01, batch_size=20, samples=100)
    found = measure_pace(job)
    assert (found.steps, found.trained, found.evaluated) == (5, 90 / 20, 10 / 20)  # a tenth is held out


def test_bad_lengths() -> None:
    with pytest.raises(ValueError, match="epochs and minutes are both given: each sets the length of training"):
        resolve("digits", epochs=3, minutes=1)
    with pytest.raises(ValueError, match="minutes is 0, but must be a number above 0"):
        resolve("digits", minutes=0)


def test_the_command_line_takes_minutes(tmp_path: Path) -> None:
    words = ("train", "digits", "--model", "linear", "--loss", "ce", "--minutes", "0.01", "--out", "run")
    code, said = run_command(*words, log=tmp_path / "log", folder=tmp_path)
    assert code == 0, said
    run = Run.load(tmp_path / "run")
    assert run.config.epochs == len(run.history) >= 1


@pytest.mark.parametrize(("began", "left"), [(10.0, 2 - 1 / 6), (1000.0, 0.2)])
def test_loading_the_program_is_part_of_the_minutes(began: float, left: float, monkeypatch: pytest.MonkeyPatch) -> None:
    from pyrite.cli import terminal

    taken = dict[str, Any]()
    monkeypatch.setattr(terminal, "_BEGUN", terminal.perf_counter() - began)
    terminal.with_settings(only=["minutes"])(lambda **options: taken.update(options))(minutes=2.0)
    assert taken["minutes"] == pytest.approx(left, abs=0.01)


def test_an_audit_may_have_a_length_in_minutes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Pace, "epochs", lambda *_: 3)  # and not 30, as by default for 300 samples
    pyrite.audit("digits", model="linear", minutes=0.02, samples=300, out=tmp_path / "run", progress=False)
    assert Run.load(tmp_path / "run").config.epochs == 3


def test_the_trials_of_a_search_have_the_same_length(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lengths = count(3)
    monkeypatch.setattr(Pace, "epochs", lambda *_: next(lengths))  # no two measurements are the same
    found = pyrite.tune(
        "digits", ["ce", "gce(q=0.7)"], model="linear", minutes=0.01, trials=2, samples=200, out=tmp_path / "search"
    )
    assert {Run.load(found.path / trial.name).config.epochs for trial in found.trials} == {3}


def test_two_processes_agree_on_the_length(tmp_path: Path) -> None:
    settings = ["--model", "linear", "--loss", "ce", "--minutes", "0.02"]
    words = ["train", "digits", *settings, "--out", str(tmp_path / "run")]
    processes = both(*words, log=tmp_path / "log")
    for process in processes:
        process.join(120)
    assert [process.exitcode for process in processes] == [0, 0], (tmp_path / "log.0").read_text()
    run = Run.load(tmp_path / "run")
    assert run.finished
    assert len(run.history) == run.config.epochs


@pytest.mark.parametrize(
    ("epochs", "length", "size"),
    [(1.5, 2, 96), (4, 5, 96), (10, 11, 96), (11, 7, 128), (30, 11, 160)],
)
def test_a_pretrained_net_has_larger_images_where_six_epochs_fit(
    epochs: float, length: int, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pace, "measure_pace", lambda *_: Pace(small=0.1, whole=0.1, steps=600, trained=0, evaluated=0))
    config = SimpleNamespace(model=EfficientnetLite0(size=96, pretrained=True), method=ERM(CE()), device="cpu")
    job = SimpleNamespace(config=config)
    job.with_config = lambda **_: job
    found = pace.fitting(job, 60 * epochs / 0.95 + 1, widen=True)  # type: ignore[arg-type]
    assert found == {"model": EfficientnetLite0(size=size, pretrained=True), "epochs": length}
    assert pace.fitting(job, 15.0, widen=True) == {"epochs": 0}  # type: ignore[arg-type]  # a quarter of an epoch


@pytest.mark.parametrize("around", ["{}", "select(erm(ce), {})", "cross_fit({})", "staged({}, erm(ce))"])
def test_what_is_done_once_is_not_timed_as_a_step(around: str) -> None:
    method = read_method(around.format("self_corrected(at=0)"))
    assert str(method.paced) == str(read_method(around.format("self_corrected(at=0.5)")))
