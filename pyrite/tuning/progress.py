"""The progress of a search: a bar at a terminal, one line per trial elsewhere."""

import sys
from collections.abc import Sequence
from typing import Self, final

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress as Bar, TextColumn, TimeElapsedColumn

from pyrite.tuning.criteria import Criterion
from pyrite.tuning.result import Trial

__all__ = ["TuningProgress"]


@final
class TuningProgress:
    """Shows trials on standard error.

    Args:
        wanted: whether to show it; None to show it if standard error is a terminal.
        trials: the number of trials.
        epochs: the length of a trial.
        criterion: what trials are compared by.
    """

    def __init__(self, wanted: bool | None, trials: int, epochs: int, criterion: Criterion) -> None:
        self.trials, self.epochs, self.criterion = trials, epochs, criterion
        self.console = Console(stderr=True, quiet=not (sys.stderr.isatty() if wanted is None else wanted))
        columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[now]}"), TimeElapsedColumn())
        at_terminal = self.console.is_terminal and not self.console.quiet
        self._bar = Bar(*columns, console=self.console, disable=not at_terminal)
        self._task = self._bar.add_task("", total=trials * epochs, now="")
        self._before = 0

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.stop()

    def begin(self, trial: Trial, trials: Sequence[Trial]) -> None:
        """A trial begins. Those that ended early count in full."""
        self._before = self.epochs * sum(other.state != "running" for other in trials)
        about = f"trial {trial.number}/{self.trials}"
        self._bar.update(self._task, completed=self._before, description=about, now=escape(str(trial)))

    def epoch(self, number: int) -> None:
        """An epoch of the trial has ended."""
        self._bar.update(self._task, completed=self._before + number)

    def end(self, trial: Trial, trials: Sequence[Trial]) -> None:
        """The trial has ended."""
        self.epoch(self.epochs)
        outcome = f"failed: {trial.reason}"
        if trial.value is not None:
            outcome = f"{self.criterion.words} {self.criterion.formatted(trial.value)}"
        elif trial.state == "pruned":
            outcome = f"pruned after {len(trial.values)} of {self.epochs} epochs"
        values = [other.value for other in trials if other.value is not None]
        best = f" (best {self.criterion.formatted(self.criterion.best(values))})" if values else ""
        text = f"trial {trial.number}/{self.trials}  {trial}: {outcome}{best}"
        self.console.print(text, highlight=False, markup=False, soft_wrap=True)
