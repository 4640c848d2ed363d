"""``TrainingObserver``: all measurements during training, updated per batch and evaluated per epoch."""

from collections.abc import Iterable, Mapping
from typing import Any, final

import numpy as np

from pyrite.diagnostics.accuracy import BestAndFinal, Tally, subset_accuracies
from pyrite.diagnostics.arrays import Flags, Floats, check_same_length, to_ints
from pyrite.diagnostics.class_margins import ClassMargins, epoch_weight
from pyrite.diagnostics.detection import roc_auc
from pyrite.diagnostics.evidence import SampleEvidence, required, within
from pyrite.diagnostics.histograms import MARGIN_EDGES, MarginHistograms
from pyrite.diagnostics.weighting import LearningWeights, weight_statistics

__all__ = ["TrainingObserver"]


@final
class TrainingObserver:
    """Records what happens to each sample during training. No method has access to it, so it may know the true labels.

    A batch costs a few assignments. The statistics are computed at the end of an epoch, in the order of the samples, so
    that they do not depend on how samples were distributed over batches and processes. Several processes exchange
    their ``epoch_state()`` at the end of an epoch, and ``merge`` all of them before ``end_epoch``.

    Args:
        given: the given labels of all samples.
        true: the true labels, if they are known. Without them, results that need them are None.
        edges: the bins of the margin histograms.
        classes: the number of classes, to record the margins of all classes; None to record only those of the labels.

    >>> observer = TrainingObserver(given=[0, 1, 1], true=[0, 1, 0])
    >>> observer.update([0, 1, 2], margin=[2.0, 1.0, -1.0], prediction=[0, 1, 0], weight=[0.2, 0.4, 0.1], rate=0.1)
    >>> line = observer.end_epoch(test=Tally(8, 10))
    >>> line["clean_accuracy"], line["memorised"], line["recovered"], round(line["snr"], 6)
    (1.0, 0.0, 1.0, 3.0)
    """

    def __init__(
        self, given: object, true: object | None = None, edges: object = MARGIN_EDGES, classes: int | None = None
    ) -> None:
        self.evidence = SampleEvidence(given)
        self.true = None if true is None else to_ints(true, "true", least=0)
        self.is_wrong: Flags | None = None
        if self.true is not None:
            check_same_length(given=self.evidence.labels, true=self.true)
            self.is_wrong = self.evidence.labels != self.true
        self.histograms = MarginHistograms(edges, truth=true is not None)
        self.class_margins = None if classes is None else ClassMargins(len(self.evidence.labels), classes)
        self.test = BestAndFinal()
        self.epochs = 0
        self._weights = LearningWeights()

    def update(
        self,
        index: object,
        margin: object,
        prediction: object,
        weight: object | None = None,
        rate: float = 1.0,
        trust: object | None = None,
    ) -> None:
        """Record a batch.

        Args:
            index, margin, prediction: of each sample of the batch.
            weight: the weight of each sample in the gradient.
            rate: the learning rate of the step.
            trust: the factor that the method multiplied each loss by, if it weights samples.
        """
        self.evidence.update(index, margin, prediction, weight, rate, trust)

    def epoch_state(self) -> dict[str, Any]:
        """The records of this process in the current epoch, to send to the other processes."""
        margins = {} if self.class_margins is None else {"margins": self.class_margins.epoch_state()}
        return {"visits": self.evidence.epoch.state_dict()} | margins

    def merge(self, states: Iterable[Mapping[str, Any]]) -> None:
        """Merge the records of all processes in this epoch: their ``epoch_state()``, in order of rank."""
        states = list(states)
        self.evidence.epoch.merge(state["visits"] for state in states)
        if self.class_margins is not None:
            self.class_margins.merge(state["margins"] for state in states)

    @property
    def weights(self) -> LearningWeights:
        """α_t and snr up to now, also in the middle of an epoch."""
        epoch = self.evidence.epoch
        rows = np.flatnonzero(epoch.seen & ~np.isnan(epoch.weight))
        weights = self._weights.copy()
        wrong = None if self.is_wrong is None else self.is_wrong[rows]
        weights.update(epoch.weight[rows], epoch.rate[rows], wrong)
        return weights

    def end_epoch(self, test: Tally | None = None) -> dict[str, float | None]:
        """Finish the epoch and return its line of the history. The names are always the same; None means unknown.

        Training accuracies use the predictions made during training. If the model was evaluated on the training set,
        ``subset_accuracies`` of those predictions is more accurate.

        Args:
            test: the accuracy on test data.
        """
        epoch = self.evidence.epoch
        rows = np.flatnonzero(epoch.seen)
        wrong = None if self.is_wrong is None else self.is_wrong[rows]
        subsets = subset_accuracies(
            epoch.prediction[rows], self.evidence.labels[rows], None if self.true is None else self.true[rows]
        )
        margin = epoch.margin[rows]
        self.histograms.update(margin, wrong)
        self.histograms.end_epoch()
        self._weights = self.weights
        weight, trust = epoch.weight[rows], epoch.trust[rows]
        statistics = weight_statistics(weight[~np.isnan(weight)])
        self.evidence.end_epoch()
        evidence = {"margin": margin, "margin_mean": self.evidence.margin_mean[rows], "trust": trust}
        self.epochs += 1
        if test is not None and test.share is not None:
            self.test = self.test.after(self.epochs, test.share)
        shares = subsets.shares()
        unseen = None
        if self.class_margins is not None:
            unseen = self.class_margins.unseen_accuracy(self.evidence.labels)
            self.class_margins.end_epoch(epoch_weight(shares["given"], unseen))
        return {
            "test_accuracy": None if test is None else test.share,
            "train_accuracy": shares["given"],
            "unseen_accuracy": unseen,
            "clean_accuracy": shares["clean"],
            "memorised": shares["memorised"],
            "recovered": shares["recovered"],
            "hybrid_accuracy": subsets.hybrid(test),
            "margin_size": float(np.median(np.abs(margin))) if len(margin) else None,
            "alpha": self._weights.alpha,
            "snr": self._weights.snr,
            "clean_weight": self._weights.clean,
            "noisy_weight": self._weights.noisy,
            **{f"weight_{name}": value for name, value in statistics.items()},
            **{f"{name}_auc": _auc(values, wrong) for name, values in evidence.items()},
        }

    def state_dict(self) -> dict[str, Any]:
        """Plain arrays and numbers under flat names, from which training resumes bit for bit."""
        parts = {
            "evidence": self.evidence.state_dict(),
            "histograms": self.histograms.state_dict(),
            "weights": self._weights.state_dict(),
            "test": self.test.state_dict(),
        }
        if self.class_margins is not None:
            parts["class_margins"] = self.class_margins.state_dict()
        flat = {f"{part}.{name}": value for part, state in parts.items() for name, value in state.items()}
        return {"epochs": self.epochs} | flat

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the state of another observer of the same samples."""
        self.histograms.load_state_dict(within(state, "histograms"))
        self._weights.load_state_dict(within(state, "weights"))
        self.test = BestAndFinal.from_state_dict(within(state, "test"))
        self.evidence.load_state_dict(within(state, "evidence"))
        if self.class_margins is not None:
            self.class_margins.load_state_dict(within(state, "class_margins"))
        self.epochs = int(required(state, "epochs"))


def _auc(evidence: Floats, wrong: Flags | None) -> float | None:
    """The ROC AUC of low values as evidence of wrong labels. None without true labels, or without values."""
    return None if wrong is None or np.isnan(evidence).any() or not len(evidence) else roc_auc(-evidence, wrong)
