"""The record of a run: what happens to every sample, and one line of the history per epoch."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final, cast, final

import numpy as np
import numpy.typing as npt
from torch import Tensor

from pyrite.arrays import Flags, Floats, Ints, check_same_length, to_floats, to_ints
from pyrite.checks import whole_number
from pyrite.diagnostics import MARGIN_EDGES, Tally, epoch_weight
from pyrite.errors import PyriteError
from pyrite.methods import Step, joined
from pyrite.processes import all_gather, world_size
from pyrite.soft_margin import row_margins
from pyrite.training.evaluation import Evaluation
from pyrite.training.metrics import METRICS, SAMPLE_COLUMNS, Epoch, Line, measure, updated_columns

Arrays = dict[str, npt.NDArray[Any]]

_LARGEST: Final = 1 << 28  # samples times classes whose margins are kept, which takes two gigabytes
_WAITING: Final = 1 << 22  # scores of steps that wait before they are read; on other devices four times as many
_SCALARS: Final = ("steps", "loss", "denominator", "learning_rate")


@final
class Record:
    """Records what happens to each sample during training. No method has access to it, so it may have true labels.

    A step is noted without reading the device. The numbers of an epoch are computed at its end, in the order of the
    samples, so that they do not depend on how samples were distributed over batches and processes. In an epoch the
    first visit to a sample counts.

    Args:
        given: the given labels of all samples.
        true: the true labels, if they are known. Without them, numbers that need them are None.
        classes: the number of classes, to record the margins of all classes; None to record only those of the labels.
        edges: the bins of the margin histograms: [edge, next edge), with one more on either side.
        evaluation: predicts the test and the held-out samples after every epoch.

    Attributes:
        history: one line per epoch, with the names of ``METRICS``.
        steps: the number of steps so far.
        columns: what is kept of every sample, one row for each: ``SAMPLE_COLUMNS``, and the sums of class margins.
        histograms: counts of margins by epoch, and by bin: of all samples, and of wrong labels if they are known.
        class_margins: the mean over epochs of every class's margin, weighted by ``epoch_weight``; NaN if never seen.

    >>> record = Record([0, 1, 1], true=[0, 1, 0])
    >>> record.update([0, 1, 2], margin=[2.0, 1.0, -1.0], prediction=[0, 1, 0], weight=[0.2, 0.4, 0.1])
    >>> line = record.end_epoch(test=Tally(8, 10))
    >>> line["clean_accuracy"], line["memorised"], line["recovered"], round(line["snr"], 6)
    (1.0, 0.0, 1.0, 3.0)
    """

    def __init__(
        self,
        given: object,
        true: object | None = None,
        *,
        classes: int | None = None,
        edges: object = MARGIN_EDGES,
        evaluation: Evaluation | None = None,
    ) -> None:
        self.given = to_ints(given, "given", least=0)
        samples = whole_number("samples", len(self.given), least=1)
        self.true = None if true is None else to_ints(true, "true", least=0)
        if self.true is not None:
            check_same_length(given=self.given, true=self.true)
        self.is_wrong: Flags | None = None if self.true is None else self.given != self.true
        self.edges = to_floats(edges, "edges")
        if len(self.edges) < 2 or (np.diff(self.edges) <= 0).any():
            raise PyriteError(f"edges are {self.edges}, but must be two or more in ascending order")
        self.evaluation = evaluation
        self.history: list[Line] = []
        self.steps, self.learning_rate = 0, 0.0
        self.loss: float | Tensor = 0.0  # sums over the steps of the epoch; tensors on other devices
        self.denominator: float | Tensor = 0.0
        self.columns: Arrays = {name: np.full(samples, column.initial) for name, column in SAMPLE_COLUMNS.items()}
        self.histograms: Ints = np.zeros((0, 1 if self.true is None else 2, len(self.edges) + 1), np.int64)
        self.keeps_margins = classes is not None and samples * classes <= _LARGEST
        if self.keeps_margins:
            table, unseen = np.zeros((samples, classes or 0), np.float32), np.zeros(samples, bool)
            self.columns |= {"margin_sum": table, "margin_weight": np.zeros(samples), "unseen": unseen}
        self._weight_sums: Floats = np.zeros(6)
        numbers = {name: np.zeros(0) for name in ("margin", "weight", "learning_rate", "trust")}
        index = np.zeros(0, np.int64)
        # What is recorded in the current epoch, in the order of steps; each list begins without samples.
        self.visits: list[Arrays] = [{"index": index, "prediction": index, **numbers}]
        kept = {"margins": np.zeros((0, classes or 0), np.float32), "unseen": np.zeros(0, bool)}
        self.visited_margins: list[Arrays] = [{"index": index, **(kept if self.keeps_margins else {})}]
        self._pending: list[Step] = []
        self._waiting = 0

    # --- an epoch -----------------------------------------------------------------------------------------------------

    def after_step(self, step: Step) -> None:
        """Note a step. Its arrays stay on their device until many of them can be read at once."""
        self.steps += 1
        self.loss = self.loss + step.mean * step.divisor
        self.denominator = self.denominator + step.divisor
        self.learning_rate = step.learning_rate
        if step.index.shape[0]:
            kind = step.trust is None, step.unseen is None
            if self._pending and kind != (self._pending[-1].trust is None, self._pending[-1].unseen is None):
                self.flush()
            self._pending.append(step)
            self._waiting += step.scores.numel()
            if self._waiting > (_WAITING if step.scores.is_cpu else 4 * _WAITING):
                self.flush()

    def flush(self) -> None:
        """Read the steps that wait on their device, after a check that what they measured is finite."""
        if self.evaluation is not None:
            self.evaluation.trainer.check()
        pending, self._pending, self._waiting = self._pending, [], 0
        if not pending:
            return
        step = joined(pending)
        rates = cast(npt.ArrayLike, step.learning_rate)
        self.update(step.index, step.margin, step.prediction, step.weight, rates, step.trust)
        if self.keeps_margins:
            rows = step.margins if step.unseen is None else row_margins(step.unseen)
            self.update_margins(step.index, rows, unseen=step.unseen is not None)

    def update(
        self,
        index: object,
        margin: object,
        prediction: object,
        weight: object | None = None,
        learning_rate: npt.ArrayLike = 1.0,
        trust: object | None = None,
    ) -> None:
        """Record a batch of an own training loop: one number per sample, or one ``learning_rate`` for all.

        ``weight`` is that of the sample in the gradient, w in ∇L = −w ∇Δ, and ``trust`` the factor that the method
        multiplied its loss by, if it weights samples.
        """
        rows = self._rows(index)
        unknown = np.full(len(rows), np.nan)
        values: Arrays = {"prediction": to_ints(prediction, "prediction")}
        for name, given in (("margin", margin), ("weight", weight), ("trust", trust)):
            values[name] = unknown if given is None else to_floats(given, name, nan=True)
            check_same_length(index=rows, **{name: values[name]})
            if given is not None and not (finite := np.isfinite(values[name])).all():
                first = int((~finite).argmax())
                raise PyriteError(f"{name} of sample {rows[first]} is {values[name][first]}")
        rates = np.full(len(rows), learning_rate) if np.ndim(learning_rate) == 0 else learning_rate
        rates = to_floats(rates, "learning_rate")
        check_same_length(index=rows, **values, learning_rate=rates)
        if rates.size and rates.min() < 0:
            raise PyriteError(f"learning_rate is {rates.min()}, but must not be negative")
        visits = {"index": rows, **values, "learning_rate": rates}
        self.visits.append({name: column.copy() for name, column in visits.items()})

    def update_margins(self, index: object, margins: object, *, unseen: bool = False) -> None:
        """Record the margins of all classes, one row per sample. Rows that are not finite are skipped.

        ``unseen`` means that the nets that gave the margins are not trained on these samples.
        """
        if not self.keeps_margins:
            return
        rows, values = self._rows(index), to_floats(margins, "margins", ndim=2, nan=True)
        classes = self.columns["margin_sum"].shape[1]
        if values.shape != (len(rows), classes):
            raise PyriteError(f"margins have the shape {values.shape}, for {len(rows)} samples of {classes} classes")
        good = np.isfinite(values).all(1)
        flags = np.full(int(good.sum()), unseen)
        self.visited_margins.append({"index": rows[good], "margins": values[good].astype(np.float32), "unseen": flags})

    def after_epoch(self, epoch: int) -> None:
        """Evaluate the model, and add the line of the epoch to the history, with what the method measures itself."""
        assert self.evaluation is not None
        test, measured = self.evaluation.after_epoch(epoch, self)
        self.merge()
        self.end_epoch(test, **measured)

    def epoch_state(self) -> dict[str, Arrays]:
        """The first visits of this process in the current epoch, in the order of the samples, to send to others."""
        self.flush()
        state: dict[str, Arrays] = {"first_visits": {}, "first_margins": {}}
        for table, parts in zip(state.values(), (self.visits, self.visited_margins), strict=True):
            table |= {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
            place = np.full(len(self.given), -1)
            # The first visit of each sample; a later one is padding by a sampler. np.unique takes ten times as long.
            place[table["index"][::-1]] = np.arange(len(table["index"]))[::-1]
            first = place[place >= 0]
            table |= {name: column[first] for name, column in table.items()}
        return state

    def merge(self, states: Iterable[Mapping[str, Mapping[str, Any]]] | None = None) -> None:
        """Merge the records of all processes in this epoch, so that all have the same.

        ``states`` are their ``epoch_state()`` in order of rank; by default torch's process group gathers them.
        """
        if states is None and world_size() == 1:
            return self.flush()
        states = list(all_gather(self.epoch_state()) if states is None else states)
        self.visits[1:] = [dict(state["first_visits"]) for state in states]
        self.visited_margins[1:] = [dict(state["first_margins"]) for state in states]

    def end_epoch(self, test: Tally | None = None, **measured: float | None) -> Line:
        """Finish the epoch and return its line of the history, in which None means unknown.

        Training accuracies use the predictions made during training. If the model was evaluated on the training set,
        ``subset_accuracies`` of those predictions is more accurate. ``measured`` are metrics of held-out samples, and
        numbers that have no metric.
        """
        visits, margin_rows = self.epoch_state().values()
        del self.visits[1:], self.visited_margins[1:]
        rows = visits.pop("index")
        wrong = None if self.is_wrong is None else self.is_wrong[rows]
        weight, rates, known = visits["weight"], visits["learning_rate"], ~np.isnan(visits["weight"])
        sums = [rates[known].sum(), rates[known] @ np.abs(weight[known])]
        for part in () if wrong is None else (known & ~wrong, known & wrong):
            sums += [rates[part].sum(), rates[part] @ weight[part]]
        self._weight_sums[: len(sums)] += sums
        groups = [visits["margin"]] if wrong is None else [visits["margin"], visits["margin"][wrong]]
        bins = (np.searchsorted(self.edges, group, side="right") for group in groups)
        counts = [np.bincount(places, minlength=len(self.edges) + 1) for places in bins]
        self.histograms = np.concatenate([self.histograms, np.stack(counts)[None]])
        unseen = None
        if self.keeps_margins:  # given labels that are predicted by nets that are not trained on them
            hits = margin_rows["margins"].argmax(1) == self.given[margin_rows["index"]]
            unseen = Tally.of(hits[margin_rows["unseen"]])
        epoch = Epoch(
            number=len(self.history) + 1,
            loss=float(self.loss) / float(self.denominator) if self.denominator else None,
            last_learning_rate=self.learning_rate,
            given=self.given[rows],
            true=None if self.true is None else self.true[rows],
            columns={name: self.columns[name][rows] for name in SAMPLE_COLUMNS},
            weight_sums=self._weight_sums,
            test=test,
            unseen=unseen,
            **visits,
        )
        epoch = replace(epoch, columns=updated_columns(epoch))
        for name, values in epoch.columns.items():
            self.columns[name][rows] = values
        if self.keeps_margins:
            factor, seen = epoch_weight(epoch.numbers.given, epoch.numbers.unseen), margin_rows["index"]
            self.columns["margin_sum"][seen] += np.float32(factor) * margin_rows["margins"]
            self.columns["margin_weight"][seen] += factor
            self.columns["unseen"][seen] = margin_rows["unseen"]
        unmeasured = {name: None for name, metric in METRICS.items() if metric.source == "held-out"}
        self.history.append(measure("epoch", epoch) | unmeasured | measured)
        self.loss = self.denominator = 0.0
        return self.history[-1]

    # --- what is kept -------------------------------------------------------------------------------------------------

    @property
    def class_margins(self) -> npt.NDArray[np.float32]:
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(self.columns["margin_sum"] / self.columns["margin_weight"][:, None], np.float32)

    def arrays(self) -> Arrays:
        """The content of ``samples.npz``."""
        arrays = {name: self.columns[name].copy() for name, column in SAMPLE_COLUMNS.items() if column.saved}
        arrays |= {"margin_edges": self.edges, "margins": self.histograms[:, 0]}
        if self.true is not None:
            arrays["noisy_margins"] = self.histograms[:, 1]
        if self.keeps_margins:
            arrays |= {"class_margins": self.class_margins, "unseen": self.columns["unseen"].astype(np.uint8)}
        return arrays

    def state_dict(self) -> dict[str, Any]:
        """Arrays and values that JSON can hold, from which training resumes bit for bit, also within an epoch."""
        epoch = {f"{table}.{name}": a for table, state in self.epoch_state().items() for name, a in state.items()}
        self.loss, self.denominator = float(self.loss), float(self.denominator)
        state = {name: getattr(self, name) for name in _SCALARS} | {name: a.copy() for name, a in self.columns.items()}
        state |= {"history": list(self.history), "histograms": self.histograms, "weight_sums": self._weight_sums.copy()}
        return state | epoch | ({} if self.evaluation is None else {"evaluation": self.evaluation.state_dict()})

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue where another record of the same samples stopped. A state that does not fit changes nothing."""
        missing = [name for name in self.state_dict() if name not in state]
        if missing:
            raise PyriteError(f"the state has no {missing[0]!r}, only {sorted(state)}")
        histograms = np.array(state["histograms"], np.int64)
        shapes = {name: (np.shape(state[name]), array.shape) for name, array in self.columns.items()}
        shapes["histograms"] = histograms.shape[1:], self.histograms.shape[1:]
        for name, (found, own) in shapes.items():
            if found != own:
                raise PyriteError(f"{name} of the state has the shape {found}, this is {own}")
        for name, array in self.columns.items():
            array[...] = state[name]
        for name in _SCALARS:
            setattr(self, name, state[name])
        self.history, self.histograms = list(state["history"]), histograms
        self._weight_sums[:], self._pending, self._waiting = state["weight_sums"], [], 0
        for name, parts in (("first_visits", self.visits), ("first_margins", self.visited_margins)):
            parts[1:] = [{column: np.asarray(state[f"{name}.{column}"]) for column in parts[0]}]
        if self.evaluation is not None:
            self.evaluation.load_state_dict(state["evaluation"])

    def _rows(self, index: object) -> Ints:
        rows = to_ints(index, "index", least=0)
        if rows.size and rows.max() >= len(self.given):
            first = int((rows >= len(self.given)).argmax())
            raise PyriteError(f"index is {rows[first]} at position {first}, but there are {len(self.given)} samples")
        return rows
