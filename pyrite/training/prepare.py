"""What changes labels and inputs before training: noise, several annotators, corrections and encoders.

A resumed run takes what its folder has: a file may have changed, and another machine may find other last digits.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from pyrite.auditing import fit_annotators
from pyrite.data import Annotations, Corrections, Dataset, LazyImages, Part, Unreadable, read_content
from pyrite.errors import PyriteError
from pyrite.features import Encoder, Features, as_numbers, read_state
from pyrite.noise import Noise, corrupt
from pyrite.processes import on_first
from pyrite.training.config import Config, Job
from pyrite.training.run import read_npz

Ints = npt.NDArray[np.int64]


def add_noise(job: Job, noise: Noise) -> tuple[npt.NDArray[Any], npt.NDArray[Any] | None, Tensor]:
    """Given labels, true ones where they are known, and the matrix of the noise."""
    data = job.data
    if data.true is not None and (wrong := int((data.labels != data.true).sum())):
        raise PyriteError(
            f"noise is {str(noise)!r}, but {data.name} already has wrong labels ({wrong} of {len(data)}): "
            "omit noise, or use data with correct labels"
        )
    noisy = corrupt(data.labels, noise, len(data.classes), job.config.seed, as_numbers(data.inputs))
    return noisy.given, noisy.true, torch.tensor(noisy.matrix)


def find_consensus(job: Job, annotations: Annotations, folder: Path | None) -> npt.NDArray[np.float64]:
    """The probability of every class by the labels of several annotators."""
    if job.config.noise is not None:
        raise PyriteError(
            f"noise is {str(job.config.noise)!r}, but the labels come from several annotators: omit noise"
        )

    def found() -> npt.NDArray[np.float64]:
        if folder is not None and (folder / "annotations.npz").exists():
            return read_npz(folder / "annotations.npz", "consensus")["consensus"]
        return fit_annotators(annotations.labels, len(job.data.classes), errors=False).posterior

    return on_first(found).copy()


def read_corrections(config: Config, folder: Path | None = None) -> bytes:
    """The content of the file that corrects labels."""

    def content() -> bytes:
        copy = None if folder is None else folder / "corrections.csv"
        try:
            return read_content(copy if copy is not None and copy.exists() else config.corrections)
        except ValueError as error:
            raise PyriteError(f"cannot read the corrections: {error}") from None

    return on_first(content)


def apply_corrections(
    config: Config, data: Dataset, chosen: Ints, content: bytes
) -> tuple[npt.NDArray[Any], Ints, list[str]]:
    """The corrected labels, those of the chosen samples that are kept, and warnings.

    Samples are chosen by their labels before correction, so that a run with corrections has the same samples as the run
    that was audited.
    """
    source = config.corrections
    read = Corrections.parse(content, source, data)
    if not read.decided and not config.drop_suspects:
        raise PyriteError(
            f"corrections is {source}, a ranking without decisions: set drop_suspects to the lowest probability "
            "at which labels are dropped, such as 0.9"
        )
    labels, kept = read.applied(data.labels), np.setdiff1d(chosen, read.dropped(config.drop_suspects))
    if not len(kept):
        raise PyriteError(f"the corrections in {source} drop all {len(chosen)} samples: keep some to train on")
    warnings = [
        f"the corrections leave no sample of the class {data.classes[number]!r}"
        for number in np.setdiff1d(data.labels[chosen], labels[kept])
    ]
    if config.drop_suspects and np.isnan(read.wrong_probability).all():
        warnings.insert(0, f"{source} contains no probabilities of wrong labels: no suspects were dropped")
    return labels, kept, warnings


def encode(
    job: Job, described: Encoder, part: npt.NDArray[np.int8], folder: Path | None, progress: bool
) -> tuple[Dataset, Features]:
    """The data set with encoded inputs, and what encodes them; samples that cannot be read are set aside in ``part``.

    The features are fitted to the training part alone. Samples that a run does not use become zeros.
    """
    data, path = job.data, None if folder is None else folder / "features.npz"
    if path is not None and path.exists():
        state = read_state(path)
    else:
        state = on_first(lambda: described.fit(data.inputs, np.flatnonzero(part == Part.TRAIN), progress).state())
    features = described.restore(state)

    def encoded(source: Dataset, rows: Ints) -> tuple[npt.NDArray[Any], Ints, list[Unreadable]]:
        """The numbers of some samples, with zeros for those that could not be read, and which these are."""
        some: Any = source.inputs
        if len(rows) < len(source):
            some = some.some(rows) if isinstance(some, LazyImages) else some[rows]
        numbers = features.transform(some, progress)
        bad = np.flatnonzero(np.isnan(numbers).all(1))
        names = [source.paths[row] if source.paths else f"sample {row}" for row in rows[bad].tolist()]
        if len(bad):
            numbers = numbers.copy()
            numbers[bad] = 0
        return numbers, bad, [Unreadable(name, f"{name}: cannot be read") for name in names]

    def encoded_part(source: Dataset | None) -> Dataset | None:
        if source is None:
            return None
        numbers, bad, unreadable = encoded(source, np.arange(len(source)))
        some = replace(source, inputs=numbers, columns=())
        keep = np.setdiff1d(np.arange(len(source)), bad)
        return some if not len(bad) else replace(
            some, inputs=numbers[keep], labels=source.labels[keep], paths=tuple(np.array(source.paths, object)[keep]),
            unreadable=(*source.unreadable, *unreadable),
        )  # fmt: skip

    used = np.flatnonzero(part != Part.UNUSED)
    found, bad, unreadable = encoded(data, used)
    numbers = found
    if len(used) < len(data):
        numbers = np.zeros((len(data), found.shape[1]), found.dtype)
        numbers[used] = found
    part[used[bad]] = Part.UNUSED
    some = replace(
        data, inputs=numbers, columns=(), test=encoded_part(data.test), clean=encoded_part(data.clean),
        validation=encoded_part(data.validation), unreadable=(*data.unreadable, *unreadable),
    )  # fmt: skip
    return some, features
