"""Labels that are partly wrong, with the true labels and the noise model that made them."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, final

import numpy as np

import pyrite
from pyrite.checks import whole_number
from pyrite.draws import Array
from pyrite.errors import PyriteError
from pyrite.files import npz_bytes, write_or_refuse
from pyrite.noise.model import check_classes, measured, to_labels
from pyrite.npz_files import read_npz

_FORMAT: Final = 1


@final
@dataclass(frozen=True, eq=False, repr=False)
class NoisyLabels:
    """Given labels together with the true ones. The arrays are read-only.

    Args:
        given: the labels that a method may see.
        true: the true labels, which a method may not see.
        matrix: T[i, j] = P(given j | true i) of the noise model. If the noise depends on more than the class, it is the
            mean over the samples of each class; if the labels were read from a file, it is ``realised``.
        noise: the spec of the noise model.
        seed: the seed it was drawn with.
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
        """Which labels are not the true ones."""
        return np.asarray(self.given != self.true)

    @property
    def rate(self) -> float:
        """The fraction of labels that are wrong."""
        return float(np.mean(self.is_wrong))

    @property
    def counts(self) -> Array:
        """The number of samples by true label (row) and given label (column)."""
        flat = np.bincount(self.true * self.classes + self.given, minlength=self.classes**2)
        return flat.reshape(self.classes, self.classes)

    @property
    def realised(self) -> Array:
        """The matrix measured on these labels: each row of ``counts`` divided by its sum."""
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
        """Write one ``.npz``: given, true, matrix, and the manifest as JSON. The file is written atomically."""
        path = Path(path)
        if path.suffix.lower() != ".npz":
            raise PyriteError(f"out is {str(path)!r}: noisy labels are saved as .npz")
        manifest = np.array(json.dumps(self.manifest()))
        arrays = {"given": self.given, "true": self.true, "matrix": self.matrix, "manifest": manifest}
        return write_or_refuse(path, npz_bytes(arrays, compress=True))

    @classmethod
    def load(cls, path: str | Path) -> "NoisyLabels":
        """Read a file written by ``save``; an inconsistent file is a ValueError."""
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
