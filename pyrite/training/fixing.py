"""What corrections make of the labels of a run."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import final

import numpy as np
import numpy.typing as npt

from pyrite.data import Corrections, Dataset
from pyrite.training.recipe import Recipe

__all__ = ["Fixed", "fix"]


@final
@dataclass(frozen=True, eq=False)
class Fixed:
    """The labels as they shall be, which samples are kept, how many were changed, and what a user should know."""

    labels: npt.NDArray[np.int64]
    kept: npt.NDArray[np.int64]
    counts: Mapping[str, int] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


def fix(recipe: Recipe, data: Dataset, chosen: npt.NDArray[np.int64], content: bytes) -> Fixed:
    """Correct and drop as the content of ``recipe.corrections`` says, among the samples that were chosen.

    They are chosen by the labels before, so that a run with corrections has the samples of the run that was audited.
    """
    source = recipe.corrections
    read = Corrections.parse(content, source, data)
    if not read.decided and not recipe.drop_suspects:
        raise ValueError(
            f"corrections is {source}, a ranking in which nobody has decided anything: say with drop_suspects from "
            "which probability on labels are dropped, such as 0.9"
        )
    labels, kept = read.applied(data.labels), np.setdiff1d(chosen, read.dropped(recipe.drop_suspects))
    if not len(kept):
        raise ValueError(f"the corrections in {source} drop all {len(chosen)} samples: none is left to train on")
    said = []
    if recipe.drop_suspects and np.isnan(read.wrong_probability).all():
        said.append(f"{source} does not say how likely labels are wrong: no suspects were dropped")
    for number in np.setdiff1d(data.labels[chosen], labels[kept]):
        said.append(f"the corrections leave no sample of the class {data.classes[number]!r}")
    changed = int((labels != data.labels)[kept].sum())
    return Fixed(labels, kept, {"corrected": changed, "dropped": len(chosen) - len(kept)}, tuple(said))
