"""Noise models that depend on the class alone. Papers use one name for several of them; here each has its own name."""

from abc import ABC
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Final, NamedTuple, final

import numpy as np

from pyrite.checks import Count, is_whole, require, whole_number
from pyrite.draws import Array, Stream, uniforms
from pyrite.errors import PyriteError
from pyrite.noise.model import Drawn, Noise, RateNoise, check_classes
from pyrite.spec import nearest

Lists = tuple[tuple[int, ...], ...]


class Named(NamedTuple):
    """Lists of classes, in a data set with this number of classes: pairs of a map, or groups of similar classes."""

    classes: int
    lists: Lists


# From the coarse labels of the official archive. Fine labels are numbered alphabetically, so a superclass
# is not five consecutive numbers.
CIFAR100_SUPERCLASSES: Final = (
    (4, 30, 55, 72, 95),  # aquatic mammals
    (1, 32, 67, 73, 91),  # fish
    (54, 62, 70, 82, 92),  # flowers
    (9, 10, 16, 28, 61),  # food containers
    (0, 51, 53, 57, 83),  # fruit and vegetables
    (22, 39, 40, 86, 87),  # household electrical devices
    (5, 20, 25, 84, 94),  # household furniture
    (6, 7, 14, 18, 24),  # insects
    (3, 42, 43, 88, 97),  # large carnivores
    (12, 17, 37, 68, 76),  # large man-made outdoor things
    (23, 33, 49, 60, 71),  # large natural outdoor scenes
    (15, 19, 21, 31, 38),  # large omnivores and herbivores
    (34, 63, 64, 66, 75),  # medium mammals
    (26, 45, 77, 79, 99),  # non-insect invertebrates
    (2, 11, 35, 46, 98),  # people
    (27, 29, 44, 78, 93),  # reptiles
    (36, 50, 65, 74, 80),  # small mammals
    (47, 52, 56, 59, 96),  # trees
    (8, 13, 48, 58, 90),  # vehicles 1
    (41, 69, 81, 85, 89),  # vehicles 2
)


def _next_in_each(groups: Lists) -> Lists:
    """Map every class to the next of its group, the last to the first."""
    return tuple((label, group[(place + 1) % len(group)]) for group in groups for place, label in enumerate(group))


MAPS: Final = {
    # truck -> automobile, bird -> airplane, cat <-> dog, deer -> horse
    "cifar10": Named(10, ((9, 1), (2, 0), (3, 5), (5, 3), (4, 7))),
    "mnist": Named(10, ((7, 1), (2, 7), (5, 6), (6, 5), (3, 8))),
    "cifar100": Named(100, _next_in_each(CIFAR100_SUPERCLASSES)),
    # What public code does: it treats five consecutive classes as a superclass.
    "cifar100-blocks": Named(100, _next_in_each(tuple(tuple(range(i, i + 5)) for i in range(0, 100, 5)))),
}

GROUPS: Final = {"cifar100": Named(100, CIFAR100_SUPERCLASSES)}


@final
class Clean(Noise):
    """No noise: every label is true."""

    def matrix(self, classes: int, seed: int = 0) -> Array:
        return np.eye(check_classes(classes))

    def draw(self, true: Array, classes: int, seed: int, inputs: object = None) -> Drawn:
        return Drawn(true, self.matrix(classes))


@final
class Symmetric(RateNoise):
    """With probability ``rate``, the label changes to one of the *other* classes.

    >>> Symmetric(0.4).matrix(classes=3)
    array([[0.6, 0.2, 0.2],
           [0.2, 0.6, 0.2],
           [0.2, 0.2, 0.6]])
    """

    def matrix(self, classes: int, seed: int = 0) -> Array:
        matrix = np.full((check_classes(classes), classes), self.rate / (classes - 1))
        np.fill_diagonal(matrix, 1 - self.rate)
        return matrix


@final
class Uniform(RateNoise):
    """With probability ``rate``, the label is drawn from all classes: rate * (K - 1) / K of the labels are wrong.

    Hendrycks et al., 2018.
    """

    def matrix(self, classes: int, seed: int = 0) -> Array:
        return (1 - self.rate) * np.eye(check_classes(classes)) + self.rate / classes


class _TargetNoise(RateNoise, ABC):
    """Every class is mistaken for ``targets`` others, each equally often, which the seed chooses."""

    targets: int

    def matrix(self, classes: int, seed: int = 0) -> Array:
        targets = self.targets
        if check_classes(classes) <= targets:
            mistakes = f"{type(self).__name__.lower()} mistakes a class for {targets} others"
            raise PyriteError(f"classes is {classes}, but {mistakes}: it needs {targets + 1} or more")
        matrix = np.zeros((classes, classes))
        np.put_along_axis(matrix, _other_classes(classes, targets, seed), self.rate / targets, axis=1)
        np.fill_diagonal(matrix, 1 - self.rate)
        return matrix


@final
@dataclass(frozen=True, repr=False)
class Flips(_TargetNoise):
    """With probability ``rate``, the label changes to one of ``targets`` other classes, determined by the seed.

    One target is ``flip``, two are ``flip2``, and K - 1 are ``symmetric``. With more targets, a seed keeps the targets
    that it chose for fewer.
    """

    targets: Count


@final
class Flip(_TargetNoise):
    """With probability ``rate``, the label changes to one other class, determined by the seed: ``flips(rate, 1)``.

    Hendrycks et al., 2018.
    """

    targets = 1


@final
class Flip2(_TargetNoise):
    """With probability ``rate``, the label changes to one of two classes, determined by the seed: ``flips(rate, 2)``.

    Shu et al., 2019.
    """

    targets = 2


def _check_lists(
    name: str, value: object, known: Mapping[str, Named], proper: Callable[[Sequence[Sequence[int]]], bool], wanted: str
) -> str | Lists:
    """The name of a known table, or lists of classes that are ``proper``."""
    if isinstance(value, str):
        if value not in known:
            raise PyriteError(f"unknown {name} {value!r}: {nearest(value, known)}")
        return value
    lists = value if isinstance(value, list | tuple) else ()
    whole = all(isinstance(each, list | tuple) and each and all(map(is_whole, each)) for each in lists)
    require(bool(lists) and whole and min(map(min, lists)) >= 0, name, value, "a name, or lists of class numbers")
    if not proper(lists):
        raise PyriteError(f"{name} is {value!r}, but {wanted}")
    return tuple(tuple(map(int, each)) for each in lists)


def _lists(name: str, value: str | Lists, known: Mapping[str, Named], classes: int) -> Lists:
    """The lists under a name, or those given, if they are about this number of classes."""
    wanted, lists = known[value] if isinstance(value, str) else (None, value)
    classes = check_classes(classes, wanted, f"the {name} {value!r}")
    if (largest := max(map(max, lists))) >= classes:
        raise PyriteError(f"{name} names class {largest}, but there are {classes} classes, 0 to {classes - 1}")
    return lists


def _is_map(pairs: Sequence[Sequence[int]]) -> bool:
    proper = all(len(pair) == 2 and pair[0] != pair[1] for pair in pairs)
    return proper and len({pair[0] for pair in pairs}) == len(pairs)


def _distinct(groups: Sequence[Sequence[int]]) -> bool:
    named = [label for group in groups for label in group]
    return all(len(group) >= 2 for group in groups) and len(set(named)) == len(named)


_ONE_EACH = "must be pairs that give each class at most one other class"
_DISTINCT = "each group must have two or more classes, and a class may be in one group only"


@final
@dataclass(frozen=True, repr=False)
class Asymmetric(RateNoise):
    """With probability ``rate``, the label changes to the most similar class; classes outside the map stay clean.

    >>> Asymmetric(0.4, map=[[0, 2]]).matrix(classes=3)
    array([[0.6, 0. , 0.4],
           [0. , 1. , 0. ],
           [0. , 0. , 1. ]])

    Patrini et al., 2017; Zhang & Sabuncu, 2018.
    """

    # Or "mnist", "cifar100" (the next class of the superclass), "cifar100-blocks" (the next of five in a row), or pairs
    # of a class and the class it is mistaken for: [[9, 1], [2, 0]].
    map: Annotated[str | Lists, partial(_check_lists, known=MAPS, proper=_is_map, wanted=_ONE_EACH)] = "cifar10"

    @property
    def classes(self) -> int | None:
        return MAPS[self.map].classes if isinstance(self.map, str) else None

    def matrix(self, classes: int, seed: int = 0) -> Array:
        pairs = _lists("map", self.map, MAPS, classes)
        return _confusion({(pair[0], pair[1]): self.rate for pair in pairs}, classes)


@final
@dataclass(frozen=True, repr=False)
class Pairs(RateNoise):
    """In every superclass, two classes determined by the seed swap labels with probability ``rate``.

    On CIFAR-100 two of the five classes in each group are affected, so 2/5 of ``rate`` of all labels are wrong.

    Wang et al., 2019.
    """

    # Or lists of similar classes: [[0, 1, 2], [3, 4]].
    groups: Annotated[str | Lists, partial(_check_lists, known=GROUPS, proper=_distinct, wanted=_DISTINCT)] = "cifar100"

    @property
    def classes(self) -> int | None:
        return GROUPS[self.groups].classes if isinstance(self.groups, str) else None

    def matrix(self, classes: int, seed: int = 0) -> Array:
        groups, rates = _lists("groups", self.groups, GROUPS, classes), {}
        chance = uniforms(whole_number("seed", seed, least=0), Stream.MATRIX, classes)
        for group in groups:
            one, other = sorted(group, key=lambda label: float(chance[label]))[:2]
            rates[one, other] = rates[other, one] = self.rate
        return _confusion(rates, classes)


def _other_classes(classes: int, count: int, seed: int) -> Array:
    """``count`` distinct other classes for every class, one row per class. A smaller ``count`` gives the first columns.

    Other classes are numbered 0 to K - 2, counted upwards from the class. The first is one of K - 1, the second one of
    the K - 2 that are left, and the rest come in a random order from a separate stream.
    """
    chance = uniforms(whole_number("seed", seed, least=0), Stream.MATRIX, 2 * classes).reshape(classes, 2)
    # The product with a number just below 1 may round up to K - 1.
    first = np.minimum(np.floor(chance[:, 0] * (classes - 1)), classes - 2).astype(np.int64)
    second = np.clip(np.floor(chance[:, 1] * (classes - 2)), 0, max(classes - 3, 0)).astype(np.int64)
    second += second >= first
    chosen = np.stack([first, second], 1)
    if count > 2:
        keys = uniforms(seed, Stream.MATRIX, classes * (classes - 1), 1).reshape(classes, classes - 1)
        np.put_along_axis(keys, chosen, [[-2.0, -1.0]], axis=1)
        chosen = keys.argsort(axis=1, kind="stable")
    return np.asarray((np.arange(classes)[:, None] + 1 + chosen[:, :count]) % classes)


def _confusion(rates: dict[tuple[int, int], float], classes: int) -> Array:
    """The matrix with the rates of these (class, other class) pairs; all other labels stay."""
    matrix = np.eye(classes)
    for (label, other), rate in rates.items():
        matrix[label, other] += rate
        matrix[label, label] -= rate
    return np.clip(matrix, 0, 1)
