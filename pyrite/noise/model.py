"""What a noise model is, and how labels are drawn from a matrix."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from pyrite.checks import flag, number, whole_number
from pyrite.draws import Array, Stream, uniforms
from pyrite.memory import check_memory
from pyrite.spec import construct, spell

__all__ = ["ClassNoise", "Drawn", "Noise", "RateNoise", "by_class", "check_classes", "check_rate", "measured"]


class Drawn(NamedTuple):
    """The labels that were given, and the matrix they came by."""

    given: Array
    matrix: Array


@dataclass(frozen=True, repr=False)
class Noise(ABC):
    """How true labels become the labels that are given.

    A matrix has T[i, j] = P(given j | true i). ``str(noise)`` is the text that makes the model again.
    """

    @property
    def classes(self) -> int | None:
        """The number of classes the model is made for; None if it takes any."""
        return None

    @property
    def needs_inputs(self) -> bool:
        """Whether a label depends on what the sample looks like."""
        return False

    @abstractmethod
    def matrix(self, classes: int, seed: int = 0) -> Array:
        """The matrix for this many classes; a ValueError where it is known only once labels are there."""

    @abstractmethod
    def draw(self, true: Array, classes: int, seed: int, inputs: object = None) -> Drawn:
        """Given labels for true ones, which are whole numbers below ``classes``."""

    def __str__(self) -> str:
        return spell(self)

    def __repr__(self) -> str:
        return construct(self)


@dataclass(frozen=True, repr=False)
class ClassNoise(Noise, ABC):
    """Noise that depends on the class alone, so that its matrix says everything.

    Args:
        exact: of the n samples of a class, mistake exactly n * (1 - T[i, i]), rounded, shared out among the other
            classes in proportion; else every sample is drawn by itself, and a label depends on nothing but the seed,
            the place of the sample and its true label.
    """

    exact: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        flag("exact", self.exact)

    def draw(self, true: Array, classes: int, seed: int, inputs: object = None) -> Drawn:
        matrix = self.matrix(classes, seed)
        chance, given = uniforms(seed, Stream.LABELS, len(true)), true.copy()
        for own, index in by_class(true, classes):
            if self.exact:
                spare = uniforms(seed, Stream.ROUNDING, classes, own)
                counts = _shares(matrix[own], own, len(index), spare)
                drawn = np.repeat(np.arange(classes), counts)
                given[index[np.argsort(chance[index], kind="stable")[: len(drawn)]]] = drawn
            else:
                given[index] = _invert(matrix[own], own, chance[index])
        return Drawn(given, matrix)


@dataclass(frozen=True, repr=False)
class RateNoise(ClassNoise, ABC):
    """Class noise with one rate, whatever the rate is of."""

    rate: float

    def __post_init__(self) -> None:
        super().__post_init__()
        check_rate(self.rate)


def _invert(row: Array, own: int, chance: Array) -> Array:
    """A class for each number in [0, 1), by the distribution ``row``.

    The own class comes last, so that a sample that is wrong at one rate is wrong at every higher one.
    """
    order = np.append(np.delete(np.arange(len(row)), own), own)
    total = np.cumsum(row[order])
    total[np.flatnonzero(row[order])[-1] :] = 1  # rounding must not leave a gap at the end
    return np.asarray(order[np.searchsorted(total, chance, side="right")])


def _shares(row: Array, own: int, samples: int, spare: Array) -> Array:
    """How many of ``samples`` go to each other class: in proportion, by the largest remainders.

    Equal remainders are told apart by ``spare``; by the number of the class, low classes would always get more.
    Rounding to nine digits keeps 0.3 * 10 from being a hair less than 3.
    """
    wanted = np.round(row * samples, 9)
    wanted[own] = 0
    counts = np.floor(wanted)
    missing = int(np.floor(np.round(wanted.sum(), 9) + 0.5) - counts.sum())
    counts[np.lexsort((spare, -np.round(wanted - counts, 9)))[:missing]] += 1
    return counts.astype(np.int64)


def by_class(labels: Array, classes: int) -> Iterator[tuple[int, Array]]:
    """Each class that is there, and where, in order."""
    order = np.argsort(labels, kind="stable")
    bounds = np.searchsorted(labels[order], np.arange(classes + 1))
    for own in range(classes):
        if bounds[own] < bounds[own + 1]:
            yield own, order[bounds[own] : bounds[own + 1]]


def measured(counts: Array) -> Array:
    """The matrix of counts or sums; a class that is not there keeps its label, since nothing is known of it."""
    total = counts.sum(1, keepdims=True)
    return np.where(total > 0, counts / np.where(total > 0, total, 1), np.eye(len(counts)))


def check_rate(rate: object, name: str = "rate") -> None:
    """Refuse what is not a share; NaN is not."""
    number(name, rate, least=0, most=1)


def check_classes(classes: object, wanted: int | None = None, by: str = "") -> int:
    """A number of classes as a plain number, the one that is wanted if there is one."""
    count = whole_number("classes", classes, least=2)
    if wanted is not None and count != wanted:
        raise ValueError(f"classes is {count}, but {by} is for {wanted} classes")
    check_memory(3 * 8 * count**2, f"a matrix of noise for {count} classes")
    return count
