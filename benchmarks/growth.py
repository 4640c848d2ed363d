"""How processor time and memory grow with samples, classes and pixels.

    python -m benchmarks.growth                    all of them, some ten minutes on one core
    python -m benchmarks.growth --only audit table
    python -m benchmarks.growth --quick            a tenth of the sizes

Each size is measured in a process of its own, which starts with everything imported, on one thread. Time is the
processor time, because the wall time depends on what else runs; memory is the peak above what the process began with.
Both are written to docs/results/growth.json with the exponent of the last two sizes (1 is proportional), and drawn
with the proportional line in docs/growth.png.
"""

import argparse
import json
import math
import multiprocessing
import os
import resource
import tempfile
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final, NamedTuple

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import torch
from PIL import Image

import pyrite
import pyrite.run_audits

ROOT: Final = Path(__file__).parents[1]
_ACROSS: Final = 5  # panels beside each other
FORK: Final = multiprocessing.get_context("fork")
Work = Callable[[], object]
SMALL: Final[dict[str, Any]] = {"epochs": 1, "model": "mlp(hidden=[16])", "batch_size": 1000, "progress": False}


class Growth(NamedTuple):
    """What grows, its sizes, and what makes the work of a size; work is proportional to ``amount(size)``."""

    unit: str
    sizes: tuple[int, ...]
    make: Callable[[int], Work]
    amount: Callable[[int], int] = lambda size: size


def scores(samples: int, classes: int) -> tuple[Any, Any]:
    random = np.random.default_rng(0)
    labels = random.integers(0, classes, samples)
    drawn = random.standard_normal((samples, classes), np.float32)
    drawn[np.arange(samples), labels] += 3
    wrong = random.random(samples) < 0.1
    return drawn, np.where(wrong, random.integers(0, classes, samples), labels)


def loss(samples: int, classes: int) -> Work:
    drawn, labels = map(torch.from_numpy, scores(samples, classes))
    return lambda: pyrite.GCE()(drawn.requires_grad_(), labels).backward()


def audit(samples: int, classes: int) -> Work:
    drawn, labels = scores(samples, classes)
    return lambda: pyrite.audit(labels, scores=drawn, kind="logits")


def rows(samples: int, classes: int = 2, columns: int = 10) -> tuple[Any, Any]:
    random = np.random.default_rng(0)
    labels = np.arange(samples) % classes
    return 3 * random.normal(size=(classes, columns))[labels] + random.normal(size=(samples, columns)), labels


def train(samples: int) -> Work:
    inputs, labels = rows(samples)
    return lambda: pyrite.train(inputs, labels, out="run", **SMALL)


def net(units: int) -> Work:
    inputs, labels = rows(5000, classes=10, columns=100)
    options = {**SMALL, "model": f"mlp(hidden=[{units}, {units}])"}
    return lambda: pyrite.train(inputs, labels, out="run", **options)


def train_and_audit(samples: int, classes: int = 2) -> Work:
    inputs, labels = rows(samples, classes)
    return lambda: pyrite.audit(inputs, labels, out="run", **SMALL)


def estimator(samples: int, classes: int = 2, columns: int = 10) -> Work:
    inputs, labels = rows(samples, classes, columns)
    return lambda: pyrite.RobustClassifier().fit(inputs, labels)


def table(samples: int) -> Work:
    """Seven numbers, one of them with gaps, a category and a date."""
    random = np.random.default_rng(0)
    frame = pd.DataFrame(random.normal(size=(samples, 8)).round(4), columns=list("abcdefgh"))
    frame["h"] = frame.h.where(random.random(samples) > 0.1)
    frame["city"] = random.choice(["Oslo", "Rome", "Lima"], samples)
    frame["when"] = pd.Timestamp("2024-01-01") + pd.to_timedelta(random.integers(0, 10**7, samples), unit="s")
    frame["label"] = np.where(frame.a > 0, "yes", "no")
    frame.to_csv("t.csv", index=False)
    return lambda: pyrite.data.load("t.csv")


def wide_table(columns: int) -> Work:
    """Numbers, one of them with a gap; read, and searched for near copies."""
    inputs, labels = rows(200, columns=columns)
    frame = pd.DataFrame(inputs.round(3), columns=[f"c{place}" for place in range(columns)])
    frame.iloc[3, 5] = np.nan
    frame.assign(label=np.where(labels, "yes", "no")).to_csv("t.csv", index=False)
    return lambda: pyrite.data.load("t.csv").copies


def predict(samples: int) -> Work:
    table(samples)
    pd.read_csv("t.csv", nrows=300).to_csv("small.csv", index=False)
    run = pyrite.train("small.csv", out="run", **SMALL)
    return lambda: run.predict("t.csv").to_csv("predictions.csv")


def images(megapixels: int) -> Work:
    for number in range(6):
        path = Path("photos", ("cat", "dog")[number % 2], f"{number}.png")
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8000, 125 * megapixels), (number, 40, 90)).save(path, compress_level=1)
    return lambda: pyrite.data.load("photos")


GROWTHS: Final = {
    "loss": Growth("samples of 10 classes", (10_000, 100_000, 1_000_000), lambda n: loss(n, 10)),
    "loss, classes": Growth("classes, 512 samples", (100, 1000, 10_000), lambda k: loss(512, k)),
    "train": Growth("rows of 10 columns, an epoch", (10_000, 100_000, 1_000_000), train),
    "train, size of the net": Growth(
        "units of two layers; 5,000 rows", (256, 1024, 4096), net, lambda units: units * (units + 110)
    ),
    "table": Growth("rows of a CSV of 10 columns", (10_000, 100_000, 1_000_000), table),
    "table, columns": Growth("columns of a CSV of 200 rows", (1000, 4000, 16_000), wide_table),
    "predict": Growth("rows of a CSV of 10 columns", (10_000, 100_000, 1_000_000), predict),
    "audit": Growth("samples of 10 classes", (10_000, 100_000, 1_000_000), lambda n: audit(n, 10)),
    "audit, classes": Growth("classes, 10,000 samples", (1000, 3000, 10_000), lambda k: audit(10_000, k)),
    "train and audit": Growth("rows of 10 columns, an epoch", (10_000, 100_000, 1_000_000), train_and_audit),
    "train and audit, classes": Growth(
        "classes of 5 rows", (300, 1000, 3000), lambda k: train_and_audit(5 * k, k), lambda k: k * k
    ),
    "estimator": Growth("rows of 10 columns", (1000, 5000, 25_000), estimator),
    "estimator, columns": Growth("columns of 500 rows", (10, 100, 1000), lambda f: estimator(500, columns=f)),
    "estimator, classes": Growth("classes of 5 rows", (30, 100, 300), lambda k: estimator(5 * k, k), lambda k: k * k),
    "images": Growth("megapixels of each of 6 images", (10, 30, 88), images),
}


def measure(make: Callable[[int], Work], size: int) -> dict[str, float]:
    """Seconds of processor time and bytes of memory of one size, in a process of its own."""
    mine, theirs = FORK.Pipe(duplex=False)
    process = FORK.Process(target=_measured, args=(make, size, theirs))
    process.start()
    theirs.close()
    try:
        found: dict[str, float] = mine.recv()
    except EOFError:
        raise SystemExit(f"size {size}: the process ended without a result") from None
    finally:
        process.join()
    return found


def _measured(make: Callable[[int], Work], size: int, answer: Connection) -> None:
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        work = make(size)
        Path("/proc/self/clear_refs").write_text("5")  # the peak from now on
        before, began = _resident("VmRSS"), time.process_time()
        work()
        seconds = time.process_time() - began
        answer.send({"size": size, "seconds": round(seconds, 3), "bytes": max(0, _resident("VmHWM") - before)})
        os.chdir("/")


def _resident(name: str) -> int:
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return 1024 * int(lines[name].split()[0])


def exponent(growth: Growth, measured: list[dict[str, float]], what: str) -> float:
    """By which power of the amount of work the last two sizes differ: 1 is proportional."""
    (small, large), low = measured[-2:], 1e-3 if what == "seconds" else 1e6
    ratio = max(large[what], low) / max(small[what], low)
    return math.log(ratio) / math.log(growth.amount(int(large["size"])) / growth.amount(int(small["size"])))


def draw(results: dict[str, Any], path: Path) -> None:
    """Time above memory, against the size, both axes logarithmic; dashed is proportional to the last size."""
    bands = -(-len(results) // _ACROSS)
    figure, axes = plt.subplots(2 * bands, _ACROSS, figsize=(2.3 * _ACROSS, 4.4 * bands), layout="constrained")
    for place, (name, result) in enumerate(results.items()):
        band, column = divmod(place, _ACROSS)
        sizes = [one["size"] for one in result["measured"]]
        amounts = np.array([GROWTHS[name].amount(int(size)) for size in sizes], float)
        for row, (what, unit) in enumerate((("seconds", 1.0), ("bytes", 1e6))):
            own = axes[2 * band + row, column]
            values = np.array([max(one[what], 1e-3) / unit for one in result["measured"]])
            own.loglog(sizes, values, "o-")
            own.loglog(sizes, values[-1] * amounts / amounts[-1], "--", color="grey", linewidth=1)
            own.set_xticks(sizes, [f"{size:,.0f}" for size in sizes], fontsize=7)
            own.set_yticks(
                ticks := [values[0], values[-1]], [f"{tick:.2g}" if tick < 1 else f"{tick:,.0f}" for tick in ticks]
            )
            own.minorticks_off()
        axes[2 * band, column].set_title(name, fontsize=9)
        axes[2 * band + 1, column].set_xlabel(result["unit"], fontsize=7)
    for place in range(len(results), bands * _ACROSS):
        for row in (0, 1):
            axes[2 * (place // _ACROSS) + row, place % _ACROSS].axis("off")
    for band in range(bands):
        axes[2 * band, 0].set_ylabel("processor time (s)")
        axes[2 * band + 1, 0].set_ylabel("peak memory (MB)")
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--only", nargs="*", choices=[*GROWTHS], help="only these")
    parser.add_argument("--quick", action="store_true", help="a tenth of the sizes")
    parser.add_argument("--json", type=Path, default=ROOT / "docs" / "results" / "growth.json")
    parser.add_argument("--png", type=Path, default=ROOT / "docs" / "growth.png")
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    results: dict[str, Any] = json.loads(options.json.read_text()) if options.json.exists() and options.only else {}
    measure(table, 100)  # what is imported when it is first used
    for name in options.only or GROWTHS:
        growth = GROWTHS[name]
        measured = [measure(growth.make, size // 10 if options.quick else size) for size in growth.sizes]
        found = {what: round(exponent(growth, measured, what), 2) for what in ("seconds", "bytes")}
        results[name] = {"unit": growth.unit, "measured": measured, "exponent": found}
        shown = ", ".join(f"{one['size']:,}: {one['seconds']:.2f} s {one['bytes'] / 1e6:,.0f} MB" for one in measured)
        print(f"{name} ({growth.unit}): {shown}; exponents {found['seconds']} and {found['bytes']}", flush=True)
        options.json.write_text(json.dumps(results, indent=1) + "\n")
    draw({name: results[name] for name in GROWTHS if name in results}, options.png)


if __name__ == "__main__":
    main()
