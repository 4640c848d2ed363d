"""Which classes are mistaken for which: the maps the papers use, and the superclasses of CIFAR-100."""

from typing import Final, NamedTuple


class Named(NamedTuple):
    """Lists of classes, in a data set with this number of classes: pairs of a map, or groups of similar classes."""

    classes: int
    lists: tuple[tuple[int, ...], ...]


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


def _next_in_each(groups: tuple[tuple[int, ...], ...]) -> tuple[tuple[int, ...], ...]:
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
