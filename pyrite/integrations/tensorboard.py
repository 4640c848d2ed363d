"""TensorBoard: a run's numbers and margins, during training."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, final

import numpy as np

from pyrite.errors import PyriteError
from pyrite.integrations.logged import Logged
from pyrite.methods import Step
from pyrite.processes import rank
from pyrite.training import Recorder

__all__ = ["TensorBoard"]


@final
class TensorBoard:
    """An observer that writes for TensorBoard: the loss of every step, and after every epoch the line of the history
    and the margins of right and wrong labels.

    Everything is drawn over the number of steps. A resumed run continues in the same folder: what was written
    after the step at which it continues is marked as obsolete, and TensorBoard leaves it out.

    Args:
        path: the folder to write to; by default ``tensorboard`` in the run's folder.
    """

    def __init__(self, path: str | Path | None = None) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise PyriteError(f'TensorBoard is not installed ({error}): pip install "pyrite[tensorboard]"') from None
        self.path = None if path is None else Path(path)
        self._make: Any = SummaryWriter
        self._writer: Any = None
        self._recorder: Recorder | None = None
        self._numbers = Logged(self)

    @contextmanager
    def watch(self, folder: Path, recorder: Recorder) -> Iterator[None]:
        """A context around a run. Process 0 alone writes."""
        self._recorder = recorder
        if rank() == 0:
            path = self.path or folder / "tensorboard"
            try:
                self._writer = self._make(str(path), purge_step=recorder.steps + 1)
            except OSError as error:
                raise PyriteError(f"cannot write {path}: {error.strerror or error}") from None
        try:
            with self._numbers.watch(folder, recorder):
                yield
        finally:
            if self._writer is not None:
                self._writer.close()
            self._writer = self._recorder = None

    def log(self, values: Mapping[str, float], step: int) -> None:
        """Write numbers, while a run is watched."""
        if self._writer is not None:
            for name, value in values.items():
                self._writer.add_scalar(name, value, step)

    def after_step(self, step: Step) -> None:
        self._numbers.after_step(step)

    def after_epoch(self, epoch: int) -> None:
        self._numbers.after_epoch(epoch)
        writer, recorder = self._writer, self._recorder
        if writer is None or recorder is None:
            return
        histograms = recorder.observer.histograms
        kinds = {"all": histograms.all, "right": histograms.clean, "wrong": histograms.noisy}
        for kind, counts in kinds.items():
            if counts is not None and counts[-1].any():
                summary = _summary(counts[-1], histograms.edges)
                writer.add_histogram_raw(f"margins/{kind}", **summary, global_step=recorder.steps)
        writer.flush()


def _summary(counts: np.ndarray[Any, Any], edges: np.ndarray[Any, Any]) -> dict[str, Any]:
    """Counts in bins as TensorBoard takes them: each with its upper limit, and sums as if all were in mid-bin.

    The first and the last bin have no outer limit; they are taken to be as wide as their neighbours.
    """
    low, high = 2 * edges[0] - edges[1], 2 * edges[-1] - edges[-2]
    limits = np.array([low, *edges, high])
    middle = (limits[:-1] + limits[1:]) / 2
    filled = np.flatnonzero(counts)
    return {
        "min": float(limits[filled[0]]),
        "max": float(limits[filled[-1] + 1]),
        "num": int(counts.sum()),
        "sum": float(counts @ middle),
        "sum_squares": float(counts @ middle**2),
        "bucket_limits": limits[1:].tolist(),
        "bucket_counts": counts.tolist(),
    }
