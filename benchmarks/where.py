"""Whether an audit names where labels are wrong, and nothing where no place is worse than others.

    python -m benchmarks.where                     given scores, 40 draws with a bad category and 40 without
    python -m benchmarks.where --nets --draws 10   pyrite's own nets, trained on the table

A table of 3,000 rows has three classes, six numbers that separate them, a category that is related to the class, and a
region, an agent, an age and a date that are not. 8 % of the labels are wrong: half of them in one region of ten, or
anywhere. The result is right if that region is named first, or nothing.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import pyrite

CLASSES = np.array(["lamp", "chair", "table"], object)
REGIONS = np.array([*(f"Region {number}" for number in range(9)), "Online"], object)
RESULTS = Path(__file__).parent.parent / "docs" / "results" / "where.json"


def table(rows: int, seed: int, bad: bool, wrong: float = 0.08) -> tuple[pd.DataFrame, Any, Any]:
    """The columns, and the given and the true classes."""
    random = np.random.default_rng(seed)
    true = random.integers(3, size=rows)
    numbers = random.normal(size=(3, 6))[true] * 1.3 + random.normal(size=(rows, 6))
    frame = pd.DataFrame(numbers, columns=[f"x{number}" for number in range(6)])
    frame["channel"] = np.array(["a", "b", "c"])[
        np.where(random.random(rows) < 0.7, true, random.integers(3, size=rows))
    ]
    frame["region"] = REGIONS[random.integers(10, size=rows)]
    frame["agent"] = [f"agent {number}" for number in random.integers(30, size=rows)]
    frame["age"] = random.gamma(3, 12, size=rows)
    frame["date"] = pd.Timestamp("2024-01-01") + pd.to_timedelta(random.integers(0, 500, size=rows), unit="D")
    inside = (frame["region"] == "Online").to_numpy()
    rate = np.where(inside, 0.5 / inside.mean(), 0.5 / (~inside).mean()) * wrong if bad else np.full(rows, wrong)
    given = np.where(random.random(rows) < rate, (true + random.integers(1, 3, size=rows)) % 3, true)
    return frame, given, true


def first(seed: int, bad: bool, nets: bool, rows: int) -> list[str]:
    """The names of the slices."""
    frame, given, true = table(rows, seed, bad)
    if nets:
        with tempfile.TemporaryDirectory() as folder:
            audit = pyrite.audit(frame, CLASSES[given], out=f"{folder}/run", progress=False, seed=seed)
            return [one.name for one in audit.slices]
    scores = 3 * np.eye(3)[true] + 1.2 * np.random.default_rng(1000 + seed).normal(size=(rows, 3))
    named = pd.DataFrame(scores, columns=CLASSES)
    return [one.name for one in pyrite.audit(CLASSES[given], scores=named, kind="logits", metadata=frame).slices]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nets", action="store_true", help="train nets on the table")
    parser.add_argument("--draws", type=int, default=40)
    parser.add_argument("--rows", type=int, default=3000)
    chosen = parser.parse_args()
    result: dict[str, Any] = {"rows": chosen.rows, "draws": chosen.draws}
    for bad in (True, False):
        began, named = time.process_time(), []
        for seed in range(chosen.draws):
            named.append(first(seed, bad, chosen.nets, chosen.rows))
        right = sum(names[:1] == (["region = Online"] if bad else []) for names in named)
        what = "a region with half of the wrong labels is named first" if bad else "nothing is named without one"
        print(f"{what}: {right} of {chosen.draws}", [names for names in named if bool(names) != bad][:5], flush=True)
        result["named first" if bad else "nothing named"] = right
        result["seconds " + ("with" if bad else "without")] = round((time.process_time() - began) / chosen.draws, 2)
    known = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    known["nets" if chosen.nets else "scores"] = result
    RESULTS.write_text(json.dumps(known, indent=2) + "\n")


if __name__ == "__main__":
    main()
