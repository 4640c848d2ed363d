"""Predictions of a trained model, and the table they are written to."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, final

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from torch import nn

from pyrite.data import Batches, Numeric, Statistics, Unreadable
from pyrite.data.corrections import to_cell
from pyrite.files import write_or_refuse


@final
@dataclass(frozen=True, eq=False, repr=False)
class Predictions:
    """The predictions of a model, one row per sample.

    Attributes:
        classes: the names of the classes.
        probabilities: the softmax of the scores, one column per class. They are not calibrated.
        names: the file or the name of each sample; empty if samples have none.
        unreadable: files that cannot be read and were left out.
        notes: sentences about values that were not in the training data.
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
        shown: dict[str, Any] = {
            "row": range(len(self)),
            "sample": [to_cell(name) for name in self.names] or [""] * len(self),
        }
        shown |= {"predicted": [to_cell(name) for name in self.predicted], "probability": self.probability}
        each = pd.DataFrame(self.probabilities, columns=[f"probability of {name}" for name in self.classes])
        # Lines end in CR LF, so that names which contain either are quoted.
        text = pd.concat([pd.DataFrame(shown), each], axis=1).to_csv(
            index=False, float_format="%.6g", lineterminator="\r\n"
        )
        return write_or_refuse(path, text.encode("utf-8", "backslashreplace"))


def net_scores(
    net: nn.Module, inputs: Numeric, scale: Statistics | None, batch_size: int = 500, axis: int = 0
) -> npt.NDArray[Any]:
    """Scores of inputs by a net in evaluation mode; ``scale`` normalises inputs, and ``axis`` is that of samples."""
    first = next(net.parameters())
    nothing = np.zeros(len(inputs), np.int64)
    batches = Batches(
        inputs, nothing, batch_size=batch_size, seed=0, shuffle=False, normalise=scale, device=first.device
    )
    with torch.inference_mode():
        return np.concatenate([net(batch.inputs.to(first.dtype)).cpu().numpy() for batch in batches], axis)
