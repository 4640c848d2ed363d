"""The data sets of ``benchmarks.audit``: features, true labels and given ones, by size and seed."""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from sklearn.decomposition import PCA
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import StandardScaler

import pyrite
from benchmarks import text
from benchmarks.tables import SETS as TABLES
from pyrite.data import load, texts
from pyrite.data.files import data_folder
from pyrite.features import encoder

__all__ = ["SETS", "Labelled", "Source"]

EMBEDDED = 10_000  # images of CIFAR-10 and of CIFAR-100
LEARNED = 20  # epochs in which a strong net learns their true labels


class Labelled(NamedTuple):
    """Features, the true labels, and the given ones."""

    inputs: Any
    true: Any
    given: Any


class Source(NamedTuple):
    """A data set with its noise, the sizes it is tried at, and the two models that score it."""

    read: Callable[[int, int], Labelled]  # from size and seed
    sizes: tuple[int, ...]
    models: tuple[str, str]
    people: bool = False  # whether people gave the labels


def table(name: str, noise: str) -> Source:
    def read(size: int, seed: int) -> Labelled:
        inputs, true = TABLES[name]()
        return Labelled(inputs, true, corrupted(true, noise, seed))

    return Source(read, (len(TABLES[name]()[1]),), ("logistic", "boosting"))


def corrupted(true: Any, noise: str, seed: int) -> Any:
    return true if noise == "none" else pyrite.corrupt(true, noise, classes=int(true.max()) + 1, seed=seed).given


def chosen(count: int, size: int, seed: int) -> Any:
    return np.sort(np.random.default_rng(seed).choice(count, size, replace=False))


def images(name: str, noise: str, sizes: tuple[int, ...]) -> Source:
    def read(size: int, seed: int) -> Labelled:
        data = load(name)
        rows = chosen(len(data), size, seed)
        inputs = PCA(min(64, size), random_state=0).fit_transform(
            data.numeric[rows].reshape(size, -1).astype(np.float64)
        )
        return Labelled(inputs, data.labels[rows], corrupted(data.labels[rows], noise, seed))

    return Source(read, sizes, ("logistic", "mlp"))


@cache
def embeddings(name: str = "cifar10") -> Any:
    net, inputs = encoder("efficientnet_lite0(size=128)"), load(name).inputs[:EMBEDDED]
    assert net is not None
    vectors = net.fit(inputs, np.arange(len(inputs))).transform(inputs).astype(np.float64)
    return PCA(96, random_state=0).fit_transform(vectors)


@cache
def strong_features() -> Any:
    """The hidden layer of a net that has learned the true labels of the same images: of a net that is nearly right."""
    true = load("cifar10").labels[:EMBEDDED]
    inputs = StandardScaler().fit_transform(embeddings())
    net = MLPClassifier((256, 32), max_iter=LEARNED, random_state=0).fit(inputs, true)
    for weights, bias in zip(net.coefs_[:2], net.intercepts_[:2], strict=True):
        inputs = np.maximum(inputs @ weights + bias, 0)
    return inputs


def cifar(column: str, noise: str = "none", *, strong: bool = False) -> Source:
    def read(size: int, seed: int) -> Labelled:
        data = load("cifar10n(column='worse_label')")
        rows = chosen(EMBEDDED, size, seed)
        assert data.true is not None
        true = data.true[rows]
        given = data.human[column][rows] if column else corrupted(true, noise, seed)
        return Labelled((strong_features() if strong else embeddings())[rows], true, given)

    return Source(read, (8000,) if strong else (2000, 8000), ("logistic", "mlp"), people=bool(column))


def cifar100(sizes: tuple[int, ...], *, people: bool) -> Source:
    def read(size: int, seed: int) -> Labelled:
        data = load("cifar100n")
        rows = chosen(EMBEDDED, size, seed)
        assert data.true is not None
        true = data.true[rows]
        return Labelled(embeddings("cifar100")[rows], true, data.labels[rows] if people else true)

    return Source(read, sizes, ("logistic", "mlp"), people=people)


@cache
def words(name: str) -> tuple[Any, Any]:
    """Embeddings and topics of the texts, which ``benchmarks.text --fetch`` puts into the folder of the data."""
    own, topics = text.SETS[name](data_folder() / "text")
    kept = np.random.default_rng(0).permutation(len(own))[: text.MOST]
    net, inputs = encoder("wordllama"), texts([own[row] for row in kept])
    assert net is not None
    numbers = np.unique(topics, return_inverse=True)[1].astype(np.int64)
    return net.fit(inputs, np.arange(len(kept))).transform(inputs).astype(np.float64), numbers[kept]


def written(name: str, noise: str) -> Source:
    def read(size: int, seed: int) -> Labelled:
        inputs, true = words(name)
        rows = chosen(len(true), min(size, len(true)), seed)
        return Labelled(inputs[rows], true[rows], corrupted(true[rows], noise, seed))

    return Source(read, (1000, text.MOST), ("logistic", "mlp"))


def rare(name: str, number: int) -> Source:
    """One class against the rest, with 1 % positives. A third of the positives and 0.2 % of the negatives are wrong."""

    def read(size: int, seed: int) -> Labelled:
        data, random = load(name), np.random.default_rng(seed)
        positive, negative = (np.flatnonzero((data.labels == number) == own) for own in (True, False))
        rows = np.concatenate([random.permutation(positive)[: size // 100], random.permutation(negative)[:size]])
        inputs = PCA(64, random_state=0).fit_transform(data.numeric[rows].reshape(len(rows), -1).astype(np.float64))
        true = (data.labels[rows] == number).astype(np.int64)
        wrong = random.random(len(rows)) < np.where(true == 1, 1 / 3, 0.002)
        return Labelled(inputs, true, np.where(wrong, 1 - true, true))

    return Source(read, (4000,), ("logistic", "mlp"))


SETS: dict[str, Source] = {
    "CIFAR-10N worst": cifar("worse_label"),
    "CIFAR-10N aggregate": cifar("aggre_label"),
    "CIFAR-10N random 1": cifar("random_label1"),
    "CIFAR-10N random 2": cifar("random_label2"),
    "CIFAR-10 clean": cifar("", "none"),
    "CIFAR-10 flip2 20 %": cifar("", "flip2(0.2)"),
    "CIFAR-10N worst, strong net": cifar("worse_label", strong=True),
    "CIFAR-10N aggregate, strong net": cifar("aggre_label", strong=True),
    "CIFAR-10 clean, strong net": cifar("", "none", strong=True),
    "CIFAR-10 flip2 20 %, strong net": cifar("", "flip2(0.2)", strong=True),
    **{
        f"Fashion-MNIST {noise}": images("fashion_mnist", noise, (1000, 4000))
        for noise in ("none", "symmetric(0.3)", "flip2(0.3)", "flip(0.1)")
    },
    **{f"digits {noise}": images("digits", noise, (1400,)) for noise in ("none", "symmetric(0.4)", "flip2(0.2)")},
    "rare class of Fashion-MNIST": rare("fashion_mnist", 6),
    "CIFAR-100N": cifar100((2000, 8000), people=True),
    "CIFAR-100 clean": cifar100((8000,), people=False),
    **{
        f"texts: {name} {noise}": written(name, noise)
        for name in ("films", "editorials", "fortunes")
        for noise in ("none", "symmetric(0.2)")
    },
    **{
        f"{name} {noise}": table(name, noise)
        for name in ("mushroom", "splice", "mammographic", "crx", "contraceptive", "satimage")
        for noise in ("none", "symmetric(0.1)", "flip(0.3)")
    },
}
