"""The labels of a run after corrections."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import final

import numpy as np
import numpy.typing as npt

from pyrite.data import Corrections, Dataset
from pyrite.errors import PyriteError
from pyrite.training.config import Config

__all__ = ["CorrectedLabels", "apply_corrections"]


@final
@dataclass(frozen=True, eq=False)
class CorrectedLabels:
    """The corrected labels, the samples that are kept, counts of what changed, and warnings."""

    labels: npt.NDArray[np.int64]
    kept: npt.NDArray[np.int64]
    counts: Mapping[str, int] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


def apply_corrections(config: Config, data: Dataset, chosen: npt.NDArray[np.int64], content: bytes) -> CorrectedLabels:
    """Apply the content of ``config.corrections`` to the chosen samples: correct labels and drop samples.

    Samples are chosen by their labels before correction, so that a run with corrections has the same samples as the run
    that was audited.
    """
    source = config.corrections
    read = Corrections.parse(content, source, data)
    if not read.decided and not config.drop_suspects:
        raise PyriteError(
            f"corrections is {source}, a ranking without decisions: set drop_suspects to the probability from which "
            "on labels are dropped, such as 0.9"
        )
    labels, kept = read.applied(data.labels), np.setdiff1d(chosen, read.dropped(config.drop_suspects))
    if not len(kept):
        raise PyriteError(f"the corrections in {source} drop all {len(chosen)} samples: none is left to train on")
    warnings = []
    if config.drop_suspects and np.isnan(read.wrong_probability).all():
        warnings.append(f"{source} does not say how likely labels are wrong: no suspects were dropped")
    for number in np.setdiff1d(data.labels[chosen], labels[kept]):
        warnings.append(f"the corrections leave no sample of the class {data.classes[number]!r}")
    changed = int((labels != data.labels)[kept].sum())
    return CorrectedLabels(labels, kept, {"corrected": changed, "dropped": len(chosen) - len(kept)}, tuple(warnings))
