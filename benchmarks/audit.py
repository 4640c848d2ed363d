"""How well wrong labels are found, beside cleanlab: from one training run, and from out-of-fold scores.

    python -m benchmarks.audit --out FOLDER [--sets worst flip2 ...] [--samples 3000] [--epochs 10] [--seed 0]

The same net, epochs and samples for all. "5-fold": five nets, each trained on four fifths, score the fifth they did not
see, which is how cleanlab is meant to be used. "one run": one net, trained on four fifths. Runs are kept in FOLDER and
not made again; tables are printed, and everything goes to FOLDER/audit.json. Needs the data (PYRITE_DATA) and cleanlab.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from cleanlab.count import estimate_py_and_noise_matrices_from_probabilities
from cleanlab.filter import find_label_issues
from cleanlab.rank import get_label_quality_scores
from scipy.special import softmax

import pyrite
from pyrite.auditing import Audit
from pyrite.data import Dataset, load
from pyrite.diagnostics import brier_score_of_event, detection, reliability
from pyrite.run_audits import audit
from pyrite.training import Run, train_once

SETS = {
    "worst": ("cifar10n(column='worse_label')", ""),
    "aggregate": ("cifar10n(column='aggre_label')", ""),
    "random1": ("cifar10n(column='random_label1')", ""),
    "fashion flip2": ("fashion_mnist", "flip2(0.4)"),
    "fashion symmetric": ("fashion_mnist", "symmetric(0.4)"),
    "fashion instance": ("fashion_mnist", "instance(0.4)"),
    "digits table flip2": ("digits", "flip2(0.4)"),
}
MAE = ("unit(scale(mae, tau=2, classes=10))", "unit(scale(mae, tau=1, classes=10))")
LOSSES = ("ce", "gce(q=0.7)", *MAE)  # the last is what an audit takes
FOLDS = 5


def source(name: str, seed: int) -> Dataset:
    """The data with its noise made. Digits lie flat, as a table."""
    where, noise = SETS[name]
    data = load(where)
    inputs = data.inputs.reshape(len(data), -1).astype(np.float32) if "table" in name else data.inputs
    given, true = data.labels, data.true
    if noise:
        noisy = pyrite.corrupt(data.labels, noise, len(data.classes), seed, inputs)
        given, true = noisy.given, noisy.true
    return Dataset(name, inputs, given, data.classes, true=true)


def part(data: Dataset, rows: Any) -> Dataset:
    return Dataset(data.name, data.inputs[rows], data.labels[rows], data.classes, true=data.true[rows])


def trained(data: Dataset, out: Path, **options: Any) -> Run:
    return train_once(data, out=out, progress=False, **options)


def out_of_fold(data: Dataset, out: Path, seed: int, epochs: int) -> tuple[Any, float]:
    """Scores of nets that did not see the sample, and the seconds their training took."""
    fold = np.random.default_rng(seed).permutation(len(data)) % FOLDS
    scores, seconds = np.zeros((len(data), len(data.classes))), 0.0
    for number in range(FOLDS):
        rest = part(data, np.flatnonzero(fold != number))
        run = trained(rest, out / f"fold-{number}", loss="ce", epochs=epochs, seed=seed, validation=0.0)
        held = np.flatnonzero(fold == number)
        scores[held] = run.scores(data.inputs[held])
        seconds += run.facts["seconds"]
    return scores, seconds


def quality(score: Any, wrong: Any, flagged: Any, rate: float, probability: Any = None) -> dict[str, Any]:
    found = detection(score, wrong)
    line = {"auroc": found.roc_auc, "ap": found.average_precision, "best_f1": found.best_f1.f1}
    line |= {"f1": 2 * (flagged & wrong).sum() / (flagged.sum() + wrong.sum()), "rate": rate, "true_rate": wrong.mean()}
    if probability is not None and np.isfinite(probability).all():
        curve = reliability(probability, wrong, bins=10)
        line |= {"brier": brier_score_of_event(probability, wrong), "ece": curve.expected_calibration_error}
        line |= {"said": curve.confidence.tolist(), "was": curve.accuracy.tolist(), "count": curve.count.tolist()}
    return line


def by_cleanlab(labels: Any, scores: Any, wrong: Any) -> dict[str, dict[str, Any]]:
    probabilities = softmax(scores.astype(np.float64), axis=1)
    flagged = find_label_issues(labels, probabilities, n_jobs=1)
    prior, noise, *_ = estimate_py_and_noise_matrices_from_probabilities(labels, probabilities)
    rate = 1 - float(np.diag(noise) @ prior)  # noise[given, true]
    return {
        method: quality(-get_label_quality_scores(labels, probabilities, method=method), wrong, flagged, rate)
        for method in ("self_confidence", "normalized_margin")
    }


def by_us(found: Audit, wrong: Any) -> dict[str, Any]:
    return quality(found.score, wrong, found.is_suspect, found.noise_rate, found.wrong_probability)


def by_evidence(run: Run, wrong: Any) -> dict[str, float]:
    """The AUROC of each kind of evidence, on the samples that were trained on."""
    held, found, rows = run.samples, audit(run), run.labels["part"] == 0
    evidence = {
        "last margin": held["last_margin"],
        "mean margin": held["margin_mean"],
        "mean margin, epochs weighted": found.evidence["margin"],
        "agreements": held["agreements"],
        "audit": -found.score,
    }
    return {kind: detection(-values[rows].astype(float), wrong[rows]).roc_auc for kind, values in evidence.items()}


def measure(name: str, out: Path, samples: int, epochs: int, seed: int) -> dict[str, Any]:
    data = source(name, seed)
    chosen = pyrite.split(data.labels, meta=min(samples, len(data) - 1), seed=seed).meta
    data = part(data, np.sort(chosen))
    wrong = data.labels != data.true
    lines: dict[str, Any] = {}
    runs = {
        loss: trained(data, out / f"run-{loss}", loss=loss, epochs=epochs, seed=seed, validation=0.2) for loss in LOSSES
    }
    for loss, run in runs.items():
        lines[f"pyrite, one run, {loss}"] = by_us(audit(run), wrong) | {"seconds": run.facts["seconds"]}
        lines[f"pyrite, one run, {loss}"]["validation"] = run.history[-1]["validation_accuracy"]
    lines["evidence"] = by_evidence(runs[LOSSES[-1]], wrong)
    run = runs["ce"]
    for method, line in by_cleanlab(data.labels, run.scores(data.inputs), wrong).items():
        lines[f"cleanlab, one run, {method}"] = line | {"seconds": run.facts["seconds"]}
    scores, seconds = out_of_fold(data, out, seed, epochs)
    for method, line in by_cleanlab(data.labels, scores, wrong).items():
        lines[f"cleanlab, 5-fold, {method}"] = line | {"seconds": seconds}
    lines["pyrite, 5-fold"] = by_us(audit(data.labels, scores=scores, kind="logits"), wrong) | {"seconds": seconds}
    lines["accuracy of 5-fold scores"] = float((scores.argmax(1) == data.true).mean())
    return lines


def show(name: str, lines: dict[str, Any]) -> None:
    print(f"\n{name}: 5-fold nets are right on {100 * lines['accuracy of 5-fold scores']:.1f} %")
    print("| | AUROC | AP | best F1 | F1 | rate | true | Brier | seconds |\n|---|---|---|---|---|---|---|---|---|")
    for kind, line in lines.items():
        if isinstance(line, dict) and "auroc" in line:
            numbers = [f"{line[column]:.3f}" for column in ("auroc", "ap", "best_f1", "f1", "rate", "true_rate")]
            brier = f"{line['brier']:.3f}" if "brier" in line else ""
            print(f"| {kind} | {' | '.join(numbers)} | {brier} | {line['seconds']:.0f} |")
    print("evidence:", {kind: round(value, 4) for kind, value in lines["evidence"].items()}, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="How well wrong labels are found.")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=list(SETS))
    parser.add_argument("--samples", type=int, default=3000)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    path = given.out / "audit.json"
    versions = {"pyrite": pyrite.__version__, "torch": torch.__version__, "threads": torch.get_num_threads()}
    for name in given.sets:
        home = given.out / name.replace(" ", "-")
        lines = measure(name, home, given.samples, given.epochs, given.seed)
        show(name, lines)
        held = json.loads(path.read_text()) if path.exists() else {}
        held |= {"versions": versions, "samples": given.samples, "epochs": given.epochs, "seed": given.seed}
        path.write_text(json.dumps(held | {name: lines}, indent=1) + "\n")


if __name__ == "__main__":
    main()
