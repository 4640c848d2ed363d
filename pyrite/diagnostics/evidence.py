"""What training showed of each sample, in constant memory a sample.

An epoch is first written down (``Visits``: a row a sample), and at its end folded into running statistics
(``SampleEvidence``). So a sample counts once an epoch whoever saw it and however often, the order of batches and the
number of processes leave no trace, and a resume in the middle of an epoch is exact.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, final

import numpy as np
import numpy.typing as npt

from pyrite.checks import number, whole_number
from pyrite.diagnostics.arrays import Flags, Floats, Ints, check_same_length, to_floats, to_ints

__all__ = ["SampleEvidence", "Visits"]

_COLUMNS: Final = ("margin", "prediction", "weight", "rate", "trust")


@final
class Visits:
    """The first visit to each sample in the epoch under way: margin, prediction, weight, learning rate and trust.

    A later visit in the same epoch is a sampler's padding and changes nothing. ``weight`` is NaN where none was said,
    and so is ``trust``: what a method multiplied the sample's loss by.
    """

    def __init__(self, samples: int) -> None:
        self.samples = whole_number("samples", samples, least=1)
        self.clear()

    def clear(self) -> None:
        """Begin an epoch."""
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
        """Write a batch down."""
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
        # Of assignments to one place numpy keeps the last, so the batch is written backwards: its first visit stays.
        new = np.flatnonzero(~self.seen[rows])[::-1]
        places = rows[new]
        for name, values in columns.items():
            getattr(self, name)[places] = values[new]
        self.seen[places] = True

    def _add(self, state: Mapping[str, Any]) -> None:
        samples = int(needed(state, "samples"))
        if samples != self.samples:
            raise ValueError(f"the state is of {samples} samples, these are {self.samples}")
        rows = _checked_index(needed(state, "index"), self.samples)
        columns = {name: np.asarray(needed(state, name), getattr(self, name).dtype) for name in _COLUMNS}
        check_same_length(index=rows, **columns)
        self._write(rows, columns)

    def merge(self, states: Iterable[Mapping[str, Any]]) -> None:
        """Become what all processes wrote down in this epoch: their ``state_dict``, this one's too, by rank.

        Of those that saw a sample the first counts, so every process that merges ends with the same.
        """
        together = Visits(self.samples)
        for state in states:
            together._add(state)
        self.seen, self.margin, self.weight = together.seen, together.margin, together.weight
        self.rate, self.prediction, self.trust = together.rate, together.prediction, together.trust

    def state_dict(self) -> dict[str, Any]:
        """Only the samples seen, so that little travels between processes."""
        index = np.flatnonzero(self.seen)
        return {"samples": self.samples, "index": index} | {name: getattr(self, name)[index] for name in _COLUMNS}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where another left off. A state that does not fit is refused and changes nothing."""
        self.merge([state])


@final
class SampleEvidence:
    """Running statistics of every sample over the epochs, as arrays in the order of the samples.

    Attributes:
        labels: the given labels, with which predictions are compared.
        epoch: the epoch under way.
        visits: epochs in which the sample was seen.
        last_margin: its margin when last seen; NaN if never.
        last_trust: what its loss was multiplied by when last seen; NaN if the method does not weigh samples.
        agreements: how often the prediction was the given label.
        learned: how often it came to agree, a first visit that agrees included.
        forgotten: how often it ceased to agree (Toneva et al., 2019).
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
        self._squares: Floats = np.zeros(samples)  # of deviations from the mean so far, summed (Welford, 1962)
        self._weighed: Ints = np.zeros(samples, np.int64)  # visits that said a weight
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
        """Write a batch down."""
        self.epoch.record(index, margin, prediction, weight, rate, trust)

    def end_epoch(self) -> None:
        """Fold the epoch into the running statistics and begin the next."""
        rows = np.flatnonzero(self.epoch.seen)
        self.visits[rows] += 1
        margin = self.epoch.margin[rows]
        away = margin - self._mean[rows]
        self._mean[rows] += away / self.visits[rows]
        self._squares[rows] += away * (margin - self._mean[rows])
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
        """The variance of the margin over the epochs, divided by their number; NaN if never seen, 0 if once."""
        return np.where(self.visits > 0, self._squares / np.maximum(self.visits, 1), np.nan)

    @property
    def weight_mean(self) -> Floats:
        """The mean weight over the epochs that said one; NaN if none did."""
        return np.where(self._weighed > 0, self._weight, np.nan)

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """What a reader of the run wants, by name."""
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
        """Plain arrays and numbers, from which training goes on bit for bit, also in the middle of an epoch."""
        running = {name: values.copy() for name, values in self._running().items()}
        return running | {f"epoch.{name}": value for name, value in self.epoch.state_dict().items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where another left off. A state that does not fit is refused and changes nothing."""
        read = {name: np.asarray(needed(state, name), values.dtype) for name, values in self._running().items()}
        for name, values in read.items():
            if values.shape != self.labels.shape:
                raise ValueError(f"{name} of the state has the shape {values.shape}, for {len(self.labels)} samples")
        self.epoch.load_state_dict(within(state, "epoch"))
        for name, values in self._running().items():
            values[:] = read[name]


def needed(state: Mapping[str, Any], name: str) -> Any:
    """A part of a state, which must be there."""
    if name not in state:
        raise ValueError(f"the state has no {name!r}, only {sorted(state)}")
    return state[name]


def within(state: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The part of a flat state that was written under ``name.``"""
    return {key.removeprefix(f"{name}."): value for key, value in state.items() if key.startswith(f"{name}.")}


def _checked_index(index: object, samples: int) -> Ints:
    rows = to_ints(index, "index", least=0)
    if rows.size and rows.max() >= samples:
        first = int((rows >= samples).argmax())
        raise ValueError(f"index is {rows[first]} at place {first}, but there are {samples} samples")
    return rows


def _finite(value: object, name: str, rows: Ints) -> Floats:
    """Numbers of a batch; what is not finite is named by its sample, since a place in a batch is not found again."""
    values = to_floats(value, name, nan=True)
    check_same_length(index=rows, **{name: values})
    finite = np.isfinite(values)
    if not finite.all():
        first = int((~finite).argmax())
        raise ValueError(f"{name} of sample {rows[first]} is {values[first]}")
    return values
