"""What a run measures: every number is one entry of ``METRICS``, every array per sample one of ``SAMPLE_COLUMNS``.

History, tables, JSON, CSV, loggers and pages iterate over these entries. A new number is one entry here and one row of
docs/diagnostics.md.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter as _of
from types import SimpleNamespace
from typing import Any, Final, Literal, final

import numpy as np
import numpy.typing as npt

from pyrite.arrays import Floats, Ints
from pyrite.diagnostics import Tally, hybrid_accuracy, roc_auc, subset_accuracies, weight_statistics

Line = dict[str, Any]
Source = Literal["epoch", "held-out", "model", "outcome", "comparison"]
_BOTH: Final = ("run", "comparison")


@final
@dataclass(frozen=True)
class Epoch:
    """An epoch that has ended, merged over all processes: the first visit to each sample, in the order of the samples.

    ``weight`` and ``trust`` are NaN if unknown.
    """

    number: int  # counted from 1
    loss: float | None  # the mean over its steps
    last_learning_rate: float  # that of its last step
    margin: Floats
    prediction: Ints
    weight: Floats
    learning_rate: Floats
    trust: Floats
    given: Ints
    true: Ints | None  # None if unknown
    columns: Mapping[str, npt.NDArray[Any]]  # what is kept of these samples, by the names of ``SAMPLE_COLUMNS``
    # Sums over all epochs so far of learning rates, and of learning rates times weights: of all samples (by absolute
    # value), of right and of wrong labels.
    weight_sums: Floats
    test: Tally | None  # test samples that were predicted; None if they were not
    unseen: Tally | None  # given labels that nets not trained on them predicted; None if margins are not kept

    @cached_property
    def numbers(self) -> SimpleNamespace:
        """Fractions of samples, by the names of ``SubsetAccuracies``, ``test``, ``hybrid`` and ``unseen``;
        ``weight_statistics``; mean weights so far: of right labels, of wrong ones, and twice that of all samples; and
        ROC AUCs of low values as evidence of wrong labels, which are None without true labels or without values."""
        subsets, test = subset_accuracies(self.prediction, self.given, self.true), self.test
        found: dict[str, Any] = subsets.fractions() | {"unseen": self.unseen and self.unseen.fraction}
        found |= {
            "test": test and test.fraction,
            "hybrid": test and subsets.true and hybrid_accuracy(test, subsets.true),
        }
        found |= {f"weight_{n}": v for n, v in weight_statistics(self.weight[~np.isnan(self.weight)]).items()}
        with np.errstate(divide="ignore", invalid="ignore"):
            mean, clean, noisy = self.weight_sums[1::2] / self.weight_sums[::2]
            means = {"alpha": 2 * mean, "clean_weight": clean, "noisy_weight": noisy, "snr": clean / noisy}
        found |= {name: float(value) if np.isfinite(value) else None for name, value in means.items()}
        found["margin_size"] = float(np.median(np.abs(self.margin))) if len(self.margin) else None
        values = {"margin": self.margin, "margin_mean": self.columns["margin_mean"], "trust": self.trust}
        for name, column in values.items():
            known = self.true is not None and len(column) and not np.isnan(column).any()
            found[f"{name}_auc"] = roc_auc(-column, self.given != self.true) if known else None
        return SimpleNamespace(**found)


@final
@dataclass(frozen=True)
class Metric:
    """A number that a run measures.

    Its ``source`` is an ``Epoch``, for the history; a batch of held-out samples, for the history: one value per sample,
    of which the mean over all processes is taken; the accuracies of the saved model, once; a run that is read; or a
    comparison with other runs, which computes it.
    """

    explanation: str  # for pages, plots and printed results
    measure: Callable[[Any], Any]  # from its source to a number or None
    source: Source = "epoch"
    heading: str = ""  # of its column in tables; they leave out what has none
    percent: bool = True  # whether it is a fraction that is written in per cent
    by_default: bool = True  # whether tables have it if no columns are named
    drawn: Sequence[Literal["run", "comparison"]] = ()  # the plots that have it

    def formatted(self, value: float) -> str:
        """The value as text, without the sign for per cent."""
        return f"{100 * value:.2f}" if self.percent else f"{value:.3g}"


def measure(source: Source, of: Any) -> dict[str, Any]:
    """All metrics with this source, by name."""
    return {name: metric.measure(of) for name, metric in METRICS.items() if metric.source == source}


def _number(explanation: str, name: str, heading: str = "") -> Metric:
    """A metric of the history that is no fraction, and that tables have only where it is named."""
    return Metric(explanation, _of(name), heading=heading, percent=False, by_default=not heading)


def _by_model(heading: str, explanation: str, subset: str) -> Metric:
    return Metric(f"{explanation}, by the final model", _of(subset), "model", heading, by_default=False)


METRICS: Final[Mapping[str, Metric]] = {
    "epoch": _number("epoch", "number"),
    "loss": _number("mean loss of the steps", "loss"),
    "learning_rate": _number("learning rate of the last step", "last_learning_rate"),
    "final_test_accuracy": Metric("test accuracy of the saved model", _of("final_test_accuracy"), "outcome", "final"),
    "best_test_accuracy": Metric(
        "at its best, chosen on test labels", _of("best_test_accuracy"), "outcome", "best on test"
    ),
    "test_accuracy": Metric("test accuracy", _of("numbers.test"), drawn=_BOTH),
    "validation_accuracy": Metric(
        "validation accuracy, given labels", _of("hits"), "held-out", "validation", drawn=("run",)
    ),
    "validation_mae": Metric("mean absolute error on held-out labels", _of("mae"), "held-out", percent=False),
    "validation_ce": Metric("cross entropy on held-out labels", _of("ce"), "held-out", percent=False),
    "train_accuracy": Metric("given labels learned", _of("numbers.given"), heading="given learned", drawn=("run",)),
    "unseen_accuracy": Metric("given labels predicted by nets not trained on them", _of("numbers.unseen")),
    "clean_accuracy": Metric("right labels learned", _of("numbers.clean"), heading="right learned", drawn=("run",)),
    "memorised": Metric("wrong labels memorised", _of("numbers.memorised"), heading="wrong memorised", drawn=_BOTH),
    "recovered": Metric("wrong labels recovered", _of("numbers.recovered"), heading="wrong recovered", drawn=("run",)),
    "hybrid_accuracy": Metric(
        "true labels of training and test samples together, while training", _of("numbers.hybrid")
    ),
    "final_trust_auc": Metric("AUC of finding wrong labels by weight", _of("final_trust_auc"), "outcome", "AUC"),
    "best_trust_auc": Metric(
        "that AUC at its best, chosen by true labels", _of("best_trust_auc"), "outcome", "best AUC"
    ),
    "final_train_accuracy": _by_model("given", "given labels", "given"),
    "final_clean_accuracy": _by_model("right", "right labels", "clean"),
    "final_memorised": _by_model("wrong", "wrong labels", "memorised"),
    "final_recovered": _by_model("wrong, as true", "wrong labels recovered", "recovered"),
    "final_intact_accuracy": _by_model("intact", "true labels of all samples", "true"),
    "final_hybrid_accuracy": Metric(
        "true labels of training and test samples together", _of("hybrid"), "model", "hybrid", by_default=False
    ),
    "margin_size": _number("median size of a margin", "numbers.margin_size"),
    # Twice the weight is the L1 norm of a sample's gradient. The curriculum paper prints the norm of the margin's
    # gradient, which is always 2; that of the loss is meant.
    "alpha": _number("mean weight in training, times 2", "numbers.alpha", "alpha"),
    "snr": _number("mean weight of right over that of wrong labels", "numbers.snr", "snr"),
    "clean_weight": _number("mean weight of right labels", "numbers.clean_weight"),
    "noisy_weight": _number("mean weight of wrong labels", "numbers.noisy_weight"),
    **{
        f"weight_{name}": _number(f"{name.replace('_', ' ')} of this epoch's weights", f"numbers.weight_{name}")
        for name in weight_statistics([])
    },
    "margin_auc": Metric("AUC of finding wrong labels by margin", _of("numbers.margin_auc")),
    "margin_mean_auc": Metric("AUC of finding wrong labels by mean margin", _of("numbers.margin_mean_auc")),
    "trust_auc": Metric("AUC of finding wrong labels by weight", _of("numbers.trust_auc")),
    "diff": Metric("test accuracy lost by the noise", lambda comparison: None, "comparison", "diff"),
}
"""Every number of a run, by its name in the history, in JSON and in the columns of tables.

A right label is learned, and a wrong one memorised, if it is predicted when its sample is trained on, in the epoch of
the saved model. A wrong one is recovered if the true class is predicted. What the final model predicts of the training
samples is measured once, at the end, without augmentation.
"""

COLUMNS: Final[Mapping[str, Metric]] = {name: metric for name, metric in METRICS.items() if metric.heading}
"""The columns of a run's table."""


@final
@dataclass(frozen=True)
class SampleColumn:
    """A number that is kept of every sample, in constant memory however long the training."""

    explanation: str
    initial: float  # its value before the first visit
    saved: bool = True  # whether it is in ``samples.npz``; others are needed by ``updated_columns`` only


SAMPLE_COLUMNS: Final[Mapping[str, SampleColumn]] = {
    "visits": SampleColumn("epochs in which it was seen", 0),
    "margin_mean": SampleColumn("mean margin over the epochs", math.nan),
    "margin_variance": SampleColumn("population variance of the margin", math.nan),
    "last_margin": SampleColumn("margin when last seen", math.nan),
    "agreements": SampleColumn("epochs in which the prediction was the given label", 0),
    "learned": SampleColumn("changes to the given label, a first visit that agrees included", 0),
    "forgotten": SampleColumn("changes from the given label to another (Toneva et al., 2019)", 0),
    "weight_mean": SampleColumn("mean weight over the epochs that had one", math.nan),
    "last_trust": SampleColumn("factor of its loss when last seen", math.nan),
    "margin_squares": SampleColumn("squared deviations of the margin from its mean (Welford, 1962)", 0.0, saved=False),
    "weighted_visits": SampleColumn("epochs with a weight", 0, saved=False),
}
"""Every number that is kept per sample, by its name in ``samples.npz``; ``updated_columns`` computes them."""


def updated_columns(epoch: Epoch) -> dict[str, npt.NDArray[Any]]:
    """The columns of an epoch's samples after it; ``epoch.columns`` are those before."""
    before, margin, weight = epoch.columns, epoch.margin, epoch.weight
    visits, agrees = before["visits"] + 1, epoch.prediction == epoch.given
    agreed = before["learned"] > before["forgotten"]
    mean = np.where(before["visits"] > 0, before["margin_mean"], 0.0)
    new_mean = mean + (margin - mean) / visits
    squares = before["margin_squares"] + (margin - mean) * (margin - new_mean)
    unweighted, weighted_visits = np.isnan(weight), before["weighted_visits"] + ~np.isnan(weight)
    weight_mean = np.where(before["weighted_visits"] > 0, before["weight_mean"], 0.0)
    new_weight_mean = weight_mean + (weight - weight_mean) / (before["weighted_visits"] + 1)
    return {
        "visits": visits,
        "margin_mean": new_mean,
        "margin_variance": squares / visits,
        "last_margin": margin,
        "agreements": before["agreements"] + agrees,
        "learned": before["learned"] + (agrees & ~agreed),
        "forgotten": before["forgotten"] + (agreed & ~agrees),
        "weight_mean": np.where(unweighted, before["weight_mean"], new_weight_mean),
        "last_trust": epoch.trust,
        "margin_squares": squares,
        "weighted_visits": weighted_visits,
    }
