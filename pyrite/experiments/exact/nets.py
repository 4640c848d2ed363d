"""The claim about nets before training."""

from collections.abc import Sequence

import numpy as np

from pyrite.curves import expected_margin
from pyrite.experiments.exact.finding import Finding
from pyrite.models import MODELS
from pyrite.training import measure_start

__all__ = ["initial_margins_of_nets"]

# Figures 2 and 6 of the paper show the margins by eye; a tenth of |E| moves the weight of MAE by about a fifth.
_WITHIN = 0.1


def initial_margins_of_nets(
    nets: Sequence[str] = tuple(MODELS),
    classes: Sequence[int] = (10, 100),
    seeds: Sequence[int] = (0, 1, 2),
    batch_size: int = 16,
) -> Finding:
    """C6: Eq. 4 gives the mean margin of every net before training (curriculum paper, Figures 2 and 6).

    As printed with scores of spread 1, to a tenth; and corrected, with the spread that the net really has. Margin and
    spread are means over initial weights; inputs are normal random numbers of the shape of a CIFAR image.
    """
    printed: dict[str, bool] = {}
    corrected: dict[str, bool] = {}
    numbers: dict[str, float] = {}
    for name in nets:
        for count in classes:
            starts = [measure_start(name, classes=count, seed=seed, batch_size=batch_size) for seed in seeds]
            mean, cell = float(np.mean([start.margins.mean() for start in starts])), f"{name}, {count} classes"
            # Eq. 4 depends on the square of the spread.
            spread = float(np.mean([start.spread**2 for start in starts])) ** 0.5
            assumed, own = expected_margin(count), expected_margin(count, spread, exact=True)
            printed[cell] = abs(mean - assumed) <= _WITHIN * abs(assumed)
            corrected[f"{cell}, at its own spread"] = abs(mean - own) <= _WITHIN * abs(own)
            numbers |= {f"margin, {cell}": mean, f"spread, {cell}": spread}
    numbers |= {f"Eq. 4, {count} classes": expected_margin(count) for count in classes}
    return Finding("C6", printed, numbers, corrected)
