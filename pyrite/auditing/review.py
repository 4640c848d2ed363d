"""A review of an audit, and the audit as it stands after the review."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final, final

import numpy as np
from scipy.special import expit

from pyrite.arrays import Flags, Floats, Ints
from pyrite.auditing.audit import Audit
from pyrite.auditing.probabilities import (
    Estimate,
    Recalibration,
    Strata,
    exact_estimate,
    noise_matrix,
    stratify,
    sums_by_label,
    suspect_threshold,
)
from pyrite.data import Dataset
from pyrite.data.corrections import DECISIONS, Corrections
from pyrite.draws import Stream, order
from pyrite.errors import PyriteError
from pyrite.spec import nearest
from pyrite.text_tables import counted

Decisions = str | os.PathLike[str] | Corrections | Mapping[int, str]
"""A file of corrections, what was read from it, or the decision by the number of the sample."""

CHECKED: Final = 100
"""The number of labels of a random check."""

_VERDICTS: Final = {"keep": 0, "relabel": 1, "drop": 1, "unsure": -1}
_WITHOUT_SUSPECTS: Final = 200  # rows of the ranking that are reviewed if there are no suspects
_ADVICE: Final = f"a check of {CHECKED} random labels on the page would narrow the interval"
_CHECK: Final = 30  # decisions from which on the interval of the audit does not count, and a random check overrules it
_SEEN: Final = 20.0  # the log-odds of a label that a reviewer found to be wrong


def random_check(samples: int) -> Ints:
    """The rows of the random check, in the order in which they are checked. They depend on the number of rows alone."""
    return np.asarray(order(0, Stream.CHECK, samples)[:CHECKED])


def queue_of(audit: Audit) -> Ints:
    """The rows to review, the most likely wrong first: the suspects, or the head of the ranking if there are none."""
    suspects = audit.ranking[audit.is_suspect[audit.ranking]]
    return suspects if len(suspects) else audit.ranking[:_WITHOUT_SUSPECTS]


@final
@dataclass(frozen=True, eq=False)
class Review:
    """The decisions of a reviewer, and what they imply for the audit.

    Keep means that a label is right, relabel and drop that it is wrong; unsure is not counted.

    Attributes:
        before: the audit that was reviewed.
        rows: the reviewed rows of the audit.
        decision: what was decided, one of ``DECISIONS`` each.
        new: the labels after the review.
    """

    before: Audit
    rows: Ints
    decision: tuple[str, ...]
    new: Ints

    @cached_property
    def verdict(self) -> Ints:
        """Of every row of the audit: 1 if it was found to be wrong, 0 if right, -1 if not reviewed or unsure."""
        verdict = np.full(len(self.before), -1)
        verdict[self.rows] = [_VERDICTS[decision] for decision in self.decision]
        return verdict

    @cached_property
    def speaks(self) -> Flags:
        """Which rows count for others: those of the queue and of the random check.

        Any other may have been chosen because something looked wrong.
        """
        speaks = np.zeros(len(self.before), bool)
        speaks[queue_of(self.before)] = True
        speaks[random_check(len(self.before))] = True
        return speaks

    @property
    def counted(self) -> int:
        """The number of labels found right or wrong."""
        return int((self.verdict >= 0).sum())

    @property
    def wrong(self) -> int:
        """The number of labels found wrong."""
        return int((self.verdict == 1).sum())

    @cached_property
    def strata(self) -> Strata:
        return stratify(self.before.score)

    @cached_property
    def recalibration(self) -> Recalibration:
        right, wrong = (self.strata.counts(np.flatnonzero(self.speaks & (self.verdict == value))) for value in (0, 1))
        return Recalibration.fit(self.strata, right + wrong, wrong)

    def estimate(self, rows: Ints) -> Estimate:
        """The fraction of wrong labels among these rows."""
        verdict = self.verdict[rows]
        unreviewed = self.strata.counts(rows[verdict < 0])
        return self.recalibration.estimate(unreviewed, int((verdict == 1).sum()), max(len(rows), 1))

    @cached_property
    def rate(self) -> Estimate:
        """The noise rate, by the audit and all decisions.

        As long as the interval of the audit contains the estimate, it limits that of the review, with each decision
        less, and not at all from ``_CHECK`` on. Once the random check has so many labels, the interval contains that of
        the check: it overrules the audit.
        """
        value, low, high = self.estimate(np.arange(len(self.before)))
        (least, most), trust = self.before.noise_interval, max(1 - self.counted / _CHECK, 0.0)
        least, most = trust * least, 1 - trust * (1 - most)
        low, high = max(low, least) if least <= value else low, min(high, most) if most >= value else high
        if self.check is not None and self.checked[0] >= _CHECK:
            low, high = min(low, self.check.low), max(high, self.check.high)
        return Estimate(value, low, high)

    @cached_property
    def precision(self) -> Estimate | None:
        """The fraction of wrong labels among the suspects of the audit that was reviewed."""
        suspects = np.flatnonzero(self.before.is_suspect)
        return self.estimate(suspects) if len(suspects) else None

    @cached_property
    def checked(self) -> tuple[int, int]:
        """Of the random check: how many labels were found right or wrong, and how many wrong.

        It ends at the first that was not looked at. Later ones may have been looked at because they are suspects.
        """
        rows = random_check(len(self.before))
        seen = np.logical_and.accumulate(np.isin(rows, self.rows))
        verdict = self.verdict[rows[seen]]
        return int((verdict >= 0).sum()), int((verdict == 1).sum())

    @property
    def check(self) -> Estimate | None:
        """The noise rate by the random check alone: unbiased, with an exact interval."""
        count, wrong = self.checked
        return exact_estimate(wrong, count) if count else None

    @property
    def sentence(self) -> str:
        """What the review changed."""
        number = f"{counted(self.counted, 'label')} {'was' if self.counted == 1 else 'were'}"
        parts = [f"{number} reviewed and {self.wrong:,} of them {'is' if self.wrong == 1 else 'are'} wrong"]
        if self.before.can_tell:
            old, new = self.before, self.after
            suspects = f"from {int(old.is_suspect.sum()):,} to {int(new.is_suspect.sum()):,}"
            rate = f"from {100 * old.noise_rate:.1f} to {100 * new.noise_rate:.1f} %"
            parts.append(f"the estimated noise rate changes {rate}, and the number of suspects {suspects}")
        if self.check is not None:
            count, wrong = self.checked
            ends = f"{100 * self.check.low:.1f} to {100 * self.check.high:.1f} %"
            parts.append(f"{wrong} of {count} randomly checked labels are wrong ({ends} by Clopper and Pearson)")
        return "; ".join(parts)

    def summary(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        told = self.before.can_tell
        return {
            "sentence": self.sentence,
            "reviewed": self.counted,
            "wrong": self.wrong,
            "noise_rate_before": self.before.noise_rate if told else None,
            "precision": self.precision._asdict() if told and self.precision else None,
            "random_check": {"labels": self.checked[0], **self.check._asdict()} if self.check else None,
        }

    @cached_property
    def after(self) -> Audit:
        """The audit with recalibrated probabilities. Reviewed labels have the probability that was decided."""
        old = self.before
        if not old.can_tell:
            return replace(old, review=self, warnings=(*old.warnings, self.sentence))
        score = self.recalibration.scores(old.score)
        score[self.verdict == 1] = _SEEN
        score[self.verdict == 0] = -_SEEN
        choices, likelihoods = self._reordered(score)
        rate, noise_rate = self.rate, float(expit(score).mean())  # strata have one probability: these differ a little
        after = replace(
            old,
            score=score,
            choices=choices,
            likelihoods=likelihoods,
            threshold=suspect_threshold(expit(score)),
            noise_rate=noise_rate,
            noise_rate_error=(rate.high - rate.low) / 4,
            noise_interval=(min(rate.low, noise_rate), max(rate.high, noise_rate)),
            advice="" if self.checked[0] >= CHECKED else _ADVICE,
            review=self,
        )
        if old.probabilities is None:
            return after
        counts = np.zeros_like(old.matrix)
        present, sums = sums_by_label(after.posterior, after.labels)
        counts[:, present] = sums.T
        matrix, error = noise_matrix(counts)
        return replace(after, matrix=matrix, matrix_error=error)

    def _reordered(self, score: Floats) -> tuple[Ints, Floats]:
        """The likely classes by the new probabilities: the given one, the others in proportion, a reviewer's choice."""
        labels, choices = self.before.labels, self.before.choices.astype(np.int64)
        lacking = ~(choices == labels[:, None]).any(1)
        choices[lacking, -1] = labels[lacking]
        own = choices == labels[:, None]
        others = np.where(own, 0.0, np.maximum(self.before.likelihoods.astype(np.float64), 1e-300))
        others *= (expit(score) / np.maximum(others.sum(1), 1e-300))[:, None]
        likelihoods = np.where(own, expit(-score)[:, None], others)
        changed = self.new != labels[self.rows]
        rows, new = self.rows[changed], self.new[changed]
        same = choices[rows] == new[:, None]
        place = np.where(same.any(1), same.argmax(1), choices.shape[1] - 1)
        choices[rows, place] = new
        likelihoods[rows] = 0.0
        likelihoods[rows, place] = 1.0
        best = np.argsort(-likelihoods, axis=1, kind="stable")
        return np.take_along_axis(choices, best, 1), np.take_along_axis(likelihoods, best, 1)


def review_audit(audit: Audit, decisions: Decisions) -> Audit:
    """The audit after a review. ``Audit.reviewed`` describes the arguments."""
    before = audit if audit.review is None else audit.review.before
    place = {number: row for row, number in enumerate(before.index.tolist())}
    if isinstance(decisions, Mapping):
        for number, word in decisions.items():
            if word not in DECISIONS:
                known = nearest(word, dict.fromkeys(DECISIONS))
                raise PyriteError(f"the decision on sample {number} is {word!r}: {known}")
        found, words = list(decisions), list(decisions.values())
        new = np.array([before.labels[place.get(number, 0)] for number in found], np.int64)
    elif not isinstance(decisions, Corrections | str | os.PathLike):
        raise PyriteError(f"decisions are a {type(decisions).__name__}: pass a dict by sample, or a file")
    else:
        read = decisions if isinstance(decisions, Corrections) else Corrections.read(Path(decisions), _data_of(before))
        if not read.decided:
            raise PyriteError(f"{read.source} is a ranking without decisions: download the decisions from the page")
        found, new = read.index.tolist(), read.new
        same = (read.new == read.old).tolist()  # to relabel as the given class is to keep it
        words = ["keep" if word == "relabel" and kept else word for word, kept in zip(read.decision, same, strict=True)]
    outside = [number for number in found if number not in place]
    if outside:
        raise PyriteError(
            f"sample {outside[0]} is not among the {len(before):,} audited samples: pass the review of this audit"
        )
    if not set(words) - {"unsure"}:
        raise PyriteError(f"none of the {len(words)} decisions is keep, relabel or drop: review some labels first")
    return Review(before, np.array([place[number] for number in found]), tuple(words), new).after


def _data_of(audit: Audit) -> Dataset:
    """What a file of corrections is compared with: labels and files, without inputs."""
    if audit.run is None:
        name, given, paths = "the audited labels", audit.labels, audit.paths
        if len(audit) and (audit.index != np.arange(len(audit))).any():
            given = np.zeros(int(audit.index.max()) + 1, np.int64)
            given[audit.index] = audit.labels
            paths = ()
    else:
        name, given = audit.run.config.data, audit.run.labels["given"].astype(np.int64)
        paths = tuple(audit.run.labels["path"].tolist()) if "path" in audit.run.labels else ()
    return Dataset(name, np.zeros((len(given), 1), np.float32), given, audit.classes, paths=paths)
