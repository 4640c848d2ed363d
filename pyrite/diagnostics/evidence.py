"""Statistics of each sample during training, in constant memory per sample.

An epoch is first recorded (``Visits``: one row per sample), and at its end added to running statistics
(``SampleEvidence``). So a sample counts once per epoch, however often and by whichever process it was seen. Results do
not depend on the order of batches or the number of processes, and resuming in the middle of an epoch is exact.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, final

import numpy as np
import numpy.typing as npt

from pyrite.checks import number, whole_number
from pyrite.diagnostics.arrays import Flags, Floats, Ints, check_same_length, to_floats, to_ints
from pyrite.errors import PyriteError

__all__ = ["SampleEvidence", "Visits", "required", "within"]

_COLUMNS: Final = ("margin", "prediction", "weight", "rate", "trust")


@final
class Visits:
    """The first visit to each sample in the current epoch: margin, prediction, weight, learning rate and trust.

    A later visit in the same epoch is padding by a sampler and is ignored. ``trust`` is the factor that the method
    multiplied the loss of the sample by. ``weight`` and ``trust`` are NaN where none was given.
    """

    def __init__(self, samples: int) -> None:
        self.samples = whole_number("samples", samples, least=1)
        self.clear()

    def clear(self) -> None:
        """Start an epoch."""
        self.seen: Flags = np.zeros(self.samples, bool)
        self.margin: Floats = np.full(self.samples, np.nan)
        self.weight: Floats = np.full(self.samples, np.nan)
        self.rate: Floats = np.full(self.samples, np.nan)
        self.trust: Floats = np.full(self.samples, np.nan)
        self.prediction: Ints = np.full(self.samples, -1, np.int64)

    def record(
        self,
        index: object,
        margin: object,
        prediction: object,
        weight: object | None = None,
        rate: float = 1.0,
        trust: object | None = None,
    ) -> None:
        """Record a batch."""
        rows = _checked_index(index, self.samples)
        columns: dict[str, npt.NDArray[Any]] = {
            "margin": _finite(margin, "margin", rows),
            "prediction": to_ints(prediction, "prediction"),
        }
        for name, value in (("weight", weight), ("trust", trust)):
            if value is not None:
                columns[name] = _finite(value, name, rows)
        check_same_length(index=rows, **columns)
        number("rate", rate, least=0)
        self._write(rows, columns | {"rate": np.broadcast_to(np.float64(rate), rows.shape)})

    def _write(self, rows: Ints, columns: Mapping[str, npt.NDArray[Any]]) -> None:
        # Of assignments to one index numpy keeps the last, so the batch is written in reverse: its first visit is kept.
        new = np.flatnonzero(~self.seen[rows])[::-1]
        places = rows[new]
        for name, values in columns.items():
            getattr(self, name)[places] = values[new]
        self.seen[places] = True

    def _add(self, state: Mapping[str, Any]) -> None:
        samples = int(required(state, "samples"))
        if samples != self.samples:
            raise PyriteError(f"the state is of {samples} samples, these are {self.samples}")
        rows = _checked_index(required(state, "index"), self.samples)
        columns = {name: np.asarray(required(state, name), getattr(self, name).dtype) for name in _COLUMNS}
        check_same_length(index=rows, **columns)
        self._write(rows, columns)

    def merge(self, states: Iterable[Mapping[str, Any]]) -> None:
        """Replace this record by those of all processes: their ``state_dict``, including this one's, in order of rank.

        The first process that saw a sample counts, so every process ends with the same result.
        """
        merged = Visits(self.samples)
        for state in states:
            merged._add(state)
        self.seen, self.margin, self.weight = merged.seen, merged.margin, merged.weight
        self.rate, self.prediction, self.trust = merged.rate, merged.prediction, merged.trust

    def state_dict(self) -> dict[str, Any]:
        """The samples seen; all others are left out, to keep communication between processes small."""
        index = np.flatnonzero(self.seen)
        return {"samples": self.samples, "index": index} | {name: getattr(self, name)[index] for name in _COLUMNS}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a state. A state that does not fit is a ValueError and changes nothing."""
        self.merge([state])


@final
class SampleEvidence:
    """Running statistics of every sample over the epochs, as arrays in the order of the samples.

    Attributes:
        labels: the given labels, with which predictions are compared.
        epoch: the record of the current epoch.
        visits: the number of epochs in which the sample was seen.
        last_margin: its margin when last seen; NaN if never.
        last_trust: the factor of its loss when last seen; NaN if the method does not weight samples.
        agreements: the number of epochs in which the prediction was the given label.
        learned: how often the prediction changed to the given label, including a first visit that agrees.
        forgotten: how often it changed from the given label to another (Toneva et al., 2019).
    """

    def __init__(self, labels: object) -> None:
        self.labels = to_ints(labels, "labels", least=0)
        samples = len(self.labels)
        self.epoch = Visits(samples)
        self.visits: Ints = np.zeros(samples, np.int64)
        self.last_margin: Floats = np.full(samples, np.nan)
        self.agreements: Ints = np.zeros(samples, np.int64)
        self.learned: Ints = np.zeros(samples, np.int64)
        self.forgotten: Ints = np.zeros(samples, np.int64)
        self._agreed: Flags = np.zeros(samples, bool)
        self._mean: Floats = np.zeros(samples)
        self._squares: Floats = np.zeros(samples)  # sum of squared deviations from the running mean (Welford, 1962)
        self._weighed: Ints = np.zeros(samples, np.int64)  # the number of visits with a weight
        self._weight: Floats = np.zeros(samples)
        self.last_trust: Floats = np.full(samples, np.nan)

    def update(
        self,
        index: object,
        margin: object,
        prediction: object,
        weight: object | None = None,
        rate: float = 1.0,
        trust: object | None = None,
    ) -> None:
        """Record a batch."""
        self.epoch.record(index, margin, prediction, weight, rate, trust)

    def end_epoch(self) -> None:
        """Add the epoch to the running statistics and start the next one."""
        rows = np.flatnonzero(self.epoch.seen)
        self.visits[rows] += 1
        margin = self.epoch.margin[rows]
        deviation = margin - self._mean[rows]
        self._mean[rows] += deviation / self.visits[rows]
        self._squares[rows] += deviation * (margin - self._mean[rows])
        self.last_margin[rows] = margin
        agrees, agreed = self.epoch.prediction[rows] == self.labels[rows], self._agreed[rows]
        self.agreements[rows] += agrees
        self.learned[rows] += agrees & ~agreed
        self.forgotten[rows] += agreed & ~agrees
        self._agreed[rows] = agrees
        weighed = rows[~np.isnan(self.epoch.weight[rows])]
        self._weighed[weighed] += 1
        self._weight[weighed] += (self.epoch.weight[weighed] - self._weight[weighed]) / self._weighed[weighed]
        self.last_trust[rows] = self.epoch.trust[rows]
        self.epoch.clear()

    @property
    def margin_mean(self) -> Floats:
        """The mean margin over the epochs; NaN if never seen."""
        return np.where(self.visits > 0, self._mean, np.nan)

    @property
    def margin_variance(self) -> Floats:
        """The population variance of the margin over the epochs; NaN if never seen, 0 if seen once."""
        return np.where(self.visits > 0, self._squares / np.maximum(self.visits, 1), np.nan)

    @property
    def weight_mean(self) -> Floats:
        """The mean weight over the epochs that had one; NaN if none did."""
        return np.where(self._weighed > 0, self._weight, np.nan)

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The statistics that are saved with a run, by name."""
        return {
            "visits": self.visits.copy(),
            "margin_mean": self.margin_mean,
            "margin_variance": self.margin_variance,
            "last_margin": self.last_margin.copy(),
            "agreements": self.agreements.copy(),
            "learned": self.learned.copy(),
            "forgotten": self.forgotten.copy(),
            "weight_mean": self.weight_mean,
            "last_trust": self.last_trust.copy(),
        }

    def _running(self) -> dict[str, npt.NDArray[Any]]:
        return {name.lstrip("_"): value for name, value in vars(self).items() if name not in ("labels", "epoch")}

    def state_dict(self) -> dict[str, Any]:
        """Plain arrays and numbers, from which training resumes bit for bit, also in the middle of an epoch."""
        running = {name: values.copy() for name, values in self._running().items()}
        return running | {f"epoch.{name}": value for name, value in self.epoch.state_dict().items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a state. A state that does not fit is a ValueError and changes nothing."""
        read = {name: np.asarray(required(state, name), values.dtype) for name, values in self._running().items()}
        for name, values in read.items():
            if values.shape != self.labels.shape:
                raise PyriteError(f"{name} of the state has the shape {values.shape}, for {len(self.labels)} samples")
        self.epoch.load_state_dict(within(state, "epoch"))
        for name, values in self._running().items():
            values[:] = read[name]


def required(state: Mapping[str, Any], name: str) -> Any:
    """A value of a state; a ValueError if it is missing."""
    if name not in state:
        raise PyriteError(f"the state has no {name!r}, only {sorted(state)}")
    return state[name]


def within(state: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The entries of a flat state whose keys begin with ``name.``, without that prefix."""
    return {key.removeprefix(f"{name}."): value for key, value in state.items() if key.startswith(f"{name}.")}


def _checked_index(index: object, samples: int) -> Ints:
    rows = to_ints(index, "index", least=0)
    if rows.size and rows.max() >= samples:
        first = int((rows >= samples).argmax())
        raise PyriteError(f"index is {rows[first]} at position {first}, but there are {samples} samples")
    return rows


def _finite(value: object, name: str, rows: Ints) -> Floats:
    """The numbers of a batch; a ValueError names the sample that is not finite, not its position in the batch."""
    values = to_floats(value, name, nan=True)
    check_same_length(index=rows, **{name: values})
    finite = np.isfinite(values)
    if not finite.all():
        first = int((~finite).argmax())
        raise PyriteError(f"{name} of sample {rows[first]} is {values[first]}")
    return values
