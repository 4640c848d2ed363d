"""How well samples of no class are found: images of another set, with random labels, mixed into a set.

    python -m benchmarks.no_class --out FOLDER [--sets cifar10+cifar100 ...] [--samples 3000] [--seeds 0 1]

Of every mixture 5 % come from the other set, and 20 % of the other labels are wrong (symmetric noise), so that the two
can be told apart. The audit is trained as by default. Runs are kept in FOLDER and not made again; a table is printed,
and the figures go to FOLDER/no_class.json. Needs the data (PYRITE_DATA).
"""

import argparse
import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.special import log_expit, log_softmax, logsumexp
from scipy.stats import entropy

import pyrite
from pyrite.data import Batches, Dataset, Statistics, load
from pyrite.diagnostics import detection
from pyrite.files import write
from pyrite.models import embed
from pyrite.run_audits import audit_run, default_options
from pyrite.training import Run, resolve, train_once

SHARE, NOISE = 0.05, "symmetric(0.2)"
SETS = (
    "cifar10+cifar100",
    "cifar10+fashion_mnist",
    "fashion_mnist+mnist",
    "fashion_mnist+cifar10",
    "mnist+fashion_mnist",
)
NEIGHBOURS, CPU = 10, torch.device("cpu")


class Mixture(NamedTuple):
    """The data, and which samples are of no class."""

    data: Dataset
    stranger: Any


def as_shape(images: Any, shape: tuple[int, ...]) -> Any:
    """Images with other channels and sides: grey is the mean, missing borders are black, others are cut off."""
    if images.shape[1] != shape[0]:
        images = np.repeat(images.mean(1, keepdims=True).astype(np.uint8), shape[0], axis=1)
    side, wanted = images.shape[2], shape[1]
    if side < wanted:
        before = (wanted - side) // 2
        after = wanted - side - before
        return np.pad(images, ((0, 0), (0, 0), (before, after), (before, after)))
    start = (side - wanted) // 2
    return images[:, :, start : start + wanted, start : start + wanted]


def mixture(name: str, samples: int, seed: int) -> Mixture:
    own, other = (load(part) for part in name.split("+"))
    random = np.random.default_rng(seed)
    strangers = round(SHARE * samples)
    chosen = random.choice(len(own), samples - strangers, replace=False)
    added = random.choice(len(other), strangers, replace=False)
    classes = len(own.classes)
    noisy = pyrite.corrupt(own.labels[chosen], NOISE, classes, seed)
    inputs = np.concatenate([own.inputs[chosen], as_shape(other.inputs[added], own.inputs.shape[1:])])
    given = np.concatenate([noisy.given, random.integers(classes, size=strangers)])
    true = np.concatenate([noisy.true, given[samples - strangers :]])
    order = random.permutation(samples)
    data = Dataset(name, inputs[order], given[order], own.classes, true=true[order])
    return Mixture(data, order >= samples - strangers)


def trained(mixed: Mixture, out: Path, seed: int) -> Run:
    return train_once(resolve(mixed.data, seed=seed, **default_options({}, mixed.data)), out, progress=False)


def features(run: Run, data: Dataset) -> Any:
    """What the last layer of the trained net sees."""
    scale = Statistics(tuple(run.facts["mean"]), tuple(run.facts["std"]))
    nothing = np.zeros(len(data), np.int64)
    batches = Batches(data.inputs, nothing, batch_size=500, seed=0, shuffle=False, normalise=scale, device=CPU)
    with torch.inference_mode():
        return np.concatenate([embed(run.model, batch.inputs).numpy() for batch in batches])


def candidates(run: Run, data: Dataset) -> dict[str, Any]:
    """Numbers that may be high for samples of no class. The first is what an audit reports."""
    found, margins, scores = audit_run(run, 0), run.samples["class_margins"].astype(np.float64), run.scores(data.inputs)
    probabilities = np.exp(log_softmax(log_expit(margins), axis=1))
    seen = features(run, data)
    near = seen / np.linalg.norm(seen, axis=1, keepdims=True)
    distance = np.sort(1 - near @ near.T, axis=1)[:, 1 : 1 + NEIGHBOURS].mean(1)
    return {
        "no_class": found.no_class,
        "entropy": entropy(probabilities, axis=1),
        "low largest margin": -margins.max(1),
        "energy of the last scores": -logsumexp(scores.astype(np.float64), axis=1),
        "distance of neighbours": distance,
        "wrong label": found.score,
    }


def measure(name: str, out: Path, samples: int, seed: int) -> dict[str, Any]:
    mixed = mixture(name, samples, seed)
    run = trained(mixed, out / f"{name}-{seed}", seed)
    stranger, mislabelled = mixed.stranger, (mixed.data.labels != mixed.data.true) & ~mixed.stranger
    values = candidates(run, mixed.data)
    few = np.argsort(-values["no_class"])[: round(SHARE * samples)]
    return {
        "auroc": {kind: detection(column, stranger).roc_auc for kind, column in values.items()},
        "auroc among wrong labels": {
            kind: detection(column[stranger | mislabelled], stranger[stranger | mislabelled]).roc_auc
            for kind, column in values.items()
        },
        "auroc of wrong labels": detection(values["wrong label"][~stranger], mislabelled[~stranger]).roc_auc,
        "precision of the first 5 %": float(stranger[few].mean()),
        "samples": samples,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--sets", nargs="+", default=SETS)
    parser.add_argument("--samples", type=int, default=3000)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    chosen = parser.parse_args()
    path = chosen.out / "no_class.json"
    results = json.loads(path.read_text()) if path.exists() else {}
    for seed in chosen.seeds:
        for name in chosen.sets:
            key = f"{name}, seed {seed}"
            if key not in results:
                results[key] = measure(name, chosen.out, chosen.samples, seed)
                write(path, (json.dumps(results, indent=2) + "\n").encode())
            print(key, {kind: round(value, 3) for kind, value in results[key]["auroc"].items()}, flush=True)


if __name__ == "__main__":
    main()
