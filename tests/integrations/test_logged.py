"""Any logger gets a run's numbers, with their steps, once."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import pyrite
from pyrite.integrations import Log

SETTINGS: dict[str, Any] = {"loss": "ce", "model": "mlp(hidden=[8])", "epochs": 2, "batch_size": 250}


class Kept:
    def __init__(self) -> None:
        self.lines: list[tuple[int, dict[str, float]]] = []

    def log(self, values: Mapping[str, float], step: int) -> None:
        self.lines.append((step, dict(values)))


def test_loggers_get_the_history(tmp_path: Path) -> None:
    """An object with ``log``, and a bare function as mlflow's and wandb's are, in the order in which things happen."""
    kept, called = Kept(), Kept()

    def log_metrics(metrics: dict[str, float], step: int | None = None) -> None:
        assert step is not None
        called.log(metrics, step)

    run = pyrite.train("blobs", out=tmp_path, observers=[pyrite.Logged(kept), pyrite.Logged(log_metrics)], **SETTINGS)
    assert kept.lines == called.lines
    steps = [(step, values) for step, values in kept.lines if "step/loss" in values]
    assert [step for step, _ in steps] == list(range(1, 9))
    epochs = [(step, values) for step, values in kept.lines if "step/loss" not in values]
    assert [step for step, _ in epochs] == [4, 8]
    for (_, values), line in zip(epochs, run.history, strict=True):
        assert values == {f"epoch/{name}": value for name, value in line.items() if value is not None}
        assert {"epoch/epoch", "epoch/loss", "epoch/test_accuracy"} <= values.keys()
    assert kept.lines.index(epochs[0]) == 4


def test_it_is_let_go_after_a_run(tmp_path: Path) -> None:
    class Failing(Kept):
        def log(self, values: Mapping[str, float], step: int) -> None:
            raise RuntimeError("full")

    observer = pyrite.Logged(Failing())
    with pytest.raises(RuntimeError, match="full"):
        pyrite.train("blobs", out=tmp_path, observers=[observer], **SETTINGS)
    assert observer._record is None


def test_what_cannot_log_is_refused() -> None:
    with pytest.raises(ValueError, match=r"must have a method log\(values, step\)"):
        pyrite.Logged("runs/log")  # type: ignore[arg-type]
    assert isinstance(pyrite.TensorBoard(), Log)
