"""The result of an audit: one row per sample, the noise of all labels, and the files they are written to."""

import csv
import io
import json
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, final

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from pyrite.arrays import Flags, Floats, Ints
from pyrite.auditing.issues import DataIssues
from pyrite.auditing.sample_scores import SCORES
from pyrite.auditing.slices import Leak, Slice
from pyrite.data import Annotations, Dataset, Records
from pyrite.data.corrections import to_cell
from pyrite.files import write_or_refuse
from pyrite.text_tables import Table

if TYPE_CHECKING:  # for annotations alone
    from pandas import DataFrame

    from pyrite.auditing.review import Decisions, Review
    from pyrite.report.audit_page import InlinePage
    from pyrite.training import Run

_LABEL_NEXT: Final = 100  # samples to label once more that the JSON lists
_MOST_LISTED: Final = 100  # classes; the matrices of 1,000 would take 60 MB as JSON


class Confusion(NamedTuple):
    """Labels ``given`` to samples that are ``true``: the fraction of all labels that look so, and their number."""

    true: str
    given: str
    fraction: float
    labels: int


class Annotator(NamedTuple):
    """One of several annotators: the fraction of its labels that are wrong, with an interval of 95 %, their number, and
    ``matrix[i, j]``, how often it gives j to samples of class i."""

    rate: float
    interval: tuple[float, float]
    labels: int
    matrix: Floats


@final
@dataclass(frozen=True, eq=False, repr=False)
class Audit:
    """The result of an audit, for every label in the order of the samples, and for all labels together.

    If the scores cannot separate wrong labels from right ones, ``can_tell`` is False. The audit then contains a ranking
    but no suspects, and probabilities, noise rate and matrix are NaN.

    Attributes:
        labels: the given labels.
        classes: the names of the classes.
        index: the index of each sample in the data set.
        score: the log-odds of each label being wrong. They differ even where the probabilities round to 1.
        choices: up to five classes per sample, in decreasing order of their probability of being the true class.
        likelihoods: the probabilities of ``choices``.
        threshold: the smallest probability of a wrong label for which a label is a suspect.
        noise_rate: the estimated fraction of wrong labels.
        noise_rate_error: the standard error of ``noise_rate`` from sampling alone.
        noise_interval: the 90 % interval of ``noise_rate``, calibrated on the data sets to which the estimate was
            fitted; after a review, a 95 % interval.
        advice: how to narrow the interval; empty if it is narrow.
        matrix: the estimated noise matrix, T[i, j] = P(given j | true i).
        matrix_error: the standard errors of ``matrix``.
        can_tell: whether the scores separate wrong labels from right ones.
        probabilities: a function that maps the log-odds of a wrong label to the probability of every class, or None.
        evidence: the audit scores of every sample; the keys are names of ``pyrite.auditing.SCORES``.
        paths: the files of the samples; empty if they are not files.
        true: the true labels, if they are known. Only reports use them.
        warnings: problems of the data or of the audit.
        data_issues: problems found without training: copies, near-empty classes and unreadable files.
        run: the run that computed the scores, with its model; None if scores were passed.
        review: the review that recalibrated the probabilities; None before a review.
        annotators: the result for each annotator by name, if there are several. ``labels`` are then the consensus of
            the annotators without the model, and ``suggested`` and ``posterior`` the consensus with the model.
        annotations: the labels of several annotators; None if there are none.
        model_rate: the estimated fraction of samples for which the model prefers a wrong class; NaN if it is unknown.
        slices: groups of samples with far more wrong labels than the rest, the clearest first.
        leaks: columns that reveal the label.
        data: the samples, if they were passed together with scores.

    >>> import pyrite
    >>> true = np.arange(300) % 3
    >>> labels = np.where(np.arange(300) < 30, (true + 1) % 3, true)
    >>> result = pyrite.audit(labels, scores=6 * np.eye(3)[true], kind="logits")
    >>> sorted(result.ranking[:30].tolist()) == list(range(30))
    True
    """

    labels: Ints
    classes: tuple[str, ...]
    index: Ints
    score: Floats
    choices: npt.NDArray[np.integer[Any]]
    likelihoods: npt.NDArray[np.floating[Any]]
    threshold: float
    noise_rate: float
    noise_rate_error: float
    matrix: Floats
    matrix_error: Floats
    can_tell: bool = True
    noise_interval: tuple[float, float] = (np.nan, np.nan)
    advice: str = ""
    probabilities: Callable[[Floats], npt.NDArray[np.float32]] | None = None
    evidence: Mapping[str, Floats] = field(default_factory=dict)
    paths: tuple[str, ...] = ()
    true: Ints | None = None
    warnings: tuple[str, ...] = ()
    data_issues: DataIssues | None = None
    run: "Run | None" = None
    review: "Review | None" = None
    annotators: Mapping[str, Annotator] = field(default_factory=dict)
    annotations: Annotations | None = None
    model_rate: float = np.nan
    slices: tuple[Slice, ...] = ()
    leaks: tuple[Leak, ...] = ()
    data: Dataset | None = None

    def __len__(self) -> int:
        return len(self.labels)

    def __repr__(self) -> str:
        return f"<audit: {self.sentence}>"

    def table(self, count: int = 10) -> Table:
        """The first samples of the ranking: given label, suggested label, and probability of a wrong label."""
        columns = self._columns()
        sample = "path" if self.paths else "index"
        names = {sample: "sample", "given": "given", "suggested": "suggested", "wrong_probability": "probably wrong"}
        cells = [[str(value) for value in columns[name][:count].tolist()] for name in list(names)[:-1]]
        wrong = columns["wrong_probability"][:count].tolist()
        cells.append([f"{100 * value:.1f} %" if value == value else "unknown" for value in wrong])
        return Table(tuple(names.values()), tuple(zip(*cells, strict=True)), title=self.sentence)

    def __str__(self) -> str:
        return str(self.table())

    def _repr_html_(self) -> str:
        return self.table().to_html()

    @cached_property
    def wrong_probability(self) -> Floats:
        """The probability that the label is wrong."""
        return np.asarray(expit(self.score)) if self.can_tell else np.full(len(self), np.nan)

    @cached_property
    def posterior(self) -> npt.NDArray[np.float32]:
        """The probability of each true class given scores and label, one row per sample.

        The probability of the given label is 1 − ``wrong_probability``. The table is computed on first use; unknown
        values are NaN.
        """
        if not self.can_tell or self.probabilities is None:
            return np.full((len(self), len(self.classes)), np.nan, np.float32)
        result = self.probabilities(self.score)
        if self.review is not None:
            relabelled = self.review.new != self.labels[self.review.rows]
            rows, new = self.review.rows[relabelled], self.review.new[relabelled]
            result[rows] = 0
            result[rows, new] = 1
        return result

    @cached_property
    def ranking(self) -> Ints:
        """Rows in decreasing order of ``score``; ties keep the order of the samples."""
        return np.argsort(-self.score, kind="stable")

    def ranked_by(self, name: str) -> Ints:
        """Rows in decreasing order of one of the scores in ``evidence``, without rows where this score is unknown."""
        known = np.flatnonzero(np.isfinite(self.evidence[name]))
        return known[np.argsort(-self.evidence[name][known], kind="stable")]

    @property
    def no_class(self) -> Floats | None:
        """A score that is high for samples that resemble no class, whatever the label; None if it is unknown."""
        return self.evidence.get("no_class")

    @cached_property
    def is_suspect(self) -> Flags:
        """Whether the label should be reviewed."""
        return np.asarray(self.wrong_probability >= self.threshold)

    def expected_wrong(self, first: int = 100) -> float:
        """The expected number of wrong labels among the first labels of the ranking; NaN if ``can_tell`` is False."""
        return float(self.wrong_probability[self.ranking[:first]].sum())

    @property
    def suggested(self) -> Ints:
        """The most likely true class, which may be the given one."""
        return self.choices[:, 0].astype(np.int64)

    @property
    def label_next(self) -> Ints:
        """Rows in decreasing order of the gain of one more label for the consensus."""
        return self.ranked_by("label_gain")

    @cached_property
    def confusions(self) -> tuple[Confusion, ...]:
        """The pairs of true and given class of the wrong labels, the most frequent first."""
        suspects = self.is_suspect & (self.suggested != self.labels)
        pairs, counts = np.unique(np.stack([self.suggested, self.labels], 1)[suspects], axis=0, return_counts=True)
        names = self.classes
        return tuple(
            Confusion(names[pairs[place, 0]], names[pairs[place, 1]], counts[place] / len(self), int(counts[place]))
            for place in np.argsort(-counts, kind="stable").tolist()
        )

    @property
    def sentence(self) -> str:
        """The result in one sentence."""
        return self._rates() + (f"; above all where {self.slices[0].sentence}" if self.slices else "")

    def _rates(self) -> str:
        if not self.can_tell:
            return f"wrong labels cannot be identified among {len(self):,} labels: the scores do not separate them"
        low, high = self.noise_interval
        within = "" if np.isnan(low) else f" ({100 * low:.0f} to {100 * high:.0f} %)"
        what = "consensus labels" if self.annotators else "labels"
        rate = f"about {100 * self.noise_rate:.1f} %{within} of {len(self):,} {what} look wrong"
        if self.annotators:
            each = self.annotators.values()
            count = sum(one.labels for one in each)
            wrong = sum(one.rate * one.labels for one in each) / count
            least, most = (end(self.annotators.items(), key=lambda item: item[1].rate) for end in (min, max))
            ends = f"from {100 * least[1].rate:.1f} % ({least[0]}) to {100 * most[1].rate:.1f} % ({most[0]})"
            return f"{rate}, and {100 * wrong:.1f} % of the {count:,} labels of {len(each)} annotators, {ends}"
        if not self.confusions:
            return rate
        first = self.confusions[0]
        return f"{rate}; most often {first.true} labelled as {first.given}"

    def reviewed(self, decisions: "Decisions") -> "Audit":
        """Recalibrate probabilities, noise rate, interval, threshold and suspects by the decisions of a review.

        *Keep* counts as a right label, *relabel* and *drop* count as wrong labels, and *unsure* is not counted. A
        decision affects labels of similar probability; decisions on the random check affect all labels. The attribute
        ``review`` of the result has the details.

        Args:
            decisions: the file of corrections that the page saves, the ``Corrections`` read from it, or a mapping from
                sample indices to "keep", "relabel", "drop" or "unsure". They replace those of an earlier review.
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
            "advice": self.advice,
            "suspects": int(self.is_suspect.sum()),
            "threshold": self.threshold if known else None,
            "expected_in_first_100": self.expected_wrong(100) if known else None,
            "matrix": self.matrix.tolist() if listed else None,
            "matrix_error": self.matrix_error.tolist() if listed else None,
            "slices": [one.summary() for one in self.slices],
            "leaks": [leak._asdict() for leak in self.leaks],
            "confusions": [confusion._asdict() for confusion in self.confusions[:20]],
            "scores": {
                name: {"help": SCORES[name].help, "highest": self.index[self.ranked_by(name)[:10]].tolist()}
                for name in self.evidence
            },
            "warnings": list(self.warnings),
            "data_issues": None if self.data_issues is None else self.data_issues.summary(),
            "run": None if self.run is None else str(self.run.path),
            "review": None if self.review is None else self.review.summary(),
        } | ({} if not self.annotators else self._annotator_summary())

    def _annotator_summary(self) -> dict[str, Any]:
        return {
            "annotators": {
                name: {"rate": one.rate, "interval": list(one.interval), "labels": one.labels}
                for name, one in self.annotators.items()
            },
            "model_rate": None if np.isnan(self.model_rate) else self.model_rate,
            "label_next": self.index[self.label_next[:_LABEL_NEXT]].tolist(),
        }

    def to_json(self, path: str | Path) -> Path:
        """Write the summary."""
        return write_or_refuse(path, (json.dumps(self.summary(), indent=2, ensure_ascii=False) + "\n").encode())

    def show(self, height: int = 800) -> "InlinePage":
        """Display the review page as the output of a notebook cell.

        ``height`` is in pixels. The browser stores the decisions, and *Download corrections* saves them as a file.
        """
        # Pages are drawn by a package above this one, so it is loaded by name, and only here.
        page: InlinePage = import_module("pyrite.report.audit_page").inline_page(self, height)
        return page

    def to_frame(self) -> "DataFrame":
        """All samples in the order of the ranking, as a pandas data frame with the columns of ``to_csv``."""
        from pandas import DataFrame

        found = self._columns()
        return DataFrame(found | self._own_columns(found))

    def to_csv(self, path: str | Path) -> Path:
        """Write all samples in the order of the ranking: the first lines are the suspects.

        The columns are ``index``, ``path``, ``given``, ``suggested``, ``wrong_probability``, ``score``, ``suspect`` and
        the audit scores. With several annotators, ``consensus`` and ``consensus_probability`` are added; after a
        review, ``reviewed`` (the decision); and for a table whose data can be read, the columns of the table.
        ``pyrite train --corrections`` and ``--drop-suspects`` read the file. Names that a spreadsheet would interpret
        as a formula are prefixed with an apostrophe, which is removed when the file is read.
        """
        text = io.StringIO()
        table = csv.writer(text)  # lines end in CR LF, so names that contain either are quoted
        found = self._columns()
        own = self._own_columns(found)
        table.writerow(map(to_cell, found | own))
        cells = [*(_cells(values, 6) for values in found.values()), *(_cells(values, 15) for values in own.values())]
        table.writerows(zip(*cells, strict=True))
        return write_or_refuse(path, text.getvalue().encode())

    def _columns(self) -> dict[str, npt.NDArray[Any]]:
        """Of all samples in the order of the ranking."""
        names = np.array(self.classes, object)
        consensus = {"consensus": names[self.suggested], "consensus_probability": self.likelihoods[:, 0]}
        columns = {
            "index": self.index,
            "path": np.array(self.paths or [""] * len(self), object),
            "given": names[self.labels],
            "suggested": names[self.suggested],
            **(consensus if self.annotators else {}),
            "wrong_probability": self.wrong_probability,
            "score": self.score,
            "suspect": self.is_suspect.astype(int),
        }
        if self.review is not None:
            columns["reviewed"] = np.full(len(self), "", object)
            columns["reviewed"][self.review.rows] = self.review.decision
        return {name: values[self.ranking] for name, values in (columns | {**self.evidence}).items()}

    def samples(self) -> Dataset | None:
        """The data that ``index`` refers to; None if they were not passed or can no longer be read."""
        if self.data is not None or self.run is None:
            return self.data
        try:
            return self.run.dataset()
        except ValueError:  # missing or changed since
            return None

    def _own_columns(self, taken: Container[str]) -> dict[str, npt.NDArray[Any]]:
        """The columns of the user's table in the order of the ranking."""
        data = self.samples()
        if data is None or not data.columns:
            return {}
        rows = self.index[self.ranking]
        if isinstance(data.inputs, Records):
            some = data.inputs[rows]
            names, values = some.names, np.array([some.cells(row) for row in range(len(rows))], object)
        else:
            names, values = data.columns, np.asarray(data.inputs)[rows].astype(np.float64)
        return {
            f"{name} (data)" if name in taken else name: column for name, column in zip(names, values.T, strict=True)
        }


def _cells(values: npt.NDArray[Any], digits: int) -> Sequence[object]:
    """A column as cells of a CSV file."""
    if values.dtype.kind == "f":
        return [f"{value:.{digits}g}" for value in values.tolist()]
    return [to_cell(value) for value in values] if values.dtype == object else values.tolist()
