"""A cell of a table: the settings of one run, and the numbers of it that are kept when the run's folder is gone."""

import hashlib
import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Final, Self, final

import numpy as np
import torch

from pyrite.comparing.typed_command import typed_command
from pyrite.data import Dataset, load
from pyrite.errors import PyriteError
from pyrite.files import write
from pyrite.methods import method as read_method
from pyrite.noise import noise_model
from pyrite.training import COLUMNS, Plan, Recipe, Run, RunFailed, resolve, train_plan_once
from pyrite.training.optimisers import optimiser
from pyrite.training.recipe import BEFORE
from pyrite.training.schedules import schedule

__all__ = ["Cell", "CellResult", "is_share", "train_cell"]

_HISTORY: Final = (
    "test_accuracy", "train_accuracy", "clean_accuracy", "memorised", "recovered", "hybrid_accuracy", "alpha", "snr",
    "clean_weight", "noisy_weight", "weight_mean", "learning_rate", "margin_auc", "trust_auc",
)  # fmt: skip
"""The columns of a run's history that are kept for figures and claims."""
_FINAL: Final = (*_HISTORY, "loss", "validation_accuracy", "weight_std", "weight_effective_share", "margin_mean_auc")
"""The numbers of the last epoch that are kept."""
_SHOWN_EPOCHS: Final = 5
"""How many epochs have their margin histograms kept."""
_LOSSES: Final = np.linspace(0.0, 10.0, 21)
"""Cross entropies at which a learned weighting is kept."""
_READERS: Final = {"noise": noise_model, "optimiser": optimiser, "schedule": schedule}


@final
@dataclass(frozen=True, eq=False)
class Cell:
    """The settings of one run, as plain values; those that are left out have their defaults."""

    settings: Mapping[str, Any]

    @classmethod
    def make(cls, settings: Mapping[str, Any]) -> Self:
        """A cell whose specs are spelled in full, so that one run has one key."""
        values = {name: value for name, value in settings.items() if value not in (None, "")}
        if "loss" in values:
            if "method" in values:
                raise PyriteError("method and loss are both given: write the loss into the method")
            values["method"] = f"erm({values.pop('loss')})"
        recipe = Recipe.make(**values)
        values["method"] = str(read_method(recipe.method))
        for name, read in _READERS.items():
            if name in values:
                values[name] = str(read(values[name]))
        values.setdefault("seed", recipe.seed)
        return cls(dict(sorted(values.items())))

    def with_seed(self, seed: int) -> Self:
        """The same run with another seed; quicker than a cell that is made anew."""
        return replace(self, settings={**self.settings, "seed": seed})

    @cached_property
    def key(self) -> str:
        """The name of its result: it depends on the settings, and on nothing else."""
        return hashlib.sha256(json.dumps(self.settings).encode()).hexdigest()[:16]

    @property
    def options(self) -> dict[str, Any]:
        """The options of ``train``. Papers report the last model, and predict every image as it is.

        Settings that are newer than the first results are no part of the key where they are left out.
        """
        return {name: value for name, value in {**BEFORE, **self.settings}.items() if name != "data"}

    @property
    def command(self) -> str:
        """The command that trains it alone."""
        return typed_command(str(self.settings["data"]), self.options)

    def plan(self) -> Plan:
        """The settings with their data, which are read once for all cells that follow each other."""
        name = self.settings["data"]
        return resolve(name, loaded=_loaded(name), **self.options)


@final
@dataclass(frozen=True, eq=False)
class CellResult:
    """What is kept of a finished run: plain numbers, small enough to be committed.

    Attributes:
        cell: its settings.
        facts: ``final`` (numbers at the end), ``history`` (one list per column), ``margins`` and ``weight_net`` where
            there are any, ``recipe``, ``versions``, ``seconds``, and ``failed`` if the run diverged.
    """

    cell: Cell
    facts: Mapping[str, Any]

    @classmethod
    def read(cls, path: Path) -> Self:
        """A result from its file; ``ValueError`` if that is something else."""
        try:
            facts = json.loads(path.read_text(encoding="utf-8"))
            settings, final, history = facts["settings"], facts["final"], facts["history"]
            if not all(isinstance(part, dict) for part in (settings, final, history)):
                raise TypeError("settings, final and history must be tables")
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise PyriteError(
                f"{path} is not the result of a run ({error}): remove it, and it is trained again"
            ) from None
        return cls(Cell(settings), facts)

    def write(self, path: Path) -> Path:
        """Write it as one file."""
        head = {"settings": self.cell.settings, "command": self.cell.command}
        lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(value)}" for name, value in {**head, **self.facts}.items())
        return write(path, f"{{{lines}}}\n".encode())

    @property
    def seed(self) -> int:
        return int(self.cell.settings["seed"])

    def value(self, name: str) -> float | None:
        """A number of the end of the run, or one that follows from its history; None if it is unknown."""
        final, history = self.facts["final"], self.facts["history"]
        if name == "fall":
            best, last = final.get("best_test_accuracy"), final.get("final_test_accuracy")
            return None if best is None or last is None else best - last
        for ending, reduce in _REDUCED.items():
            column = history.get(name.removesuffix(ending), []) if name.endswith(ending) else []
            if column and None not in column:
                return float(reduce(column))
        value = final.get(name)
        if value is None and history.get(name):
            value = history[name][-1]
        return None if value is None else float(value)


def _kept(column: Sequence[float]) -> float:
    """The last value as a share of the largest."""
    return column[-1] / max(column) if max(column) else 0.0


_REDUCED: Final[Mapping[str, Callable[[Sequence[float]], float]]] = {
    "_first": lambda column: column[0],
    "_most": max,
    "_least": min,
    "_kept": _kept,
    "_gain": lambda column: column[-1] - column[0],
    "_lost": lambda column: max(column) - column[-1],
}
"""What a column's ending means: ``memorised_lost`` is how far ``memorised`` is below its largest value at the end."""
_NO_SHARES: Final = ("all_margin", "right_margin", "wrong_margin", "margin_gap", "learning_rate")


def is_share(name: str) -> bool:
    """Whether a number of a cell is written in per cent.

    >>> is_share("memorised_gain"), is_share("wrong_margin_gain"), is_share("alpha_first"), is_share("alpha_kept")
    (True, False, False, True)
    """
    if name.endswith("_kept"):
        return True
    column = next((name.removesuffix(ending) for ending in _REDUCED if name.endswith(ending)), name)
    return COLUMNS[column].percent if column in COLUMNS else column not in _NO_SHARES


def train_cell(cell: Cell, results: Path, runs: Path, *, keep: bool = False) -> CellResult:
    """Train one cell, or continue it, and write its result to ``results``; a finished one is read.

    Args:
        cell: what is trained.
        results: the folder of results, one file each.
        runs: the folder for the run, while it is trained.
        keep: keep the run's folder.
    """
    path, folder = results / f"{cell.key}.json", runs / cell.key
    if path.exists():
        return CellResult.read(path)
    plan = cell.plan()
    failed = ""
    try:
        done = train_plan_once(plan, folder, progress=False)
    except RunFailed as error:
        done, failed = Run.load(folder), str(error)
        if not done.history:
            raise
    except KeyboardInterrupt:
        raise KeyboardInterrupt("stopped and saved; continue with the same command") from None
    run = Run(done.path, done.recipe, done.history, plan.data)
    facts = _measured(run) | ({"failed": failed} if failed else {})
    result = CellResult(cell, facts)
    result.write(path)
    if not keep:
        shutil.rmtree(folder)
    return result


@lru_cache(maxsize=2)
def _loaded(data: str) -> Dataset:
    return load(data)


def _measured(run: Run) -> dict[str, Any]:
    last = run.history[-1]
    numbers = {name: value for name, value in last.items() if isinstance(value, int | float) and name in _FINAL}
    numbers |= {name: value for name, value in run.table.items() if value is not None}
    history: dict[str, list[Any]] = {
        name: [line.get(name) for line in run.history] for name in _HISTORY if last.get(name) is not None
    }
    finished = run.finished
    extras: dict[str, Any] = {}
    if finished:
        history |= _median_margins(run)
        extras = _margins(run) | _weights(run, numbers)
    numbers |= _retrieved(run.facts.get("retrieval") or {})
    recipe = run.recipe.model_dump(exclude_none=True, exclude={"device"})
    facts = run.facts
    known = {"recipe": recipe, "versions": facts["versions"], "seconds": facts["seconds"]}
    known |= {"warnings": facts["warnings"]} if facts["warnings"] else {}
    return {**_rounded(known), "final": _rounded(numbers), "history": _rounded(history, 4), **_rounded(extras)}


def _retrieved(found: Mapping[str, Any]) -> dict[str, float]:
    """The results of a retrieval, where the test part is one."""
    if "mean_average_precision" not in found:
        return {}
    return {"mean_average_precision": found["mean_average_precision"], "cmc_1": found["cmc"]["1"]}


def _histograms(run: Run) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """The edges of the bins, and counts per epoch: of all labels or, where it is known, of right and of wrong ones."""
    samples = run.samples
    if "noisy_margins" not in samples:
        return samples["margin_edges"], {"all": samples["margins"]}
    wrong = samples["noisy_margins"]
    return samples["margin_edges"], {"right": samples["margins"] - wrong, "wrong": wrong}


def _median_margins(run: Run) -> dict[str, list[float]]:
    """The median margin in every epoch, from the histograms."""
    edges, groups = _histograms(run)
    middles = np.concatenate([edges[:1], (edges[1:] + edges[:-1]) / 2, edges[-1:]])
    medians = {}
    for name, counts in groups.items():
        if counts.sum():
            places = [int(np.searchsorted(row.cumsum(), row.sum() / 2)) for row in counts]
            medians[f"{name}_margin"] = [float(middles[place]) for place in places]
    if len(medians) == 2:
        medians["margin_gap"] = [a - b for a, b in zip(medians["right_margin"], medians["wrong_margin"], strict=True)]
    return medians


def _margins(run: Run) -> dict[str, Any]:
    """Margin histograms of a few epochs, pairs of bins taken together."""
    edges, groups = _histograms(run)
    count = len(next(iter(groups.values())))
    epochs = sorted({max(1, round(count * share)) for share in np.linspace(0, 1, _SHOWN_EPOCHS) ** 2})
    halves = {
        name: [counts[epoch - 1].reshape(-1, 2).sum(1).tolist() for epoch in epochs]
        for name, counts in groups.items()
        if counts.sum()
    }
    return {"margins": {"first_edge": edges[0], "last_edge": edges[-1], "epochs": epochs, **halves}}


def _weights(run: Run, numbers: dict[str, Any]) -> dict[str, Any]:
    """The spread of learned sample weights, and the learned weighting as a function of the loss."""
    trust = run.samples["last_trust"]
    trust = trust[~np.isnan(trust)]
    if not len(trust):
        return {}
    low, high = np.quantile(trust, [0.05, 0.95])
    numbers |= {"trust_range": float(high - low), "trust_ratio": float(low / high) if high else 0.0}
    if "weight_net" not in run.method_arrays():
        return {}
    curve = run.weight_curve()
    weights = curve.trust(torch.from_numpy(_LOSSES)).tolist()
    numbers["trust_slope"] = weights[-1] - weights[0]
    return {"weight_net": {"loss": _LOSSES.tolist(), "weight": weights}}


def _rounded(value: Any, digits: int = 6) -> Any:
    """The same value with shorter floats, and without infinities, which JSON does not have."""
    if isinstance(value, float):
        return float(f"{value:.{digits}g}") if np.isfinite(value) else None
    if isinstance(value, dict):
        return {name: _rounded(part, digits) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(part, digits) for part in value]
    return value
