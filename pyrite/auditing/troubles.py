"""What is wrong with a data set and needs no training to be seen: copies, near-empty classes, unreadable files."""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final, NamedTuple, final

import numpy as np
import numpy.typing as npt

from pyrite.data import Dataset, Inputs, LazyImages, Unreadable
from pyrite.diagnostics.arrays import Ints

__all__ = ["FEW", "ClassSize", "Copies", "Troubles", "troubles"]

FEW: Final = 10
"""A class with fewer samples is near empty: a tenth held out for validation would be none, and noise outnumbers it."""

_CHUNK = 2**22  # bytes of inputs that a thread holds at a time


class Copies(NamedTuple):
    """Samples whose inputs are the same in every byte, in order, and the names of their labels."""

    samples: tuple[int, ...]
    labels: tuple[str, ...]


class ClassSize(NamedTuple):
    """A class and how many samples have its label."""

    name: str
    samples: int


@final
@dataclass(frozen=True)
class Troubles:
    """What was found.

    Attributes:
        contradictions: copies with different labels, of which all but one kind must be wrong.
        repeated: how many samples have the input and the label of an earlier one.
        near_empty: classes with fewer than ``FEW`` samples.
        unreadable: files that were set aside, with the reason.
    """

    contradictions: tuple[Copies, ...] = ()
    repeated: int = 0
    near_empty: tuple[ClassSize, ...] = ()
    unreadable: tuple[Unreadable, ...] = ()

    def sentences(self) -> tuple[str, ...]:
        """A sentence for each kind of trouble that there is, with its first example."""
        said = []
        if self.contradictions:
            first, count = self.contradictions[0], len(self.contradictions)
            other = next(place for place, label in enumerate(first.labels) if label != first.labels[0])
            samples = sum(len(group.samples) for group in self.contradictions)
            said.append(
                f"{_many(count, 'input')} {'occurs' if count == 1 else 'occur'} more than once with different labels, "
                f"in {samples} samples, such as {first.samples[0]} ({first.labels[0]}) and "
                f"{first.samples[other]} ({first.labels[other]})"
            )
        if self.repeated:
            verb = "repeats" if self.repeated == 1 else "repeat"
            said.append(f"{_many(self.repeated, 'sample')} {verb} an earlier one, label and all")
        if self.near_empty:
            named = [f"{name!r} ({count})" for name, count in self.near_empty[:5]]
            rest = ["..."] if len(self.near_empty) > len(named) else []
            verb = "has" if len(self.near_empty) == 1 else "have"
            classes = _many(len(self.near_empty), "class", "classes")
            said.append(f"{classes} {verb} fewer than {FEW} samples: {', '.join(named + rest)}")
        if self.unreadable:
            path, reason = self.unreadable[0]
            said.append(f"{_many(len(self.unreadable), 'file')} could not be read, such as {path} ({reason})")
        return tuple(said)

    def summary(self) -> dict[str, Any]:
        """The same as plain lists, ready for JSON."""
        return {
            "contradictions": [
                {"samples": list(group.samples), "labels": list(group.labels)} for group in self.contradictions
            ],
            "repeated": self.repeated,
            "near_empty": [found._asdict() for found in self.near_empty],
            "unreadable": [found._asdict() for found in self.unreadable],
        }


def troubles(data: Dataset) -> Troubles:
    """Look through a data set: every input is read once, and 16 bytes are kept of each.

    Two inputs are the same if all their bytes are, as a net would see them: two files with the same pixels are copies.
    Images that turn out to be damaged only when they are read are reported with those that were set aside before.
    """
    keys, readable, bad = _fingerprints(data.inputs)
    contradictions, repeated = [], 0
    for group in _copies(keys, readable):
        labels = data.labels[group]
        kinds = len(np.unique(labels))
        repeated += len(group) - kinds
        if kinds > 1:
            names = tuple(data.classes[label] for label in labels)
            contradictions.append(Copies(tuple(group.tolist()), names))
    sizes = np.bincount(data.labels, minlength=len(data.classes)).tolist()
    few = tuple(ClassSize(name, count) for name, count in zip(data.classes, sizes, strict=True) if count < FEW)
    known = {entry.path: entry for entry in (*data.unreadable, *bad)}
    return Troubles(tuple(sorted(contradictions)), repeated, few, tuple(known.values()))


def _fingerprints(inputs: Inputs) -> tuple[npt.NDArray[np.uint64], Ints, list[Unreadable]]:
    """128 bits of every input that can be read, which inputs those are, and the files that cannot.

    Among a billion inputs two different ones would have the same 128 bits with a chance of 10⁻²¹.
    """
    each = max(1, int(np.prod(inputs.shape[1:])) * inputs.dtype.itemsize)
    size = max(1, _CHUNK // each)
    chunks = [np.arange(start, min(start + size, len(inputs))) for start in range(0, len(inputs), size)]

    def look(rows: Ints) -> tuple[bytes, Ints, list[Unreadable]]:
        if isinstance(inputs, LazyImages):
            images, good, bad = inputs.read(rows)
            return _digests(images), rows[good], bad
        return _digests(inputs[rows[0] : rows[-1] + 1]), rows, []

    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        found = list(pool.map(look, chunks))
    keys = np.frombuffer(b"".join(digests for digests, _, _ in found), np.uint64).reshape(-1, 2)
    return keys, np.concatenate([rows for _, rows, _ in found]), [entry for _, _, bad in found for entry in bad]


def _digests(inputs: npt.NDArray[Any]) -> bytes:
    return b"".join(blake2b(one.tobytes(), digest_size=16).digest() for one in inputs)


def _copies(keys: npt.NDArray[np.uint64], index: Ints) -> Sequence[Ints]:
    """Groups of two or more samples with the same key, each in order."""
    order = np.lexsort((keys[:, 1], keys[:, 0]))  # stable: equal keys stay in the order of the samples
    ordered = keys[order]
    begins = np.flatnonzero(np.append(True, (ordered[1:] != ordered[:-1]).any(1))) if len(keys) else np.arange(0)
    sizes = np.diff(np.append(begins, len(keys)))
    some = sizes > 1
    return [index[order[begin : begin + size]] for begin, size in zip(begins[some], sizes[some], strict=True)]


def _many(count: int, one: str, several: str = "") -> str:
    return f"{count} {one if count == 1 else several or one + 's'}"
