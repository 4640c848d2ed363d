"""The numbers of a run that are kept for tables, figures and claims."""

from typing import Any, Final

import numpy as np
import torch

from pyrite.training import Run

_HISTORY: Final = (
    "test_accuracy", "train_accuracy", "clean_accuracy", "memorised", "recovered", "hybrid_accuracy", "alpha", "snr",
    "clean_weight", "noisy_weight", "weight_mean", "learning_rate", "margin_auc", "trust_auc",
)  # fmt: skip
"""The columns of a run's history that are kept in every epoch."""
_FINAL: Final = (*_HISTORY, "loss", "validation_accuracy", "weight_std", "weight_effective_share", "margin_mean_auc")
"""Those of the last epoch."""
_SHOWN_EPOCHS: Final = 5  # that have their margin histograms kept
_LOSSES: Final = np.linspace(0.0, 10.0, 21)  # cross entropies at which a learned weighting is kept


def measure(run: Run) -> dict[str, Any]:
    """``recipe``, ``versions`` and ``seconds``, ``final`` (numbers at the end), ``history`` (a list per column), and
    where there are any ``margins`` (histograms), ``weight_net`` (a learned weighting) and ``warnings``."""
    last, facts = run.history[-1], run.facts
    final = {name: last[name] for name in _FINAL if isinstance(last.get(name), int | float)}
    final |= {name: value for name, value in run.table.items() if value is not None}
    found = facts.get("retrieval") or {}
    if "mean_average_precision" in found:
        final |= {"mean_average_precision": found["mean_average_precision"], "cmc_1": found["cmc"]["1"]}
    history: dict[str, list[Any]] = {
        name: [line.get(name) for line in run.history] for name in _HISTORY if last.get(name) is not None
    }
    drawn: dict[str, Any] = {}
    if run.finished:
        edges, counts = _histograms(run)
        history |= _median_margins(edges, counts)
        drawn["margins"] = _shown_margins(edges, counts)
        spread, learned = _weights(run)
        final |= spread
        drawn |= {"weight_net": learned} if learned else {}
    recipe = {name: value for name, value in run.config.to_dict().items() if name != "device"}
    known = {"recipe": recipe, "versions": facts["versions"], "seconds": facts["seconds"]}
    known |= {"warnings": facts["warnings"]} if facts["warnings"] else {}
    return {**_rounded(known), "final": _rounded(final), "history": _rounded(history, 4), **_rounded(drawn)}


def _histograms(run: Run) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """The edges of the bins, and counts per epoch: of all labels or, where it is known, of right and of wrong ones."""
    samples = run.samples
    groups = {"all": samples["margins"]}
    if "noisy_margins" in samples:
        groups = {"right": samples["margins"] - samples["noisy_margins"], "wrong": samples["noisy_margins"]}
    return samples["margin_edges"], {name: counts for name, counts in groups.items() if counts.sum()}


def _median_margins(edges: np.ndarray, groups: dict[str, np.ndarray]) -> dict[str, list[float]]:
    """The median margin in every epoch, from the histograms."""
    middles = np.concatenate([edges[:1], (edges[1:] + edges[:-1]) / 2, edges[-1:]])
    medians = {}
    for name, counts in groups.items():
        places = [int(np.searchsorted(row.cumsum(), row.sum() / 2)) for row in counts]
        medians[f"{name}_margin"] = [float(middles[place]) for place in places]
    if len(medians) == 2:
        medians["margin_gap"] = [a - b for a, b in zip(medians["right_margin"], medians["wrong_margin"], strict=True)]
    return medians


def _shown_margins(edges: np.ndarray, groups: dict[str, np.ndarray]) -> dict[str, Any]:
    """Margin histograms of a few epochs, pairs of bins taken together."""
    count = len(next(iter(groups.values())))
    epochs = sorted({max(1, round(count * fraction)) for fraction in np.linspace(0, 1, _SHOWN_EPOCHS) ** 2})
    halves = {
        name: [counts[epoch - 1].reshape(-1, 2).sum(1).tolist() for epoch in epochs] for name, counts in groups.items()
    }
    return {"first_edge": edges[0], "last_edge": edges[-1], "epochs": epochs, **halves}


def _weights(run: Run) -> tuple[dict[str, float], dict[str, Any]]:
    """The spread of learned sample weights, and the learned weighting as a function of the loss."""
    trust = run.samples["last_trust"]
    trust = trust[~np.isnan(trust)]
    if not len(trust):
        return {}, {}
    low, high = np.quantile(trust, [0.05, 0.95])
    spread = {"trust_range": float(high - low), "trust_ratio": float(low / high) if high else 0.0}
    if "weight_net" not in run.method_arrays():
        return spread, {}
    weights = run.weight_curve().trust(torch.from_numpy(_LOSSES)).tolist()
    return spread | {"trust_slope": weights[-1] - weights[0]}, {"loss": _LOSSES.tolist(), "weight": weights}


def _rounded(value: Any, digits: int = 6) -> Any:
    """The same value with shorter floats, and without infinities, which JSON does not have."""
    if isinstance(value, float):
        return float(f"{value:.{digits}g}") if np.isfinite(value) else None
    if isinstance(value, dict):
        return {name: _rounded(part, digits) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(part, digits) for part in value]
    return value
