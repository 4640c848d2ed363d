"""Claims of the papers that need no training: computed, with the numbers that decide them."""

from collections.abc import Callable, Mapping
from typing import Final

from pyrite.papers.claims import Computed
from pyrite.papers.exact.losses import (
    asymmetry_conditions,
    nce_is_regularised_ce,
    neither_symmetric_nor_bounded,
    variance_grows,
    variances,
    weight_times_direction,
)
from pyrite.papers.exact.meta import noise_adds_variance, noise_shortens_meta_gradient
from pyrite.papers.exact.nets import initial_margins_of_nets

__all__ = ["EXACT", "Computed"]

EXACT: Final[Mapping[str, Callable[[], Computed]]] = {
    "I2": variances,
    "I9": variance_grows,
    "I15": neither_symmetric_nor_bounded,
    "C1": weight_times_direction,
    "C2": nce_is_regularised_ce,
    "C6": initial_margins_of_nets,
    "C15": asymmetry_conditions,
    "R1": noise_shortens_meta_gradient,
    "R2": noise_adds_variance,
}
"""What decides each of these claims, by its identifier: I of IMAE, C of the curriculum paper, R of the gold samples."""
