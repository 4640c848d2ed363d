"""The result of a search: the choice, the reason, and the command that trains with it."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import numpy as np

from pyrite.comparing import Table, train_command
from pyrite.data import Part
from pyrite.files import write
from pyrite.methods import method as read_method
from pyrite.training import Run, RunFailed
from pyrite.tuning.criteria import CRITERIA, Criterion
from pyrite.tuning.progress import described
from pyrite.tuning.search import Search
from pyrite.tuning.space import short
from pyrite.tuning.study import Trial

if TYPE_CHECKING:
    import optuna

__all__ = ["Tuning", "best_of"]


@final
@dataclass(frozen=True)
class Tuning:
    """The result of a search.

    Attributes:
        path: its folder, with one run per trial.
        by: the criterion.
        trials: all trials.
        search: the space that they were chosen from.
        data: the data's spelling; None if they were passed as an object.
        options: the options of ``pyrite.train`` that train with the choice on all samples.
    """

    path: Path
    by: str
    trials: tuple[Trial, ...]
    search: Search
    data: str | None
    options: Mapping[str, Any]

    @property
    def best(self) -> Trial:
        """The first of the complete trials with the best value."""
        return best_of(self.trials, self.criterion)

    @property
    def criterion(self) -> Criterion:
        return CRITERIA[self.by]

    @cached_property
    def run(self) -> Run:
        """The run of the best trial. It was trained without the held-out samples."""
        return Run.load(self.path / self.best.name)

    @property
    def held_out(self) -> int:
        """The number of samples that trials were compared on."""
        return int(np.count_nonzero(self.run.labels["part"] == Part.VALIDATION))

    @property
    def sentence(self) -> str:
        """The choice and its value, in one sentence."""
        best, value, rule = self.best, self.best.values[-1], self.criterion
        states = [trial.state for trial in self.trials]
        others = [f"{states.count(state)} {state}" for state in ("pruned", "failed") if state in states]
        return (
            f"{described(best)} has the best {rule.words}, {rule.spelled(value, self.held_out)}, "
            f"on the given labels of {self.held_out:,} held-out samples, "
            f"of {len(self.trials)} trials{' (' + ', '.join(others) + ')' if others else ''}"
        )

    @property
    def tested(self) -> str:
        """The test accuracy of the choice in one sentence, if there is a test part; it did not influence the choice."""
        known = [trial.test_accuracy for trial in self.trials if trial.value is not None]
        tests = [test for test in known if test is not None]
        if self.best.test_accuracy is None or not tests:
            return ""
        own, best = (f"{100 * test:.2f} %" for test in (self.best.test_accuracy, max(tests)))
        return (
            f"On the test part, which the choice did not look at, its accuracy is {own}, that of the best trial {best}"
        )

    @property
    def command(self) -> str | None:
        """The command that trains with the choice on all samples; None if data or net have no spelling."""
        plain = all(value is None or isinstance(value, str | int | float | Path) for value in self.options.values())
        if self.data is None or not plain:
            return None
        return train_command(self.data, self.options)

    def to_optuna(self) -> "optuna.Study":
        """The trials as an optuna study, for its plots and tables."""
        return self.search.to_optuna(self.trials)

    def table(self) -> Table:
        """All trials, the best first."""
        tested = any(trial.test_accuracy is not None for trial in self.trials)
        headings = ["trial", "loss or method", "learning rate", f"held-out {self.criterion.words}", "epochs"]
        headings += ["test accuracy (not looked at)"] if tested else []
        rows = []
        for trial in self.ranked:
            cells = [str(trial.number), short(read_method(trial.method)), f"{trial.lr:g}", self.shown(trial)]
            cells += [str(len(trial.values))]
            cells += ["" if trial.test_accuracy is None else f"{100 * trial.test_accuracy:.2f} %"] if tested else []
            rows.append(tuple(cells))
        return Table(tuple(headings), tuple(rows), code=1)

    def to_markdown(self) -> str:
        """The table, as Markdown."""
        return self.table().to_markdown()

    @property
    def ranked(self) -> list[Trial]:
        """The trials, the best first; those without a value come last."""
        sign = -1 if self.criterion.rises else 1
        worst = float("inf")
        return sorted(self.trials, key=lambda trial: worst if trial.value is None else sign * trial.value)

    def shown(self, trial: Trial) -> str:
        """A trial's value, or its state if it has none."""
        return trial.state if trial.value is None else self.criterion.spelled(trial.value)

    def to_dict(self) -> dict[str, Any]:
        """The result as plain values, ready for JSON."""
        return {
            "path": str(self.path),
            "by": self.by,
            "best": self._row(self.best),
            "held_out": self.held_out,
            "command": self.command,
            "trials": [self._row(trial) for trial in self.trials],
        }

    def to_json(self, path: str | Path) -> Path:
        """Write ``to_dict`` as a file."""
        return write(path, (json.dumps(self.to_dict(), indent=2) + "\n").encode())

    def _row(self, trial: Trial) -> dict[str, Any]:
        row = {"number": trial.number, "method": trial.method, "lr": trial.lr, "value": trial.value}
        row |= {"state": trial.state, "epochs": len(trial.values), "test_accuracy": trial.test_accuracy}
        return row | {"run": str(self.path / trial.name), "params": dict(trial.params), "reason": trial.reason}

    def __repr__(self) -> str:
        return f"<tuning {self.path}: {self.sentence}>"


def best_of(trials: Sequence[Trial], criterion: Criterion) -> Trial:
    """The first of the complete trials with the best value; ``RunFailed`` if there is none."""
    values = {trial.number: trial.value for trial in trials if trial.value is not None}
    if not values:
        reasons = [f": {trial.reason}" for trial in trials if trial.reason]
        raise RunFailed(f"none of {len(trials)} trials finished{reasons[0] if reasons else ''}")
    best = criterion.best(list(values.values()))
    return next(trial for trial in trials if trial.value == best)
