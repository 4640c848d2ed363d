"""Fine-tuning a pretrained net on CIFAR-10N and CIFAR-100N: timed runs of the default, and what its stages gain.

    PYRITE_DATA=data python -m benchmarks.fine_tuning minutes --labels worse_label --minutes 15 --seeds 0 1 2
    PYRITE_DATA=data python -m benchmarks.fine_tuning stages --threads 1
    python -m benchmarks.fine_tuning table

Every cell is one ``pyrite train`` in a process of its own, and one entry of docs/results/fine_tuning.json; what is
there is not trained again. ``minutes`` is the default with nothing but a length; with ``--method`` and ``--model``,
another one at the same length, data and net. ``stages`` trains two epochs of 25,000 images at 64 pixels, with one
part of the default replaced.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyrite

FILE = Path(__file__).parent.parent / "docs" / "results" / "fine_tuning.json"
KEPT = ("test_accuracy", "validation_accuracy", "train_accuracy", "memorised", "estimated_noise_rate")
SMALL = {"--model": "efficientnet_lite0(size=64, pretrained=True)", "--epochs": "2", "--samples": "25000"}
EMBEDDED = ("--features", "efficientnet_lite0(size=64)")
STAGES: dict[str, dict[str, str]] = {
    "default": {},
    "cross entropy on the given labels": {"--method": "erm(ce)"},
    "ELR on the given labels": {"--method": "elr"},
    "SOP on the given labels": {"--method": "sop"},
    "targets of the audit only (momentum 1)": {"--method": "self_corrected(at=0, momentum=1)"},
    "audit by the net itself after one epoch": {"--method": "self_corrected(at=0.5)"},
    "cross entropy without suspects above 0.5": {"--method": "erm(ce)", "--drop-suspects": "0.5"},
    "one epoch at 96 pixels": {"--model": "efficientnet_lite0(size=96, pretrained=True)", "--epochs": "1"},
    "EfficientNet-Lite2": {"--model": "efficientnet_lite2(size=64, pretrained=True)"},
}


def data_of(labels: str) -> str:
    return {"clean": "cifar10", "noisy_label": "cifar100n"}.get(labels, f"cifar10n(column={labels!r})")


def run(key: dict[str, Any], words: list[str], threads: int) -> None:
    """Train a cell, unless it is there, and add it to the file."""
    if any(all(cell.get(name) == value for name, value in key.items()) for cell in read()["runs"]):
        return
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "run")
        began, load = time.perf_counter(), os.getloadavg()[0]
        command, environment = [sys.executable, "-m", "pyrite"], os.environ | {"OMP_NUM_THREADS": str(threads)}
        more = []
        if "--drop-suspects" in words:  # an audit by embeddings, since one by fine-tuning would train five nets
            audit = [words[0], *EMBEDDED, *words[-2:], "--out", str(Path(folder, "audit"))]
            subprocess.run([*command, "audit", *audit], check=True, env=environment)
            more = ["--corrections", str(Path(folder, "audit", "suspects.csv"))]
        subprocess.run([*command, "train", *words, *more, "--out", str(out)], check=True, env=environment)
        seconds, done = time.perf_counter() - began, pyrite.Run.load(out)
        facts = json.loads((out / "run.json").read_text())
        cell = key | {
            "command": " ".join(["pyrite train", *(f'"{word}"' if set(word) & set("( '") else word for word in words)]),
            "model": facts["recipe"]["model"],
            "threads": threads,
            "load": [round(load, 1), round(os.getloadavg()[0], 1)],
            "seconds": round(seconds),
            "saved": done.table["final_test_accuracy"],
            "epochs": [
                {name: round(row[name], 4) for name in KEPT if row.get(name) is not None} for row in done.history
            ],
            "versions": {name: version(name) for name in ("torch", "numpy")},
        }
    results = read()  # another process may have written meanwhile
    FILE.write_text(json.dumps(results | {"runs": [*results["runs"], cell]}, indent=1) + "\n")
    print(*key.values(), f"{100 * cell['saved']:.1f} % after {seconds:.0f} s", flush=True)


def read() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(FILE.read_text())
    return found


def table() -> str:
    """A row per run: its length, labels, method, and the accuracies after its epochs."""
    lines = [
        "| labels | minutes | method | seed | images | took, s | test accuracy after each epoch | saved | memorised |"
    ]
    lines.append("|---|--:|---|--:|--:|--:|---|--:|--:|")
    for cell in read()["runs"]:
        each = ", ".join(f"{100 * epoch['test_accuracy']:.1f}" for epoch in cell["epochs"])
        saved = 100 * cell.get("saved", cell["epochs"][-1]["test_accuracy"])
        memorised = cell["epochs"][-1].get("memorised")
        followed = "" if memorised is None else f"{100 * memorised:.0f}"
        size = cell["model"].partition("size=")[2].partition(",")[0]
        method = cell.get("stage") or cell.get("method") or "default"
        labels = cell.get("labels", "worse_label")
        row = (
            labels,
            cell.get("minutes", ""),
            method,
            cell["seed"],
            size,
            cell["seconds"],
            each,
            f"{saved:.1f}",
            followed,
        )
        lines.append("| " + " | ".join(map(str, row)) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("what", choices=("minutes", "stages", "table"))
    parser.add_argument("--labels", nargs="*", default=["worse_label"])
    parser.add_argument("--minutes", type=float, default=15)
    parser.add_argument("--method", default="", help="in place of the default, with --model")
    parser.add_argument("--model", default="", help="such as 'efficientnet_lite0(size=96, pretrained=True)'")
    parser.add_argument("--stages", nargs="*", default=list(STAGES))
    parser.add_argument("--seeds", type=int, nargs="*", default=[0])
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    for labels in options.labels if options.what != "table" else ():
        for seed in options.seeds:
            rest = ["--seed", str(seed)]
            if options.what == "minutes":
                key = {"labels": labels, "minutes": options.minutes, "method": options.method, "seed": seed}
                given = {"--method": options.method, "--model": options.model}
                named = [word for name, value in given.items() if value for word in (name, value)]
                run(key, [data_of(labels), "--minutes", f"{options.minutes:g}", *named, *rest], options.threads)
            else:
                for stage in options.stages:
                    key = {"labels": labels, "stage": stage, "seed": seed}
                    words = [word for pair in (SMALL | STAGES[stage]).items() for word in pair]
                    run(key, [data_of(labels), *words, *rest], options.threads)
    if options.what == "table":
        print(table())


if __name__ == "__main__":
    main()
