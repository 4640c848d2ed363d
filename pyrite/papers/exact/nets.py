"""The claim about nets before training."""

from collections.abc import Sequence

import numpy as np

from pyrite.curves import expected_margin
from pyrite.models import MODELS
from pyrite.papers.claims import Computed
from pyrite.training import measure_start

# Figures 2 and 6 of the paper show the margins by eye; a tenth of |E| moves the weight of MAE by about a fifth.
_WITHIN = 0.1
_OF_THE_PAPER = ("cnn4", "cnn8", "resnet34", "resnet50")


def initial_margins_of_nets(
    nets: Sequence[str] = tuple(MODELS),
    classes: Sequence[int] = (10, 100),
    seeds: Sequence[int] = (0, 1, 2),
    batch_size: int = 16,
) -> Computed:
    """C6: Eq. 4 gives the mean margin of nets before training (curriculum paper, Figures 2 and 6).

    The paper has it of its own nets, and of most others with a usual initialisation. As printed with scores of spread
    1, to a tenth; and corrected, with the spread that the net really has, for every net. Margin and spread are means
    over initial weights; inputs are normal random numbers of the shape of a CIFAR image.
    """
    printed: dict[str, bool] = {}
    corrected: list[bool] = []
    numbers: dict[str, float] = {}
    for name in nets:
        for count in classes:
            starts = [measure_start(name, classes=count, seed=seed, batch_size=batch_size) for seed in seeds]
            mean, cell = float(np.mean([start.margins.mean() for start in starts])), f"{name}, {count} classes"
            # Eq. 4 depends on the square of the spread.
            spread = float(np.mean([start.spread**2 for start in starts])) ** 0.5
            assumed, real = expected_margin(count), expected_margin(count, spread, exact=True)
            printed[cell] = abs(mean - assumed) <= _WITHIN * abs(assumed)
            corrected.append(abs(mean - real) <= _WITHIN * abs(real))
            numbers |= {f"margin, {cell}": mean, f"spread, {cell}": spread}
    numbers |= {f"Eq. 4, {count} classes": expected_margin(count) for count in classes}
    numbers["fraction of nets within a tenth of Eq. 4"] = fraction = float(np.mean(list(printed.values())))
    own = {cell: fits for cell, fits in printed.items() if cell.partition(",")[0] in _OF_THE_PAPER}
    statements = {**own, "most nets of this library": fraction > 0.5}
    return Computed("C6", statements, numbers, {"with the spread that each net has, for all nets": all(corrected)})
