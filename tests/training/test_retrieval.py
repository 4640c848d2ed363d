"""What embeddings are worth, on a test part in tracklets, against the same computed by hand from the saved net."""

from pathlib import Path

import numpy as np
import torch
from torch.nn.functional import normalize

import pyrite
from pyrite.data import Dataset, Tracklets


def test_people_are_found_again(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    kinds = rng.normal(size=(6, 5)).astype(np.float32)  # three people to train on, three others to find
    train = np.repeat(np.arange(3), 20)
    frames = np.repeat(np.arange(3, 6), 8)  # two tracklets of four frames for each person
    tracklets = Tracklets(
        np.arange(0, 24, 4), np.arange(4, 28, 4), np.repeat([7, 8, 9], 2), np.tile([1, 2], 3), np.array([0, 3])
    )
    test = Dataset(
        "people test", kinds[frames] + rng.normal(size=(24, 5)).astype(np.float32), frames - 3, tuple("abc"),
        tracklets=tracklets,
    )  # fmt: skip
    data = Dataset(
        "people", kinds[train] + 0.1 * rng.normal(size=(60, 5)).astype(np.float32), train, tuple("xyz"), test
    )
    run = pyrite.train(data, model="mlp(hidden=[8])", epochs=3, out=tmp_path / "run", batch_size=10)
    found = run.facts["retrieval"]
    assert run.table["final_test_accuracy"] is None  # the people of the test part are nobody the net could name

    scale = run.facts
    inputs = (torch.tensor(test.inputs) - torch.tensor(scale["mean"])) / torch.tensor(scale["std"])
    with torch.no_grad():
        frames_seen = run.model.embed(inputs.float()).double()  # type: ignore[operator]
    sets = normalize(frames_seen.reshape(6, 4, -1).mean(1), dim=1)
    precisions = []
    for query, match in ((0, 1), (3, 2)):
        order = (sets @ sets[query]).argsort(descending=True).tolist()
        order.remove(query)
        precisions.append(1 / (order.index(match) + 1))  # one match: the same person in the other camera
    assert found["queries"] == 2
    assert found["mean_average_precision"] == np.mean(precisions)
    assert found["cmc"]["5"] == 1.0
