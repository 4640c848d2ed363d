"""Labels given by people, read from a file."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, final

import numpy as np

from pyrite.draws import Array
from pyrite.errors import PyriteError
from pyrite.noise.model import Drawn, Noise, measured
from pyrite.npz_files import read_npz
from pyrite.pickles import read_npy, read_torch
from pyrite.spec import nearest

__all__ = ["Human"]

# The column of true labels that belongs to a column; for all others it is clean_label.
_TRUTH: Final = {"noisy_coarse_label": "clean_coarse_label"}


@final
@dataclass(frozen=True, repr=False)
class Human(Noise):
    """Labels that people gave, read from a file such as CIFAR-N's. The file must be about the same samples.

    Args:
        file: the official ``CIFAR-10_human.pt`` or ``CIFAR-100_human.pt``, the ``.npy`` of the same authors, or an
            ``.npz`` with the same columns.
        column: which labels: ``"worse_label"``, ``"aggre_label"``, ``"random_label1"``, ``"noisy_label"``, ...
        clean: the column with the true labels, which must equal the labels of the data.

    Wei et al., 2022.
    """

    file: str
    column: str
    clean: str | None = None

    def __post_init__(self) -> None:
        values = {"file": self.file, "column": self.column, "clean": "" if self.clean is None else self.clean}
        for name, value in values.items():
            if not isinstance(value, str):
                raise PyriteError(f"{name} is {value!r}, but must be a text")

    def matrix(self, classes: int, seed: int = 0) -> Array:
        raise PyriteError(
            f"{self} has no matrix, because people gave the labels: pyrite.corrupt measures one against the true labels"
        )

    def draw(self, true: Array, classes: int, seed: int, inputs: object = None) -> Drawn:
        columns = _read(Path(self.file))
        given = self._column(columns, self.column)
        truth = self.clean or _TRUTH.get(self.column, "clean_label")
        clean = self._column(columns, truth)
        for name, column in ((truth, clean), (self.column, given)):
            if len(column) != len(true):
                raise PyriteError(f"{self.file}: {name} has {len(column)} labels, but the data has {len(true)}")
        differs = np.flatnonzero(clean != true)
        if len(differs):
            first = int(differs[0])
            raise PyriteError(
                f"{self.file}: {truth} says {clean[first]} at index {first}, where the data's label is {true[first]}; "
                f"{len(differs)} of {len(true)} differ, so the file is about other samples or in another order"
            )
        outside = np.flatnonzero((given < 0) | (given >= classes))
        if len(outside):
            first = int(outside[0])
            raise PyriteError(
                f"{self.file}: {self.column} says {given[first]} at index {first}, but there are {classes} classes"
            )
        counts = np.bincount(true * classes + given, minlength=classes * classes).reshape(classes, classes)
        return Drawn(given, measured(counts))

    def _column(self, columns: Mapping[str, Any], name: str) -> Array:
        if name not in columns:
            raise PyriteError(f"{self.file} has no column {name!r}: {nearest(name, columns)}")
        try:
            column = np.asarray(columns[name])
        except ValueError:  # lists of unequal lengths
            column = np.empty(0)
        if column.ndim != 1 or column.dtype.kind not in "iu":
            raise PyriteError(f"{self.file}: {name} is not a list of whole numbers")
        return column.astype(np.int64)


def _read(path: Path) -> Mapping[str, Any]:
    match path.suffix.lower():
        case ".pt" | ".pth":
            columns = read_torch(path)
        case ".npy":
            columns = read_npy(path)
        case ".npz":
            columns = read_npz(path)
        case _:
            raise PyriteError(f"cannot read {path}: human labels must be in a .pt, .npy or .npz file")
    if not isinstance(columns, dict) or not all(isinstance(name, str) for name in columns):
        raise PyriteError(
            f"cannot read {path}: it holds no columns with names. A column of true labels is needed to check that the "
            "file is about the same samples"
        )
    return columns
