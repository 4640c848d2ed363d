"""Logging of a run's numbers with any logger: ``log(values, step)``."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol, final, runtime_checkable

from pyrite.errors import PyriteError
from pyrite.methods import Step
from pyrite.processes import rank
from pyrite.training import Recorder

__all__ = ["Log", "Logged"]


@runtime_checkable
class Log(Protocol):
    """A logger of numbers by name, with the number of their step."""

    def log(self, values: Mapping[str, float], step: int, /) -> object: ...


@final
class Logged:
    """An observer that logs a run: ``step/loss`` after every step, and after every epoch the line of its history under
    ``epoch/``, without unknown values.

    Steps are those of the optimiser, from 1. Process 0 alone logs.

    Args:
        logger: a function that is called as ``logger(values, step=step)``, such as ``wandb.log`` or
            ``mlflow.log_metrics``; or an object with such a method ``log``.

    >>> import pyrite
    >>> class Printer:
    ...     def log(self, values, step):
    ...         print(step, *values)
    >>> isinstance(Printer(), Log), Logged(Printer())
    (True, <a run's numbers go to Printer>)
    """

    def __init__(self, logger: Log | Callable[..., object]) -> None:
        if not isinstance(logger, Log) and not callable(logger):
            raise PyriteError(f"logger is {logger!r}, but must have a method log(values, step), or be such a function")
        self.logger = logger
        self._log: Callable[..., object] = logger.log if isinstance(logger, Log) else logger
        self._recorder: Recorder | None = None

    def __repr__(self) -> str:
        return f"<a run's numbers go to {getattr(self.logger, '__qualname__', type(self.logger).__name__)}>"

    @contextmanager
    def watch(self, folder: Path, recorder: Recorder) -> Iterator[None]:
        """A context around a run."""
        self._recorder = recorder if rank() == 0 else None
        try:
            yield
        finally:
            self._recorder = None

    def after_step(self, step: Step) -> None:
        if self._recorder is not None:
            self._log({"step/loss": step.loss}, step=self._recorder.steps)

    def after_epoch(self, epoch: int) -> None:
        if self._recorder is not None:
            line = self._recorder.history[-1]
            values = {f"epoch/{name}": value for name, value in line.items() if isinstance(value, int | float)}
            self._log(values, step=self._recorder.steps)
