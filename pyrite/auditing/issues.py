"""Problems of a data set that can be found without training: copies, near-empty classes, unreadable files."""

import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final, NamedTuple, final

import numpy as np
import numpy.typing as npt

from pyrite.arrays import Ints
from pyrite.data import Dataset, Inputs, LazyImages, Records, Unreadable
from pyrite.text_tables import counted

FEW: Final = 10
"""A class with fewer samples is near empty: a validation part of a tenth would have none of it."""

_CHUNK = 2**22  # bytes of inputs per thread


class Copies(NamedTuple):
    """Samples whose inputs are the same, or nearly, in order, and the names of their labels."""

    samples: tuple[int, ...]
    labels: tuple[str, ...]

    @property
    def example(self) -> str:
        """Two of the samples with different labels."""
        other = next(place for place, label in enumerate(self.labels) if label != self.labels[0])
        return f"{self.samples[0]} ({self.labels[0]}) and {self.samples[other]} ({self.labels[other]})"


class ClassSize(NamedTuple):
    """A class and the number of samples with its label."""

    name: str
    samples: int


@final
@dataclass(frozen=True)
class DataIssues:
    """The problems of a data set."""

    contradictions: tuple[Copies, ...] = ()  # copies with different labels, of which all but one kind must be wrong
    near_copies: tuple[Copies, ...] = ()  # samples that are nearly the same, and have different labels
    repeated: int = 0  # the number of samples with the input and the label of an earlier one
    near_empty: tuple[ClassSize, ...] = ()  # classes with fewer than ``FEW`` samples
    unreadable: tuple[Unreadable, ...] = ()  # files that were set aside, with the reason

    def sentences(self) -> tuple[str, ...]:
        """One sentence per kind of problem, with its first example."""
        sentences = []
        if self.contradictions:
            inputs = counted(len(self.contradictions), "input occurs", "inputs occur")
            where = f"in {sum(len(group.samples) for group in self.contradictions)} samples"
            example = self.contradictions[0].example
            sentences.append(f"{inputs} more than once with different labels, {where}, such as {example}")
        if self.near_copies:
            groups = counted(len(self.near_copies), "group of near copies has", "groups of near copies have")
            sentences.append(f"{groups} different labels, such as {self.near_copies[0].example}")
        if self.repeated:
            samples = counted(self.repeated, "sample repeats", "samples repeat")
            sentences.append(f"{samples} the input and label of an earlier one")
        if self.near_empty:
            named = [f"{name!r} ({count})" for name, count in self.near_empty[:5]]
            rest = ["..."] if len(self.near_empty) > len(named) else []
            classes = counted(len(self.near_empty), "class has", "classes have")
            sentences.append(f"{classes} fewer than {FEW} samples: {', '.join(named + rest)}")
        if self.unreadable:
            files = counted(len(self.unreadable), "file")
            sentences.append(f"{files} could not be read, such as {self.unreadable[0].reason}")
        return tuple(sentences)

    def summary(self) -> dict[str, Any]:
        """The same as plain lists, ready for JSON."""
        kinds = {"contradictions": self.contradictions, "near_copies": self.near_copies}
        return {
            **{
                kind: [{"samples": list(rows), "labels": list(names)} for rows, names in found]
                for kind, found in kinds.items()
            },
            "repeated": self.repeated,
            "near_empty": [size._asdict() for size in self.near_empty],
            "unreadable": [entry._asdict() for entry in self.unreadable],
        }


def data_issues(data: Dataset, labels: Ints | None = None) -> DataIssues:
    """Find problems of a data set without training a model.

    Two inputs are copies if all bytes that a net receives are equal, such as two files with the same pixels. Near
    copies are much closer to each other than independent samples: rows with jitter, re-encoded images, and texts with a
    changed word. Unreadable files include those whose damage is detected only when they are read.

    Args:
        data: any data set.
        labels: other labels to check; those of the data set if None.

    Returns:
        Copies with different labels, repeated samples, near-empty classes and unreadable files.

    >>> import pyrite
    >>> twice = pyrite.Dataset("twice", np.ones((20, 2)), np.arange(20) % 2, ("a", "b"))
    >>> len(data_issues(twice).contradictions)
    1
    """
    labels = data.labels if labels is None else labels
    keys, readable, bad = _fingerprints(data.inputs)
    same = _copies(keys, readable)
    repeated = sum(len(group) - len(np.unique(labels[group])) for group in same)
    contradictions = _contradicting(same, labels, data.classes)
    known_groups = {one.samples for one in contradictions}
    near = _contradicting(_copies(data.copies[readable], readable), labels, data.classes)
    sizes = np.bincount(labels, minlength=len(data.classes)).tolist()
    few = tuple(ClassSize(name, count) for name, count in zip(data.classes, sizes, strict=True) if count < FEW)
    known = {entry.path: entry for entry in (*data.unreadable, *bad)}
    near = tuple(one for one in near if one.samples not in known_groups)
    return DataIssues(contradictions, near, repeated, few, tuple(known.values()))


def _contradicting(groups: list[Ints], labels: Ints, classes: tuple[str, ...]) -> tuple[Copies, ...]:
    """The groups whose samples have different labels, in order."""
    found = [group.tolist() for group in groups if len(np.unique(labels[group])) > 1]
    return tuple(sorted(Copies(tuple(rows), tuple(classes[labels[row]] for row in rows)) for rows in found))


def _fingerprints(inputs: Inputs) -> tuple[npt.NDArray[np.void], Ints, list[Unreadable]]:
    """128 bits of every input that can be read, which inputs those are, and the files that cannot.

    Among a billion inputs two different ones would have the same 128 bits with a chance of 10⁻²¹.
    """
    if isinstance(inputs, Records):
        cells = (repr(inputs.cells(row)).encode(errors="surrogatepass") for row in range(len(inputs)))
        return _digests(cells), np.arange(len(inputs)), []
    each = max(1, int(np.prod(inputs.shape[1:])) * inputs.dtype.itemsize)
    size = max(1, _CHUNK // each)
    chunks = [np.arange(start, min(start + size, len(inputs))) for start in range(0, len(inputs), size)]

    def read(rows: Ints) -> tuple[npt.NDArray[np.void], Ints, list[Unreadable]]:
        if isinstance(inputs, LazyImages):
            images, good, bad = inputs.read(rows)
            return _digests(one.tobytes() for one in images), rows[good], bad
        return _digests(one.tobytes() for one in inputs[rows[0] : rows[-1] + 1]), rows, []

    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        keys, rows, bad = zip(*pool.map(read, chunks), strict=True)
    return np.concatenate(keys), np.concatenate(rows), [entry for part in bad for entry in part]


def _digests(inputs: Iterable[bytes]) -> npt.NDArray[np.void]:
    return np.frombuffer(b"".join(blake2b(one, digest_size=16).digest() for one in inputs), "V16")


def _copies(keys: npt.NDArray[Any], index: Ints) -> list[Ints]:
    """Groups of two or more samples with the same key, each in order."""
    _, number, counts = np.unique(keys, return_inverse=True, return_counts=True)
    copied = np.flatnonzero(counts[number] > 1)
    order = copied[np.argsort(number[copied], kind="stable")]
    return np.split(index[order], np.cumsum(counts[counts > 1])[:-1]) if len(order) else []
