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
import time
from importlib.metadata import version
from itertools import product
from pathlib import Path
from statistics import mean, stdev
from typing import Any, NamedTuple

import numpy as np
import torch

import pyrite
from pyrite.data import Dataset
from pyrite.diagnostics import roc_auc
from pyrite.features import encoder
from pyrite.training import make_learner, resolve

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
CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
# AdamW makes steps of one size whatever the weights of a loss are, so that no loss is at a disadvantage by its scale.
HEAD: dict[str, Any] = {
    "model": "mlp(hidden=[64])",
    "epochs": 10,
    "optimiser": "adamw(lr=0.001, weight_decay=0.1)",
}
CHOICES: list[dict[str, Any]] = [
    {"model": model, "epochs": 10, "optimiser": optimiser}
    for model in ("mlp(hidden=[64])", "mlp(hidden=[256])")
    for optimiser in ("sgd(lr=0.1)", "sgd(lr=0.01)", "adamw(lr=0.001, weight_decay=0.1)")
]


class Loaded(NamedTuple):
    """Embeddings of the training and the test images, standardised, with the labels of one column."""

    x: Any
    given: Any
    true: Any
    test_x: Any
    test_y: Any


def load(labels: str) -> Loaded:
    column = LABELS[labels]
    data = pyrite.data.load("cifar10" if column is None else f"cifar10n(column={column!r})")
    assert data.test is not None
    true = data.labels if data.true is None else data.true
    described = encoder(FEATURES)
    assert described is not None
    features = described.fit(data.inputs, np.arange(SAMPLES))
    x, test_x = features.transform(data.inputs[:SAMPLES], progress=True), features.transform(data.test.inputs, True)
    scale = pyrite.Statistics.of(x)
    given, true = data.labels[:SAMPLES], true[:SAMPLES]
    return Loaded(scale.standardise(x), given, true, scale.standardise(test_x), data.test.labels)


class Margins:
    """The mean over all epochs of each sample's margin in training, by which an audit finds wrong labels."""

    def __init__(self) -> None:
        self.sum = np.zeros(SAMPLES)

    def after_step(self, step: Any) -> None:
        np.add.at(self.sum, step.index.numpy(), step.margin.numpy())

    def after_epoch(self, epoch: int) -> None:
        pass


def measure(data: Loaded, method: str, seed: int, rows: Any, judged: Any, **options: Any) -> Cell:
    """Train on ``rows`` as ``pyrite train`` does; ``judged`` are inputs with the labels that they are judged by."""
    began = time.process_time()
    every = Dataset("embeddings", data.x, data.given, CLASSES, Dataset("test", data.x, data.given, CLASSES))
    config = resolve(every, method=method, seed=seed, **options).config
    batches = pyrite.Batches(data.x, data.given, batch_size=config.batch_size, seed=seed, index=rows)

    def learner(number: int, epochs: int) -> pyrite.Learner:
        net = pyrite.build_model(config.model, data.x.shape[1:], len(CLASSES), seed + 1000 * number)
        return make_learner(config, net, len(batches), epochs)

    trainer = pyrite.method(method).start(pyrite.Context(batches, learner, epochs=config.epochs, classes=len(CLASSES)))
    margins = Margins()
    pyrite.fit(trainer, batches, config.epochs, [margins])
    inputs, labels = judged
    with torch.inference_mode():
        net = trainer.learners[0].model.eval()
        right = (net(torch.from_numpy(inputs)).argmax(1).numpy() == labels).mean()
    wrong = (data.given != data.true)[rows]
    auc = roc_auc(-margins.sum[rows], wrong) if wrong.any() else None
    return {"accuracy": float(right), "auc": auc, "seconds": time.process_time() - began}


def choose(folder: Path, minutes: float) -> None:
    """Settings of the head by held-out given labels; neither true labels nor test images are looked at."""
    began, labels = time.monotonic(), "worst"
    data = load(labels)
    parts = pyrite.split(data.given, validation=0.2, seed=CHOICE_SEED)
    judged = data.x[parts.validation], data.given[parts.validation]
    for entry in ("CE", "scaled MAE, τ = 2"):
        for options in CHOICES:
            key = {"labels": labels, "entry": entry, **options}
            if any(all(cell.get(name) == key[name] for name in key) for cell in read(folder / "choices.jsonl")):
                continue
            if time.monotonic() - began > 60 * minutes:
                return
            cell = key | measure(data, ENTRIES[entry], CHOICE_SEED, parts.train, judged, **options)
            write(folder / "choices.jsonl", cell)
            print(labels, entry, options, f"{100 * cell['accuracy']:.2f} {cell['seconds']:.1f} s", flush=True)


def read(path: Path) -> list[Cell]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def write(path: Path, cell: Cell) -> None:
    with path.open("a") as file:
        file.write(json.dumps(cell) + "\n")


def train_all(folder: Path, minutes: float, default: bool) -> None:
    """All cells, or with ``default`` those of the worst labels with the optimiser that ``pyrite train`` would take."""
    file = folder / ("default.jsonl" if default else "cells.jsonl")
    began, loaded = time.monotonic(), dict[str, Loaded]()
    for seed, labels in sorted(product(SEEDS, LABELS), key=lambda pair: (pair[1] != "worst", pair)):
        for entry, method in ENTRIES.items():
            key = {"labels": labels, "entry": entry, "seed": seed}
            there = any(all(cell[name] == key[name] for name in key) for cell in read(file))
            if there or (default and labels != "worst") or time.monotonic() - began > 60 * minutes:
                continue
            data = loaded[labels] if labels in loaded else load(labels)
            loaded = {labels: data}
            rows, judged = np.arange(SAMPLES), (data.test_x, data.test_y)
            rate = float(f"{0.01 / pyrite.method(method).largest_weight:.3g}")
            options = HEAD | ({"optimiser": f"sgd(lr={rate})"} if default else {})
            cell = key | {"method": method} | measure(data, method, seed, rows, judged, **options)
            write(file, cell)
            numbers = f"{cell['accuracy']:.4f} {cell['auc'] or 0:.4f} {cell['seconds']:.1f} s"
            print(*key.values(), numbers, flush=True)


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
            if labels == "worst" and groups["CE"]:  # what the others are compared with
                panel.axvline(mean(groups["CE"]), color=f"C{number}", linewidth=0.8, linestyle=":")
        panel.set_xlabel(title)
        panel.grid(axis="y", linewidth=0.4)
    panels[0].set_yticks(range(len(names)), names)
    handles, words = panels[0].get_legend_handles_labels()
    figure.legend(handles, words, ncol=4, loc="lower center", fontsize=9, frameon=False)
    figure.tight_layout(rect=(0, 0.06, 1, 1))
    figure.savefig(path, dpi=130)


RATES = {"aggregate": "9 %", "random 1": "17 %", "worst": "40 %"}


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--out", type=Path, required=True)
    words.add_argument("--minutes", type=float, default=1e9, help="begin no cell after so many minutes")
    words.add_argument("--choose", action="store_true", help="measure settings of the head, and nothing else")
    words.add_argument("--default", action="store_true", help="the worst labels, with the default optimiser")
    words.add_argument("--table", action="store_true", help="print the tables of what is there, and train nothing")
    words.add_argument("--json", type=Path, help="write what is there to this file")
    words.add_argument("--figure", type=Path, help="draw what is there to this file")
    options = words.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    if options.choose:
        choose(options.out, options.minutes)
    elif not (options.table or options.json or options.figure):
        train_all(options.out, options.minutes, options.default)
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
        content |= {"default_optimiser": read(options.out / "default.jsonl")}
        options.json.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
