"""The two files that list wrong labels: corrections of a review, and the ranking of an audit."""

import csv
import io
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np
import numpy.typing as npt

from pyrite.data.dataset import Dataset, Labels
from pyrite.data.tables import csv_reader
from pyrite.errors import PyriteError
from pyrite.files import as_path, read_bytes
from pyrite.spec import nearest

DECISIONS = ("keep", "relabel", "drop", "unsure")
"""A reviewer's decisions: the label is right; it must be changed; leave the sample out; the reviewer is not sure."""

# A cell that a spreadsheet would read as a formula, after any apostrophes added here, and not as a number. Some locales
# also accept the full-width characters. The page of an audit has the same pattern (audit_review.js).
_FORMULA = re.compile(r"'*(?![+-]?\d+(\.\d+)?([eE][+-]?\d+)?$)[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]")

_REVIEW = ("index", "old", "new", "decision")  # path and score are optional
_RANKING = ("index", "given", "wrong_probability")  # path, suggested, score, suspect and the evidence are optional


@final
@dataclass(frozen=True, eq=False, repr=False)
class Corrections:
    """Corrections or a ranking for samples of a data set, one entry per row of the file."""

    source: str
    index: Labels
    old: Labels
    new: Labels  # differ from old only where the decision is to relabel
    decision: tuple[str, ...]  # of DECISIONS; empty in a ranking
    wrong_probability: npt.NDArray[np.float64]  # that the old label is wrong; NaN where the file has none

    @classmethod
    def read(cls, path: str | Path, data: Dataset) -> "Corrections":
        """Read corrections exported from a review, or the ranking of an audit; a file that belongs to other data or
        other labels is an error that names the line."""
        return cls.parse(read_content(path), path, data)

    @classmethod
    def parse(cls, content: bytes, source: str | Path, data: Dataset) -> "Corrections":
        """The same from the bytes of a file; error messages name it by ``source``."""
        records = _records(content, source)
        where, header = next(records, ("", []))
        if not header:
            raise PyriteError(f"{source} is empty: it has no header")
        review = _is_review(where, header)
        rows: dict[int, tuple[int, str, float]] = {}
        lines: dict[int, str] = {}
        number = {name: place for place, name in enumerate(data.classes)}
        for where, cells in records:
            if len(cells) != len(header):
                raise PyriteError(f"{where}: {len(cells)} cells, but {len(header)} columns")
            cell = dict(zip(header, cells, strict=True))
            index = _index(where, cell["index"], data)
            if index in rows:
                raise PyriteError(f"{where}: sample {index} appears twice, first in {lines[index].rpartition(', ')[2]}")
            _check_sample(where, index, cell.get("path", ""), cell["old" if review else "given"], data)
            new, decision = int(data.labels[index]), cell["decision"] if review else ""
            if review:
                new = _new_label(where, new, decision, cell["new"], data, number)
            probability = _probability(where, cell.get("score" if review else "wrong_probability", ""))
            rows[index], lines[index] = (new, decision, probability), where
        if not rows:
            raise PyriteError(f"{source}: the file has no rows below the header")
        samples = np.fromiter(rows, np.int64, len(rows))
        labels, decisions, probabilities = zip(*rows.values(), strict=True)
        return cls(
            str(source), samples, data.labels[samples], np.array(labels, np.int64), decisions, np.array(probabilities)
        )

    def __len__(self) -> int:
        return len(self.index)

    def __repr__(self) -> str:
        counts = ", ".join(f"{self.decision.count(name)} {name}" for name in DECISIONS)
        return f"<corrections of {len(self)} samples: {counts if self.decided else 'none decided'}>"

    @property
    def decided(self) -> bool:
        """Whether there are decisions of a reviewer. A ranking only has probabilities."""
        return any(self.decision)

    @property
    def relabelled(self) -> Labels:
        """The indices of the samples that get another label, in ascending order."""
        return np.sort(self.index[self.new != self.old])

    def applied(self, labels: Labels) -> Labels:
        """A copy of the labels with the corrections applied."""
        fixed = labels.copy()
        fixed[self.index] = self.new
        return fixed

    def dropped(self, suspects: float = 0.0) -> Labels:
        """The indices of the samples to leave out, ascending: those to drop and, if ``suspects`` is not 0, those whose
        label is wrong with at least this probability, unless the reviewer decided to keep or relabel them."""
        decision = np.array(self.decision)
        left_out = decision == "drop"
        if suspects:
            left_out |= (self.wrong_probability >= suspects) & ~np.isin(decision, ("keep", "relabel"))
        return np.sort(self.index[left_out])


def to_cell(text: str) -> str:
    """A name as a cell of a CSV file. An apostrophe is put before text that a spreadsheet would run as a formula.

    >>> to_cell("=1+1"), to_cell("'=1+1"), to_cell("it's"), to_cell("'tis"), to_cell("-2.77")
    ("'=1+1", "''=1+1", "it's", "'tis", '-2.77')
    """
    return f"'{text}" if _FORMULA.match(text) else text


def from_cell(cell: str) -> str:
    """The name from a cell that ``to_cell`` wrote.

    >>> from_cell("'=1+1"), from_cell("''=1+1"), from_cell("=1+1"), from_cell("'tis")
    ('=1+1', "'=1+1", '=1+1', "'tis")
    """
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell) else cell


def read_content(path: str | Path) -> bytes:
    """The bytes of a file."""
    return read_bytes(as_path(path))


def _is_review(where: str, header: Sequence[str]) -> bool:
    """Whether the columns are those of a review; else they are those of a ranking."""
    twice = [name for name in header if header.count(name) > 1]
    if twice:
        raise PyriteError(f"{where}: two columns are called {twice[0]!r}")
    review = "decision" in header or not set(_RANKING) & {*header} - {"index"}
    missing = [name for name in (_REVIEW if review else _RANKING) if name not in header]
    if missing:
        raise PyriteError(
            f"{where}: no column is called {missing[0]!r}; corrections have index, path, old, new, score and "
            "decision, a ranking has index, path, given and wrong_probability"
        )
    return review


def _index(where: str, cell: str, data: Dataset) -> int:
    if not (cell.isascii() and cell.isdecimal()):
        raise PyriteError(f"{where}: index is {cell!r}, which is not the number of a sample")
    index = int(cell) if len(cell) < 19 else len(data)
    if index >= len(data):
        raise PyriteError(f"{where}: index is {cell[:30]}, but {data.name} has {len(data)} samples, counted from 0")
    return index


def _check_sample(where: str, index: int, path: str, old: str, data: Dataset) -> None:
    """Raise PyriteError if the file or the label of a sample is another than in the data."""
    label = data.classes[data.labels[index]]
    pairs = [("is the file", path, data.paths[index])] if path and data.paths else []
    for what, cell, known in [*pairs, ("has the label", old, label)]:
        if known not in (from_cell(cell), cell):
            raise PyriteError(
                f"{where}: sample {index} {what} {cell!r} here, but {known!r} in {data.name}: the file belongs to "
                "other data"
            )


def _new_label(where: str, old: int, decision: str, new: str, data: Dataset, number: Mapping[str, int]) -> int:
    """The corrected label of a sample; an error if the decision and the new label contradict each other."""
    if decision not in DECISIONS:
        raise PyriteError(f"{where}: decision is {decision!r}: {nearest(decision, dict.fromkeys(DECISIONS))}")
    new = new if new in number and from_cell(new) not in number else from_cell(new)
    if decision != "relabel":
        if new not in (("", data.classes[old]) if decision == "keep" else ("",)):
            raise PyriteError(f"{where}: the decision is {decision}, but new is {new!r}: use relabel to change it")
        return old
    if new not in number:
        raise PyriteError(f"{where}: new is {new!r}, which is not a class: {nearest(new, number)}")
    if data.classes.count(new) > 1:
        raise PyriteError(f"{where}: new is {new!r}, and two classes have this name")
    return number[new]


def _probability(where: str, cell: str) -> float:
    if not cell:
        return math.nan
    try:
        value = float(cell.replace(",", "."))
    except ValueError:
        value = math.inf
    if not (0 <= value <= 1 or math.isnan(value)):
        raise PyriteError(f"{where}: {cell[:30]!r} is not a probability from 0 to 1")
    return value


def _records(content: bytes, source: str | Path) -> Iterator[tuple[str, list[str]]]:
    """Every record, with the file and line where it begins: a record may contain line breaks."""
    if content.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"[", b"{"):
        yield from _tasks(content, source)
        return
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise PyriteError(f"{source}, line {line}: not a CSV file in UTF-8 ({error.reason})") from None
    # Excel writes semicolons where the comma is the decimal mark.
    header = text.partition("\n")[0]
    rows = csv_reader(io.StringIO(text, newline=""), max(",;\t", key=header.count))
    begin = 1
    try:
        for row in rows:
            where, begin = f"{source}, line {begin}", rows.line_num + 1
            if row:
                yield where, row
    except csv.Error as error:
        raise PyriteError(f"{source}, line {begin}: not a CSV file ({error})") from None


def _tasks(content: bytes, source: str | Path) -> Iterator[tuple[str, list[str]]]:
    """The tasks of Label Studio's JSON export as records: the last annotation of each is the decision.

    A task that was skipped is a sample that the reviewer is not sure of, and one without an annotation is not there.
    """
    try:
        tasks = json.loads(content.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise PyriteError(f"{source}: not a JSON file ({error})") from None
    yield f"{source}, task 1", ["index", "path", "old", "new", "decision"]
    for number, task in enumerate(tasks if isinstance(tasks, list) else [tasks], start=1):
        where = f"{source}, task {number}"
        try:
            data, annotations = task["data"], [one for one in task["annotations"] if "result" in one]
            index, path, old = str(data["index"]), str(data.get("path", "")), str(data["given"])
            chosen = [
                str(name) for one in annotations[-1:] for part in one["result"] for name in part["value"]["choices"]
            ]
            skipped = any(one.get("was_cancelled") for one in annotations[-1:])
        except (KeyError, TypeError, AttributeError):
            raise PyriteError(
                f"{where}: not a task of Label Studio with index and given label: export as JSON what "
                "'pyrite audit --label-studio' wrote"
            ) from None
        if len(chosen) > 1:
            raise PyriteError(f"{where}: {len(chosen)} classes are selected, but a sample has one label")
        if skipped or (annotations and not chosen):
            yield where, [index, path, old, "", "unsure"]
        elif chosen:
            yield where, [index, path, old, chosen[0], "keep" if chosen[0] == old else "relabel"]
