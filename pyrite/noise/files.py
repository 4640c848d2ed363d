"""Noise that is read from a file, and the file of noisy labels with the true ones."""

import hashlib
import json
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, final

import numpy as np

import pyrite
from pyrite.arrays import check_below
from pyrite.checks import require, whole_number
from pyrite.draws import Array
from pyrite.errors import PyriteError
from pyrite.files import npz_bytes, write_or_refuse
from pyrite.noise.model import ClassNoise, Drawn, Noise, check_classes, measured, to_labels
from pyrite.npz_files import read_npz
from pyrite.pickles import check_samples, read_label_columns, read_npy
from pyrite.spec import nearest

# The column of true labels that belongs to a column; for all others it is clean_label.
_TRUTH: Final = {"noisy_coarse_label": "clean_coarse_label"}
_FORMAT: Final = 1  # of saved noisy labels


@final
@dataclass(frozen=True, repr=False)
class Matrix(ClassNoise):
    """A given matrix: row i contains the probabilities of the given labels for true class i.

    >>> Matrix([[0.9, 0.1], [0.25, 0.75]]).matrix(classes=2)
    array([[0.9 , 0.1 ],
           [0.25, 0.75]])
    """

    # A .csv (one row per line), .npy or .npz file (the array "matrix", as in saved noisy labels), or rows of numbers.
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
            return _distributions(_read_matrix(Path(self.file)), self.file)
        return np.array(self.file)


def _check_text(name: str, value: object) -> object:
    require(isinstance(value, str), name, value, "a text")
    return value


_Text = Annotated[str, _check_text]


@final
@dataclass(frozen=True, repr=False)
class Human(Noise):
    """Human labels, read from a file such as that of CIFAR-N. The file must describe the same samples.

    Wei et al., 2022.
    """

    file: _Text  # CIFAR-10_human.pt or CIFAR-100_human.pt, its authors' .npy, or an .npz with the same columns
    column: _Text  # which labels: "worse_label", "aggre_label", "random_label1", "noisy_label", ...
    clean: _Text | None = None  # the column with the true labels, which must equal the labels of the data

    def matrix(self, classes: int, seed: int = 0) -> Array:
        raise PyriteError(
            f"{self} has no matrix, because people gave the labels: pyrite.corrupt estimates one from the true labels"
        )

    def draw(self, true: Array, classes: int, seed: int, inputs: object = None) -> Drawn:
        columns = read_label_columns(self.file)
        truth = self.clean or _TRUTH.get(self.column, "clean_label")
        if self.column not in columns:
            raise PyriteError(f"{self.file} has no column {self.column!r}: {nearest(self.column, columns)}")
        given = columns[self.column]
        check_samples(self.file, {name: columns[name] for name in (truth, self.column) if name in columns}, truth, true)
        check_below(given, classes, f"{self.file}: {self.column}")
        counts = np.bincount(true * classes + given, minlength=classes * classes).reshape(classes, classes)
        return Drawn(given, measured(counts))


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


def _read_matrix(path: Path) -> Array:
    if not path.is_file():
        raise PyriteError(f"cannot read {path}: there is no such file")
    match path.suffix.lower():
        case ".csv":
            try:
                with warnings.catch_warnings(action="ignore"):  # of an empty file, whose shape is refused below
                    return np.loadtxt(path, delimiter=",", ndmin=2, encoding="utf-8", comments=None)
            except ValueError as error:
                raise PyriteError(f"cannot read {path}: {str(error).partition(';')[0]}") from None
        case ".npy":
            value = read_npy(path)
        case ".npz":
            value = read_npz(path).get("matrix")
            if value is None:
                raise PyriteError(f"cannot read {path}: it holds no array called 'matrix'")
        case _:
            raise PyriteError(f"cannot read {path}: a matrix is a .csv, .npy or .npz file")
    if not isinstance(value, np.ndarray) or value.dtype.kind not in "iuf":
        raise PyriteError(f"cannot read {path}: it does not hold an array of numbers")
    return value.astype(np.float64)


@final
@dataclass(frozen=True, eq=False, repr=False)
class NoisyLabels:
    """Given labels together with the true labels. The arrays are read-only.

    Args:
        given: the given labels, which methods receive.
        true: the true labels, to which methods have no access.
        matrix: the matrix of the noise model, T[i, j] = P(given j | true i). If the noise depends on more than the
            class, it is the mean over the samples of each class; if the labels were read from a file, it is
            ``realised``.
        noise: the spec string of the noise model.
        seed: the seed of the draws.

    >>> from pyrite import corrupt
    >>> noisy = corrupt([0, 1] * 50, "symmetric(0.1, exact=True)", seed=0)
    >>> int(noisy.is_wrong.sum()), noisy.rate
    (10, 0.1)
    """

    given: Array
    true: Array
    matrix: Array
    noise: str
    seed: int

    def __post_init__(self) -> None:
        for name in ("given", "true", "matrix"):
            array = np.array(getattr(self, name))
            array.flags.writeable = False
            object.__setattr__(self, name, array)

    @property
    def classes(self) -> int:
        return len(self.matrix)

    @property
    def is_wrong(self) -> Array:
        """Whether each label is wrong."""
        return np.asarray(self.given != self.true)

    @property
    def rate(self) -> float:
        """The fraction of wrong labels."""
        return float(np.mean(self.is_wrong))

    @property
    def counts(self) -> Array:
        """The number of samples by true label (row) and given label (column)."""
        flat = np.bincount(self.true * self.classes + self.given, minlength=self.classes**2)
        return flat.reshape(self.classes, self.classes)

    @property
    def realised(self) -> Array:
        """The empirical noise matrix: each row of ``counts`` divided by its sum."""
        return measured(self.counts)

    @property
    def class_rates(self) -> Array:
        """The fraction of wrong labels of each class; NaN for a class without samples."""
        counts = self.counts
        samples = counts.sum(1)
        return np.where(samples > 0, 1 - np.diag(counts) / np.maximum(samples, 1), np.nan)

    def manifest(self) -> dict[str, Any]:
        """The metadata that ``save`` writes."""
        return {
            "format": _FORMAT,
            "pyrite": pyrite.__version__,
            "noise": self.noise,
            "seed": self.seed,
            "classes": self.classes,
            "samples": len(self),
            "rate": self.rate,
            "true_sha256": _fingerprint(self.true),
        }

    def save(self, path: str | Path) -> Path:
        """Write an ``.npz`` file with ``given``, ``true``, ``matrix`` and the manifest as JSON, atomically."""
        path = Path(path)
        if path.suffix.lower() != ".npz":
            raise PyriteError(f"out is {str(path)!r}: noisy labels are saved as .npz")
        manifest = np.array(json.dumps(self.manifest()))
        arrays = {"given": self.given, "true": self.true, "matrix": self.matrix, "manifest": manifest}
        return write_or_refuse(path, npz_bytes(arrays, compress=True))

    @classmethod
    def load(cls, path: str | Path) -> "NoisyLabels":
        """Read a file written by ``save``. Raises ValueError if the file is inconsistent."""
        arrays = read_npz(path)
        try:
            manifest = json.loads(arrays["manifest"].item())
            return _checked(arrays["given"], arrays["true"], arrays["matrix"], manifest)
        except (KeyError, TypeError, RecursionError):
            raise PyriteError(f"cannot read {path} as noisy labels: it holds something else") from None
        except ValueError as error:
            raise PyriteError(f"cannot read {path} as noisy labels: {error}") from None

    def __len__(self) -> int:
        return len(self.true)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, NoisyLabels):
            return NotImplemented
        left, right = ((labels.given, labels.true, labels.matrix) for labels in (self, other))
        return (self.noise, self.seed) == (other.noise, other.seed) and all(map(np.array_equal, left, right))

    def __repr__(self) -> str:
        return (
            f"NoisyLabels({self.noise}, seed {self.seed}: {int(self.is_wrong.sum())} of {len(self)} labels "
            f"in {self.classes} classes are wrong, {100 * self.rate:.2f} %)"
        )


def _checked(given: Array, true: Array, matrix: Array, manifest: Any) -> NoisyLabels:
    if manifest["format"] != _FORMAT:
        raise PyriteError(f"its format is {manifest['format']!r}, and this version reads {_FORMAT}")
    classes, seed = check_classes(manifest["classes"]), whole_number("seed", manifest["seed"], least=0)
    given, true = to_labels(given, "given"), to_labels(true, "true")
    if len(given) != len(true) or max(given.max(), true.max()) >= classes:
        raise PyriteError(f"its labels do not fit each other or its {classes} classes")
    if matrix.shape != (classes, classes) or matrix.dtype.kind != "f" or not isinstance(manifest["noise"], str):
        raise PyriteError(f"its matrix has the shape {matrix.shape}, for {classes} classes")
    if not (matrix >= 0).all() or not np.allclose(matrix.sum(1), 1):
        raise PyriteError("the rows of its matrix are not distributions")
    if _fingerprint(true) != manifest["true_sha256"]:
        raise PyriteError("its true labels are not those its manifest was written for")
    return NoisyLabels(given, true, matrix, manifest["noise"], seed)


def _fingerprint(labels: Array) -> str:
    return hashlib.sha256(labels.astype("<i8").tobytes()).hexdigest()
