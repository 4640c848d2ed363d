"""Meta-learned weights divided by the batch size or by their sum: which of the two gives the published order.

    python -m benchmarks.meta_normalise --out FOLDER [--sets digits blobs fashion] [--seeds 3]

Every method of the gold-samples paper with both divisions, and cross entropy, under two noises. Runs are kept in FOLDER
and not made again, so that a benchmark that was stopped goes on. All cells go to FOLDER/meta_normalise.json.
Fashion-MNIST needs the data (PYRITE_DATA).
"""

import argparse
import json
import platform
import sys
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import Any

import torch

from pyrite.training import resolve, train_once

SETS: dict[str, tuple[str, dict[str, Any]]] = {
    "digits": ("digits", {"epochs": 25}),
    "blobs": ("blobs(samples=1500, classes=10, features=20)", {"epochs": 20}),
    "fashion": ("fashion_mnist", {"epochs": 15, "samples": 1200}),
}
SHARED: dict[str, Any] = {"model": "mlp", "augment": "none", "batch_size": 100}
NOISES = ("uniform(0.4)", "flip2(0.4)")
METHODS = {"MW-Net*": "ce, meta='clean', ", "MNW-Net": "ce, ", "RMNW-Net": "mae, "}
OPTIONS = "size=200, lr=1"
COLUMNS = ("final_test_accuracy", "best_test_accuracy", "memorised", "final_trust_auc", "best_trust_auc")


def spellings() -> dict[tuple[str, str], str]:
    """The methods by name and division."""
    found = {("cross entropy", ""): "erm(ce)"}
    for (name, meta), normalise in product(METHODS.items(), ("mean", "sum")):
        found[name, normalise] = f"meta_weight({meta}{OPTIONS}, normalise='{normalise}')"
    return found


def measure(out: Path, sets: list[str], seeds: int) -> list[dict[str, Any]]:
    cells = []
    for seed, chosen, noise in product(range(seeds), sets, NOISES):
        where, options = SETS[chosen]
        for (name, normalise), method in spellings().items():
            folder = out / f"{chosen}-{noise.split('(')[0]}-{name.strip('*').replace(' ', '-')}-{normalise}-{seed}"
            job = resolve(where, method=method, noise=noise, seed=seed, **SHARED, **options)
            run = train_once(job, folder, progress=False)
            cell = {"set": chosen, "noise": noise, "name": name, "normalise": normalise, "seed": seed, "method": method}
            cells.append(cell | {column: run.table.get(column) for column in COLUMNS})
            print(json.dumps(cells[-1]), flush=True)
            _write(out, cells, sets, seeds)
    return cells


def _write(out: Path, cells: list[dict[str, Any]], sets: list[str], seeds: int) -> None:
    facts = {
        "command": f"python -m benchmarks.meta_normalise --sets {' '.join(sets)} --seeds {seeds}",
        "seeds": list(range(seeds)),
        "settings": {name: {"data": where, **SHARED, **options} for name, (where, options) in SETS.items()},
        "versions": {name: version(name) for name in ("pyrite", "torch", "numpy")}
        | {"python": platform.python_version()},
        "cells": cells,
    }
    (out / "meta_normalise.json").write_text(json.dumps(facts, indent=1) + "\n")


def main(words: list[str]) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args(words)
    torch.set_num_threads(1)
    options.out.mkdir(parents=True, exist_ok=True)
    measure(options.out, options.sets, options.seeds)


if __name__ == "__main__":
    main(sys.argv[1:])
