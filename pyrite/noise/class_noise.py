"""Noise models that depend on the class alone. Papers use one name for several of them; here each has its own name."""

from dataclasses import dataclass
from typing import final

import numpy as np

from pyrite.checks import is_whole
from pyrite.draws import Array, Stream, check_seed, uniforms
from pyrite.errors import PyriteError
from pyrite.noise.maps import GROUPS, MAPS, ClassMap, Groups
from pyrite.noise.model import Drawn, Noise, RateNoise, check_classes
from pyrite.spec import nearest

__all__ = ["Asymmetric", "Clean", "Flip", "Flip2", "Flips", "Pairs", "Symmetric", "Uniform"]


@final
@dataclass(frozen=True, repr=False)
class Clean(Noise):
    """No noise: every label is the true one.

    >>> Clean().matrix(classes=2)
    array([[1., 0.],
           [0., 1.]])
    """

    def matrix(self, classes: int, seed: int = 0) -> Array:
        return np.eye(check_classes(classes))

    def draw(self, true: Array, classes: int, seed: int, inputs: object = None) -> Drawn:
        return Drawn(true, self.matrix(classes))


@final
@dataclass(frozen=True, repr=False)
class Symmetric(RateNoise):
    """With probability ``rate`` to one of the *other* classes.

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
@dataclass(frozen=True, repr=False)
class Uniform(RateNoise):
    """With probability ``rate`` to any class, its own included: only rate * (K - 1) / K of the labels are wrong.

    >>> Uniform(0.3).matrix(classes=3)
    array([[0.8, 0.1, 0.1],
           [0.1, 0.8, 0.1],
           [0.1, 0.1, 0.8]])

    Hendrycks et al., 2018.
    """

    def matrix(self, classes: int, seed: int = 0) -> Array:
        return (1 - self.rate) * np.eye(check_classes(classes)) + self.rate / classes


@final
@dataclass(frozen=True, repr=False)
class Flips(RateNoise):
    """With probability ``rate`` to one of ``targets`` other classes, which the seed chooses for each class.

    One target is ``flip``, two are ``flip2``, and K - 1 are ``symmetric``. With more targets, a seed keeps the targets
    that it chose for fewer.

    >>> Flips(0.3, targets=3).matrix(classes=5, seed=0)
    array([[0.7, 0. , 0.1, 0.1, 0.1],
           [0.1, 0.7, 0.1, 0.1, 0. ],
           [0.1, 0.1, 0.7, 0.1, 0. ],
           [0. , 0.1, 0.1, 0.7, 0.1],
           [0.1, 0. , 0.1, 0.1, 0.7]])
    """

    targets: int

    def __post_init__(self) -> None:
        super().__post_init__()
        if not is_whole(self.targets) or self.targets < 1:
            raise PyriteError(f"targets is {self.targets!r}, but must be a whole number, 1 or more")
        object.__setattr__(self, "targets", int(self.targets))

    def matrix(self, classes: int, seed: int = 0) -> Array:
        return _flips(self.rate, self.targets, classes, seed, "flips")


@final
@dataclass(frozen=True, repr=False)
class Flip(RateNoise):
    """With probability ``rate`` to one other class, which the seed chooses for each class: ``flips(rate, 1)``.

    >>> Flip(0.4).matrix(classes=3, seed=0)
    array([[0.6, 0.4, 0. ],
           [0. , 0.6, 0.4],
           [0.4, 0. , 0.6]])

    Hendrycks et al., 2018.
    """

    def matrix(self, classes: int, seed: int = 0) -> Array:
        return _flips(self.rate, 1, classes, seed, "flip")


@final
@dataclass(frozen=True, repr=False)
class Flip2(RateNoise):
    """With probability ``rate`` to one of two other classes, which the seed chooses: ``flips(rate, 2)``.

    >>> Flip2(0.4).matrix(classes=4, seed=0)
    array([[0.6, 0.2, 0. , 0.2],
           [0.2, 0.6, 0. , 0.2],
           [0. , 0.2, 0.6, 0.2],
           [0. , 0.2, 0.2, 0.6]])

    Shu et al., 2019.
    """

    def matrix(self, classes: int, seed: int = 0) -> Array:
        return _flips(self.rate, 2, classes, seed, "flip2")


@final
@dataclass(frozen=True, repr=False)
class Asymmetric(RateNoise):
    """With probability ``rate`` to the class it is most easily mistaken for; classes outside the map stay clean.

    Args:
        map: ``"cifar10"``, ``"mnist"``, ``"cifar100"`` (the next class of the superclass), ``"cifar100-blocks"`` (the
            next of five in a row), or pairs of a class and the class it is mistaken for: ``[[9, 1], [2, 0]]``.

    >>> Asymmetric(0.4, map=[[0, 2]]).matrix(classes=3)
    array([[0.6, 0. , 0.4],
           [0. , 1. , 0. ],
           [0. , 0. , 1. ]])

    Patrini et al., 2017; Zhang & Sabuncu, 2018.
    """

    map: str | tuple[tuple[int, ...], ...] = "cifar10"

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.map, str):
            if self.map not in MAPS:
                raise PyriteError(f"unknown map {self.map!r}: {nearest(self.map, MAPS)}")
            return
        pairs = _class_lists(self.map, "map")
        if any(len(pair) != 2 or pair[0] == pair[1] for pair in pairs) or len({pair[0] for pair in pairs}) < len(pairs):
            raise PyriteError(f"map is {self.map!r}, but must be pairs that give each class at most one other class")
        object.__setattr__(self, "map", pairs)

    @property
    def classes(self) -> int | None:
        return MAPS[self.map].classes if isinstance(self.map, str) else None

    def matrix(self, classes: int, seed: int = 0) -> Array:
        classes = check_classes(classes, self.classes, f"the map {self.map!r}")
        if isinstance(self.map, str):
            chosen = MAPS[self.map]
        else:
            chosen = ClassMap(classes, {label: target for label, target in self.map})  # noqa: C416
        _check_class(max(max(pair) for pair in chosen.target.items()), classes, "map")
        return _confusion(dict.fromkeys(chosen.target.items(), self.rate), classes)


@final
@dataclass(frozen=True, repr=False)
class Pairs(RateNoise):
    """In every superclass two classes, which the seed chooses, are mistaken for each other with probability ``rate``.

    Args:
        groups: ``"cifar100"``, or lists of similar classes: ``[[0, 1, 2], [3, 4]]``. On CIFAR-100 two of the five
            classes in each group are affected, so 2/5 of ``rate`` of all labels are wrong.

    >>> Pairs(0.4, groups=[[0, 1], [2, 3]]).matrix(classes=5)
    array([[0.6, 0.4, 0. , 0. , 0. ],
           [0.4, 0.6, 0. , 0. , 0. ],
           [0. , 0. , 0.6, 0.4, 0. ],
           [0. , 0. , 0.4, 0.6, 0. ],
           [0. , 0. , 0. , 0. , 1. ]])

    Wang et al., 2019.
    """

    groups: str | tuple[tuple[int, ...], ...] = "cifar100"

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.groups, str):
            if self.groups not in GROUPS:
                raise PyriteError(f"unknown groups {self.groups!r}: {nearest(self.groups, GROUPS)}")
            return
        groups = _class_lists(self.groups, "groups")
        named = [label for group in groups for label in group]
        if any(len(group) < 2 for group in groups) or len(set(named)) < len(named):
            raise PyriteError(
                f"groups is {self.groups!r}, but each group must have two or more classes, and a class may be in one "
                "group only"
            )
        object.__setattr__(self, "groups", groups)

    @property
    def classes(self) -> int | None:
        return GROUPS[self.groups].classes if isinstance(self.groups, str) else None

    def matrix(self, classes: int, seed: int = 0) -> Array:
        classes = check_classes(classes, self.classes, f"groups={self.groups!r}")
        chosen = GROUPS[self.groups] if isinstance(self.groups, str) else Groups(classes, self.groups)
        _check_class(max(max(group) for group in chosen.members), classes, "groups")
        chance, rates = uniforms(check_seed(seed), Stream.MATRIX, classes), {}
        for group in chosen.members:
            one, other = sorted(group, key=lambda label: float(chance[label]))[:2]
            rates[one, other] = rates[other, one] = self.rate
        return _confusion(rates, classes)


def _flips(rate: float, targets: int, classes: int, seed: int, name: str) -> Array:
    """The matrix in which every class is mistaken for ``targets`` others, each equally often."""
    if check_classes(classes) <= targets:
        raise PyriteError(
            f"classes is {classes}, but {name} mistakes a class for {targets} others: it needs {targets + 1} or more"
        )
    matrix = np.zeros((classes, classes))
    np.put_along_axis(matrix, _other_classes(classes, targets, seed), rate / targets, axis=1)
    np.fill_diagonal(matrix, 1 - rate)
    return matrix


def _other_classes(classes: int, count: int, seed: int) -> Array:
    """``count`` distinct other classes for every class, one row per class. A smaller ``count`` gives the first columns.

    Other classes are numbered 0 to K - 2, counted upwards from the class. The first is one of K - 1, the second one of
    the K - 2 that are left, and the rest come in a random order from a separate stream.
    """
    chance = uniforms(check_seed(seed), Stream.MATRIX, 2 * classes).reshape(classes, 2)
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


def _class_lists(value: object, name: str) -> tuple[tuple[int, ...], ...]:
    groups = value if isinstance(value, list | tuple) else ()
    whole = all(isinstance(group, list | tuple) and group and all(map(is_whole, group)) for group in groups)
    if not groups or not whole or min(min(group) for group in groups) < 0:
        raise PyriteError(f"{name} is {value!r}, but must be a name, or lists of class numbers")
    return tuple(tuple(int(label) for label in group) for group in groups)


def _check_class(largest: int, classes: int, name: str) -> None:
    if largest >= classes:
        raise PyriteError(f"{name} names class {largest}, but there are {classes} classes, 0 to {classes - 1}")
