"""The loaders on the real sets, in the files their authors publish.

Runs on what ``PYRITE_DATA`` holds; a set that is not there is skipped, and so is everything if it is not set.
"""

import os
from pathlib import Path

import numpy as np
import pytest

from pyrite.data import Batches, CropFlip, Statistics, load, split


def needs(folder):
    """Skip unless a set lies in ``PYRITE_DATA``: nothing is downloaded by a test."""
    root = os.environ.get("PYRITE_DATA")
    missing = root is None or not (Path(root) / folder).exists()
    reason = "PYRITE_DATA is not set" if root is None else f"{folder} is not in {root}"
    return pytest.mark.skipif(missing, reason=reason)


@needs("mnist")
def test_mnist():
    data = load("mnist")
    assert data.inputs.shape == (60_000, 1, 28, 28)
    assert data.test.inputs.shape == (10_000, 1, 28, 28)
    # Counts and moments that are widely published for this set.
    assert np.bincount(data.labels).tolist() == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert np.bincount(data.test.labels).tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    found = Statistics.of(data.inputs)
    np.testing.assert_allclose([*found.mean, *found.std], [0.1307, 0.3081], atol=5e-5)


@needs("fashion-mnist/train-images-idx3-ubyte.gz")  # a failed download leaves an empty folder
def test_fashion_mnist():
    data = load("fashion_mnist")
    assert data.inputs.shape == (60_000, 1, 28, 28)
    assert np.bincount(data.labels).tolist() == [6000] * 10
    assert np.bincount(data.test.labels).tolist() == [1000] * 10
    found = Statistics.of(data.inputs)
    np.testing.assert_allclose([*found.mean, *found.std], [0.2860, 0.3530], atol=5e-5)
    assert data.classes[data.labels[0]] == "Ankle boot"


@needs("cifar10/cifar-10-batches-py")
def test_cifar10():
    data = load("cifar10")
    assert data.inputs.shape == (50_000, 3, 32, 32)
    assert data.test.inputs.shape == (10_000, 3, 32, 32)
    assert np.bincount(data.labels).tolist() == [5000] * 10
    assert np.bincount(data.test.labels).tolist() == [1000] * 10
    found = Statistics.of(data.inputs)
    np.testing.assert_allclose(found.mean, [0.4914, 0.4822, 0.4465], atol=5e-5)
    np.testing.assert_allclose(found.std, [0.2470, 0.2435, 0.2616], atol=5e-5)
    assert " ".join(data.classes) == "airplane automobile bird cat deer dog frog horse ship truck"
    assert [data.classes[label] for label in data.labels[:3]] == ["frog", "truck", "truck"]


@needs("cifar10/CIFAR-10_human.pt")
def test_cifar10n():
    data = load("cifar10n")
    clean = load("cifar10")
    np.testing.assert_array_equal(data.true, clean.labels)
    np.testing.assert_array_equal(data.inputs, clean.inputs)
    rates = {name: float((column != data.true).mean()) for name, column in data.human.items()}
    assert set(rates) == {"aggre_label", "worse_label", "random_label1", "random_label2", "random_label3"}
    assert rates["worse_label"] == pytest.approx(0.4021, abs=5e-5)
    assert rates["aggre_label"] == pytest.approx(0.0901, abs=5e-5)
    for number in (1, 2, 3):
        assert 0.17 < rates[f"random_label{number}"] < 0.19
    # If one of the three random answers is wrong, a wrong one was chosen as the worse label.
    answers = np.stack([data.human[f"random_label{number}"] for number in (1, 2, 3)])
    np.testing.assert_array_equal(data.labels != data.true, (answers != data.true).any(0))
    # People confuse what looks alike: in no other order of the images would cats be called dogs this often.
    cats = data.labels[data.true == 3]
    assert np.bincount(cats, minlength=10)[5] > 3 * np.bincount(cats, minlength=10)[8]


@needs("cifar10/CIFAR-10_human.pt")
def test_human_labels_of_permuted_images_are_refused(tmp_path, monkeypatch):
    """The real file with one pair of images swapped in the set."""
    from pyrite.data import official

    data = load("cifar10")
    order = np.arange(len(data))
    order[[0, 1]] = 1, 0
    swapped = type(data)("cifar10", data.inputs[order], data.labels[order], data.classes, data.test)
    monkeypatch.setattr(official, "cifar10", lambda path: swapped)
    with pytest.raises(ValueError, match=r"at index 0, .* 2 of 50000 differ"):
        load("cifar10n")


@needs("cifar100/cifar-100-python")
def test_cifar100_superclasses():
    data = load("cifar100")
    assert data.inputs.shape == (50_000, 3, 32, 32)
    assert np.bincount(data.labels).tolist() == [500] * 100
    assert np.bincount(data.test.labels).tolist() == [100] * 100
    pairs = np.unique(np.stack([data.labels, data.coarse]), axis=1)
    # Every fine class has one superclass, and every superclass five fine classes.
    assert pairs.shape == (2, 100)
    assert np.bincount(pairs[1]).tolist() == [5] * 20
    np.testing.assert_array_equal(pairs, np.unique(np.stack([data.test.labels, data.test.coarse]), axis=1))
    fish = [data.classes[fine] for fine, coarse in pairs.T if data.coarse_classes[coarse] == "fish"]
    assert fish == ["aquarium_fish", "flatfish", "ray", "shark", "trout"]
    # Fine labels are alphabetical, so that blocks of five are no superclasses.
    assert list(data.classes) == sorted(data.classes)
    assert len({int(coarse) for fine, coarse in pairs.T if fine < 5}) > 1


@needs("cifar100/CIFAR-100_human.pt")
def test_cifar100n():
    data = load("cifar100n")
    assert (data.labels != data.true).mean() == pytest.approx(0.4020, abs=5e-4)
    coarse = load('cifar100n(column="noisy_coarse_label")')
    assert (coarse.labels != coarse.true).mean() == pytest.approx(0.2640, abs=5e-4)
    np.testing.assert_array_equal(coarse.true, data.coarse)


@needs("cifar10/cifar-10-batches-py")
def test_an_epoch_of_batches():
    data = load("cifar10")
    parts = split(data.labels, seed=0)
    assert np.bincount(data.labels[parts.meta]).tolist() == [100] * 10
    statistics = Statistics.of(data.inputs, parts.train)
    batches = Batches(data.inputs, data.labels, seed=0, index=parts.train, augment=CropFlip(), normalise=statistics)
    seen = np.concatenate([index.numpy() for _, _, index in batches])
    np.testing.assert_array_equal(np.sort(seen), parts.train)
