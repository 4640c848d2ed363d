"""Weights of samples in an epoch and of epochs in an audit, and the bins of margins."""

from typing import Final

import numpy as np

from pyrite.arrays import to_floats

# sigmoid(-20) is 2e-9, so finer bins beyond ±20 would show nothing more.
MARGIN_EDGES: Final[tuple[float, ...]] = tuple(i / 2 for i in range(-40, 41))


def epoch_weight(followed: float | None, held_out: float | None) -> float:
    """The weight of an epoch as evidence of which labels are wrong, from the accuracies on given training labels,
    ``followed``, and on given ``held_out`` labels.

    An epoch is informative if the net generalises and has not memorised labels. The weight is a product of two factors:
    ``held_out ** 2`` measures generalisation, and ``(1 - followed) / (1 - held_out)``, at most 1, measures the absence
    of memorisation, since a net that memorised nothing is as accurate on training labels as on held-out ones. Without
    held-out labels all epochs have the weight 1.

    >>> epoch_weight(0.5, 0.5), epoch_weight(0.75, 0.5), epoch_weight(1.0, 0.5), epoch_weight(None, None)
    (0.25, 0.125, 1e-06, 1.0)
    """
    if followed is None or held_out is None:
        return 1.0
    left = 1.0 if held_out >= 1 else min(1.0, (1 - followed) / (1 - held_out))
    return max(held_out**2 * left, 1e-6)  # if no epoch is informative, all have the same weight


def weight_statistics(weight: object) -> dict[str, float | None]:
    """Mean, spread, quantiles and the effective number of samples of the weights of an epoch; None without weights.

    Quantiles are exact, with numpy's linear interpolation. ``effective_share`` is the effective number of samples
    over their number: 1 if all weights are equal, 1/n if only one is not 0.
    """
    values = to_floats(weight, "weight")
    names = ("min", "q05", "q25", "median", "q75", "q95", "max")
    if not values.size:
        return dict.fromkeys(("mean", "std", *names, "effective_share"))
    quantiles = np.quantile(values, (0, 0.05, 0.25, 0.5, 0.75, 0.95, 1))
    effective = effective_samples(values)
    return {
        "mean": float(values.mean()),
        "std": float(values.std()),
        **{name: float(value) for name, value in zip(names, quantiles, strict=True)},
        "effective_share": None if effective is None else effective / len(values),
    }


def effective_samples(weight: object) -> float | None:
    """(Σw)² / Σw²: the effective number of samples (Kish, 1965). None if all weights are 0.

    >>> effective_samples([1, 1, 0, 0])
    2.0
    """
    values = to_floats(weight, "weight")
    largest = float(np.abs(values).max(initial=0.0))
    if not largest:
        return None
    scaled = values / largest  # so that squares neither overflow nor underflow
    return float(scaled.sum() ** 2 / (scaled @ scaled))
