"""A spec string of every noise model that is drawn from a matrix, so that contract tests find what is new."""

import numpy as np

ROWS = [[0.7, 0.2, 0.1], [0.0, 0.9, 0.1], [0.25, 0.25, 0.5]]

# spec, number of classes
DRAWN = {
    "clean": ("clean", 4),
    "symmetric": ("symmetric(rate=0.4)", 10),
    "uniform": ("uniform(rate=0.4)", 10),
    "flip": ("flip(rate=0.45)", 10),
    "flip2": ("flip2(rate=0.4)", 10),
    "flips": ("flips(rate=0.6, targets=4)", 10),
    "asymmetric": ("asymmetric(rate=0.4, map='cifar10')", 10),
    "asymmetric, mnist": ("asymmetric(rate=0.3, map='mnist')", 10),
    "asymmetric, superclasses": ("asymmetric(rate=0.4, map='cifar100')", 100),
    "asymmetric, blocks": ("asymmetric(rate=0.4, map='cifar100-blocks')", 100),
    "asymmetric, own": ("asymmetric(rate=0.2, map=((0, 2), (2, 1)))", 3),
    "pairs": ("pairs(rate=0.4, groups='cifar100')", 100),
    "pairs, own": ("pairs(rate=0.4, groups=((0, 1, 2), (3, 4)))", 6),
    "matrix": (f"matrix(file={tuple(map(tuple, ROWS))})", 3),
}
# What knows its matrix only after the labels are there.
MEASURED = {"human", "instance"}


def labels(classes: int, samples: int = 60_000) -> np.ndarray:
    """Labels of all classes, more of the low ones, mixed up without a random number."""
    return ((np.arange(samples) * 7919) % (2 * classes + 1) * 10 // 21) % classes
