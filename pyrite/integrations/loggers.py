"""A run's numbers for TensorBoard, and for any other logger: ``log(values, step)``."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, final, runtime_checkable

import numpy as np

from pyrite.errors import PyriteError
from pyrite.methods import Step
from pyrite.processes import rank
from pyrite.training import Record


@runtime_checkable
class Log(Protocol):
    """A logger of numbers by name, with the number of their step."""

    def log(self, values: Mapping[str, float], step: int, /) -> object: ...


class Logged:
    """An observer that logs a run. It logs ``step/loss`` after every step and the history under ``epoch/`` after every
    epoch.

    Steps are optimiser steps, counted from 1. Unknown values are omitted. Only process 0 logs.

    Args:
        logger: a function that is called as ``logger(values, step=step)``, such as ``wandb.log`` or
            ``mlflow.log_metrics``, or an object with a method ``log(values, step)``.

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
        self._record: Record | None = None

    def __repr__(self) -> str:
        return f"<a run's numbers go to {getattr(self.logger, '__qualname__', type(self.logger).__name__)}>"

    @contextmanager
    def watch(self, folder: Path, record: Record) -> Iterator[None]:
        """A context around a run. Process 0 alone logs."""
        self._record = record if rank() == 0 else None
        try:
            yield
        finally:
            self._record = None

    def after_step(self, step: Step) -> None:
        if self._record is not None:
            self._log({"step/loss": step.loss}, step=self._record.steps)

    def after_epoch(self, epoch: int) -> None:
        if self._record is not None:
            line = self._record.history[-1]
            values = {f"epoch/{name}": value for name, value in line.items() if isinstance(value, int | float)}
            self._log(values, step=self._record.steps)


@final
class TensorBoard(Logged):
    """An observer that writes TensorBoard logs: the loss of every step, and the history and margins of every epoch.

    The horizontal axis is the number of steps. The margins are histograms for right and wrong labels. A resumed run
    continues in the same folder; entries after the step at which it continues are marked as obsolete, and TensorBoard
    ignores them.

    Args:
        path: the folder to write to; by default ``tensorboard`` in the run directory.

    >>> TensorBoard("runs/board").path
    PosixPath('runs/board')
    """

    def __init__(self, path: str | Path | None = None) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise PyriteError(
                f'TensorBoard is not installed ({error}): pip install "pyrite-labels[tensorboard]"'
            ) from None
        self.path = None if path is None else Path(path)
        self._make: Any = SummaryWriter
        self._writer: Any = None
        super().__init__(self.log)

    @contextmanager
    def watch(self, folder: Path, record: Record) -> Iterator[None]:
        """A context around a run. Process 0 alone writes."""
        if rank() == 0:
            path = self.path or folder / "tensorboard"
            try:
                self._writer = self._make(str(path), purge_step=record.steps + 1)
            except OSError as error:
                raise PyriteError(f"cannot write {path}: {error.strerror or error}") from None
        try:
            with super().watch(folder, record):
                yield
        finally:
            if self._writer is not None:
                self._writer.close()
            self._writer = None

    def log(self, values: Mapping[str, float], step: int) -> None:
        """Write numbers, while a run is watched."""
        if self._writer is not None:
            for name, value in values.items():
                self._writer.add_scalar(name, value, step)

    def after_epoch(self, epoch: int) -> None:
        super().after_epoch(epoch)
        if self._writer is None or self._record is None:
            return
        counts, *wrong = self._record.histograms[-1]
        kinds = {"all": counts, **({"right": counts - wrong[0], "wrong": wrong[0]} if wrong else {})}
        edges = self._record.edges
        # The first and the last bin have no outer limit; they are taken to be as wide as their neighbours.
        limits = np.array([2 * edges[0] - edges[1], *edges, 2 * edges[-1] - edges[-2]])
        middle = (limits[:-1] + limits[1:]) / 2
        for kind, values in kinds.items():
            if values.any():
                filled = np.flatnonzero(values)
                self._writer.add_histogram_raw(
                    f"margins/{kind}", min=limits[filled[0]], max=limits[filled[-1] + 1], num=int(values.sum()),
                    sum=values @ middle, sum_squares=values @ middle**2, bucket_limits=limits[1:].tolist(),
                    bucket_counts=values.tolist(), global_step=self._record.steps,
                )  # fmt: skip
        self._writer.flush()
