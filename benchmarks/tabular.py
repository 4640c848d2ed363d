"""Tables with wrong labels: ``RobustClassifier`` beside logistic regression, boosting, and cleanlab around each.

    python -m benchmarks.tabular --out runs/tabular

Each cell (set, noise, seed, classifier) is a file in the folder, so that what is done is not done again, and several
processes may work on the same folder: each takes other ``--sets`` or ``--classifiers``. With all cells there the table
is printed, and written as ``tabular.json``. ``--minutes`` stops after a time, to be continued by the next call.
"""

import argparse
import json
import platform
import time
import warnings
from collections.abc import Callable, Iterator
from importlib.metadata import version
from itertools import product
from pathlib import Path
from statistics import mean, median, stdev
from typing import Any

from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import pyrite
from benchmarks.tables import REPORTED, SETS
from pyrite.files import write

NOISES = "none", "symmetric(0.3)", "flip(0.25)"
SEEDS = range(10, 15)  # the classifier was developed with others, and on other sets

NET = "mlp(hidden=(128, 128), limit=3)"

Cell = tuple[str, str, int, str]


def logistic(seed: int) -> Any:
    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))


def boosting(seed: int) -> Any:
    return HistGradientBoostingClassifier(random_state=seed)


def cleaned(make: Callable[[int], Any]) -> Callable[[int], Any]:
    def made(seed: int) -> Any:
        from cleanlab.classification import CleanLearning

        return CleanLearning(make(seed), seed=seed)

    return made


CLASSIFIERS: dict[str, Callable[[int], Any]] = {
    "RobustClassifier": lambda seed: pyrite.RobustClassifier(random_state=seed),
    "nets only": lambda seed: pyrite.RobustClassifier(model=NET, random_state=seed),
    "logistic regression": logistic,
    "boosting": boosting,
    "CleanLearning, logistic": cleaned(logistic),
    "CleanLearning, boosting": cleaned(boosting),
}
OTHERS = list(CLASSIFIERS)[2:]


def measure(name: str, noise: str, seed: int, kind: str) -> dict[str, Any]:
    """Test accuracy on true labels, and seconds of processor time of ``fit``; of our classifier also what it says."""
    inputs, true = SETS[name]()
    classes = int(true.max()) + 1
    train, test, labels, answers = train_test_split(inputs, true, test_size=0.3, stratify=true, random_state=seed)
    given = labels if noise == "none" else pyrite.corrupt(labels, noise, classes=classes, seed=seed).given
    found: dict[str, Any] = {"set": name, "noise": noise, "seed": seed, "classifier": kind}
    found |= {"rows": len(train), "features": train.shape[1], "classes": classes}
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        began = time.process_time()
        model = CLASSIFIERS[kind](seed).fit(train, given)
        found["seconds"] = time.process_time() - began
    found["accuracy"] = float((model.predict(test) == answers).mean())
    if isinstance(model, pyrite.RobustClassifier):
        found["noise rate"] = [float((given != labels).mean()), float(model.noise_rate_)]
        found["warnings"] = [str(each.message) for each in said if each.category is UserWarning]
    return found


def table(cells: list[dict[str, Any]]) -> Iterator[str]:
    """Mean accuracy in per cent over the seeds, the best of a row in bold, and the standard deviation."""
    yield f"| set | noise | {' | '.join(CLASSIFIERS)} |"
    yield "|---|---|" + "--:|" * len(CLASSIFIERS)
    sets = dict.fromkeys(cell["set"] for cell in cells)
    for name, noise in product([each for each in SETS if each in sets], NOISES):
        held = [cell for cell in cells if (cell["set"], cell["noise"]) == (name, noise)]
        values = {kind: [100 * cell["accuracy"] for cell in held if cell["classifier"] == kind] for kind in CLASSIFIERS}
        best = max(mean(each) for each in values.values())
        texts = [shown(each, bold=mean(each) > best - 0.05) for each in values.values()]
        yield f"| {name} | {noise if noise == 'none' else f'`{noise}`'} | {' | '.join(texts)} |"


def near(cells: list[dict[str, Any]]) -> Iterator[str]:
    """In how many rows of the table our classifier is at most half a point behind the best of the others."""
    rows = dict.fromkeys((cell["set"], cell["noise"]) for cell in cells)
    for others in (OTHERS, ["nets only", *OTHERS]):
        good = sum(lead(cells, row, others) >= -0.005 for row in rows)
        yield f"within half a point of the best of {', '.join(others)}: {good} of {len(rows)}"


def lead(cells: list[dict[str, Any]], row: tuple[str, str], others: list[str]) -> float:
    """The mean accuracy of our classifier minus that of the best of the others."""

    def accuracy(kind: str) -> float:
        return mean(
            cell["accuracy"] for cell in cells if (cell["set"], cell["noise"], cell["classifier"]) == (*row, kind)
        )

    return accuracy("RobustClassifier") - max(map(accuracy, others))


def shown(values: list[float], bold: bool) -> str:
    mark = "**" if bold else ""
    spread = f" ± {stdev(values):.1f}" if len(values) > 1 else ""
    return f"{mark}{mean(values):.1f}{mark}{spread}"


def times(cells: list[dict[str, Any]]) -> Iterator[str]:
    """Median seconds of processor time of a fit, and the ratio of the first to the last."""
    yield f"| set | {' | '.join(CLASSIFIERS)} | ratio |"
    yield "|---|" + "--:|" * (len(CLASSIFIERS) + 1)
    for name in dict.fromkeys(cell["set"] for cell in cells):
        held = [cell for cell in cells if cell["set"] == name]
        seconds = [median(cell["seconds"] for cell in held if cell["classifier"] == kind) for kind in CLASSIFIERS]
        ratio = seconds[0] / seconds[-1]
        yield f"| {name} | {' | '.join(f'{each:.1f}' for each in seconds)} | {ratio:.1f} |"


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--out", type=Path, required=True)
    words.add_argument("--sets", nargs="*", default=list(REPORTED), choices=list(SETS))
    words.add_argument("--classifiers", nargs="*", default=list(CLASSIFIERS), choices=list(CLASSIFIERS))
    words.add_argument("--seeds", nargs="*", type=int, default=list(SEEDS))
    words.add_argument("--minutes", type=float, default=1e9)
    options = words.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + 60 * options.minutes
    for seed, name, noise, kind in product(options.seeds, options.sets, NOISES, options.classifiers):
        path = path_of(options.out, (name, noise, seed, kind))
        if not path.exists() and time.monotonic() < end:
            print(name, noise, seed, kind, flush=True)
            write(path, json.dumps(measure(name, noise, seed, kind)).encode())
    paths = [path_of(options.out, cell) for cell in product(options.sets, NOISES, options.seeds, CLASSIFIERS)]
    missing = sum(not path.exists() for path in paths)
    if missing:
        print(f"{missing} of {len(paths)} cells are missing: run them too")
        return
    cells = [json.loads(path.read_text()) for path in paths]
    print("\n".join([*table(cells), "", *near(cells), "", *times(cells)]))
    versions = {name: version(name) for name in ("torch", "scikit-learn", "cleanlab", "numpy")}
    facts = {"python": platform.python_version(), **versions, "pyrite": pyrite.__version__}
    write(options.out / "tabular.json", (json.dumps({"versions": facts, "cells": cells}, indent=1) + "\n").encode())


def path_of(folder: Path, cell: Cell) -> Path:
    return folder / ("_".join(map(str, cell)).replace(" ", "-").replace(",", "") + ".json")


if __name__ == "__main__":
    main()
