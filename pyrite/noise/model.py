"""The base classes of noise models, and drawing labels from a matrix."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, NamedTuple

import numpy as np

from pyrite.arrays import to_ints
from pyrite.checks import Fraction, check_memory, flag, whole_number
from pyrite.draws import Array, Stream, uniforms
from pyrite.errors import PyriteError
from pyrite.spec import HasSpec


class Drawn(NamedTuple):
    """The given labels, and the matrix they were drawn from."""

    given: Array
    matrix: Array


@dataclass(frozen=True, repr=False)
class Noise(HasSpec, ABC):
    """A model of label noise: the distribution of given labels for each true label.

    Noise matrices are T[i, j] = P(given j | true i). ``str(noise)`` is the spec string of the model.

    >>> from pyrite import noise_model
    >>> noise_model("symmetric(0.3)").matrix(classes=3)
    array([[0.7 , 0.15, 0.15],
           [0.15, 0.7 , 0.15],
           [0.15, 0.15, 0.7 ]])
    """

    needs_inputs: ClassVar[bool] = False
    """Whether the noise depends on the inputs of a sample."""

    @property
    def classes(self) -> int | None:
        """The number of classes of the model; None for any number."""
        return None

    @abstractmethod
    def matrix(self, classes: int, seed: int = 0) -> Array:
        """The noise matrix for this number of classes. Raises ValueError if it depends on the labels or inputs."""

    @abstractmethod
    def draw(self, true: Array, classes: int, seed: int, inputs: object = None) -> Drawn:
        """Draw given labels for true labels, which are integers below ``classes``."""


@dataclass(frozen=True, repr=False)
class ClassNoise(Noise, ABC):
    """Noise that depends on the class alone, so that its matrix describes it completely.

    With ``exact``, of the n samples of class i, exactly n * (1 - T[i, i]), rounded, get a wrong label, divided among
    the other classes in proportion. Otherwise every sample is drawn independently, and its label depends only on the
    seed, its position and its true label.
    """

    exact: Annotated[bool, flag] = field(default=False, kw_only=True)

    def draw(self, true: Array, classes: int, seed: int, inputs: object = None) -> Drawn:
        matrix = self.matrix(classes, seed)
        chance, given = uniforms(seed, Stream.LABELS, len(true)), true.copy()
        for label, index in by_class(true, classes):
            if self.exact:
                counts = _counts(matrix[label], label, len(index), uniforms(seed, Stream.ROUNDING, classes, label))
                drawn = np.repeat(np.arange(classes), counts)
                given[index[np.argsort(chance[index], kind="stable")[: len(drawn)]]] = drawn
            else:
                given[index] = _invert(matrix[label], label, chance[index])
        return Drawn(given, matrix)


@dataclass(frozen=True, repr=False)
class RateNoise(ClassNoise, ABC):
    """Class noise with one rate. What the rate means depends on the model."""

    rate: Fraction


def _invert(row: Array, label: int, chance: Array) -> Array:
    """A class for each number in [0, 1), by inverting the distribution ``row``; the true class comes last.

    A sample that is wrong at one rate is then wrong at every higher rate.
    """
    order = np.append(np.delete(np.arange(len(row)), label), label)
    cumulative = np.cumsum(row[order])
    cumulative[np.flatnonzero(row[order])[-1] :] = 1  # rounding must not leave a gap at the end
    return np.asarray(order[np.searchsorted(cumulative, chance, side="right")])


def _counts(row: Array, label: int, samples: int, tie_breaks: Array) -> Array:
    """The number of ``samples`` for each other class: in proportion, by the largest remainder method.

    ``tie_breaks`` decides between equal remainders. Rounding to nine digits keeps 0.3 * 10 from being less than 3.
    """
    wanted = np.round(row * samples, 9)
    wanted[label] = 0
    counts = np.floor(wanted)
    missing = int(np.floor(np.round(wanted.sum(), 9) + 0.5) - counts.sum())
    counts[np.lexsort((tie_breaks, -np.round(wanted - counts, 9)))[:missing]] += 1
    return counts.astype(np.int64)


def by_class(labels: Array, classes: int) -> Iterator[tuple[int, Array]]:
    """Each class that occurs, in order, and the indices of its samples."""
    order = np.argsort(labels, kind="stable")
    bounds = np.searchsorted(labels[order], np.arange(classes + 1))
    for label in range(classes):
        if bounds[label] < bounds[label + 1]:
            yield label, order[bounds[label] : bounds[label + 1]]


def measured(counts: Array) -> Array:
    """Counts or sums as a matrix whose rows sum to 1. The row of a class without samples is that of the identity."""
    sums = counts.sum(1, keepdims=True)
    return np.where(sums > 0, counts / np.where(sums > 0, sums, 1), np.eye(len(counts)))


def check_classes(classes: object, wanted: int | None = None, by: str = "") -> int:
    """The number of classes as an ``int``; a ValueError if another number is ``wanted``."""
    count = whole_number("classes", classes, least=2)
    if wanted is not None and count != wanted:
        raise PyriteError(f"classes is {count}, but {by} is for {wanted} classes")
    check_memory(3 * 8 * count**2, f"a matrix of noise for {count} classes")
    return count


def to_labels(value: object, name: str = "labels") -> Array:
    """One or more labels as a new array of whole numbers."""
    labels = to_ints(value, name, least=0)
    if not len(labels):
        raise PyriteError(f"{name} has the shape {labels.shape}, but must have at least one label")
    return labels.copy()
