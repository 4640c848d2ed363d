"""Claims of the papers that need no training: computed, with the numbers that decide them."""

from collections.abc import Callable, Mapping
from typing import Final

from pyrite.papers.claims import Computed
from pyrite.papers.exact import losses, meta, nets

__all__ = ["EXACT"]

EXACT: Final[Mapping[str, Callable[[], Computed]]] = {
    "I2": losses.variances,
    "I9": losses.variance_grows,
    "I15": losses.neither_symmetric_nor_bounded,
    "C1": losses.weight_times_direction,
    "C2": losses.nce_is_regularised_ce,
    "C6": nets.initial_margins_of_nets,
    "C15": losses.asymmetry_conditions,
    "R1": meta.noise_shortens_meta_gradient,
    "R2": meta.noise_adds_variance,
}
"""What decides each of these claims, by its identifier: I of IMAE, C of the curriculum paper, R of the gold samples."""
