"""The samples and labels of a run: noise, corrections, parts, and features fitted to the training part."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from pyrite.auditing import fit_annotators
from pyrite.data import (
    Annotations,
    Corrections,
    Dataset,
    Inputs,
    LazyImages,
    Part,
    Unreadable,
    read_content,
    split,
    to_objects,
)
from pyrite.errors import PyriteError
from pyrite.features import Encoder, Features, as_numbers, read_state, state_bytes
from pyrite.files import npz_bytes
from pyrite.noise import Noise, corrupt
from pyrite.processes import all_gather, rank
from pyrite.training.config import Config, Job
from pyrite.training.run_files import read_npz

Columns = dict[str, npt.NDArray[Any]]


@final
@dataclass(frozen=True, eq=False)
class Prepared:
    """The data set of a run, with numbers or images as inputs."""

    data: Dataset
    labels: Columns  # of ``labels.npz``
    noise_matrix: Tensor | None  # of the noise that was added, if any
    features: Features | None  # what made numbers of the inputs; None if they are trained on as they are
    files: dict[str, bytes]  # the contents of ``corrections.csv`` and ``features.npz``, where there are such
    counts: dict[str, int]  # of corrected labels and dropped samples, if there are corrections
    warnings: tuple[str, ...]  # sentences about corrections
    soft_labels: Tensor | None = None  # the consensus of several annotators


def prepare(job: Job, folder: Path | None = None, progress: bool = False) -> Prepared:
    """Prepare the samples of a job; ``folder`` of a run that is resumed has its corrections and its features."""
    config, data, wanted = job.config, job.data, job.config.method.meta_set
    given, true, matrix = (data.labels, data.true, None) if config.noise is None else _noisy(job, config.noise)
    files, consensus = dict[str, bytes](), None
    if data.annotations is not None:
        consensus = _consensus(job, data.annotations, folder)
        given = consensus.argmax(1)
        named = {"labels": data.annotations.labels, "names": np.array(data.annotations.names), "consensus": consensus}
        files["annotations.npz"] = npz_bytes(named)
    if wanted and wanted.clean and true is None and data.clean is None:
        raise PyriteError(
            f"{config.method} learns from samples whose true labels are known, and those of {data.name} are not: use a "
            "method that needs none, such as meta_weight(meta='noisy')"
        )
    count = len(given) if config.samples is None else config.samples
    if count > len(given):
        raise PyriteError(f"samples is {count}, but {data.name} has {len(given)}")
    chosen = np.arange(len(given)) if count == len(given) else split(given, meta=count, seed=config.seed).meta
    corrected, kept = given, chosen
    warnings: tuple[str, ...] = ()
    if config.corrections:
        content = files["corrections.csv"] = read_corrections(config, folder)
        corrected, kept, warnings = _corrected(config, replace(data, labels=given), chosen, content)
    meta = wanted.size if wanted and not (wanted.clean and data.clean is not None) else 0
    groups = data.kept_together[kept] if meta or config.validation else None
    parts = split(corrected[kept], meta=meta, validation=config.validation or 0.0, seed=config.seed, groups=groups)
    part = np.full(len(given), Part.UNUSED, np.int8)
    for name, rows in ((Part.TRAIN, parts.train), (Part.VALIDATION, parts.validation), (Part.META, parts.meta)):
        part[kept[rows]] = name
    labels: Columns = {"index": np.arange(len(given)), "given": corrected, "part": part}
    labels |= {} if true is None else {"true": true}
    labels |= {"original": given} if config.corrections else {}
    labels |= {"path": to_objects(data.paths)} if data.paths else {}
    changed = int((corrected != given)[kept].sum())
    counts = {"corrected": changed, "dropped": len(chosen) - len(kept)} if config.corrections else {}
    features = None
    if config.features is not None:
        data, features = _encoded(job, config.features, part, folder, progress)
        files["features.npz"] = state_bytes(features.state())
    soft_labels = None
    if consensus is not None:
        changed_rows = np.flatnonzero(corrected != given)
        consensus[changed_rows] = np.eye(consensus.shape[1])[corrected[changed_rows]]
        soft_labels = torch.tensor(consensus, dtype=torch.float32)
    return Prepared(data, labels, matrix, features, files, counts, warnings, soft_labels)


def _consensus(job: Job, annotations: Annotations, folder: Path | None) -> npt.NDArray[np.float64]:
    """The probability of every class by the labels of several annotators, found by process 0 for all.

    A resumed run has what it began with, because another machine might find other last digits.
    """
    if job.config.noise is not None:
        raise PyriteError(f"noise is {str(job.config.noise)!r}, but several annotators give labels: leave out noise")
    path = None if folder is None else folder / "annotations.npz"
    own = None
    if rank() == 0 and path is not None and path.exists():
        own = read_npz(path, "consensus")["consensus"]
    elif rank() == 0:
        own = fit_annotators(annotations.labels, len(job.data.classes), errors=False).posterior
    found: npt.NDArray[np.float64] = next(each for each in all_gather(own) if each is not None)
    return found.copy()


def _noisy(job: Job, noise: Noise) -> tuple[npt.NDArray[Any], npt.NDArray[Any] | None, Tensor | None]:
    """Given labels, true ones where they are known, and the matrix of the noise."""
    data = job.data
    if data.true is not None and (wrong := int((data.labels != data.true).sum())):
        raise PyriteError(
            f"noise is {str(noise)!r}, but {data.name} has labels that are wrong already ({wrong} of {len(data)}): "
            "leave out noise, or take the data without them"
        )
    noisy = corrupt(data.labels, noise, len(data.classes), job.config.seed, as_numbers(data.inputs))
    return noisy.given, noisy.true, torch.tensor(noisy.matrix)


def read_corrections(config: Config, folder: Path | None = None) -> bytes:
    """The content of the file that corrects labels. A resumed run has a copy, because the file may have changed.

    Process 0 reads it for all, so that all have the same content.
    """
    content, problem = b"", ""
    if rank() == 0:
        copy = None if folder is None else folder / "corrections.csv"
        try:
            content = read_content(copy if copy is not None and copy.exists() else config.corrections)
        except ValueError as error:
            problem = f"cannot read the corrections: {error}"
    content, problem = all_gather((content, problem))[0]
    if problem:
        raise PyriteError(problem)
    return content


def _corrected(
    config: Config, data: Dataset, chosen: npt.NDArray[np.int64], content: bytes
) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64], tuple[str, ...]]:
    """The corrected labels, those of the chosen samples that are kept, and warnings.

    Samples are chosen by their labels before correction, so that a run with corrections has the same samples as the run
    that was audited.
    """
    source = config.corrections
    read = Corrections.parse(content, source, data)
    if not read.decided and not config.drop_suspects:
        raise PyriteError(
            f"corrections is {source}, a ranking without decisions: set drop_suspects to the probability from which "
            "on labels are dropped, such as 0.9"
        )
    labels, kept = read.applied(data.labels), np.setdiff1d(chosen, read.dropped(config.drop_suspects))
    if not len(kept):
        raise PyriteError(f"the corrections in {source} drop all {len(chosen)} samples: none is left to train on")
    warnings = []
    if config.drop_suspects and np.isnan(read.wrong_probability).all():
        warnings.append(f"{source} does not say how likely labels are wrong: no suspects were dropped")
    for number in np.setdiff1d(data.labels[chosen], labels[kept]):
        warnings.append(f"the corrections leave no sample of the class {data.classes[number]!r}")
    return labels, kept, tuple(warnings)


def _encoded(
    job: Job, described: Encoder, part: npt.NDArray[np.int8], folder: Path | None, progress: bool
) -> tuple[Dataset, Features]:
    """The data set with encoded inputs, and what encodes them; samples that cannot be read are set aside in ``part``.

    The features are fitted to the training part alone, by process 0 for all, or are those that were saved, because
    another machine might fit other last digits. Samples that a run does not use become zeros.
    """
    data = job.data
    path = None if folder is None else folder / "features.npz"
    if path is not None and path.exists():
        state = read_state(path)
    else:
        rows = np.flatnonzero(part == Part.TRAIN)
        own = described.fit(data.inputs, rows, progress).state() if rank() == 0 else None
        state = next(found for found in all_gather(own) if found is not None)
    features = described.restore(state)

    def encoded(source: Dataset | None) -> Dataset | None:
        if source is None:
            return None
        numbers, bad = _without_nan(features.transform(source.inputs, progress))
        keep = np.setdiff1d(np.arange(len(source)), bad)
        some = replace(source, inputs=numbers, columns=())
        return some if not len(bad) else replace(
            some, inputs=numbers[keep], labels=source.labels[keep], paths=tuple(to_objects(source.paths)[keep]),
            unreadable=(*source.unreadable, *_unreadable(source, bad)),
        )  # fmt: skip

    used = np.flatnonzero(part != Part.UNUSED)
    found, bad = _without_nan(features.transform(_some(data.inputs, used), progress))
    numbers, bad = np.zeros((len(data), found.shape[1]), found.dtype), used[bad]
    numbers[used] = found
    part[bad] = Part.UNUSED
    some = replace(
        data, inputs=numbers, columns=(), test=encoded(data.test), clean=encoded(data.clean),
        validation=encoded(data.validation), unreadable=(*data.unreadable, *_unreadable(data, bad)),
    )  # fmt: skip
    return some, features


def _some(inputs: Inputs, rows: npt.NDArray[np.int64]) -> Inputs:
    if len(rows) == len(inputs):
        return inputs
    part: Inputs = inputs.some(rows) if isinstance(inputs, LazyImages) else inputs[rows]
    return part


def _without_nan(numbers: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
    """Numbers with zeros in the rows of samples that could not be read, and which rows these are."""
    bad = np.flatnonzero(np.isnan(numbers).all(1))
    if len(bad):
        numbers = numbers.copy()
        numbers[bad] = 0
    return numbers, bad


def _unreadable(data: Dataset, rows: npt.NDArray[np.int64]) -> list[Unreadable]:
    names = [data.paths[row] if data.paths else f"sample {row}" for row in rows.tolist()]
    return [Unreadable(name, f"{name}: cannot be read") for name in names]
