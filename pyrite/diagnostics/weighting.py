"""Sample weights: α_t, snr, and statistics of the weights of an epoch."""

import math
from collections.abc import Mapping
from typing import Any, Final, final

import numpy as np
import numpy.typing as npt

from pyrite.diagnostics.arrays import check_same_length, to_flags, to_floats
from pyrite.errors import PyriteError

__all__ = ["LearningWeights", "effective_samples", "weight_statistics"]

_SUMS: Final = ("rate", "size", "clean_rate", "clean", "noisy_rate", "noisy")


@final
class LearningWeights:
    """Means of sample weights over all steps so far, steps weighted by their learning rate. Six numbers are stored.

    ``weight`` is w in ∇L = −w ∇Δ: the weight by the loss times the weight by the method. The gradient of a sample with
    respect to its scores has the L1 norm 2|w|, because that of ∇Δ is always 2. The formula of α_t in the curriculum
    paper has the norm of ∇Δ, which would make α_t a constant; the norm of the gradient is meant.

    >>> means = LearningWeights()
    >>> means.update([0.5, 0.1], rate=0.1, is_wrong=[False, True])
    >>> means.update([0.2, 0.2], rate=0.01, is_wrong=[False, True])
    >>> round(means.alpha, 4), round(means.snr, 4)
    (0.5818, 4.3333)
    """

    def __init__(self) -> None:
        self._sums = dict.fromkeys(_SUMS, 0.0)

    def update(self, weight: object, rate: npt.ArrayLike, is_wrong: object | None = None) -> None:
        """Add samples. ``rate`` is the learning rate of the step, or one learning rate per sample."""
        values = to_floats(weight, "weight")
        rates = to_floats(np.full(len(values), rate) if np.ndim(rate) == 0 else rate, "rate")
        check_same_length(weight=values, rate=rates)
        if rates.size and rates.min() < 0:
            first = int((rates < 0).argmax())
            raise PyriteError(f"rate is {rates[first]} at index {first}, but must not be negative")
        added = {"rate": rates.sum(), "size": rates @ np.abs(values)}
        if is_wrong is not None:
            wrong = to_flags(is_wrong, "is_wrong")
            check_same_length(weight=values, is_wrong=wrong)
            for name, part in (("clean", ~wrong), ("noisy", wrong)):
                added |= {f"{name}_rate": rates[part].sum(), name: rates[part] @ values[part]}
        for name, value in added.items():
            self._sums[name] += float(value)

    def merge(self, other: "LearningWeights") -> None:
        """Add the sums of another process; a mean of means would be wrong."""
        for name in _SUMS:
            self._sums[name] += other._sums[name]

    @property
    def alpha(self) -> float | None:
        """α_t, the mean L1 norm of the samples' gradients; None before any step with a learning rate above 0."""
        return _ratio(2 * self._sums["size"], self._sums["rate"])

    @property
    def clean(self) -> float | None:
        """The mean weight of samples with a right label; None without such samples, or without true labels."""
        return _ratio(self._sums["clean"], self._sums["clean_rate"])

    @property
    def noisy(self) -> float | None:
        """The mean weight of samples with a wrong label; None without such samples, or without true labels."""
        return _ratio(self._sums["noisy"], self._sums["noisy_rate"])

    @property
    def snr(self) -> float | None:
        """clean / noisy; None if either is None, or if ``noisy`` is 0."""
        clean, noisy = self.clean, self.noisy
        return None if clean is None or noisy is None else _ratio(clean, noisy)

    def copy(self) -> "LearningWeights":
        copy = LearningWeights()
        copy._sums = dict(self._sums)
        return copy

    def state_dict(self) -> dict[str, float]:
        return dict(self._sums)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        if set(state) != set(_SUMS):
            raise PyriteError(f"the state holds {sorted(state)}, not {sorted(_SUMS)}")
        self._sums = {name: float(state[name]) for name in _SUMS}


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


def _ratio(numerator: float, denominator: float) -> float | None:
    if not denominator:
        return None
    value = numerator / denominator
    return value if math.isfinite(value) else None
