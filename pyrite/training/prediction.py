"""What a trained model says of samples, and the table it is written to."""

import csv
import io
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, final

import numpy as np
import numpy.typing as npt

from pyrite.data import Unreadable
from pyrite.data.corrections import to_cell
from pyrite.files import write_or_refuse

__all__ = ["Predictions"]


@final
@dataclass(frozen=True, eq=False, repr=False)
class Predictions:
    """The predictions of a model, one row per sample.

    Attributes:
        classes: the names of the classes.
        probabilities: the softmax of the scores, one column per class. They are not calibrated.
        names: the file or the name of each sample; empty if samples have none.
        unreadable: files that cannot be read and were left out.
        notes: sentences about values that the model knows nothing of.
    """

    classes: tuple[str, ...]
    probabilities: npt.NDArray[np.float64]
    names: tuple[str, ...] = ()
    unreadable: tuple[Unreadable, ...] = ()
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.probabilities)

    def __repr__(self) -> str:
        return f"<predictions of {len(self.classes)} classes for {len(self)} samples>"

    @cached_property
    def labels(self) -> npt.NDArray[np.int64]:
        """The number of the likeliest class of each sample."""
        return np.asarray(self.probabilities.argmax(1))

    @property
    def predicted(self) -> list[str]:
        """The name of the likeliest class of each sample."""
        return [self.classes[label] for label in self.labels.tolist()]

    @property
    def probability(self) -> npt.NDArray[np.float64]:
        """The probability of the likeliest class."""
        return self.probabilities[np.arange(len(self)), self.labels]

    def counts(self) -> dict[str, int]:
        """How many samples are predicted as each class."""
        counted: list[int] = np.bincount(self.labels, minlength=len(self.classes)).tolist()
        return dict(zip(self.classes, counted, strict=True))

    def to_csv(self, path: str | Path) -> Path:
        """Write one line per sample: row, sample, predicted, probability, and the probability of every class.

        Names that a spreadsheet would take for a formula are written with an apostrophe before them.
        """
        text = io.StringIO()
        table = csv.writer(text)  # lines end in CR LF, so names that contain either are quoted
        each_class = (f"probability of {name}" for name in self.classes)
        table.writerow(["row", "sample", "predicted", "probability", *each_class])
        names = [to_cell(name) for name in self.names] or [""] * len(self)
        chosen = (to_cell(name) for name in self.predicted)
        shown: list[list[Any]] = [[f"{value:.6g}" for value in row] for row in self.probabilities.tolist()]
        rows = zip(range(len(self)), names, chosen, self.labels.tolist(), shown, strict=True)
        table.writerows([row, name, label, each[number], *each] for row, name, label, number, each in rows)
        return write_or_refuse(path, text.getvalue().encode("utf-8", "backslashreplace"))
