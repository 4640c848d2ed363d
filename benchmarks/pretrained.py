"""Pretrained nets at several image sizes: how good their embeddings are, and how long one takes.

    PYRITE_DATA=data python -m benchmarks.pretrained --json docs/results/pretrained.json

The first 2,000 training and 2,000 test images of CIFAR-10 and CIFAR-100 are embedded, with the labels that one person
gave (CIFAR-10N, the worst of three, and CIFAR-100N); a data set that is not there is left out. A logistic regression on
the standardised embeddings is trained with the given labels. Its accuracy is that on the clean test labels. The AUROC
is that of finding wrong labels by the cross-validated probability of the given label. The time of one image is the
least processor time of several rounds, in which the nets alternate, on one thread. The whole takes about ten minutes
per data set. With ``--json`` every row is written when it is known, and rows that are there are not computed again.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import pyrite
from pyrite.diagnostics import roc_auc
from pyrite.features import encoder

DATA = {"CIFAR-10N": "cifar10n(column='worse_label')", "CIFAR-100N": "cifar100n"}
SIZES = (64, 80, 96, 112, 128, 160, 192, 224)
NETS = [f"efficientnet_{net}(size={size})" for net in ("lite0", "lite2") for size in SIZES]
TRAIN, TEST, TIMED, ROUNDS = 2000, 2000, 16, 8


class Quality(NamedTuple):
    accuracy: float
    auroc: float


def quality(net: str, data: pyrite.data.Dataset) -> Quality:
    described, test = encoder(net), data.test
    assert described is not None
    assert data.true is not None
    assert test is not None
    features = described.fit(data.inputs, np.arange(TRAIN))
    x, given, true = features.transform(data.inputs[:TRAIN]), data.labels[:TRAIN], data.true[:TRAIN]
    head = make_pipeline(StandardScaler(), LogisticRegression(C=0.001, max_iter=300))
    likely = cross_val_predict(head, x, given, method="predict_proba")
    own = likely[np.arange(TRAIN), np.searchsorted(np.unique(given), given)]
    right = head.fit(x, given).predict(features.transform(test.inputs[:TEST])) == test.labels[:TEST]
    return Quality(float(right.mean()), float(roc_auc(-own, given != true)))


def milliseconds(images: Any) -> dict[str, float]:
    """Of one image, by net."""
    best = dict.fromkeys(NETS, float("inf"))
    for _ in range(ROUNDS):
        for net in NETS:
            described: Any = encoder(net)
            described.embed(images[:8])
            began = time.process_time()
            described.embed(images)
            best[net] = min(best[net], 1000 * (time.process_time() - began) / len(images))
    return best


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--json", type=Path, help="write the figures to this file")
    options = words.parse_args()
    torch.set_num_threads(1)
    loaded = {}
    for name, spec in DATA.items():
        try:
            loaded[name] = pyrite.data.load(spec)
        except pyrite.PyriteError as error:
            print(f"without {name}: {error}")
    known = json.loads(options.json.read_text())["nets"] if options.json and options.json.exists() else []
    rows = {row["net"]: row for row in known}
    if not rows:
        rows = {net: {"net": net, "ms": cost} for net, cost in milliseconds(loaded["CIFAR-10N"].inputs[:TIMED]).items()}
    print("| features | ms per image |" + "".join(f" {name}: accuracy | AUROC |" for name in loaded))
    print("|---|--:|" + "--:|--:|" * len(loaded))
    for net, row in rows.items():
        for name, data in loaded.items():
            if name not in row:
                row[name] = quality(net, data)._asdict()
                if options.json:
                    found = {"train": TRAIN, "test": TEST, "nets": [*rows.values()]}
                    options.json.write_text(json.dumps(found, indent=1) + "\n")
        cells = "".join(f" {100 * row[name]['accuracy']:.1f} % | {row[name]['auroc']:.3f} |" for name in loaded)
        print(f"| `{net}` | {row['ms']:.1f} |{cells}", flush=True)


if __name__ == "__main__":
    main()
