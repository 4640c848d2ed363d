"""The result of an audit: one row per sample, the noise of all labels, and the files they are written to."""

import csv
import io
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, final

import numpy as np
import numpy.typing as npt

from pyrite.auditing.troubles import Troubles
from pyrite.data import Records
from pyrite.data.corrections import to_cell
from pyrite.diagnostics.arrays import Flags, Floats, Ints
from pyrite.errors import PyriteError
from pyrite.files import write

if TYPE_CHECKING:  # for annotations alone
    from pyrite.auditing.review import Decisions, Review
    from pyrite.training import Run

__all__ = ["Audit", "Confusion"]

_MOST_LISTED: Final = 100  # classes; the matrices of 1,000 would take 60 MB as JSON


class Confusion(NamedTuple):
    """Labels ``given`` to samples that are ``true``: the share of all labels that look so, and their number."""

    true: str
    given: str
    share: float
    labels: int


@final
@dataclass(frozen=True, eq=False, repr=False)
class Audit:
    """The result of an audit, for every label in the order of the samples, and for all labels together.

    If the evidence cannot separate wrong labels from right ones (``can_tell`` is False), there is a ranking but there
    are no suspects, and probabilities, noise rate and matrix are NaN.

    Attributes:
        labels: the given labels.
        classes: their names.
        index: the samples' numbers in the data set.
        score: the log-odds that the label is wrong, which differ even where the probability rounds to 1.
        choices: the most likely true classes of every sample, most likely first, up to five.
        likelihoods: their probabilities.
        shares: from log-odds of a wrong label to the probability of every class; None if that is not known.
        threshold: labels with this probability of being wrong or more are suspects.
        noise_rate: the share of wrong labels, and ``noise_rate_error`` its standard error from sampling alone.
        noise_interval: the lowest and highest noise rate that scores and labels allow.
        narrows: what would make that interval smaller; empty if it is small.
        matrix: T[i, j] = P(given j | true i), and ``matrix_error`` its standard errors.
        can_tell: whether the evidence separates wrong labels from right ones.
        no_class: how little a sample looks like any class: 1 if all are equally likely, near 0 if some are excluded.
            It says nothing about the label. None if it is not known.
        paths: the files of the samples; empty if they are not files.
        evidence: columns about the samples, by name, for reports.
        true: the true labels, where they are known. Only reports use them.
        warnings: what a user should know about these labels.
        troubles: problems that need no net to be seen: copies, near-empty classes, unreadable files.
        run: the run that the evidence is from, with its model; None if scores were given.
        review: the review that the probabilities were recalibrated by; None before one.
    """

    labels: Ints
    classes: tuple[str, ...]
    index: Ints
    score: Floats
    choices: Ints
    likelihoods: Floats
    threshold: float
    noise_rate: float
    noise_rate_error: float
    matrix: Floats
    matrix_error: Floats
    can_tell: bool = True
    shares: Callable[[Floats], npt.NDArray[np.floating[Any]]] | None = None
    noise_interval: tuple[float, float] = (np.nan, np.nan)
    narrows: str = ""
    no_class: Floats | None = None
    paths: tuple[str, ...] = ()
    evidence: Mapping[str, Floats] = field(default_factory=dict)
    true: Ints | None = None
    warnings: tuple[str, ...] = ()
    troubles: Troubles | None = None
    run: "Run | None" = None
    review: "Review | None" = None

    def __len__(self) -> int:
        return len(self.labels)

    def __repr__(self) -> str:
        return f"<audit: {self.sentence}>"

    @cached_property
    def wrong_probability(self) -> Floats:
        """The probability that the label is wrong."""
        if not self.can_tell:
            return np.full(len(self), np.nan)
        return np.exp(-np.logaddexp(0, -self.score))

    @cached_property
    def posterior(self) -> npt.NDArray[np.float32]:
        """The probability of each true class given scores and label, one row per sample.

        That of the given label is 1 − ``wrong_probability``. It is computed on first use, as a table of many classes is
        large, and NaN if it is not known.
        """
        if not self.can_tell or self.shares is None:
            return np.full((len(self), len(self.classes)), np.nan, np.float32)
        result = self.shares(self.score).astype(np.float32)
        if self.review is not None:
            relabelled = self.review.new != self.labels[self.review.rows]
            rows, new = self.review.rows[relabelled], self.review.new[relabelled]
            result[rows] = 0
            result[rows, new] = 1
        return result

    @cached_property
    def ranking(self) -> Ints:
        """Rows by decreasing score; ties keep the order of the samples."""
        return np.argsort(-self.score, kind="stable")

    @cached_property
    def is_suspect(self) -> Flags:
        """Whether the label should be reviewed."""
        return np.asarray(self.wrong_probability >= self.threshold)

    @property
    def suggested(self) -> Ints:
        """The most likely true class, which may be the given one."""
        return self.choices[:, 0]

    @cached_property
    def confusions(self) -> tuple[Confusion, ...]:
        """Which wrong labels are given to which class, the most frequent first: the matrix as shares of all labels."""
        suspects = self.is_suspect & (self.suggested != self.labels)
        pairs = self.suggested[suspects] * len(self.classes) + self.labels[suspects]
        distinct, counts = np.unique(pairs, return_counts=True)
        order = np.argsort(-counts, kind="stable")
        return tuple(
            Confusion(
                self.classes[pair // len(self.classes)], self.classes[pair % len(self.classes)], n / len(self), int(n)
            )
            for pair, n in zip(distinct[order].tolist(), counts[order].tolist(), strict=True)
        )

    @property
    def sentence(self) -> str:
        """The result in one sentence."""
        if not self.can_tell:
            return f"cannot tell which of {len(self):,} labels are wrong: the evidence does not separate them"
        low, high = self.noise_interval
        within = "" if np.isnan(low) else f" ({100 * low:.0f} to {100 * high:.0f} %)"
        rate = f"about {100 * self.noise_rate:.1f} %{within} of {len(self):,} labels look wrong"
        if not self.confusions:
            return rate
        first = self.confusions[0]
        return f"{rate}; most often {first.true} labelled as {first.given}"

    def reviewed(self, decisions: "Decisions") -> "Audit":
        """The audit after a review: probabilities, noise rate, interval, threshold and suspects by the decisions.

        Keep says that a label is right, relabel and drop that it is wrong; unsure is not counted. A decision speaks
        for labels of similar probability, and those on labels of the random check for all. ``review`` tells more.

        Args:
            decisions: the file of corrections that the page downloads, the ``Corrections`` read from it, or a mapping
                from numbers of samples to "keep", "relabel", "drop" or "unsure". An earlier review is replaced.
        """
        from pyrite.auditing.review import review_audit

        return review_audit(self, decisions)

    def summary(self) -> dict[str, Any]:
        """The result as plain values, ready for JSON. With more than 100 classes the matrix is None."""
        known = self.can_tell
        listed = known and len(self.classes) <= _MOST_LISTED
        return {
            "sentence": self.sentence,
            "samples": len(self),
            "classes": list(self.classes),
            "can_tell": known,
            "noise_rate": self.noise_rate if known else None,
            "noise_rate_error": self.noise_rate_error if known else None,
            "noise_interval": list(self.noise_interval) if known else None,
            "narrows": self.narrows,
            "suspects": int(self.is_suspect.sum()),
            "threshold": self.threshold if known else None,
            "matrix": self.matrix.tolist() if listed else None,
            "matrix_error": self.matrix_error.tolist() if listed else None,
            "confusions": [confusion._asdict() for confusion in self.confusions[:20]],
            "warnings": list(self.warnings),
            "troubles": None if self.troubles is None else self.troubles.summary(),
            "run": None if self.run is None else str(self.run.path),
            "review": None if self.review is None else self.review.summary(),
        }

    def to_json(self, path: str | Path) -> Path:
        """Write the summary."""
        return _written(path, (json.dumps(self.summary(), indent=2, ensure_ascii=False) + "\n").encode())

    def to_csv(self, path: str | Path) -> Path:
        """Write all samples in the order of the ranking: the first lines are the suspects.

        Its columns are index, path, given, suggested, wrong_probability, score, suspect, after a review
        ``reviewed`` (the decision), no_class, the evidence, and the columns of the table that the samples are rows of,
        if the data of the run can be read.
        ``pyrite train --corrections`` and ``--drop-suspects`` read it. Names that a spreadsheet would take for a
        formula are written with an apostrophe before them, which is removed when they are read.
        """
        text = io.StringIO()
        table = csv.writer(text)  # lines end in CR LF, so names that contain either are quoted
        order, further = self.ranking, self._further_columns()
        header = ["index", "path", "given", "suggested", "wrong_probability", "score", "suspect", *further]
        own = self._own_columns(order)
        table.writerow([*header, *(to_cell(name if name not in header else f"{name} (data)") for name in own)])
        names = np.array([to_cell(name) for name in self.classes], object)
        paths = np.array([to_cell(path) for path in self.paths], object)[order] if self.paths else [""] * len(self)
        columns = [
            self.index[order].tolist(),
            paths,
            names[self.labels[order]],
            names[self.suggested[order]],
            (f"{value:.6g}" for value in self.wrong_probability[order].tolist()),
            (f"{value:.6g}" for value in self.score[order].tolist()),
            self.is_suspect[order].astype(int).tolist(),
            *(values[order].tolist() for values in further.values()),
            *own.values(),
        ]
        table.writerows(zip(*columns, strict=True))
        return _written(path, text.getvalue().encode())

    def _further_columns(self) -> dict[str, npt.NDArray[np.object_]]:
        """The columns that not every audit has, as text."""
        unknown = np.full(len(self), np.nan)
        numbers = {"no_class": unknown if self.no_class is None else self.no_class, **self.evidence}
        columns = {
            name: np.array([f"{value:.6g}" for value in values.tolist()], object) for name, values in numbers.items()
        }
        if self.review is None:
            return columns
        reviewed = np.full(len(self), "", object)
        reviewed[self.review.rows] = self.review.decision
        return {"reviewed": reviewed} | columns

    def _own_columns(self, order: Ints) -> dict[str, list[str]]:
        """The cells of the user's table in this order, by column."""
        try:
            data = None if self.run is None else self.run.dataset()
        except ValueError:  # missing or changed since
            data = None
        if data is None or not data.columns:
            return {}
        rows = self.index[order]
        if not isinstance(data.inputs, Records):
            values = np.asarray(data.inputs)[rows].T.tolist()
            return {
                name: [f"{value:.15g}" for value in column] for name, column in zip(data.columns, values, strict=True)
            }
        some = data.inputs[rows]
        cells = zip(*(map(to_cell, some.cells(row)) for row in range(len(rows))), strict=True)
        return dict(zip(some.names, map(list, cells), strict=True))


def _written(path: str | Path, content: bytes) -> Path:
    try:
        return write(path, content)
    except OSError as error:
        raise PyriteError(f"cannot write {path}: {error.strerror or error}") from None
