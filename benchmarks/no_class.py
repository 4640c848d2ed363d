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

import pyrite
from pyrite.data import Batches, Dataset, Statistics, load
from pyrite.diagnostics import detection
from pyrite.run_audits import audit_run, default_options
from pyrite.training import Run, train_once

SHARE, NOISE = 0.05, "symmetric(0.2)"
SETS = ("cifar10+cifar100", "cifar10+fashion_mnist", "fashion_mnist+mnist", "fashion_mnist+cifar10")


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


def features(run: Run, data: Dataset) -> Any:
    """What the last layer of the trained net sees."""
    scale = Statistics(tuple(run.facts["mean"]), tuple(run.facts["std"]))
    batches = Batches(
        data.inputs, data.labels, batch_size=500, seed=0, shuffle=False, normalise=scale, device=torch.device("cpu")
    )
    with torch.inference_mode():
        return np.concatenate([pyrite.models.embed(run.model, batch.inputs).numpy() for batch in batches])


def trained(mixed: Mixture, out: Path, seed: int) -> Run:
    options = default_options({}, mixed.data)
    return train_once(mixed.data, out=out, progress=False, seed=seed, **options)
