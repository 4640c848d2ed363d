"""Every method beside the losses, with the same net and budget: digits, Fashion-MNIST and CIFAR-10 under four noises.

    PYRITE_DATA=data python -m benchmarks.methods --out runs/methods --sets digits
    PYRITE_DATA=data python -m benchmarks.methods --out runs/methods --sets fashion cifar10

Each cell (set, noise, entry, seed) is one line of ``SET.jsonl`` in the folder, written when its run has ended: what is
there is not trained again, and a killed benchmark loses one run. Two processes may work on different sets or noises.
The tables are made from whatever is there: ``--table`` prints them, and ``--json FILE`` writes all cells with the
versions.
"""

import argparse
import json
import platform
import tempfile
import time
import warnings
from collections.abc import Iterator
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from statistics import mean, stdev
from typing import Any, NamedTuple

import numpy as np
import torch

import pyrite
from pyrite.data import Dataset

Cell = dict[str, Any]

LOSSES = {
    "CE": "erm(ce)",
    "GCE": "erm(gce(q=0.7))",
    "SCE": "erm(sce(q=0.7))",
    "MAE": "erm(unit(mae))",
    "scaled MAE": "erm(unit(scale(mae, tau=1, classes=10)))",
    "NCE + MAE": "erm(0.7*nce + 0.15*mae)",
    "IMAE": "erm(imae(T=8))",
}


class Set(NamedTuple):
    """A data set with the net and the length that all entries have."""

    data: str
    noises: tuple[str, ...]
    seeds: range
    options: dict[str, Any]
    test: int = 0  # test samples that are looked at; 0 for all
    meta: int = 200
    halved: bool = False  # images of half the height and width


MADE = ("none", "uniform(0.4)", "flip2(0.4)")
SETS = {
    "digits": Set("digits", MADE, range(5), {"model": "mlp", "epochs": 40}),
    "fashion": Set(
        "fashion_mnist",
        MADE,
        range(1),
        {"model": "mlp", "epochs": 20, "samples": 5000, "augment": "none"},
        test=2000,
    ),
    "cifar10": Set(
        "cifar10",
        (*MADE, "human"),
        range(1),
        {"model": "fast_cnn(widths=[8, 16, 32])", "epochs": 20, "samples": 1500, "augment": "none"},
        test=2000,
        halved=True,
    ),
}
HUMAN = {"cifar10": "cifar10n(column='worse_label')"}


def entries(meta: int) -> dict[str, str]:
    """By the names the papers have; a star marks those that see clean labels of a meta set."""
    methods = {
        "Forward": "forward",
        "Backward": "backward",
        "S-Model": "s_model",
        "Masking": "masking",
        "GLC*": f"glc(size={meta})",
        "Fine-tuning*": f"fine_tune(size={meta})",
        "Bootstrap, soft": "bootstrap(kind='soft')",
        "Bootstrap, hard": "bootstrap(kind='hard')",
        "Peer": "peer",
        "CORES": "confidence",
        "Self-paced": "self_paced",
        "MentorNet": "mentornet",
        "Co-teaching": "co_teaching",
        "D2L": "d2l",
        "Joint": "joint",
        "ELR": "elr",
        "Bilevel": "bilevel",
        "L2RW*": f"l2rw(meta='clean', size={meta})",
        "MW-Net*": f"meta_weight(ce, meta='clean', size={meta}, lr=1)",
        "MNW-Net": f"meta_weight(ce, size={meta}, lr=1)",
        "RMNW-Net": f"meta_weight(mae, size={meta}, lr=1)",
    }
    return LOSSES | methods


def halve(images: Any) -> np.ndarray[Any, Any]:
    """Each square of four pixels becomes their mean."""
    count, channels, height, width = images.shape
    squares = np.asarray(images).reshape(count, channels, height // 2, 2, width // 2, 2)
    return np.round(squares.mean((3, 5))).astype(np.uint8)


def load(name: str, noise: str) -> Dataset:
    chosen = SETS[name]
    data = pyrite.data.load(HUMAN[name] if noise == "human" else chosen.data)
    if chosen.test and data.test is not None:
        test = replace(data.test, inputs=data.test.inputs[: chosen.test], labels=data.test.labels[: chosen.test])
        data = replace(data, test=test)
    if chosen.halved and data.test is not None:
        test = replace(data.test, inputs=halve(data.test.inputs))
        data = replace(data, inputs=halve(data.inputs), test=test)
    # Without noise the given labels are the true ones, which methods with a clean meta set ask for.
    return replace(data, true=data.labels) if noise == "none" else data


def measure(name: str, noise: str, entry: str, spec: str, seed: int, data: Dataset) -> Cell:
    """The final accuracy, the best one on test, the AUC of finding wrong labels, and the seconds."""
    cell: Cell = {"set": name, "noise": noise, "entry": entry, "method": spec, "seed": seed}
    made = None if noise in ("none", "human") else noise
    began = time.process_time()
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            run = pyrite.train(
                data, method=spec, noise=made, seed=seed, out=Path(folder) / "run", progress=False, validation=0.0,
                **SETS[name].options,
            )  # fmt: skip
        except pyrite.RunFailed as error:
            return cell | {"failed": str(error), "seconds": time.process_time() - began}
        last = run.history[-1]
        cell |= {"seconds": time.process_time() - began, "accuracy": run.table["final_test_accuracy"]}
        cell |= {"best": run.table["best_test_accuracy"], "memorised": last["memorised"]}
        cell |= {"trust_auc": last.get("trust_auc"), "margin_auc": last.get("margin_mean_auc")}
    return cell


def cells(folder: Path) -> list[Cell]:
    return [json.loads(line) for path in sorted(folder.glob("*.jsonl")) for line in path.read_text().splitlines()]


def wanted(name: str) -> Iterator[tuple[str, str, str, int]]:
    """All entries for one noise and seed before the next, so that what is there can be compared."""
    chosen = SETS[name]
    for seed in chosen.seeds:
        for noise in reversed(chosen.noises):
            for entry, spec in entries(chosen.meta).items():
                yield noise, entry, spec, seed


def table(name: str, every: list[Cell]) -> str:
    """Final accuracy in per cent with its fall from the best on test, and time relative to cross entropy."""
    own = [cell for cell in every if cell["set"] == name]
    noises = [noise for noise in SETS[name].noises if any(cell["noise"] == noise for cell in own)]
    heads = [f"{noise} | fall | AUC" for noise in noises]
    lines = [f"| | {' | '.join(heads)} | time |", "|---|" + "--:|" * (3 * len(noises) + 1)]
    base = {(cell["noise"], cell["seed"]): cell["seconds"] for cell in own if cell["entry"] == "CE"}
    for entry in entries(SETS[name].meta):
        columns, times = [], []
        for noise in noises:
            group = [cell for cell in own if cell["entry"] == entry and cell["noise"] == noise]
            columns += _columns(group)
            times += [cell["seconds"] / base[noise, cell["seed"]] for cell in group if (noise, cell["seed"]) in base]
        if any(column != "" for column in columns):
            lines.append(f"| {entry} | {' | '.join(columns)} | {mean(times):.1f} |" if times else f"| {entry} | |")
    return "\n".join(lines)


def _columns(group: list[Cell]) -> list[str]:
    done = [cell for cell in group if "accuracy" in cell]
    if not done:
        return ["failed" if group else "", "", ""]
    values = [100 * cell["accuracy"] for cell in done]
    spread = f" ± {stdev(values):.1f}" if len(values) > 1 else ""
    fall = mean(100 * (cell["best"] - cell["accuracy"]) for cell in done)
    aucs = [cell["trust_auc"] for cell in done if cell["trust_auc"] is not None]
    return [f"{mean(values):.1f}{spread}", f"{fall:.1f}", f"{mean(aucs):.2f}" if aucs else ""]


def draw(every: list[Cell], path: Path) -> None:
    """One panel per set: final accuracy of every entry under each noise, with a line at cross entropy's."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    sets = [name for name in SETS if any(cell["set"] == name for cell in every)]
    names = list(entries(200))[::-1]
    figure, panels = plt.subplots(1, len(sets), figsize=(4.2 * len(sets) + 1, 8), sharey=True, squeeze=False)
    for panel, name in zip(panels[0], sets, strict=True):
        for number, noise in enumerate(SETS[name].noises):
            own = [c for c in every if c["set"] == name and c["noise"] == noise and "accuracy" in c]
            means = {entry: [100 * c["accuracy"] for c in own if c["entry"] == entry] for entry in names}
            places = [place for place, entry in enumerate(names) if means[entry]]
            values = [mean(means[names[place]]) for place in places]
            panel.plot(values, places, "os^D"[number], color=f"C{number}", label=noise, markersize=5)
            if means["CE"]:
                panel.axvline(mean(means["CE"]), color=f"C{number}", linewidth=0.8, linestyle=":")
        panel.set_title(name)
        panel.set_xlabel("test accuracy at the end, %")
        panel.grid(axis="y", linewidth=0.4)
    panels[0][0].set_yticks(range(len(names)), names)
    every_handle = [panel.get_legend_handles_labels() for panel in panels[0]]
    handles = {label: handle for pair in every_handle for handle, label in zip(*pair, strict=True)}
    figure.legend(handles.values(), handles, ncol=4, loc="lower right", fontsize=9, frameon=False)
    figure.text(0.01, 0.012, "dotted: cross entropy; * sees clean labels of a meta set", fontsize=9)
    figure.tight_layout(rect=(0, 0.035, 1, 1))
    figure.savefig(path, dpi=110)


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--out", type=Path, required=True)
    words.add_argument("--sets", nargs="*", default=list(SETS), choices=list(SETS))
    words.add_argument("--noises", nargs="*", help="only these, so that two processes share a set")
    words.add_argument("--table", action="store_true", help="print the tables of what is there, and train nothing")
    words.add_argument("--json", type=Path, help="write what is there to this file")
    words.add_argument("--figure", type=Path, help="draw what is there to this file")
    options = words.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    for name in options.sets if not (options.table or options.json or options.figure) else ():
        loaded: dict[str, Dataset] = {}
        for noise, entry, spec, seed in wanted(name):
            key = (name, noise, entry, spec, seed)
            there = [(c["set"], c["noise"], c["entry"], c["method"], c["seed"]) for c in cells(options.out)]
            if key in there or (options.noises and noise not in options.noises):
                continue
            data = loaded[noise] if noise in loaded else load(name, noise)
            loaded = {noise: data}
            cell = measure(name, noise, entry, spec, seed, data)
            with (options.out / f"{name}.jsonl").open("a") as file:
                file.write(json.dumps(cell) + "\n")
            print(name, noise, entry, seed, f"{cell.get('accuracy', 'failed')} {cell['seconds']:.0f} s", flush=True)
    every = cells(options.out)
    if options.table:
        for name in options.sets:
            print(f"\n{name}\n\n{table(name, every)}")
    if options.figure:
        draw(every, options.figure)
    if options.json:
        versions = {package: version(package) for package in ("torch", "numpy", "scikit-learn")}
        facts = {"python": platform.python_version(), "pyrite": pyrite.__version__, **versions}
        command = "python -m benchmarks.methods --out runs/methods"
        sets = {name: {**chosen._asdict(), "seeds": list(chosen.seeds)} for name, chosen in SETS.items()}
        content = {"command": command, "versions": facts, "sets": sets, "cells": every}
        options.json.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
