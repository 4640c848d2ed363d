"""The default method with three nets on images of 8 and 14 pixels, to choose the default net for tiny images.

    PYRITE_DATA=data python -m benchmarks.tiny_images --out docs/results/tiny_images.json

Every cell is ``pyrite train`` with its defaults, except for the net and the number of samples. Cells that the file
contains are not trained again. The net was chosen on digits; Fashion-MNIST was measured afterwards.
"""

import argparse
import json
import tempfile
import warnings
from itertools import product
from pathlib import Path
from statistics import mean
from typing import Any

import pyrite
from pyrite.files import write

NETS = ("fast_cnn", "mlp", "cnn4")
NOISES = ("none", "symmetric(0.4)", "flip2(0.4)")
SETS: dict[str, dict[str, Any]] = {
    "digits": {"seeds": 2},
    "reduced(fashion_mnist, size=14, test=2000)": {"samples": 2000, "seeds": 1},
}


def trained(data: str, net: str, noise: str, seed: int, samples: int | None) -> dict[str, float]:
    """The test accuracy of the saved model, and the fraction of wrong labels that it has memorised."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run = pyrite.train(
            data, model=net, noise=None if noise == "none" else noise, seed=seed, samples=samples,
            out=Path(folder) / "run", progress=False,
        )  # fmt: skip
        return {"accuracy": run.table["final_test_accuracy"], "memorised": run.table.get("final_memorised")}


def table(cells: list[dict[str, Any]]) -> str:
    lines = ["| data | noise | seeds | " + " | ".join(NETS) + " |", "|---|---|--:|" + "--:|" * len(NETS)]
    for data, noise in product(SETS, NOISES):
        own = [cell for cell in cells if (cell["data"], cell["noise"]) == (data, noise)]
        found = [[cell["accuracy"] for cell in own if cell["net"] == net] for net in NETS]
        if all(found):
            means = " | ".join(f"{100 * mean(values):.1f}" for values in found)
            lines.append(f"| {data} | {noise} | {len(found[0])} | {means} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    out = parser.parse_args().out
    cells: list[dict[str, Any]] = json.loads(out.read_text())["cells"] if out.exists() else []
    for data, options in SETS.items():
        for seed, noise, net in product(range(options["seeds"]), NOISES, NETS):
            key = {"data": data, "noise": noise, "net": net, "seed": seed}
            if not any(key.items() <= cell.items() for cell in cells):
                cells.append(key | trained(data, net, noise, seed, options.get("samples")))
                write(out, json.dumps({"cells": cells}, indent=1).encode())
    print(table(cells))


if __name__ == "__main__":
    main()
