"""A cell of a table: the settings of one run, and the numbers of it that are kept when the run's folder is gone."""

import hashlib
import json
import lzma
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Final, Self, final

import numpy as np
import torch

from pyrite.comparing import train_command
from pyrite.data import Dataset, load
from pyrite.errors import PyriteError
from pyrite.files import one_at_a_time, write
from pyrite.training import COLUMNS, Config, Job, Run, RunFailed, resolve, train_once

_AS_IN_PAPERS: Final = {"grow": 1.0, "keep": "last", "mirror": False, "precision": "float32"}

_HISTORY: Final = (
    "test_accuracy", "train_accuracy", "clean_accuracy", "memorised", "recovered", "hybrid_accuracy", "alpha", "snr",
    "clean_weight", "noisy_weight", "weight_mean", "learning_rate", "margin_auc", "trust_auc", "meta_overconfidence",
)  # fmt: skip
"""The columns of a run's history that are kept in every epoch."""
_FINAL: Final = (*_HISTORY, "loss", "validation_accuracy", "weight_std", "weight_effective_fraction", "margin_mean_auc")
"""Those of the last epoch."""
_SHOWN_EPOCHS: Final = 5  # that have their margin histograms kept
_LOSSES: Final = np.linspace(0.0, 10.0, 21)  # cross entropies at which a learned weighting is kept


@final
@dataclass(frozen=True, eq=False)
class Cell:
    """The settings of one run, as plain values; those that are left out have their defaults."""

    settings: Mapping[str, Any]

    @classmethod
    def make(cls, settings: Mapping[str, Any]) -> Self:
        """A cell whose spec strings are written in full, so that one run has one key."""
        values = {name: value for name, value in settings.items() if value not in (None, "")}
        if "loss" in values:
            if "method" in values:
                raise PyriteError("method and loss are both given: write the loss into the method")
            values["method"] = f"erm({values.pop('loss')})"
        config = Config(values)
        values["method"] = str(config.method)
        for name in ("noise", "optimiser", "schedule"):
            if name in values:
                values[name] = str(getattr(config, name))
        values.setdefault("seed", config.seed)
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
        """The options of ``train``. Papers report the last model, and predict every image as it is."""
        return {name: value for name, value in {**_AS_IN_PAPERS, **self.settings}.items() if name != "data"}

    @property
    def command(self) -> str:
        """The command that trains it alone."""
        return train_command(str(self.settings["data"]), self.options)

    def job(self) -> Job:
        """The settings with their data, which are read once for all cells that follow each other."""
        name = self.settings["data"]
        return resolve(name, loaded=_loaded(name), **self.options)


@lru_cache(maxsize=2)
def _loaded(data: str) -> Dataset:
    return load(data)


_FROM_HISTORY: Final[Mapping[str, Callable[[Sequence[float]], float]]] = {
    "_first": lambda column: column[0],
    "_most": max,
    "_least": min,
    "_kept": lambda column: column[-1] / max(column) if max(column) else 0.0,
    "_gain": lambda column: column[-1] - column[0],
    "_lost": lambda column: max(column) - column[-1],
}
"""What a column's ending means: ``memorised_lost`` is how far ``memorised`` is below its largest value at the end."""


@final
@dataclass(frozen=True, eq=False)
class CellResult:
    """What is kept of a finished run: plain numbers, small enough to be committed."""

    cell: Cell
    facts: Mapping[str, Any]  # what measure returns, and "failed" if the run diverged

    def value(self, name: str) -> float | None:
        """A number of the end of the run, or one that follows from its history; None if it is unknown."""
        final, history = self.facts["final"], self.facts["history"]
        if name == "fall":
            best, last = final.get("best_test_accuracy"), final.get("final_test_accuracy")
            return None if best is None or last is None else best - last
        column, ending = column_and_ending(name)
        known = history.get(column) or []
        if ending and known and None not in known:
            return float(_FROM_HISTORY[ending](known))
        value = (history.get(name) or [None])[-1] if final.get(name) is None else final[name]
        return None if value is None else float(value)


def column_and_ending(name: str) -> tuple[str, str]:
    """A column and the ending that reduces it, if the name has one."""
    ending = next((ending for ending in _FROM_HISTORY if name.endswith(ending)), "")
    return name.removesuffix(ending), ending


def in_per_cent(name: str) -> bool:
    """Whether a number of a cell is written in per cent.

    >>> [in_per_cent(name) for name in ("memorised_gain", "wrong_margin_gain", "alpha_first", "alpha_kept")]
    [True, False, False, True]
    """
    column, ending = column_and_ending(name)
    others = ("all_margin", "right_margin", "wrong_margin", "margin_gap", "learning_rate")
    return ending == "_kept" or (COLUMNS[column].percent if column in COLUMNS else column not in others)


@final
@dataclass(frozen=True)
class CellFolder:
    """Finished cells: one compressed file per recipe, with a line of JSON for each cell, ordered by their keys."""

    path: Path

    def results(self) -> dict[str, CellResult]:
        """All that are finished, whichever recipe they were trained for, by their keys."""
        files = sorted(self.path.glob("*.jsonl.xz"))
        return {key: result for file in files for key, result in self.results_of(file.name).items()}

    def results_of(self, recipe: str) -> dict[str, CellResult]:
        """Those that were trained for a recipe."""
        file = self._file(recipe)
        return dict(_read(file, (status := file.stat()).st_mtime_ns, status.st_size)) if file.exists() else {}

    def add(self, recipe: str, result: CellResult) -> None:
        """Write a result into the file of its recipe; the same results give the same bytes."""
        with one_at_a_time(self.path):
            found = self.results_of(recipe) | {result.cell.key: result}
            ordered = [found[key] for key in sorted(found)]
            lines = [{"settings": one.cell.settings, "command": one.cell.command, **one.facts} for one in ordered]
            text = "".join(json.dumps(line) + "\n" for line in lines)
            write(self._file(recipe), lzma.compress(text.encode(), preset=9))

    def _file(self, recipe: str) -> Path:
        return self.path / f"{Path(recipe).name.removesuffix('.toml').removesuffix('.jsonl.xz')}.jsonl.xz"


@lru_cache(maxsize=128)
def _read(file: Path, mtime: int, size: int) -> Mapping[str, CellResult]:
    """The results in a file, as long as it does not change."""
    try:
        lines = [json.loads(line) for line in lzma.decompress(file.read_bytes()).splitlines()]
        for facts in lines:
            if not all(isinstance(facts[name], dict) for name in ("settings", "final", "history")):
                raise TypeError("settings, final and history must be tables")
    except (OSError, lzma.LZMAError, ValueError, TypeError, KeyError) as error:
        raise PyriteError(f"{file} contains no results ({error}): remove the file to train the runs again") from None
    results = [CellResult(Cell(facts["settings"]), facts) for facts in lines]
    return {result.cell.key: result for result in results}


def train_cell(cell: Cell, recipe: str, cells: CellFolder, runs: Path) -> CellResult:
    """Train one cell in a folder of ``runs``, or continue it, and write its result; a finished one is read."""
    finished = cells.results_of(recipe).get(cell.key)
    if finished is not None:
        return finished
    job, folder, failed = cell.job(), runs / cell.key, {}
    try:
        done = train_once(job, folder, progress=False)
    except RunFailed as error:
        done, failed = Run.load(folder), {"failed": str(error)}
        if not done.history:
            raise
    except KeyboardInterrupt:
        raise KeyboardInterrupt("stopped and saved; continue with the same command") from None
    result = CellResult(cell, measure(Run(done.path, done.config, done.history, job.data)) | failed)
    cells.add(recipe, result)
    shutil.rmtree(folder)
    return result


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
        medians, drawn["margins"] = _margins(run.samples)
        spread, learned = _weights(run)
        history, final, drawn = history | medians, final | spread, drawn | learned
    recipe = {name: value for name, value in run.config.to_dict().items() if name != "device"}
    known = {"recipe": recipe, "versions": facts["versions"], "seconds": facts["seconds"]}
    known |= {"warnings": facts["warnings"]} if facts["warnings"] else {}
    return {**_rounded(known), "final": _rounded(final), "history": _rounded(history, 4), **_rounded(drawn)}


def _margins(samples: Mapping[str, np.ndarray]) -> tuple[dict[str, list[float]], dict[str, Any]]:
    """The median margin in every epoch, of all labels or, where it is known, of right and of wrong ones; and histograms
    of a few epochs, pairs of bins taken together."""
    edges, groups = samples["margin_edges"], {"all": samples["margins"]}
    if "noisy_margins" in samples:
        groups = {"right": samples["margins"] - samples["noisy_margins"], "wrong": samples["noisy_margins"]}
    groups = {name: counts for name, counts in groups.items() if counts.sum()}
    middles = np.concatenate([edges[:1], (edges[1:] + edges[:-1]) / 2, edges[-1:]])
    medians = {}
    for name, counts in groups.items():
        places = [np.searchsorted(row.cumsum(), row.sum() / 2) for row in counts]
        medians[f"{name}_margin"] = middles[places].tolist()
    if len(medians) == 2:
        medians["margin_gap"] = [a - b for a, b in zip(medians["right_margin"], medians["wrong_margin"], strict=True)]
    count = len(samples["margins"])
    epochs = sorted({max(1, round(count * fraction)) for fraction in np.linspace(0, 1, _SHOWN_EPOCHS) ** 2})
    halves = {name: counts[np.array(epochs) - 1].reshape(len(epochs), -1, 2).sum(2) for name, counts in groups.items()}
    shown = {"first_edge": edges[0], "last_edge": edges[-1], "epochs": epochs}
    return medians, shown | {name: counts.tolist() for name, counts in halves.items()}


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
    learned = {"weight_net": {"loss": _LOSSES.tolist(), "weight": weights}}
    return spread | {"trust_slope": weights[-1] - weights[0]}, learned


def _rounded(value: Any, digits: int = 6) -> Any:
    """The same value with shorter floats, and without infinities, which JSON does not have."""
    if isinstance(value, float):
        return float(f"{value:.{digits}g}") if np.isfinite(value) else None
    if isinstance(value, dict):
        return {name: _rounded(part, digits) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(part, digits) for part in value]
    return value
