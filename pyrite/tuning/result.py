"""The result of a search: the criterion, the choice by it, and the command that trains with the choice."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf, sqrt
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, final

import numpy as np

from pyrite.comparing import train_command
from pyrite.data import Part
from pyrite.methods import method as read_method
from pyrite.text_tables import Table
from pyrite.training import Run, RunFailed
from pyrite.tuning.space import Space, short

if TYPE_CHECKING:
    import optuna

MISLEADING: Final = (
    "selection by cross entropy on noisy labels is misleading: the loss of a wrong label is unbounded, which favours "
    "the least confident model, not the most accurate; accuracy and mae preserve the order of models under symmetric "
    "noise"
)


class Criterion(NamedTuple):
    """A column of a run's history, its name in texts, and whether a larger number is better."""

    column: str
    words: str
    rises: bool
    symmetric: bool  # its sum over all labels is the same for every model: symmetric noise keeps their order

    def formatted(self, value: float, count: int = 0) -> str:
        """A value as text; with ``count`` samples, an accuracy has its standard error."""
        if not self.rises:
            return f"{value:.4f}"
        return f"{100 * value:.2f}{f' ± {100 * sqrt(value * (1 - value) / count):.2f}' if count else ''} %"

    def rank(self, trial: "Trial") -> float:
        """A number by which trials are sorted: the best is the lowest, and those without a value come last."""
        return inf if trial.value is None else -trial.value if self.rises else trial.value


CRITERIA: Final[Mapping[str, Criterion]] = {
    "accuracy": Criterion("validation_accuracy", "accuracy", rises=True, symmetric=True),
    "mae": Criterion("validation_mae", "MAE", rises=False, symmetric=True),
    "ce": Criterion("validation_ce", "cross entropy", rises=False, symmetric=False),
}


@final
@dataclass(frozen=True)
class Trial:
    """A method with its parameters and learning rate, and the outcome of training with them.

    Attributes:
        number: the number of the trial, from 1; trial 7 is in the folder ``trial-0007``.
        method: the spec string of the method, such as ``erm(gce(q=0.53))``.
        lr: the learning rate.
        params: the selected value of each range, by its name.
        state: ``running``, ``complete``, ``pruned`` (stopped early, because other trials are better) or ``failed``
            (diverged).
        values: the criterion on held-out given labels after each epoch.
        test_accuracy: the test accuracy after training, if there is a test part; it does not influence the search.
        reason: why the trial failed.

    >>> trial = Trial(1, "erm(gce(q=0.53))", lr=0.1, params={"q": 0.53}, state="complete", values=(0.5, 0.6))
    >>> str(trial), trial.value
    ('gce(q=0.53), lr 0.1', 0.6)
    """

    number: int
    method: str
    lr: float
    params: Mapping[str, Any]
    state: Literal["running", "complete", "pruned", "failed"] = "running"
    values: tuple[float, ...] = ()
    test_accuracy: float | None = None
    reason: str = ""

    @property
    def value(self) -> float | None:
        """The criterion after training; None if the trial is not complete."""
        return self.values[-1] if self.state == "complete" else None

    @property
    def name(self) -> str:
        """The name of the folder of the trial."""
        return f"trial-{self.number:04d}"

    @property
    def short_method(self) -> str:
        """The spec string of the method, or that of its loss for ``erm``."""
        return short(read_method(self.method))

    def __str__(self) -> str:
        return f"{self.short_method}, lr {self.lr:g}"


@final
@dataclass(frozen=True)
class Tuning:
    """The result of a search.

    Attributes:
        path: the folder, with one run directory per trial.
        by: the criterion of the search.
        trials: all trials.
        space: the search space.
        data: the name of the data; None if they were passed as an object.
        options: the options with which ``pyrite.train`` trains the best trial on all samples.

    >>> import tempfile
    >>> import pyrite
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     result = pyrite.tune("digits", ["ce"], trials=1, model="linear", epochs=1, samples=200, out=folder)
    >>> result.best.method
    'erm(ce)'
    """

    path: Path
    by: str
    trials: tuple[Trial, ...]
    space: Space
    data: str | None
    options: Mapping[str, Any]

    @property
    def best(self) -> Trial:
        """The complete trial with the best value; for ties, the first."""
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
        """The number of held-out samples on which trials are compared."""
        return int(np.count_nonzero(self.run.labels["part"] == Part.VALIDATION))

    @property
    def sentence(self) -> str:
        """A sentence that states the best trial and its value."""
        best, rule = self.best, self.criterion
        states = [trial.state for trial in self.trials]
        others = [f"{states.count(state)} {state}" for state in ("pruned", "failed") if state in states]
        return (
            f"{best} has the best {rule.words}, {rule.formatted(best.values[-1], self.held_out)}, "
            f"on the given labels of {self.held_out:,} held-out samples, "
            f"of {len(self.trials)} trials{' (' + ', '.join(others) + ')' if others else ''}"
        )

    @property
    def tested(self) -> str:
        """A sentence that states the test accuracy of the best trial, if there is a test part."""
        if self.best.test_accuracy is None:
            return ""
        complete = [trial for trial in self.trials if trial.value is not None]
        known = [trial.test_accuracy for trial in complete if trial.test_accuracy is not None]
        own, best = (f"{100 * test:.2f} %" for test in (self.best.test_accuracy, max(known)))
        return (
            f"On the test part, which the choice did not look at, its accuracy is {own}, that of the best trial {best}"
        )

    @property
    def command(self) -> str | None:
        """The command that trains the best trial on all samples; None if the data or the net have no spec string."""
        plain = all(value is None or isinstance(value, str | int | float | Path) for value in self.options.values())
        return train_command(self.data, self.options) if self.data is not None and plain else None

    def to_optuna(self) -> "optuna.Study":
        """The trials as an optuna study in memory, for its plots and tables."""
        from pyrite.tuning.study import read_study

        return read_study(self.path)

    @property
    def ranked(self) -> list[Trial]:
        """The trials in order of their values, the best first; trials without a value are last."""
        return sorted(self.trials, key=self.criterion.rank)

    def table(self) -> Table:
        """All trials, the best first."""
        headings = ["trial", "loss or method", "learning rate", f"held-out {self.criterion.words}", "epochs"]
        tested = any(trial.test_accuracy is not None for trial in self.trials)
        headings += ["test accuracy (not looked at)"] if tested else []
        rows = []
        for trial in self.ranked:
            value = trial.state if trial.value is None else self.criterion.formatted(trial.value)
            test = "" if trial.test_accuracy is None else f"{100 * trial.test_accuracy:.2f} %"
            row = (str(trial.number), trial.short_method, f"{trial.lr:g}", value, str(len(trial.values)), test)
            rows.append(row[: len(headings)])
        return Table(tuple(headings), tuple(rows), code=1)

    def to_markdown(self) -> str:
        """The table, as Markdown."""
        return self.table().to_markdown()

    def to_dict(self) -> dict[str, Any]:
        """The result as plain values, ready for JSON."""
        facts = {"path": str(self.path), "by": self.by, "best": self._row(self.best), "held_out": self.held_out}
        return facts | {"command": self.command, "trials": [self._row(trial) for trial in self.trials]}

    def _row(self, trial: Trial) -> dict[str, Any]:
        row = {"number": trial.number, "method": trial.method, "lr": trial.lr, "value": trial.value}
        row |= {"state": trial.state, "epochs": len(trial.values), "test_accuracy": trial.test_accuracy}
        return row | {"run": str(self.path / trial.name), "params": dict(trial.params), "reason": trial.reason}

    def __repr__(self) -> str:
        return f"<tuning {self.path}: {self.sentence}>"


def best_of(trials: Sequence[Trial], criterion: Criterion) -> Trial:
    """The first of the complete trials with the best value; ``RunFailed`` if there is none."""
    best = min(trials, key=criterion.rank)
    if best.value is None:
        reasons = [f": {trial.reason}" for trial in trials if trial.reason]
        raise RunFailed(f"none of {len(trials)} trials finished{reasons[0] if reasons else ''}")
    return best
