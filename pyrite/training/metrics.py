"""What a run measures: every number is one entry of ``METRICS``, every array per sample one of ``SAMPLE_COLUMNS``.

History, tables, JSON, CSV, loggers and pages iterate over these entries. A new number is one entry here and one row of
docs/diagnostics.md.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from types import SimpleNamespace
from typing import Any, Final, Literal, final

import numpy as np
import numpy.typing as npt
from torch import Tensor
from torch.nn.functional import softplus

from pyrite.arrays import Floats, Ints
from pyrite.diagnostics import SubsetAccuracies, Tally, roc_auc, subset_accuracies, weight_statistics
from pyrite.soft_margin import row_margin

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

    @cached_property
    def accuracies(self) -> SimpleNamespace:
        """Fractions of samples: those of ``accuracies_of``, and ``unseen``."""
        unseen = None if self.unseen is None else self.unseen.fraction
        subsets = subset_accuracies(self.prediction, self.given, self.true)
        return SimpleNamespace(**vars(accuracies_of(subsets, self.test)), unseen=unseen)

    @cached_property
    def weights(self) -> SimpleNamespace:
        """``weight_statistics``, and the median size of a margin."""
        size = float(np.median(np.abs(self.margin))) if len(self.margin) else None
        return SimpleNamespace(**weight_statistics(self.weight[~np.isnan(self.weight)]), margin_size=size)

    @cached_property
    def mean_weights(self) -> SimpleNamespace:
        """Mean weights so far: of right labels, of wrong ones, and twice that of all samples."""
        rates, total, *groups = self.weight_sums
        clean, noisy = _ratio(groups[1], groups[0]), _ratio(groups[3], groups[2])
        return SimpleNamespace(alpha=_ratio(2 * total, rates), clean=clean, noisy=noisy, snr=_ratio(clean, noisy))

    @cached_property
    def aucs(self) -> SimpleNamespace:
        """The ROC AUC of low values as evidence of wrong labels; None without true labels, or without values."""
        values = {"margin": self.margin, "margin_mean": self.columns["margin_mean"], "trust": self.trust}
        aucs = SimpleNamespace(**dict.fromkeys(values))
        for name, column in values.items():
            if self.true is not None and len(column) and not np.isnan(column).any():
                setattr(aucs, name, roc_auc(-column, self.given != self.true))
        return aucs


def held_out_of(scores: Tensor, labels: Tensor) -> SimpleNamespace:
    """One value per sample of a batch of held-out samples."""
    margin = row_margin(scores, labels).double()
    mae = (-margin).sigmoid() * 2
    return SimpleNamespace(margin=margin, hits=scores.argmax(1) == labels, mae=mae, ce=softplus(-margin))


def accuracies_of(subsets: SubsetAccuracies, test: Tally | None) -> SimpleNamespace:
    """Fractions of samples, by the names of ``SubsetAccuracies``, and ``test`` and ``hybrid``."""
    fraction = None if test is None else test.fraction
    return SimpleNamespace(**subsets.fractions(), test=fraction, hybrid=subsets.hybrid(test))


def outcome_of(history: Sequence[Line], epoch: int) -> SimpleNamespace:
    """The results of the epoch whose model is saved, and the best of the history."""
    tests, aucs = ([line[n] for line in history if line.get(n) is not None] for n in ("test_accuracy", "trust_auc"))
    return SimpleNamespace(
        final_test_accuracy=history[epoch - 1]["test_accuracy"],
        best_test_accuracy=max(tests, default=None),
        final_trust_auc=aucs[-1] if aucs else None,
        best_trust_auc=max(aucs, default=None),
    )


@final
@dataclass(frozen=True)
class Metric:
    """A number that a run measures.

    Attributes:
        explanation: what it is, for pages, plots and printed results.
        measure: computes it from what ``source`` names, as a number or None.
        source: an ``Epoch``, for the history; ``held_out_of`` batches, for the history: one value per sample, of
            which the mean over all processes is taken; ``accuracies_of`` the saved model, once; ``outcome_of`` a run,
            when it is read; or a comparison with other runs, which computes it.
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


def _statistic(name: str) -> Metric:
    return Metric(f"{name.replace('_', ' ')} of this epoch's weights", attrgetter(f"weights.{name}"), percent=False)


def _by_model(heading: str, explanation: str, subset: str) -> Metric:
    explanation = f"{explanation}, by the final model"
    return Metric(explanation, attrgetter(subset), "model", heading, by_default=False)


METRICS: Final[Mapping[str, Metric]] = {
    "epoch": Metric("epoch", attrgetter("number"), percent=False),
    "loss": Metric("mean loss of the steps", attrgetter("loss"), percent=False),
    "learning_rate": Metric("learning rate of the last step", attrgetter("last_learning_rate"), percent=False),
    "final_test_accuracy": Metric(
        "test accuracy of the saved model",
        attrgetter("final_test_accuracy"), "outcome", "final",
    ),
    "best_test_accuracy": Metric(
        "at its best, chosen on test labels",
        attrgetter("best_test_accuracy"), "outcome", "best on test",
    ),
    "test_accuracy": Metric("test accuracy", attrgetter("accuracies.test"), drawn=_BOTH),
    "validation_accuracy": Metric(
        "validation accuracy, given labels",
        attrgetter("hits"), "held-out", "validation", drawn=("run",),
    ),
    "validation_mae": Metric(
        "mean absolute error on held-out labels",
        attrgetter("mae"), "held-out", percent=False,
    ),
    "validation_ce": Metric(
        "cross entropy on held-out labels", attrgetter("ce"), "held-out", percent=False
    ),
    "train_accuracy": Metric(
        "given labels followed", attrgetter("accuracies.given"), heading="given followed", drawn=("run",)
    ),
    "unseen_accuracy": Metric("given labels predicted by nets not trained on them", attrgetter("accuracies.unseen")),
    "clean_accuracy": Metric(
        "right labels followed", attrgetter("accuracies.clean"), heading="right followed", drawn=("run",)
    ),
    "memorised": Metric(
        "wrong labels followed",
        attrgetter("accuracies.memorised"), heading="wrong followed", drawn=_BOTH,
    ),
    "recovered": Metric(
        "wrong labels seen through",
        attrgetter("accuracies.recovered"), heading="wrong seen through", drawn=("run",),
    ),
    "hybrid_accuracy": Metric(
        "true labels of training and test samples together, while training", attrgetter("accuracies.hybrid")
    ),
    "final_trust_auc": Metric(
        "AUC of finding wrong labels by weight",
        attrgetter("final_trust_auc"), "outcome", "AUC",
    ),
    "best_trust_auc": Metric(
        "that AUC at its best, chosen by true labels",
        attrgetter("best_trust_auc"), "outcome", "best AUC",
    ),
    "final_train_accuracy": _by_model("given", "given labels", "given"),
    "final_clean_accuracy": _by_model("right", "right labels", "clean"),
    "final_memorised": _by_model("wrong", "wrong labels", "memorised"),
    "final_recovered": _by_model("wrong, as true", "wrong labels seen through", "recovered"),
    "final_intact_accuracy": _by_model("intact", "true labels of all samples", "true"),
    "final_hybrid_accuracy": Metric(
        "true labels of training and test samples together",
        attrgetter("hybrid"), "model", "hybrid", by_default=False,
    ),
    "margin_size": Metric(
        "median size of a margin",
        attrgetter("weights.margin_size"), percent=False,
    ),
    # Twice the weight is the L1 norm of a sample's gradient. The curriculum paper prints the norm of the margin's
    # gradient, which is always 2; that of the loss is meant.
    "alpha": Metric(
        "mean weight in training, times 2",
        attrgetter("mean_weights.alpha"),
        heading="alpha", percent=False, by_default=False,
    ),
    "snr": Metric(
        "mean weight of right over that of wrong labels",
        attrgetter("mean_weights.snr"),
        heading="snr", percent=False, by_default=False,
    ),
    "clean_weight": Metric("mean weight of right labels", attrgetter("mean_weights.clean"), percent=False),
    "noisy_weight": Metric("mean weight of wrong labels", attrgetter("mean_weights.noisy"), percent=False),
    **{f"weight_{name}": _statistic(name) for name in weight_statistics([])},
    "margin_auc": Metric("AUC of finding wrong labels by margin", attrgetter("aucs.margin")),
    "margin_mean_auc": Metric("AUC of finding wrong labels by mean margin", attrgetter("aucs.margin_mean")),
    "trust_auc": Metric("AUC of finding wrong labels by weight", attrgetter("aucs.trust")),
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
        saved: whether it is in ``samples.npz``; others are needed by ``updated_columns`` only.
    """

    explanation: str
    initial: float
    saved: bool = True


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
    visits, agrees, agreed = (
        before["visits"] + 1,
        epoch.prediction == epoch.given,
        before["learned"] > before["forgotten"],
    )
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
