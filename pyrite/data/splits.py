"""Splitting samples into training, meta, validation and test parts."""

from dataclasses import dataclass
from enum import IntEnum
from typing import final

import numpy as np
import numpy.typing as npt

from pyrite.arrays import to_ints
from pyrite.checks import is_whole, number, whole_number
from pyrite.data.dataset import Labels
from pyrite.draws import Stream, uniforms
from pyrite.errors import PyriteError


@final
class Part(IntEnum):
    """What a run uses a sample for: the column ``part`` of its ``labels.npz``. The numbers are part of the format.

    >>> Part.META, np.array([0, 3]) == Part.META
    (<Part.META: 3>, array([False,  True]))
    """

    TRAIN = 0
    VALIDATION = 1
    UNUSED = 2
    META = 3


@final
@dataclass(frozen=True, eq=False)
class Splits:
    """The sorted indices of the samples of each part. Every sample is in exactly one part.

    Attributes:
        train: the training part.
        meta: the meta set.
        validation: the validation part, which is held out during training.
        test: the test part.

    >>> split(np.arange(100) % 2, meta=10, validation=0.1, seed=0).validation.shape
    (10,)
    """

    train: Labels
    meta: Labels
    validation: Labels
    test: Labels


def split(
    labels: npt.ArrayLike,
    *,
    meta: int | float = 1000,
    validation: int | float = 0,
    test: int | float = 0,
    seed: int,
    groups: npt.ArrayLike | None = None,
) -> Splits:
    """Split the samples at random into disjoint parts, stratified by class.

    The size of a part is a number of samples or a fraction of all samples; the remaining samples are the training part.
    Parts are stratified by the *given*, noisy labels, because true labels are unknown in practice. Samples with the
    same number in ``groups`` are in the same part; sizes are then approximate.

    Args:
        labels: the given labels.
        meta: the size of the meta set.
        validation: the size of the validation part.
        test: the size of the test part.
        seed: the seed of the split, which is the same on any machine.
        groups: the group number of each sample.

    Returns:
        The indices of each part.

    >>> parts = split([0, 0, 0, 0, 1, 1, 1, 1], meta=2, test=0.25, seed=0)
    >>> len(parts.train), len(parts.meta), len(parts.test)
    (4, 2, 2)
    """
    given = to_ints(labels, "labels")
    sizes, wanted = {}, "a number of samples, or a fraction of them below 1"
    for name, size in (("meta", meta), ("validation", validation), ("test", test)):
        if is_whole(size):
            sizes[name] = whole_number(name, size, least=0, wanted=wanted)
        else:
            sizes[name] = round(number(name, size, wanted, least=0, below=1) * len(given))
    if sum(sizes.values()) >= len(given):
        requested = "".join(f", {name} {size}" for name, size in sizes.items() if size)
        raise PyriteError(f"too few samples: {len(given)}{requested}: none are left to train on")
    member = first_members(np.arange(len(given)) if groups is None else to_ints(groups, "groups"))
    lead = np.unique(member)
    if len(lead) < len(given):  # one sample of each group stands for it
        sizes = {name: round(size * len(lead) / len(given)) for name, size in sizes.items()}
        if sum(sizes.values()) >= len(lead):
            raise PyriteError(f"too few groups: {len(lead)}, and none may be in two parts")
    drawn = uniforms(whole_number("seed", seed, least=0), Stream.SPLIT, len(lead))
    part_of = np.zeros(len(lead), np.int64)
    # Sorted by class and at random within a class: each part takes the next samples of every class.
    _, group, counts = np.unique(given[lead], return_inverse=True, return_counts=True)
    ordered = np.lexsort((drawn, group))
    first = np.cumsum(counts) - counts
    for part, size in enumerate(sizes.values(), start=1):
        # In proportion to the classes, by the largest remainder method.
        exact = counts * (size / counts.sum())
        taken = np.floor(exact).astype(np.int64)
        # Ties are broken at random, so that low class numbers are not favoured.
        tie = uniforms(seed, Stream.SPLIT, len(counts), part)
        by_remainder = np.lexsort((tie, -(exact - taken).round(9)))
        by_remainder = by_remainder[taken[by_remainder] < counts[by_remainder]]
        taken[by_remainder[: size - taken.sum()]] += 1
        for begin, count in zip(first, taken, strict=True):
            part_of[ordered[begin : begin + count]] = part
        first, counts = first + taken, counts - taken
    part_of = part_of[np.searchsorted(lead, member)]
    return Splits(*(np.flatnonzero(part_of == number) for number in range(4)))


def first_members(groups: Labels) -> Labels:
    """For every sample the number of the first one in its group.

    >>> first_members(np.array([7, 2, 7, 7, 2]))
    array([0, 1, 0, 0, 1])
    """
    _, first, group = np.unique(groups, return_index=True, return_inverse=True)
    return np.asarray(first[group], np.int64)
