"""Runs whose every number is known."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pyrite.training import Config, Run

EDGES = np.arange(-20, 21, dtype=np.float64)


@pytest.fixture
def make_run(tmp_path: Path) -> Callable[..., Run]:
    """A run of two epochs that was never trained: what its folder would hold is put in its place."""

    def make(
        tests: list[float | None], followed: list[float | None], truth: bool = True, size: float = 2.0, **facts: Any
    ) -> Run:
        history = [
            {"epoch": epoch, "test_accuracy": test, "memorised": wrong, "clean_accuracy": 0.9, "recovered": 0.05}
            | {"train_accuracy": 0.6, "validation_accuracy": None, "margin_size": size}
            for epoch, (test, wrong) in enumerate(zip(tests, followed, strict=True), 1)
        ]
        config = Config(
            {"data": "digits", "method": "erm(ce)", "noise": "symmetric(rate=0.4)", "epochs": max(1, len(tests))}
        )
        run = Run(tmp_path / "run", config, history)
        run.path.mkdir(exist_ok=True)
        (run.path / "run.json").write_text('{"finished": false}')
        counts = np.zeros((len(tests), len(EDGES) + 1), np.int64)
        counts[:, 21] = 6  # from 0 to 1
        counts[:, 11] = 4  # from -10 to -9
        wrong = np.where(np.arange(len(EDGES) + 1) == 11, counts, 0)
        samples = {"margin_edges": EDGES, "margins": counts} | ({"noisy_margins": wrong} if truth else {})
        labels = {"given": np.array([0, 1, 2, 2]), "part": np.array([0, 0, 0, 1])}
        run.__dict__["samples"] = samples
        run.__dict__["labels"] = labels | ({"true": np.array([0, 1, 1, 0])} if truth else {})
        versions = {"pyrite": "1", "torch": "2", "python": "3"}
        run.__dict__["facts"] = {
            "warnings": [],
            "seconds": 1.0,
            "classes": ["a", "b", "c"],
            "versions": versions,
        } | facts
        return run

    return make
