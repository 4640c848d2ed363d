"""The noise models against the official files. Runs where PYRITE_DATA points at a folder that holds them."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite.noise import CIFAR100_SUPERCLASSES, Human
from pyrite.pickles import read_pickle, read_torch


def official(path: str) -> Path:
    folder = os.environ.get("PYRITE_DATA")
    if not folder:
        pytest.skip("PYRITE_DATA is not set")
    found = Path(folder) / path
    if not found.exists():
        pytest.skip(f"{found} is not there")
    return found


def cifar10() -> np.ndarray[Any, Any]:
    folder = official("cifar10/cifar-10-batches-py")
    return np.concatenate([read_pickle(folder / f"data_batch_{number}")[b"labels"] for number in range(1, 6)])


@pytest.mark.parametrize(
    ("column", "rate"),
    [
        ("worse_label", 40.21),
        ("aggre_label", 9.03),
        ("random_label1", 17.23),
        ("random_label2", 18.12),
        ("random_label3", 17.64),
        ("clean_label", 0),
    ],
)
def test_cifar10n_is_about_these_images_and_as_wrong_as_its_paper_says(column: str, rate: float) -> None:
    noisy = pyrite.corrupt(cifar10(), Human(str(official("cifar10/CIFAR-10_human.pt")), column), classes=10)
    assert len(noisy) == 50_000
    assert abs(100 * noisy.rate - rate) < 0.05
    np.testing.assert_allclose(noisy.matrix.sum(1), 1)


def test_permuted_images_are_noticed() -> None:
    file = Human(str(official("cifar10/CIFAR-10_human.pt")), "worse_label")
    true = cifar10()
    first, second = 100, int(np.flatnonzero(true != true[100])[-1])
    true[[first, second]] = true[[second, first]]
    with pytest.raises(ValueError, match=r"at index 100, .* 2 of 50000 differ"):
        pyrite.corrupt(true, file, classes=10)


def test_superclasses_are_those_of_the_coarse_labels() -> None:
    train = read_pickle(official("cifar100/cifar-100-python/train"))
    pairs = set(zip(train[b"fine_labels"], train[b"coarse_labels"], strict=True))
    assert pairs == {(fine, coarse) for coarse, group in enumerate(CIFAR100_SUPERCLASSES) for fine in group}
    names = read_pickle(official("cifar100/cifar-100-python/meta"))[b"fine_label_names"]
    assert names == sorted(names)
    noisy = pyrite.corrupt(train[b"fine_labels"], "asymmetric(0.4, map='cifar100')")
    coarse = dict(pairs)
    assert all(coarse[own] == coarse[given] for own, given in zip(noisy.true, noisy.given, strict=True))


def test_cifar100n() -> None:
    train = read_pickle(official("cifar100/cifar-100-python/train"))
    path = str(official("cifar100/CIFAR-100_human.pt"))
    fine = pyrite.corrupt(train[b"fine_labels"], Human(path, "noisy_label"), classes=100)
    coarse = pyrite.corrupt(train[b"coarse_labels"], Human(path, "noisy_coarse_label"), classes=20)
    assert abs(100 * fine.rate - 40.20) < 0.05
    assert abs(100 * coarse.rate - 26.40) < 0.05


def test_our_reader_reads_what_torchs_does() -> None:
    import _codecs

    import torch

    path = official("cifar10/CIFAR-10_human.pt")
    rebuild = np.zeros(1).__reduce__()[0]
    allowed = [(rebuild, "numpy.core.multiarray._reconstruct"), np.ndarray, np.dtype, np.dtypes.Int64DType]
    with torch.serialization.safe_globals([*allowed, _codecs.encode]):
        theirs = torch.load(path, weights_only=True)
    ours = read_torch(path)
    assert list(ours) == list(theirs)
    assert all(np.array_equal(ours[name], theirs[name]) for name in theirs)
