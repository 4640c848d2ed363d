"""What choosing on noisy labels costs: the choice by each criterion beside the oracle's, who sees clean test labels.

    python -m benchmarks.tuning --out FOLDER [--sets fashion worst] [--configurations 28] [--seed 0]

The configurations are drawn from the default space of ``pyrite tune``, the same number of each loss, before anything is
trained: a search that follows one criterion would favour it. Nothing is pruned. Runs are kept in FOLDER and not made
again, so that a benchmark that was stopped goes on; tables are printed, and everything goes to FOLDER/tuning.json.
Needs the data (PYRITE_DATA).
"""

import argparse
import json
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np

from pyrite.data import load
from pyrite.training import Run, resolve, train_once
from pyrite.tuning.space import Between, Space, default_methods

SETS: dict[str, tuple[str, dict[str, Any]]] = {
    "fashion": ("fashion_mnist", {"noise": "flip2(0.4)", "samples": 6000, "epochs": 30}),
    "worst": ("cifar10n(column='worse_label')", {"samples": 6000, "epochs": 20}),
}
SHARED: dict[str, Any] = {"model": "mlp", "augment": "none", "validation": 0.2}
# A larger number is better; a cost counts from below.
CRITERIA = {"accuracy": ("validation_accuracy", 1), "mae": ("validation_mae", -1), "ce": ("validation_ce", -1)}
DRAWS, STUDY = 2000, 10


def configurations(count: int, classes: int, seed: int) -> list[tuple[str, float]]:
    """Methods in turn, their parameters and the factor of the learning rate at random."""
    space = Space(default_methods(classes), Between(0.25, 4, log=True))
    draws = np.random.default_rng(seed)
    found = []
    for number in range(count):

        def choose(name: str, held: Any, number: int = number) -> Any:
            if not isinstance(held, Between):
                return held.ends[number % len(held.ends)]
            low, high = np.log(held.ends) if held.log else np.array(held.ends)
            value = float(draws.uniform(low, high))
            return held.rounded(float(np.exp(value)) if held.log else value)

        method, factor = space.pick(choose)
        found.append((str(method), factor or 1.0))
    return found


def trained(name: str, number: int, method: str, factor: float, out: Path, seed: int) -> Run:
    where, options = SETS[name]
    options = SHARED | options | {"method": method, "seed": seed}
    data = load(where)
    usual = resolve(data, **options).config.optimiser.lr
    job = resolve(where, lr=float(f"{usual * factor:.3g}"), **options)
    return train_once(job, out / name / f"{number:02d}", progress=False)


def worth(value: float | None, sign: int) -> float:
    """The larger the better; what is not finite is the worst."""
    return -np.inf if value is None else sign * value


def by_configuration(runs: list[Run]) -> dict[str, Any]:
    """Test accuracy at the end of the configuration that each criterion chooses, and how far below the best one it is.

    ``mean_distance`` is over random studies of ten of these configurations: one choice may be luck.
    """
    last = [run.history[-1] for run in runs]
    tests = np.array([line["test_accuracy"] for line in last])
    studies = np.random.default_rng(0)
    chosen = np.array([studies.choice(len(runs), min(STUDY, len(runs)), replace=False) for _ in range(DRAWS)])
    found: dict[str, Any] = {"oracle": {"test": tests.max(), "run": int(tests.argmax())}}
    for criterion, (column, sign) in CRITERIA.items():
        values = np.array([worth(line[column], sign) for line in last])
        best = int(values.argmax())
        small = tests[chosen].max(1) - tests[chosen[np.arange(DRAWS), values[chosen].argmax(1)]]
        found[criterion] = {"test": tests[best], "run": best, "method": str(runs[best].config.method)}
        found[criterion] |= {"distance": tests.max() - tests[best], "mean_distance": small.mean()}
        order = [np.argsort(np.argsort(numbers)) for numbers in (values, tests)]
        found[criterion] |= {"rank_correlation": float(np.corrcoef(*order)[0, 1])}
    return found


def by_epoch(runs: list[Run]) -> dict[str, Any]:
    """How far below its best epoch the epoch is that each criterion chooses, mean over the runs; and the last epoch."""
    distances: dict[str, list[float]] = {name: [] for name in (*CRITERIA, "last")}
    for run in runs:
        tests = [line["test_accuracy"] for line in run.history]
        for criterion, (column, sign) in CRITERIA.items():
            values = [worth(line[column], sign) for line in run.history]
            distances[criterion].append(max(tests) - tests[values.index(max(values))])
        distances["last"].append(max(tests) - tests[-1])
    return {name: {"mean": mean(values), "largest": max(values)} for name, values in distances.items()}


def table(name: str, found: dict[str, Any]) -> str:
    configuration, epoch = found["configuration"], found["epoch"]
    lines = [f"{name}: {found['runs']} configurations, oracle {100 * configuration['oracle']['test']:.2f} %", ""]
    lines += ["| chosen by | test accuracy | below the oracle | below it, studies of ten | epoch: below the best |"]
    lines += ["|---|---|---|---|---|"]
    for criterion in CRITERIA:
        row = configuration[criterion]
        numbers = (row["test"], row["distance"], row["mean_distance"], epoch[criterion]["mean"])
        lines.append(f"| noisy {criterion} | " + " | ".join(f"{100 * number:.2f}" for number in numbers) + " |")
    lines.append(f"| nothing: the last epoch | | | | {100 * epoch['last']['mean']:.2f} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--configurations", type=int, default=28)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    path = options.out / "tuning.json"
    everything: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    for name in options.sets:
        runs = []
        for number, (method, factor) in enumerate(configurations(options.configurations, 10, options.seed)):
            run = trained(name, number, method, factor, options.out, options.seed)
            runs.append(run)
            print(f"{name} {number}: {method}, lr times {factor}: {run.history[-1]['test_accuracy']:.4f}", flush=True)
        found = {"runs": len(runs), "configuration": by_configuration(runs), "epoch": by_epoch(runs)}
        found |= {"recipe": runs[0].config.to_dict(), "versions": runs[0].facts["versions"]}
        found["lines"] = [
            {"method": str(run.config.method), "optimiser": str(run.config.optimiser)}
            | {
                column: [None if line[column] is None else round(line[column], 5) for line in run.history]
                for column in ("test_accuracy", *(column for column, _ in CRITERIA.values()))
            }
            for run in runs
        ]
        everything[name] = found
        path.write_text(json.dumps(everything) + "\n")
        print("\n" + table(name, found), flush=True)


if __name__ == "__main__":
    main()
