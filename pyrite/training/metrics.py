"""What a run measures: every number is one entry of ``METRICS``, every array per sample one of ``SAMPLE_COLUMNS``.

History, tables, JSON, CSV, loggers and pages iterate over these entries. A new number is one entry here and one row of
docs/diagnostics.md.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from typing import Any, Final, Literal, NamedTuple, final

import numpy as np
import numpy.typing as npt
from torch import Tensor
from torch.nn.functional import softplus

from pyrite.arrays import Flags, Floats, Ints
from pyrite.diagnostics import SubsetAccuracies, Tally, roc_auc, subset_accuracies, weight_statistics
from pyrite.soft_margin import row_margin

__all__ = [
    "COLUMNS",
    "METRICS",
    "SAMPLE_COLUMNS",
    "Epoch",
    "Line",
    "Metric",
    "Model",
    "Outcome",
    "SampleColumn",
    "Scored",
    "measure",
    "names_of",
]

Line = dict[str, Any]
Source = Literal["epoch", "held-out", "model", "outcome", "comparison"]
_BOTH: Final = ("run", "comparison")


@final
@dataclass(frozen=True)
class Epoch:
    """An epoch that has ended, merged over all processes: the first visit to each sample, in the order of the samples.

    Attributes:
        number: counted from 1.
        loss: the mean over its steps.
        last_learning_rate: the learning rate of its last step.
        margin, prediction, weight, learning_rate, trust: of the samples; ``weight`` and ``trust`` are NaN if unknown.
        given, true: the labels of these samples; ``true`` is None if unknown.
        columns: what is kept of these samples, by the names of ``SAMPLE_COLUMNS``.
        weight_sums: over all epochs so far of learning rates, and of learning rates times weights: of all samples (by
            absolute value), of right and of wrong labels.
        test: test samples that were predicted; None if they were not.
        unseen: given labels that were predicted by nets not trained on them; None if margins are not kept.
    """

    number: int
    loss: float | None
    last_learning_rate: float
    margin: Floats
    prediction: Ints
    weight: Floats
    learning_rate: Floats
    trust: Floats
    given: Ints
    true: Ints | None
    columns: Mapping[str, npt.NDArray[Any]]
    weight_sums: Floats
    test: Tally | None
    unseen: Tally | None

    @property
    def agrees(self) -> Flags:
        """Where the prediction is the given label."""
        return np.asarray(self.prediction == self.given)

    @cached_property
    def subsets(self) -> SubsetAccuracies:
        return subset_accuracies(self.prediction, self.given, self.true)

    @cached_property
    def accuracies(self) -> dict[str, float | None]:
        return self.subsets.fractions()

    @cached_property
    def weights(self) -> dict[str, float | None]:
        return weight_statistics(self.weight[~np.isnan(self.weight)])

    def mean_weight(self, group: int) -> float | None:
        """The mean weight so far: 0 of all samples, 1 of right labels, 2 of wrong ones."""
        return _ratio(self.weight_sums[2 * group + 1], self.weight_sums[2 * group])

    def auc(self, values: Floats) -> float | None:
        """The ROC AUC of low values as evidence of wrong labels; None without true labels, or without values."""
        if self.true is None or not len(values) or np.isnan(values).any():
            return None
        return roc_auc(-values, self.given != self.true)


class Scored(NamedTuple):
    """A batch of held-out samples."""

    scores: Tensor
    labels: Tensor

    @property
    def margin(self) -> Tensor:
        return row_margin(self.scores, self.labels).double()


class Model(NamedTuple):
    """What the saved model predicts of the training samples, without augmentation, and of the test samples."""

    subsets: SubsetAccuracies
    test: Tally | None


class Outcome(NamedTuple):
    """The history, and the epoch whose model is saved."""

    history: Sequence[Line]
    epoch: int

    def known(self, name: str) -> list[float]:
        return [line[name] for line in self.history if line.get(name) is not None]


@final
@dataclass(frozen=True)
class Metric:
    """A number that a run measures.

    Attributes:
        explanation: what it is, for pages, plots and printed results.
        measure: computes it from what ``source`` names, as a number or None.
        source: an ``Epoch``, for the history; ``Scored`` held-out samples, for the history: one value per sample, of
            which the mean over all processes is taken; the saved ``Model``, once; the ``Outcome`` of a run, when it is
            read; or a comparison with other runs, which computes it.
        heading: that of its column in tables; they leave out what has none.
        percent: whether it is a fraction that is written in per cent.
        by_default: whether tables have it if no columns are named.
        drawn: the plots that have it: that of a run, and that of a comparison.
    """

    explanation: str
    measure: Callable[[Any], Any]
    source: Source = "epoch"
    heading: str = ""
    percent: bool = True
    by_default: bool = True
    drawn: Sequence[Literal["run", "comparison"]] = ()

    def formatted(self, value: float) -> str:
        """The value as text, without the sign for per cent."""
        return f"{100 * value:.2f}" if self.percent else f"{value:.3g}"


def names_of(source: Source) -> list[str]:
    """The metrics with this source."""
    return [name for name, metric in METRICS.items() if metric.source == source]


def measure(source: Source, of: Any) -> dict[str, Any]:
    """All metrics with this source, by name."""
    return {name: METRICS[name].measure(of) for name in names_of(source)}


def _ratio(numerator: float | None, denominator: float | None) -> float | None:
    if numerator is None or not denominator:
        return None
    value = float(numerator / denominator)
    return value if math.isfinite(value) else None


def _entry(table: str, name: str) -> Callable[[Any], Any]:
    return lambda epoch: getattr(epoch, table)[name]


def _fraction(tally: str) -> Callable[[Epoch], float | None]:
    return lambda epoch: getattr(epoch, tally) and getattr(epoch, tally).fraction


def _auc(values: Callable[[Epoch], Floats]) -> Callable[[Epoch], float | None]:
    return lambda epoch: epoch.auc(values(epoch))


def _hybrid(of: Epoch | Model) -> float | None:
    return of.subsets.hybrid(of.test)


def _best(name: str) -> Callable[[Outcome], float | None]:
    return lambda outcome: max(outcome.known(name), default=None)


def _statistic(name: str) -> Metric:
    return Metric(f"{name.replace('_', ' ')} of this epoch's weights", _entry("weights", name), percent=False)


def _by_model(heading: str, explanation: str, subset: str) -> Metric:
    explanation = f"{explanation}, by the final model"
    return Metric(explanation, lambda model: model.subsets.fractions()[subset], "model", heading, by_default=False)


METRICS: Final[Mapping[str, Metric]] = {
    "epoch": Metric("epoch", attrgetter("number"), percent=False),
    "loss": Metric("mean loss of the steps", attrgetter("loss"), percent=False),
    "learning_rate": Metric("learning rate of the last step", attrgetter("last_learning_rate"), percent=False),
    "final_test_accuracy": Metric(
        "test accuracy of the saved model",
        lambda outcome: outcome.history[outcome.epoch - 1]["test_accuracy"], "outcome", "final",
    ),
    "best_test_accuracy": Metric(
        "at its best, chosen on test labels",
        _best("test_accuracy"), "outcome", "best on test",
    ),
    "test_accuracy": Metric("test accuracy", _fraction("test"), drawn=_BOTH),
    "validation_accuracy": Metric(
        "validation accuracy, given labels",
        lambda batch: batch.scores.argmax(1) == batch.labels, "held-out", "validation", drawn=("run",),
    ),
    "validation_mae": Metric(
        "mean absolute error on held-out labels",
        lambda batch: (-batch.margin).sigmoid() * 2, "held-out", percent=False,
    ),
    "validation_ce": Metric(
        "cross entropy on held-out labels", lambda batch: softplus(-batch.margin), "held-out", percent=False
    ),
    "train_accuracy": Metric(
        "given labels followed", _entry("accuracies", "given"), heading="given followed", drawn=("run",)
    ),
    "unseen_accuracy": Metric("given labels predicted by nets not trained on them", _fraction("unseen")),
    "clean_accuracy": Metric(
        "right labels followed", _entry("accuracies", "clean"), heading="right followed", drawn=("run",)
    ),
    "memorised": Metric(
        "wrong labels followed",
        _entry("accuracies", "memorised"), heading="wrong followed", drawn=_BOTH,
    ),
    "recovered": Metric(
        "wrong labels seen through",
        _entry("accuracies", "recovered"), heading="wrong seen through", drawn=("run",),
    ),
    "hybrid_accuracy": Metric("true labels of training and test samples together, while training", _hybrid),
    "final_trust_auc": Metric(
        "AUC of finding wrong labels by weight",
        lambda outcome: (outcome.known("trust_auc") or [None])[-1], "outcome", "AUC",
    ),
    "best_trust_auc": Metric("that AUC at its best, chosen by true labels", _best("trust_auc"), "outcome", "best AUC"),
    "final_train_accuracy": _by_model("given", "given labels", "given"),
    "final_clean_accuracy": _by_model("right", "right labels", "clean"),
    "final_memorised": _by_model("wrong", "wrong labels", "memorised"),
    "final_recovered": _by_model("wrong, as true", "wrong labels seen through", "recovered"),
    "final_intact_accuracy": _by_model("intact", "true labels of all samples", "true"),
    "final_hybrid_accuracy": Metric(
        "true labels of training and test samples together",
        _hybrid, "model", "hybrid", by_default=False,
    ),
    "margin_size": Metric(
        "median size of a margin",
        lambda epoch: float(np.median(np.abs(epoch.margin))) if len(epoch.margin) else None, percent=False,
    ),
    # Twice the weight is the L1 norm of a sample's gradient. The curriculum paper prints the norm of the margin's
    # gradient, which is always 2; that of the loss is meant.
    "alpha": Metric(
        "mean weight in training, times 2",
        lambda epoch: _ratio(2 * epoch.weight_sums[1], epoch.weight_sums[0]),
        heading="alpha", percent=False, by_default=False,
    ),
    "snr": Metric(
        "mean weight of right over that of wrong labels",
        lambda epoch: _ratio(epoch.mean_weight(1), epoch.mean_weight(2)),
        heading="snr", percent=False, by_default=False,
    ),
    "clean_weight": Metric("mean weight of right labels", lambda epoch: epoch.mean_weight(1), percent=False),
    "noisy_weight": Metric("mean weight of wrong labels", lambda epoch: epoch.mean_weight(2), percent=False),
    **{f"weight_{name}": _statistic(name) for name in weight_statistics([])},
    "margin_auc": Metric("AUC of finding wrong labels by margin", _auc(attrgetter("margin"))),
    "margin_mean_auc": Metric("AUC of finding wrong labels by mean margin", _auc(_entry("columns", "margin_mean"))),
    "trust_auc": Metric("AUC of finding wrong labels by weight", _auc(attrgetter("trust"))),
    "diff": Metric("test accuracy lost by the noise", lambda comparison: None, "comparison", "diff"),
}  # fmt: skip
"""Every number of a run, by its name in the history, in JSON and in the columns of tables.

A label is followed if it is predicted when its sample is trained on, in the epoch of the saved model. What that model,
the final one, predicts of the training samples is measured once, at the end, without augmentation.
"""

COLUMNS: Final[Mapping[str, Metric]] = {name: metric for name, metric in METRICS.items() if metric.heading}
"""The columns of a run's table."""


@final
@dataclass(frozen=True)
class SampleColumn:
    """A number that is kept of every sample, in constant memory however long the training.

    Attributes:
        explanation: what it is.
        initial: its value before the first visit.
        update: its new values, from an epoch whose ``columns`` are those before it.
        saved: whether it is in ``samples.npz``; others are needed by ``update`` only.
    """

    explanation: str
    initial: float
    update: Callable[[Epoch], npt.NDArray[Any]]
    saved: bool = True


def _mean_before(epoch: Epoch, mean: str, count: str) -> Floats:
    return np.where(epoch.columns[count] > 0, epoch.columns[mean], 0.0)


def _margin_mean(epoch: Epoch) -> Floats:
    before = _mean_before(epoch, "margin_mean", "visits")
    return np.asarray(before + (epoch.margin - before) / (epoch.columns["visits"] + 1))


def _margin_squares(epoch: Epoch) -> Floats:
    """The sum of squared deviations from the running mean (Welford, 1962)."""
    deviation = epoch.margin - _mean_before(epoch, "margin_mean", "visits")
    return np.asarray(epoch.columns["margin_squares"] + deviation * (epoch.margin - _margin_mean(epoch)))


def _weight_mean(epoch: Epoch) -> Floats:
    before = _mean_before(epoch, "weight_mean", "weighted_visits")
    mean = before + (epoch.weight - before) / (epoch.columns["weighted_visits"] + 1)
    return np.where(np.isnan(epoch.weight), epoch.columns["weight_mean"], mean)


def _agreed(epoch: Epoch) -> Flags:
    """Whether the prediction of the epoch before was the given label."""
    return np.asarray(epoch.columns["learned"] > epoch.columns["forgotten"])


def _counted(name: str, flags: Callable[[Epoch], Flags]) -> Callable[[Epoch], Ints]:
    """A column that counts the epochs in which flags are true."""
    return lambda epoch: epoch.columns[name] + flags(epoch)


SAMPLE_COLUMNS: Final[Mapping[str, SampleColumn]] = {
    "visits": SampleColumn("epochs in which it was seen", 0, lambda epoch: epoch.columns["visits"] + 1),
    "margin_mean": SampleColumn("mean margin over the epochs", math.nan, _margin_mean),
    "margin_variance": SampleColumn(
        "population variance of the margin",
        math.nan, lambda epoch: _margin_squares(epoch) / (epoch.columns["visits"] + 1),
    ),
    "last_margin": SampleColumn("margin when last seen", math.nan, attrgetter("margin")),
    "agreements": SampleColumn(
        "epochs in which the prediction was the given label", 0, _counted("agreements", attrgetter("agrees"))
    ),
    "learned": SampleColumn(
        "changes to the given label, a first visit that agrees included",
        0, _counted("learned", lambda epoch: epoch.agrees & ~_agreed(epoch)),
    ),
    "forgotten": SampleColumn(
        "changes from the given label to another (Toneva et al., 2019)",
        0, _counted("forgotten", lambda epoch: _agreed(epoch) & ~epoch.agrees),
    ),
    "weight_mean": SampleColumn("mean weight over the epochs that had one", math.nan, _weight_mean),
    "last_trust": SampleColumn("factor of its loss when last seen", math.nan, attrgetter("trust")),
    "margin_squares": SampleColumn("squared deviations of the margin", 0.0, _margin_squares, saved=False),
    "weighted_visits": SampleColumn(
        "epochs with a weight", 0, _counted("weighted_visits", lambda epoch: ~np.isnan(epoch.weight)), saved=False
    ),
}  # fmt: skip
"""Every number that is kept per sample, by its name in ``samples.npz``."""
