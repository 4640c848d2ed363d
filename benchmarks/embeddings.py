"""Losses on embeddings of a pretrained net, with labels by people: CIFAR-10N.

    PYRITE_DATA=data python -m benchmarks.embeddings --out runs/embeddings --choose
    PYRITE_DATA=data python -m benchmarks.embeddings --out runs/embeddings
    PYRITE_DATA=data python -m benchmarks.embeddings --out runs/embeddings --table --json FILE --figure FILE

The first 20,000 training images and the 10,000 test images of CIFAR-10 are embedded once, by EfficientNet-Lite0 with
the weights of ImageNet, and a head is trained on them with each loss. Each cell (labels, entry, seed) is one line of
``cells.jsonl`` in the folder: what is there is not trained again. ``--choose`` measures settings of the head on a fifth
of the training images that is held out with its given labels, for a seed that is used for nothing else.
"""

import argparse
import json
import platform
import tempfile
import time
import warnings
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import torch

import pyrite
from pyrite.data import Dataset

Cell = dict[str, Any]

SAMPLES, SEEDS, CHOICE_SEED = 20_000, range(3), 100
FEATURES = "efficientnet_lite0(size=128)"
LABELS = {
    "clean": None,
    "aggregate": "aggre_label",
    "random 1": "random_label1",
    "worst": "worse_label",
}
ENTRIES = {
    "CE": "erm(ce)",
    "SCE": "erm(sce(q=0.7))",
    "GCE": "erm(gce(q=0.7))",
    "MAE": "erm(unit(mae))",
    "scaled MAE, τ = 1": "erm(unit(scale(mae, tau=1, classes=10)))",
    "scaled MAE, τ = 2": "erm(unit(scale(mae, tau=2, classes=10)))",
    "IMAE": "erm(imae(T=8))",
    "NCE + MAE": "erm(0.7*nce + 0.15*mae)",
    "ELR": "elr",
}
HEAD: dict[str, Any] = {"model": "mlp(hidden=[64])", "epochs": 10}
CHOICES: list[dict[str, Any]] = [
    {"model": model, "epochs": 10, "optimiser": optimiser}
    for model in ("mlp(hidden=[64])", "mlp(hidden=[256])")
    for optimiser in ("sgd(lr=0.1)", "sgd(lr=0.01)", "adamw(lr=0.001, weight_decay=0.1)")
]


def load(labels: str) -> Dataset:
    """The first images with the labels of one column, and the whole test part."""
    column = LABELS[labels]
    data = pyrite.data.load("cifar10" if column is None else f"cifar10n(column={column!r})")
    true = data.labels if data.true is None else data.true
    return replace(
        data, inputs=data.inputs[:SAMPLES], labels=data.labels[:SAMPLES], true=true[:SAMPLES], human={}, coarse=None
    )


def measure(data: Dataset, method: str, seed: int, **options: Any) -> Cell:
    began = time.process_time()
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run = pyrite.train(
            data, features=FEATURES, method=method, seed=seed, out=Path(folder) / "run", progress=False, **options
        )
        last, table = run.history[-1], run.table
        cell: Cell = {"seconds": time.process_time() - began, "accuracy": table["final_test_accuracy"]}
        cell |= {"best": table["best_test_accuracy"], "memorised": last["memorised"]}
        return cell | {"auc": last.get("margin_mean_auc"), "validation": last["validation_accuracy"]}


def choose(folder: Path, minutes: float) -> None:
    """Settings of the head by held-out given labels; test accuracies are not looked at."""
    began = time.monotonic()
    for labels in ("worst", "aggregate"):
        data = replace(load(labels), test=None)
        for entry in ("CE", "scaled MAE, τ = 2"):
            for options in CHOICES:
                key = {"labels": labels, "entry": entry, **options}
                if any(all(cell.get(name) == key[name] for name in key) for cell in read(folder / "choices.jsonl")):
                    continue
                if time.monotonic() - began > 60 * minutes:
                    return
                cell = key | measure(data, ENTRIES[entry], CHOICE_SEED, validation=0.2, **options)
                write(folder / "choices.jsonl", cell)
                print(labels, entry, options, f"{100 * cell['validation']:.2f} {cell['seconds']:.0f} s", flush=True)


def read(path: Path) -> list[Cell]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def write(path: Path, cell: Cell) -> None:
    with path.open("a") as file:
        file.write(json.dumps(cell) + "\n")


def train_all(folder: Path, minutes: float) -> None:
    began, loaded = time.monotonic(), dict[str, Dataset]()
    for seed in SEEDS:
        for labels in reversed(LABELS):
            for entry, method in ENTRIES.items():
                key = {"labels": labels, "entry": entry, "seed": seed}
                there = any(all(cell[name] == key[name] for name in key) for cell in read(folder / "cells.jsonl"))
                if there or time.monotonic() - began > 60 * minutes:
                    continue
                data = loaded[labels] if labels in loaded else load(labels)
                loaded = {labels: data}
                cell = key | {"method": method} | measure(data, method, seed, validation=0.0, **HEAD)
                write(folder / "cells.jsonl", cell)
                print(*key.values(), f"{cell['accuracy']:.4f} {cell['auc']} {cell['seconds']:.0f} s", flush=True)


def table(every: list[Cell], what: str, digits: int, factor: float) -> str:
    lines = [f"| | {' | '.join(LABELS)} |", "|---|" + "--:|" * len(LABELS)]
    for entry in ENTRIES:
        columns = []
        for labels in LABELS:
            own = [c for c in every if c["entry"] == entry and c["labels"] == labels and c[what] is not None]
            values = [factor * cell[what] for cell in own]
            spread = f" ± {stdev(values):.{digits}f}" if len(values) > 1 else ""
            columns.append(f"{mean(values):.{digits}f}{spread}" if values else "")
        lines.append(f"| {entry} | {' | '.join(columns)} |")
    return "\n".join(lines)


def draw(every: list[Cell], path: Path) -> None:
    """Accuracy on the left, and how well wrong labels are found on the right; one colour per kind of labels."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, 2, figsize=(11, 4.2), sharey=True)
    names = list(ENTRIES)[::-1]
    for panel, what, factor, title in (
        (panels[0], "accuracy", 100, "test accuracy at the end, %"),
        (panels[1], "auc", 1, "AUROC of finding the wrong labels"),
    ):
        for number, labels in enumerate(LABELS):
            own = [cell for cell in every if cell["labels"] == labels and cell[what] is not None]
            groups = {entry: [factor * c[what] for c in own if c["entry"] == entry] for entry in names}
            known = [(place, groups[entry]) for place, entry in enumerate(names) if groups[entry]]
            rate = "" if labels == "clean" else f", {RATES[labels]} wrong"
            for place, values in known:
                panel.plot([min(values), max(values)], [place, place], color=f"C{number}", linewidth=1)
            if known:
                panel.plot(
                    [mean(values) for _, values in known], [place for place, _ in known], "osD^"[number],
                    color=f"C{number}", label=f"{labels} labels{rate}",
                )  # fmt: skip
            if labels in ("worst",) and groups["CE"]:
                panel.axvline(mean(groups["CE"]), color=f"C{number}", linewidth=0.8, linestyle=":")
        panel.set_xlabel(title)
        panel.grid(axis="y", linewidth=0.4)
    panels[0].set_yticks(range(len(names)), names)
    panels[0].legend(fontsize=8, loc="best")
    figure.tight_layout()
    figure.savefig(path, dpi=130)


RATES = {"aggregate": "9 %", "random 1": "17 %", "worst": "40 %"}


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--out", type=Path, required=True)
    words.add_argument("--minutes", type=float, default=1e9, help="begin no cell after so many minutes")
    words.add_argument("--choose", action="store_true", help="measure settings of the head, and nothing else")
    words.add_argument("--table", action="store_true", help="print the tables of what is there, and train nothing")
    words.add_argument("--json", type=Path, help="write what is there to this file")
    words.add_argument("--figure", type=Path, help="draw what is there to this file")
    options = words.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    if options.choose:
        choose(options.out, options.minutes)
    elif not (options.table or options.json or options.figure):
        train_all(options.out, options.minutes)
    every = read(options.out / "cells.jsonl")
    if options.table:
        print(table(every, "accuracy", 1, 100), table(every, "auc", 3, 1), sep="\n\n")
    if options.figure:
        draw(every, options.figure)
    if options.json:
        versions = {package: version(package) for package in ("torch", "numpy")}
        facts = {"python": platform.python_version(), "pyrite": pyrite.__version__, **versions}
        content = {"command": "python -m benchmarks.embeddings --out runs/embeddings", "versions": facts}
        content |= {"features": FEATURES, "samples": SAMPLES, "head": HEAD, "cells": every}
        content |= {"choices": read(options.out / "choices.jsonl"), "choice_seed": CHOICE_SEED}
        options.json.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
