"""Tables with wrong labels: ``RobustClassifier`` beside logistic regression, boosting, and cleanlab around each.

    python -m benchmarks.tabular --out runs/tabular

Each case (set, noise, seed) is a file in the folder, so that what is done is not done again, and several processes may
work on the same folder: each takes another ``--sets``. With all cases there the tables are printed, and written as
``tabular.json``.
"""

import argparse
import json
import platform
import time
import warnings
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_wine, make_classification
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import pyrite

Table = tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]
NOISES = "none", "flip(0.2)", "flip(0.4)"
SEEDS = range(10, 15)  # the classifier was developed with others


def clusters() -> Table:
    """Two clouds a class, in ten of twenty directions: what nets are good at."""
    return make_classification(
        3000, 20, n_informative=10, n_redundant=4, n_classes=5, n_clusters_per_class=2, random_state=7
    )


def rules() -> Table:
    """Thresholds on single columns, some with heavy tails, some with four values: what trees are good at."""
    rng = np.random.default_rng(7)
    features = rng.normal(size=(3000, 16))
    features[:, :6] = np.exp(1.5 * features[:, :6])
    features[:, 6:9] = rng.integers(0, 4, size=(3000, 3))
    place = features[:, :6].argsort(0).argsort(0) / len(features)
    a, b, c, d, e, f = place.T
    g, h, i = features[:, 6:9].T
    points = [
        2 * (a > 0.5) + 2 * (b > 0.3) * (c < 0.6),
        3 * (d > 0.4) * (a < 0.7) + 1.5 * (g == 2),
        2.5 * (e < 0.35) + 2 * (h >= 2) * (b < 0.5),
        2.5 * (f > 0.7) + 2.2 * (i == 0),
    ]
    return features, np.argmax(points, 0)


SETS: dict[str, Callable[[], Table]] = {
    "digits": lambda: load_digits(return_X_y=True),
    "breast cancer": lambda: load_breast_cancer(return_X_y=True),
    "wine": lambda: load_wine(return_X_y=True),
    "clusters": clusters,
    "rules": rules,
}


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
    "logistic regression": logistic,
    "boosting": boosting,
    "CleanLearning, logistic": cleaned(logistic),
    "CleanLearning, boosting": cleaned(boosting),
}


def measure(name: str, noise: str, seed: int) -> dict[str, Any]:
    """Test accuracy on true labels, and seconds, of every classifier."""
    inputs, true = SETS[name]()
    train, test, labels, answers = train_test_split(inputs, true, test_size=0.3, stratify=true, random_state=seed)
    given = labels
    if noise != "none":
        given = pyrite.corrupt(labels, noise, classes=int(true.max()) + 1, seed=seed).given
    found: dict[str, Any] = {"set": name, "noise": noise, "seed": seed}
    found |= {"rows": len(train), "features": train.shape[1], "classes": int(true.max()) + 1}
    for kind, make in CLASSIFIERS.items():
        began = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = make(seed).fit(train, given)
        found[kind] = {"accuracy": float((model.predict(test) == answers).mean())}
        found[kind]["seconds"] = time.perf_counter() - began
        if kind == "RobustClassifier":
            found["noise rate"] = [float((given != labels).mean()), float(model.noise_rate_)]
    return found


def table(cases: list[dict[str, Any]]) -> str:
    """Mean accuracy in per cent over the seeds, the best of a row in bold, its spread after it."""
    lines = [f"| set | noise | {' | '.join(CLASSIFIERS)} |", "|---|---|" + "--:|" * len(CLASSIFIERS)]
    for name in SETS:
        for noise in NOISES:
            held = [case for case in cases if case["set"] == name and case["noise"] == noise]
            values = {kind: [100 * case[kind]["accuracy"] for case in held] for kind in CLASSIFIERS}
            best = max(mean(each) for each in values.values())
            cells = [
                f"**{mean(each):.1f}** ± {stdev(each):.1f}"
                if mean(each) > best - 0.05
                else f"{mean(each):.1f} ± {stdev(each):.1f}"
                for each in values.values()
            ]
            lines.append(f"| {name} | {noise} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--out", type=Path, required=True)
    words.add_argument("--sets", nargs="*", default=list(SETS), choices=list(SETS))
    options = words.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    for seed in SEEDS:
        for name in options.sets:
            for noise in NOISES:
                path = options.out / f"{name.replace(' ', '-')}-{noise}-{seed}.json"
                if not path.exists():
                    print(name, noise, seed, flush=True)
                    path.write_text(json.dumps(measure(name, noise, seed)))
    cases = [json.loads(path.read_text()) for path in sorted(options.out.glob("*-*-1[0-4].json"))]
    if len(cases) < len(SETS) * len(NOISES) * len(SEEDS):
        print(f"{len(cases)} cases are there: run the other sets too")
        return
    print(table(cases))
    versions = {name: version(name) for name in ("torch", "scikit-learn", "cleanlab", "numpy")}
    facts = {"python": platform.python_version(), **versions, "pyrite": pyrite.__version__}
    (options.out / "tabular.json").write_text(json.dumps({"versions": facts, "cases": cases}, indent=1) + "\n")


if __name__ == "__main__":
    main()
