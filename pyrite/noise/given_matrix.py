"""Noise by a transition matrix that the user gives, in a file or as rows."""

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np

from pyrite.draws import Array
from pyrite.errors import PyriteError
from pyrite.noise.model import ClassNoise, check_classes
from pyrite.npz_files import read_npz
from pyrite.pickles import read_npy

__all__ = ["Matrix"]


@final
@dataclass(frozen=True, repr=False)
class Matrix(ClassNoise):
    """By a given matrix: row i holds the probabilities of every given label where the true label is i.

    Args:
        file: a ``.csv`` (one row per line), ``.npy`` or ``.npz`` file (the array ``matrix``, as in saved noisy labels),
            or the rows themselves.

    >>> Matrix([[0.9, 0.1], [0.25, 0.75]]).matrix(classes=2)
    array([[0.9 , 0.1 ],
           [0.25, 0.75]])
    """

    file: str | tuple[tuple[float, ...], ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.file, str | Path):
            object.__setattr__(self, "file", str(self.file))
            return
        try:
            rows = np.array(self.file, dtype=np.float64)
        except (TypeError, ValueError):
            raise PyriteError(f"matrix is {self.file!r}, but must be a file name or rows of numbers") from None
        object.__setattr__(self, "file", tuple(map(tuple, _distributions(rows, "matrix").tolist())))

    @property
    def classes(self) -> int | None:
        return len(self._read())

    def matrix(self, classes: int, seed: int = 0) -> Array:
        matrix = self._read()
        check_classes(classes, len(matrix), f"the matrix {self.file!r}" if isinstance(self.file, str) else "the matrix")
        # Rows written with few digits are rescaled to sum to 1; rows that do already are kept to the last bit.
        sums = matrix.sum(1, keepdims=True)
        return np.asarray(np.where(np.abs(sums - 1) > 1e-12, matrix / sums, matrix))

    def _read(self) -> Array:
        if isinstance(self.file, str):
            return _distributions(_table(Path(self.file)), self.file)
        return np.array(self.file)


def _distributions(rows: Array, name: str) -> Array:
    if rows.ndim != 2 or rows.shape[0] != rows.shape[1] or len(rows) < 2:
        raise PyriteError(f"{name} has the shape {rows.shape}, but a matrix must have one row and one column per class")
    bad = ~np.isfinite(rows).all(1) | (rows < 0).any(1) | (np.abs(rows.sum(1) - 1) > 1e-3)  # allows for rounded digits
    if bad.any():
        first = int(np.flatnonzero(bad)[0])
        shown = ", ".join(f"{value:g}" for value in rows[first, :6]) + (", ..." if len(rows) > 6 else "")
        raise PyriteError(
            f"{name} has row {first} = [{shown}], which adds up to {rows[first].sum():g}, but a row holds "
            "probabilities that add up to 1"
        )
    return rows


def _table(path: Path) -> Array:
    if not path.is_file():
        raise PyriteError(f"cannot read {path}: there is no such file")
    match path.suffix.lower():
        case ".csv":
            return _from_csv(path)
        case ".npy":
            return _numbers(read_npy(path), path)
        case ".npz":
            arrays = read_npz(path)
            if "matrix" not in arrays:
                raise PyriteError(f"cannot read {path}: it holds no array called 'matrix'")
            return _numbers(arrays["matrix"], path)
    raise PyriteError(f"cannot read {path}: a matrix is a .csv, .npy or .npz file")


def _numbers(value: Any, path: Path) -> Array:
    if not isinstance(value, np.ndarray) or value.dtype.kind not in "iuf":
        raise PyriteError(f"cannot read {path}: it does not hold an array of numbers")
    return value.astype(np.float64)


def _from_csv(path: Path) -> Array:
    try:
        with open(path, newline="", encoding="utf-8") as lines:
            rows = [row for row in csv.reader(lines) if row]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise PyriteError(f"cannot read {path}: {error}") from None
    numbers = []
    for line, row in enumerate(rows):
        try:
            numbers.append([float(cell) for cell in row])
        except ValueError as error:
            raise PyriteError(f"cannot read {path}: row {line}: {error}") from None
        if len(row) != len(rows[0]):
            raise PyriteError(f"cannot read {path}: row {line} has {len(row)} numbers, the first has {len(rows[0])}")
    return np.array(numbers)
