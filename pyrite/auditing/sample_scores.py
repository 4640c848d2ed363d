"""Audit scores: numbers about every sample, beside the probability that its label is wrong.

A score is one class here, with an object in ``SCORES``. The CSV, the JSON, ``Audit.ranked_by`` and the page of an audit
iterate over them.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from pyrite.arrays import Floats, Ints
from pyrite.auditing.noise_fit import log_sum_exp

__all__ = ["SCORES", "AuditScore", "Evidence", "compute_scores"]


class Evidence(NamedTuple):
    """What scores are computed from, one row per sample.

    Attributes:
        log_p: log-probabilities of all classes, up to a constant per sample.
        labels: the given ones.
        recorded: what a run recorded of the samples, by name; empty where scores were given.
    """

    log_p: Floats
    labels: Ints
    recorded: Mapping[str, npt.NDArray[Any]] = {}


class AuditScore:
    """A number per sample.

    Attributes:
        name: the column of the CSV.
        heading: its name on the page.
        help: what it means, in a sentence.
        listed: the page has a list of the samples with the highest values, under the heading, with these sentences;
            none if this is empty.
    """

    name: ClassVar[str]
    heading: ClassVar[str]
    help: ClassVar[str]
    listed: ClassVar[str] = ""

    def compute(self, evidence: Evidence) -> Floats | None:
        """One number per sample, NaN where it is not known; None if it is not known of any.

        By default it is what was recorded under the same name.
        """
        return evidence.recorded.get(self.name)


class NoClass(AuditScore):
    """The geometric mean of the probabilities of all classes, divided by their arithmetic mean.

    A net that has learned the classes excludes most of them for a sample of one class, whether its label is right or
    wrong. For a sample of no class (no object, two objects, or something else) it excludes few.
    """

    name = "no_class"
    heading = "like no class"
    help = "how little the sample looks like any class: 1 if all are equally likely, near 0 if some are excluded"
    listed = (
        "Samples for which the net excludes the fewest classes. Some show none of the classes: no object, two objects, "
        "something else. No label is right for these: drop them. Others are only hard to recognise. This is a question "
        "of its own: a sample with a wrong label looks like another class."
    )

    def compute(self, evidence: Evidence) -> Floats:
        mean = evidence.log_p.mean(1) - log_sum_exp(evidence.log_p)[:, 0]
        return np.asarray(np.exp(mean + np.log(evidence.log_p.shape[1])))


class Margin(AuditScore):
    name = "margin"
    heading = "how clearly the given label was predicted, mean of training"
    help = "the margin of the label, averaged over the epochs"

    def compute(self, evidence: Evidence) -> Floats | None:
        margins = evidence.recorded.get("class_margins")
        return None if margins is None else margins[np.arange(len(margins)), evidence.labels].astype(np.float64)


class LastMargin(AuditScore):
    name = "last_margin"
    heading = "the same, when last trained on"
    help = "the margin of the label when the sample was last trained on"


class Agreement(AuditScore):
    name = "agreement"
    heading = "fraction of epochs that predicted the given label"
    help = "the fraction of epochs in which the label was predicted"

    def compute(self, evidence: Evidence) -> Floats | None:
        visits = evidence.recorded.get("visits")
        if visits is None:
            return None
        found = np.full(len(visits), np.nan)
        np.divide(evidence.recorded["agreements"], visits, out=found, where=visits > 0)
        return found


class Trust(AuditScore):
    name = "trust"
    heading = "weight that the method gave the sample"
    help = "what the loss of the sample was multiplied by when it was last trained on"

    def compute(self, evidence: Evidence) -> Floats | None:
        trust = evidence.recorded.get("last_trust")
        return None if trust is None or np.isnan(trust).all() else trust


class LabelGain(AuditScore):
    """The expected rise of the probability of the consensus by one more label of a typical annotator."""

    name = "label_gain"
    heading = "to label once more"
    help = "by how much one more label would raise the probability that the consensus of the annotators is right"
    listed = (
        "Samples for which one more label would help the consensus of the annotators most, by the probabilities of the "
        "classes and the errors that annotators make. Have these labelled once more first."
    )


SCORES: Final[dict[str, AuditScore]] = {
    score.name: score for score in (NoClass(), Margin(), LastMargin(), Agreement(), Trust(), LabelGain())
}


def compute_scores(evidence: Evidence) -> dict[str, Floats]:
    """All scores that are known, by name."""
    found = {name: score.compute(evidence) for name, score in SCORES.items()}
    return {name: values for name, values in found.items() if values is not None}
