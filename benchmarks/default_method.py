"""The default method beside cross entropy, absolute error, GCE and ELR: many kinds of data, and timed runs.

    PYRITE_DATA=data python -m benchmarks.default_method grid --out runs/default --text data/text
    PYRITE_DATA=data python -m benchmarks.default_method timed --out runs/default --labels worse_label --seeds 0 1 2
    python -m benchmarks.default_method table --out runs/default --json docs/results/default_method.json \
        --figure docs/default_method.png

``grid`` trains every method on six kinds of data, with five noises and two lengths each, and the settings that
``pyrite train`` would choose; a tenth is held out with its given labels. ``timed`` is ``pyrite train`` on all images of
CIFAR-10N, with nothing else said but the length. Each cell is one line of ``grid.jsonl`` or ``timed.jsonl``: what is
there is not trained again. Texts are those that ``benchmarks.text --fetch`` writes, tables those of
``benchmarks.tables``. The method was developed on the worst labels of CIFAR-10N and on Fashion-MNIST with ``flip2``.
"""

import argparse
import json
import platform
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import version
from itertools import product
from pathlib import Path
from statistics import mean
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import torch

import pyrite
from benchmarks.tables import SETS as TABLES
from benchmarks.text import fortunes
from pyrite.data import Dataset, split, texts

Cell = dict[str, Any]

METHODS = {
    "default": "auto",
    "CE": "erm(ce)",
    "GCE": "erm(gce(q=0.7))",
    "MAE": "erm(unit(mae))",
    "ELR": "elr",
}
OVER_TIME = METHODS | {"Co-teaching": "co_teaching"}  # two nets: too slow for the grid
MADE = ("", "symmetric(0.2)", "symmetric(0.4)", "symmetric(0.6)", "flip2(0.4)")
HUMAN = ("", "aggre_label", "random_label1", "worse_label", "flip2(0.4)")
SEEDS = range(3)
EMBEDDED, TESTED = 5000, 2000


class Kind(NamedTuple):
    """Data, the noises that are made or the columns of people's labels, and the epochs of a short and a long run."""

    load: Callable[[str, Path], Dataset | str]
    noises: tuple[str, ...]
    epochs: tuple[int, int]
    options: Mapping[str, Any] = MappingProxyType({})


def embedded(noise: str, _: Path) -> Dataset:
    """The first images of CIFAR-10 with true labels or people's; the test part are training images after those."""
    column = noise if noise.endswith(("label", "label1")) else "worse_label"
    every = pyrite.data.load(f"cifar10n(column={column!r})")
    assert every.true is not None
    given = every.labels if column == noise else every.true
    rest = slice(EMBEDDED, EMBEDDED + TESTED)
    test = Dataset("test", every.inputs[rest], every.true[rest], every.classes)
    return Dataset(
        "CIFAR-10", every.inputs[:EMBEDDED], given[:EMBEDDED], every.classes, test, true=every.true[:EMBEDDED]
    )


def table(name: str) -> Callable[[str, Path], Dataset]:
    def load(_: str, __: Path) -> Dataset:
        inputs, labels = TABLES[name]()
        rows = split(labels, meta=0, validation=0.3, seed=0)
        classes = tuple(str(number) for number in range(labels.max() + 1))
        test = Dataset("test", inputs[rows.validation], labels[rows.validation], classes)
        return Dataset(name, inputs[rows.train], labels[rows.train], classes, test)

    return load


def topics(_: str, folder: Path) -> Dataset:
    words, names = fortunes(folder)
    classes = tuple(sorted(set(names)))
    labels = np.array([classes.index(name) for name in names])
    rows = split(labels, meta=0, validation=0.3, seed=0)
    test = Dataset("test", texts([words[row] for row in rows.validation]), labels[rows.validation], classes)
    return Dataset("fortunes", texts([words[row] for row in rows.train]), labels[rows.train], classes, test)


KINDS = {
    "digits, mlp": Kind(lambda *_: "digits", MADE, (5, 40), {"model": "mlp"}),
    "Fashion-MNIST, mlp": Kind(
        lambda *_: f"reduced(fashion_mnist, size=28, test={TESTED})", MADE, (5, 30), {"model": "mlp", "samples": 3000}
    ),
    "CIFAR-10 at 16 pixels, fast_cnn": Kind(
        lambda *_: f"reduced(cifar10, size=16, test={TESTED})", MADE, (5, 20), {"samples": 3000}
    ),
    "CIFAR-10, embeddings": Kind(embedded, HUMAN, (5, 30), {"features": "efficientnet_lite0(size=128)"}),
    "satimage, table": Kind(table("satimage"), MADE, (10, 60)),
    "fortunes, text": Kind(topics, MADE, (5, 30)),
}


def read(path: Path) -> list[Cell]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def trained(data: Dataset | str, keep: Path | None = None, **options: Any) -> Cell:
    """One run, as its history tells it: accuracies of the saved model, and over time. ``keep`` is the run's folder."""
    began, wall, clock = time.process_time(), time.perf_counter(), Clock()
    with tempfile.TemporaryDirectory() as place, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run = pyrite.train(data, out=keep or Path(place) / "run", progress=False, observers=[clock], **options)
        facts = json.loads((run.path / "run.json").read_text())
    tests = [line["test_accuracy"] for line in run.history]
    epoch = facts["saved"]["epoch"]
    cell = {
        "saved_epoch": epoch,
        "accuracy": tests[epoch - 1],
        "last": tests[-1],
        "best": max(tests),
        "memorised": run.history[-1].get("memorised"),
        "cpu_seconds": round(time.process_time() - began, 1),
        "wall_seconds": round(time.perf_counter() - wall, 1),
        "seconds": [round(second, 1) for second in clock.seconds],
        "test": tests,
        "threads": torch.get_num_threads(),
        "recipe": facts["recipe"],
        "versions": {name: version(name) for name in ("torch", "numpy")} | {"python": platform.python_version()},
    }
    return cell


class Clock:
    """The processor time at the end of every epoch, which does not depend on what else the machine does."""

    def __init__(self) -> None:
        self.began = time.process_time()
        self.seconds: list[float] = []

    def after_step(self, step: object) -> None:
        pass

    def after_epoch(self, epoch: int) -> None:
        self.seconds.append(time.process_time() - self.began)


def once(file: Path, key: Cell, train: Callable[[], Cell]) -> None:
    """Train a cell, unless it is there."""
    if any(all(cell.get(name) == value for name, value in key.items()) for cell in read(file)):
        return
    cell = key | train()
    with file.open("a") as lines:
        lines.write(json.dumps(cell) + "\n")
    print(*key.values(), f"{100 * cell['accuracy']:.1f} last {100 * cell['last']:.1f}", flush=True)


def grid(out: Path, text: Path, seeds: list[int], kinds: list[str]) -> None:
    file = out / "grid.jsonl"
    for seed, (name, kind) in product(seeds, KINDS.items()):
        if kinds and not any(name.startswith(wanted) for wanted in kinds):
            continue
        if name.startswith("fortunes") and not text.exists():
            print(f"{name}: {text} is missing, see benchmarks.text --fetch")
            continue
        for noise, epochs in product(kind.noises, kind.epochs):
            made = {"noise": noise} if "(" in noise else {}
            data = kind.load(noise, text)
            for label, method in METHODS.items():
                key = {"kind": name, "noise": noise or "none", "epochs": epochs, "method": label, "seed": seed}
                options = {"method": method, "seed": seed, "epochs": epochs, "validation": 0.1, **kind.options, **made}
                once(file, key, lambda data=data, options=options: trained(data, **options))


def timed(out: Path, labels: list[str], methods: list[str], seeds: list[int], epochs: int, more: Cell) -> None:
    file = out / "timed.jsonl"
    for seed, label, name in product(seeds, labels, methods):
        data = {"clean": "cifar10", "noisy_label": "cifar100n"}.get(label, f"cifar10n(column={label!r})")
        length = None if "minutes" in more else epochs
        key = {"labels": label, "method": name, "epochs": length, "seed": seed, "more": more}
        options = {"method": OVER_TIME.get(name, name), "seed": seed, "epochs": length, **more}
        keep = out / "-".join(map(str, [label, name, length, seed, *more.values()]))
        once(file, key, lambda data=data, options=options, keep=keep: trained(data, keep, **options))


def rows_of(cells: list[Cell]) -> Iterator[tuple[tuple[Any, ...], dict[str, list[float]]]]:
    """Accuracies by kind, noise and length, of every method, over the seeds that all methods have."""
    for kind, noise, epochs in dict.fromkeys((cell["kind"], cell["noise"], cell["epochs"]) for cell in cells):
        own = [cell for cell in cells if (cell["kind"], cell["noise"], cell["epochs"]) == (kind, noise, epochs)]
        found: dict[str, dict[int, float]] = {name: {} for name in METHODS}
        for cell in own:
            found[cell["method"]][cell["seed"]] = cell["accuracy"]
        seeds = sorted(set.intersection(*(set(values) for values in found.values())))
        if seeds:
            yield (kind, noise, epochs), {name: [values[seed] for seed in seeds] for name, values in found.items()}


def grid_table(cells: list[Cell]) -> str:
    lines = ["| data | noise | epochs | seeds | " + " | ".join(METHODS) + " |", "|---" * (4 + len(METHODS)) + "|"]
    for (kind, noise, epochs), values in rows_of(cells):
        means = {name: 100 * mean(found) for name, found in values.items()}
        best = max(means.values())
        shown = [f"**{value:.1f}**" if value == best else f"{value:.1f}" for value in means.values()]
        lines.append(f"| {kind} | {noise} | {epochs} | {len(values['CE'])} | " + " | ".join(shown) + " |")
    return "\n".join(lines)


def grid_summary(cells: list[Cell]) -> str:
    """In how many rows the default is near the best column, and how far it is from cross entropy."""
    rows = [({name: 100 * mean(found) for name, found in values.items()}, key) for key, values in rows_of(cells)]
    if not rows:
        return ""
    gaps = [means["default"] - max(means.values()) for means, _ in rows]
    gains = [means["default"] - means["CE"] for means, _ in rows]
    near, behind = sum(gap >= -0.5 for gap in gaps), sum(gain < -0.3 for gain in gains)
    return (
        f"{len(rows)} rows: at most 0.5 below the best in {near}, {mean(gaps):.1f} from it on average; "
        f"from cross entropy {min(gains):+.1f} to {max(gains):+.1f}, below it by more than 0.3 in {behind}"
    )


def timed_table(cells: list[Cell]) -> str:
    lines = ["| labels | method | epochs | more | seeds | test accuracy | core minutes | minutes |", "|---" * 8 + "|"]
    for kind in dict.fromkeys(map(_kind, cells)):
        own = [cell for cell in cells if _kind(cell) == kind]
        each = ", ".join(f"{100 * cell['accuracy']:.1f}" for cell in own)
        minutes = mean(cell["cpu_seconds"] for cell in own) / 60
        walls = ", ".join(f"{cell['wall_seconds'] / 60:.1f}" for cell in own if "wall_seconds" in cell)
        lines.append(f"| {' | '.join(kind)} | {len(own)} | {each} | {minutes:.0f} | {walls} |")
    return "\n".join(lines)


def _kind(cell: Cell) -> tuple[str, ...]:
    more = ", ".join(f"{name} {value}" for name, value in cell["more"].items())
    return cell["labels"], cell["method"], str(cell["recipe"]["epochs"]), more


def draw(cells: list[Cell], path: Path) -> None:
    """Accuracy over the processor time of training, on the worst labels, of the longest run of every method."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4), constrained_layout=True)
    worst = [cell for cell in cells if cell["labels"] == "worse_label" and not cell["more"]]
    for name in (name for name in OVER_TIME if any(cell["method"] == name for cell in worst)):
        cell = max((cell for cell in worst if cell["method"] == name), key=lambda cell: cell["cpu_seconds"])
        minutes = [second / 60 for second in cell["seconds"]]
        style = {"lw": 2.5, "color": "black", "zorder": 3} if name == "default" else {"lw": 1.2}
        axes.plot(minutes, [100 * value for value in cell["test"]], label=f"{name}, {cell['epochs']} epochs", **style)
    axes.set(xlabel="minutes of one core", ylabel="test accuracy, per cent", ylim=(40, None))
    axes.set_title("CIFAR-10N, worst labels (40 % wrong), from scratch")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    figure.savefig(path, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("what", choices=("grid", "timed", "table"))
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--text", type=Path, default=Path("data/text"))
    parser.add_argument("--seeds", type=int, nargs="*", default=list(SEEDS))
    parser.add_argument("--kinds", nargs="*", default=[])
    parser.add_argument("--labels", nargs="*", default=["worse_label"])
    parser.add_argument("--methods", nargs="*", default=["default"])
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--model", help="of timed runs, in place of the default net")
    parser.add_argument("--minutes", type=float, help="of timed runs, in place of --epochs")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--figure", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    arguments.out.mkdir(parents=True, exist_ok=True)
    if arguments.what == "grid":
        grid(arguments.out, arguments.text, arguments.seeds, arguments.kinds)
    elif arguments.what == "timed":
        more = {name: value for name in ("model", "minutes") if (value := getattr(arguments, name))}
        timed(arguments.out, arguments.labels, arguments.methods, arguments.seeds, arguments.epochs, more)
    else:
        cells = {name: read(arguments.out / f"{name}.jsonl") for name in ("grid", "timed")}
        print(grid_table(cells["grid"]), grid_summary(cells["grid"]), timed_table(cells["timed"]), sep="\n\n")
        if arguments.json:
            arguments.json.write_text(json.dumps(cells, indent=1) + "\n")
        if arguments.figure:
            draw(cells["timed"], arguments.figure)


if __name__ == "__main__":
    main()
