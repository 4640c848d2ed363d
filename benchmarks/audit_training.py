"""What an audit should train with: losses, numbers of folds, and one fifth held out, at equal epochs.

    python -m benchmarks.audit_training --out runs/audit-training [--minutes 30]

Each cell (set, method, seed) is a file in the folder, so that what is done is not done again.
"""

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import torch
from sklearn.datasets import make_blobs

import pyrite
from pyrite.data import Dataset, load
from pyrite.diagnostics import detection
from pyrite.files import write

SEEDS = range(3)
MAE = "erm(unit(scale(mae, tau=1, classes={classes})))"
METHODS = {
    "absolute error, a fifth held out": MAE,
    "absolute error, 2 folds": f"cross_fit({MAE})",
    "absolute error, 4 folds": f"cross_fit({MAE}, folds=4)",
    "`gce(q=0.7)`, 4 folds": "cross_fit(erm(gce(q=0.7)), folds=4)",
    "`gce(q=0.4)`, 4 folds": "cross_fit(erm(gce(q=0.4)), folds=4)",
    "cross entropy, 4 folds": "cross_fit(erm(ce), folds=4)",
}


def blobs(seed: int) -> Dataset:
    inputs, labels = make_blobs(1000, centers=3, cluster_std=3, random_state=seed)
    return Dataset("blobs", inputs, labels.astype(np.int64), ("a", "b", "c"))


def digits(seed: int) -> Dataset:
    data = load("digits")
    return Dataset("digits", data.numeric.reshape(len(data), -1).astype(np.float64), data.labels, data.classes)


def fashion(seed: int) -> Dataset:
    data = load("fashion_mnist")
    rows = np.random.default_rng(seed).choice(len(data), 2000, replace=False)
    return Dataset("fashion", data.numeric[rows], data.labels[rows], data.classes)


SETS: dict[str, tuple[Callable[[int], Dataset], str | None]] = {
    "overlapping blobs, clean": (blobs, None),
    "overlapping blobs, `symmetric(0.2)`": (blobs, "symmetric(0.2)"),
    "digits as a table, `flip2(0.4)`": (digits, "flip2(0.4)"),
    "Fashion-MNIST, 2,000 images, `flip2(0.3)`": (fashion, "flip2(0.3)"),
}


def measure(name: str, method: str, seed: int, out: Path) -> dict[str, Any]:
    read, noise = SETS[name]
    data = read(seed)
    spec = METHODS[method].format(classes=len(data.classes))
    share = 0.2 if "held out" in method else 0.0
    began = time.process_time()
    found = pyrite.audit(
        data, method=spec, validation=share, noise=noise, seed=seed, out=out, progress=False,
    )  # fmt: skip
    true = data.labels[found.index] if found.true is None else found.true
    wrong = found.labels != true
    line = {"set": name, "method": method, "seed": seed, "rate": found.noise_rate, "true": float(wrong.mean())}
    line |= {"low": found.noise_interval[0], "high": found.noise_interval[1], "seconds": time.process_time() - began}
    if wrong.any():
        quality = detection(found.score, wrong)
        line |= {"auroc": quality.roc_auc, "ap": quality.average_precision, "best_f1": quality.best_f1.f1}
        line["f1"] = float(2 * (found.is_suspect & wrong).sum() / (found.is_suspect.sum() + wrong.sum()))
    return line


def show(lines: list[dict[str, Any]]) -> None:
    print("| labels | trained with | seeds | wrong | found | interval | AUROC | AP | F1 | best F1 |")
    print("|---|---|--:|--:|--:|--:|--:|--:|--:|--:|")
    for name, method in dict.fromkeys((line["set"], line["method"]) for line in lines):
        held = [line for line in lines if (line["set"], line["method"]) == (name, method)]
        low, high, true, rate = (100 * mean(line[key] for line in held) for key in ("low", "high", "true", "rate"))
        shares = [
            f"{mean(line[key] for line in held):.3f}"[1:] for key in ("auroc", "ap", "f1", "best_f1") if key in held[0]
        ]
        columns = [f"{true:.1f}", f"{rate:.1f}", f"{low:.0f} to {high:.0f}", *(shares or [""] * 4)]
        print(f"| {name} | {method} | {len(held)} | {' | '.join(columns)} |")


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--out", type=Path, required=True)
    words.add_argument("--minutes", type=float, default=1e9)
    given = words.parse_args()
    torch.set_num_threads(1)
    stop, lines = time.monotonic() + 60 * given.minutes, []
    for seed in SEEDS:
        for name in SETS:
            for method in METHODS:
                home = given.out / f"{list(SETS).index(name)}-{list(METHODS).index(method)}-{seed}"
                path = home.with_suffix(".json")
                if not path.exists():
                    if time.monotonic() > stop:
                        continue
                    write(path, (json.dumps(measure(name, method, seed, home)) + "\n").encode())
                lines.append(json.loads(path.read_text()))
    write(given.out / "audit_training.json", (json.dumps({"cells": lines}, indent=1) + "\n").encode())
    show(lines)


if __name__ == "__main__":
    main()
