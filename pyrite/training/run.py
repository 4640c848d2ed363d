"""A run read from its folder: its recipe, its history, its model.

A file that is truncated, missing or of another kind raises ``PyriteError``.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, final

import numpy as np
import numpy.typing as npt
from safetensors.torch import load_file
from scipy.special import softmax
from torch import Tensor, nn

from pyrite import npz_files
from pyrite.checks import is_whole
from pyrite.curves import WeightNetCurve
from pyrite.data import (
    DATASETS,
    Annotations,
    Dataset,
    Inputs,
    Records,
    Schema,
    Statistics,
    check_like,
    checksums,
    digest,
    load,
    read_like,
)
from pyrite.errors import PyriteError
from pyrite.features import Features, OwnModule, read_state
from pyrite.files import unpack_texts
from pyrite.models import Architecture, Ensemble, Mirrored
from pyrite.text_tables import Table, counted
from pyrite.training.config import Config, Missing, load_data, python_name
from pyrite.training.metrics import COLUMNS, SAMPLE_COLUMNS, Line, measure
from pyrite.training.prediction import Predictions, net_scores

# What the user can do about a file that cannot be read.
_WRITTEN_AGAIN = "pyrite train --resume {run} writes it again"
_LOST = "the run has to be trained again, into another folder"
_RESULTS = ("history.jsonl", "samples.npz", "method.npz", "model.safetensors", "last.safetensors")
_CURES = dict.fromkeys(_RESULTS, _WRITTEN_AGAIN) | {"run.json": f"remove it, and {_WRITTEN_AGAIN}"}


CHECKED: Final = ("labels.npz", "samples.npz", "features.npz", "model.safetensors")
"""The files that results are read from, whose checksums are in ``run.json``."""


class DataChanged(PyriteError):  # noqa: N818  # as RunFailed
    """Data are no longer those that a run was begun with."""


@final
class Run:
    """A training run and its directory.

    Files are read on first use. A truncated, missing or invalid file raises a ``ValueError`` that names the file and a
    remedy.

    Attributes:
        path: the run directory.
        config: all settings of the run.
        history: one dictionary of metrics per epoch; docs/diagnostics.md describes the metrics.
        data: the data set, if it is in memory; ``dataset`` reads it otherwise.

    >>> import tempfile
    >>> import pyrite
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = pyrite.train("digits", loss="ce", model="linear", epochs=1, samples=200, out=folder)
    ...     Run.load(folder).scores(pyrite.data.load("digits").test.inputs).shape
    (360, 10)
    """

    def __init__(self, path: Path, config: Config, history: list[Line], data: Dataset | None = None) -> None:
        """``data`` is the data set that was trained on, if it has been read already."""
        self.path, self.config, self.history = path, config, history
        self._data = data

    @classmethod
    def load(cls, path: str | Path) -> "Run":
        """Load a run, finished or not, from its directory."""
        folder = Path(path)
        if not (folder / "recipe.toml").is_file():
            runs = sorted(path.parent for path in folder.glob("*/recipe.toml"))  # of a comparison or a search
            hint = f"; it contains {counted(len(runs), 'run')}: pass one of them, such as {runs[0]}" if runs else ""
            raise PyriteError(f"{folder} is not a run: it has no recipe.toml{hint}")
        return cls(
            folder,
            Config.load(folder / "recipe.toml"),
            read_history(folder / "history.jsonl", "epoch", "test_accuracy"),
        )

    @property
    def finished(self) -> bool:
        """Whether all epochs are done."""
        return (self.path / "run.json").exists() and bool(read_json(self.path / "run.json", finished=bool)["finished"])

    @property
    def epoch(self) -> int:
        """The epoch whose model is saved, counted from 1; for an unfinished run, the last completed epoch."""
        return int(self._saved["epoch"])

    @property
    def choice(self) -> str:
        """A sentence that states which epoch is saved and why; empty if there was no choice."""
        saved, last = self._saved, len(self.history)
        if "best_epoch" not in saved:
            return ""
        chosen, best, name = saved["epoch"], saved["best_epoch"], f"epoch {saved['epoch']} of {last}"
        accuracies = (self.history[epoch - 1]["validation_accuracy"] for epoch in (chosen, best, last))
        own, at_best, at_last = (f"{100 * accuracy:.1f} %" for accuracy in accuracies)
        if best != chosen:
            more = f"epoch {best} predicts {at_best}, which is not significantly more"
            return f"{name}, the last: it predicts {own} of held-out labels; {more}"
        more = f"; the last epoch predicts {at_last}" if best < last else ""
        return f"{name}, the best: it predicts {own} of held-out labels{more}"

    @property
    def _saved(self) -> Mapping[str, Any]:
        """What ``run.json`` has on the saved model; it is the last one in runs without it."""
        path, count = self.path / "run.json", len(self.history)
        facts = read_json(path, finished=bool) if count else {"finished": False}  # it is there before the first epoch
        if not facts["finished"] or "saved" not in facts:
            return {"epoch": count}
        saved: dict[str, Any] = read_json(path, saved=dict)["saved"]
        epochs = [saved.get("epoch"), saved.get("best_epoch", 1)]
        if not all(is_whole(epoch) and 1 <= epoch <= count for epoch in epochs):
            raise PyriteError(f"{path} does not belong to {self.path / 'history.jsonl'}: other epochs")
        return saved

    @property
    def table(self) -> dict[str, float | None]:
        """The results: test accuracy of the saved model, best test accuracy, and metrics of the training set.

        The best test accuracy is chosen on test labels. ``clean_accuracy``, ``memorised`` and ``recovered`` were
        measured while the saved epoch was trained; ``final_clean_accuracy`` and the like are measured with the saved
        model of a finished run. Metrics that require true labels are None if these are unknown.
        """
        if not self.history:
            return {}
        final_model = self.facts.get("final_model", {})  # which an unfinished run does not have
        saved, names = self.history[self.epoch - 1], ("test_accuracy", "trust_auc")
        tests, aucs = ([line[name] for line in self.history if line.get(name) is not None] for name in names)
        best = {"best_test_accuracy": max(tests, default=None), "best_trust_auc": max(aucs, default=None)}
        final = {"final_test_accuracy": saved["test_accuracy"], "final_trust_auc": aucs[-1] if aucs else None}
        values = {**final_model, **saved, **measure("outcome", SimpleNamespace(**final, **best))}
        return {name: values[name] for name in COLUMNS if name in values}

    @cached_property
    def facts(self) -> dict[str, Any]:
        """The content of ``run.json``: versions, the command, class names, input statistics and times."""
        return read_json(self.path / "run.json", classes=list, warnings=list, shape=list, mean=list, std=list)

    @property
    def classes(self) -> tuple[str, ...]:
        """The class names."""
        return tuple(map(str, self.facts["classes"]))

    @cached_property
    def labels(self) -> dict[str, npt.NDArray[Any]]:
        """The arrays of ``labels.npz``, one row per sample: ``index``, ``given``, ``part`` and others.

        ``part`` is 0 (training), 1 (validation), 2 (not used) or 3 (meta set). ``true`` is present if true labels are
        known, and ``path``, relative to the data folder, if samples are files. With corrections, ``given`` contains the
        corrected labels and ``original`` the labels before.
        """
        path = self.path / "labels.npz"
        labels = read_labels(path)
        given = labels["given"]
        if any(column.shape != given.shape or given.ndim != 1 for column in labels.values()):
            raise PyriteError(f"{path} is damaged: its columns differ in length")
        integers = all(labels[name].dtype.kind in "iu" for name in ("given", "part", "true") if name in labels)
        if not integers or (len(given) and not 0 <= given.min() <= given.max() < len(self.classes)):
            raise PyriteError(f"{path} is damaged: it contains labels that are not classes")
        self._check_own(path)
        return labels

    @cached_property
    def annotations(self) -> Annotations | None:
        """The labels of several annotators, from ``annotations.npz``; None if there is one label per sample."""
        path = self.path / "annotations.npz"
        if not path.exists():
            return None
        found = read_npz(path, "labels", "names")
        labels, names = found["labels"], tuple(map(str, found["names"].tolist()))
        whole = labels.dtype.kind in "iu" and labels.shape == (len(self.labels["given"]), len(names))
        if not whole or not -1 <= labels.min() <= labels.max() < len(self.classes):
            raise PyriteError(f"{path} is damaged: its labels do not match the samples or the classes")
        return Annotations(labels.astype(np.int64), names)

    @cached_property
    def samples(self) -> dict[str, npt.NDArray[Any]]:
        """The arrays of ``samples.npz``: statistics of every sample, and the margin histograms of every epoch."""
        path = self.path / "samples.npz"
        columns = [name for name, column in SAMPLE_COLUMNS.items() if column.saved]
        samples = read_npz(path, *columns, "margin_edges", "margins")
        edges, counts = samples["margin_edges"], samples["margins"]
        others = samples.get("noisy_margins", counts)
        if not (
            all(array.dtype.kind in "iuf" for array in samples.values())
            and edges.ndim == 1
            and len(edges) > 1
            and np.isfinite(edges).all()
            and counts.ndim == 2
            and counts.shape == others.shape
            and (counts >= others).all()
            and (others >= 0).all()
            and (counts.sum(1) > 0).all()
        ):
            raise PyriteError(f"{path} is damaged: {_WRITTEN_AGAIN.format(run=self.path)}")
        count = len(self.labels["given"])
        for name in (*columns, "unseen"):
            if name in samples and samples[name].shape != (count,):
                raise PyriteError(f"{path} does not belong to {self.path / 'labels.npz'}: other samples")
        if "class_margins" in samples and samples["class_margins"].shape != (count, len(self.classes)):
            raise PyriteError(f"{path} does not belong to {self.path / 'run.json'}: other classes")
        self._check_own(path)
        return samples

    def _check_own(self, path: Path) -> None:
        """Raise ``PyriteError`` for a file of another run, which may fit all the same."""
        known = self.facts.get("files", {}) if self.facts.get("finished") else {}
        if path.name in known and known[path.name] != digest([path.read_bytes()]):
            raise PyriteError(
                f"{path} does not belong to {self.path / 'run.json'}: another file was put in its place, or it was "
                "edited. Restore it, or train again, into another folder"
            )

    def dataset(self) -> Dataset:
        """The training data, read on first use."""
        if self._data is None:
            self._data = load_data(self.config.data, self.config.to_dict())
            self.check_data(self._data)
        return self._data

    def check_data(self, data: Dataset) -> None:
        """Raise ``DataChanged`` if these are not the data that the run was started with."""
        began = self.facts.get("checksums", {}) if (self.path / "run.json").exists() else {}
        now = checksums(data) if began else {}
        if changed := [name for name in sorted({*began, *now}) if began.get(name) != now.get(name)]:
            raise DataChanged(
                f"{data.name} has changed since {self.path} was begun: other {' and '.join(changed)}. Restore the "
                "data, use another folder, or remove this one"
            )

    def method_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The arrays that the method saved in ``method.npz``; empty if there are none."""
        path = self.path / "method.npz"
        return read_npz(path) if path.exists() else {}

    def weight_curve(self, epoch: int | None = None) -> WeightNetCurve:
        """The weighting that ``meta_weight`` learned, as a curve; by default after the last epoch.

        ``pyrite curves ce "gce(q=0.7)" RUN`` plots it beside curves of losses.
        """
        arrays = self.method_arrays()
        if "weight_net" not in arrays:
            raise PyriteError(f"{self.path} has no learned weighting: its method is {self.config.method}")
        nets = arrays["weight_net"]
        number = len(nets) if epoch is None else epoch
        if not 1 <= number <= len(nets):
            raise PyriteError(f"epoch is {epoch}, but must be from 1 to {len(nets)}")
        return WeightNetCurve(nets[number - 1], name=f"{self.config.method}, epoch {number}")

    @cached_property
    def model(self) -> nn.Module:
        """The trained net in evaluation mode. ``scores`` encodes and normalises inputs for it."""
        described = _known(self.config.model)
        if not isinstance(described, Architecture):
            weights = self.path / "model.safetensors"
            raise PyriteError(f"the net was given in Python: {python_name(described)}: load {weights} into it")
        shape, count = self.facts["shape"], self.facts.get("nets", 1)
        described = described.without_weights()  # they are read below
        nets = [described.build(shape, len(self.classes), self.config.seed) for _ in range(count)]
        net = nets[0] if count == 1 else Ensemble(nets)
        if self.config.precision == "float64":
            net = net.double()
        path = self.path / "model.safetensors"
        try:
            net.load_state_dict(read_weights(path))
        except RuntimeError as error:
            raise PyriteError(f"{path} does not belong to {self.config.model}: {str(error).splitlines()[0]}") from None
        self._check_own(path)
        return (Mirrored(net) if self.config.mirror else net).eval()

    @cached_property
    def features(self) -> Features | None:
        """The fitted encoder, used as ``run.features.transform(inputs)``; None if samples are not encoded."""
        described = _known(self.config.features)
        if isinstance(described, Missing | OwnModule):
            raise PyriteError(
                f"the features of {self.path} were given in Python: {described}: run.model takes their outputs"
            )
        if described is None:
            return None
        state = read_state(path := self.path / "features.npz")
        self._check_own(path)
        restored: Features = described.restore(state)
        return restored

    def scores(self, inputs: Inputs, batch_size: int = 500) -> npt.NDArray[Any]:
        """Scores of samples in the format of the data set: images (N, C, H, W), features (N, F) or records."""
        if isinstance(inputs, np.ndarray) and inputs.ndim == 4:
            like = Schema(**self.facts["inputs"])
            check_like((len(inputs), *like.shape), inputs.dtype, like, "inputs")
        if self.features is not None:
            columns = self.facts["inputs"]["columns"]
            inputs = self.features.transform(inputs.select(columns) if isinstance(inputs, Records) else inputs)
        elif not isinstance(inputs, Records) and inputs.shape[1] != self.facts["inputs"]["shape"][0]:
            shape = tuple(self.facts["inputs"]["shape"])
            raise PyriteError(f"inputs have samples of shape {inputs.shape[1:]}, but the model expects {shape}")
        if isinstance(inputs, Records):
            raise PyriteError(f"inputs are {inputs}, but {self.path} was trained on plain images or numbers")
        scale = Statistics(tuple(self.facts["mean"]), tuple(self.facts["std"]))
        return net_scores(self.model, inputs, scale, batch_size)

    def predict(self, samples: Any, *, name: str = "") -> Predictions:
        """Predict the classes of new samples; labels are not needed.

        Args:
            samples: samples of the kind that the model was trained on: a file or folder, a data frame, a list of texts,
                an array or tensor, or a data set, also one of PyTorch or Hugging Face. A table must have the columns of
                the training data; additional columns are ignored.
            name: the column of a table that identifies a sample.
        """
        named = isinstance(samples, str) and samples.partition("(")[0].strip() in DATASETS
        new = read_like(load(samples) if named else samples, self.facts["inputs"], name)
        unfamiliar = () if self.features is None else self.features.unfamiliar(new.inputs)
        scores = softmax(self.scores(new.inputs), axis=1)
        return Predictions(self.classes, scores, new.names, new.unreadable, (*new.notes, *unfamiliar))

    @property
    def results(self) -> Table:
        """The default metrics of ``table`` with their descriptions, as percentages."""
        known = {COLUMNS[name]: value for name, value in self.table.items() if value is not None}
        rows = [(each.explanation, f"{each.formatted(value)} %") for each, value in known.items() if each.by_default]
        return Table(("", ""), tuple(rows), title=repr(self)[1:-1])

    def __str__(self) -> str:
        return str(self.results)

    def _repr_html_(self) -> str:
        return self.results.to_html()

    def __repr__(self) -> str:
        epochs = f"{len(self.history)} epoch{'s' * (len(self.history) != 1)}"
        return f"<run {self.path}: {self.config.method} on {self.config.data}, {epochs}>"


def _known(described: Any) -> Any:
    """What a recipe describes; a ``PyriteError`` if that has a name which is not registered here."""
    if isinstance(described, Missing) and described.problem:
        raise PyriteError(described.problem)
    return described


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Turn whatever goes wrong inside into one sentence that names the file and what can be done about it."""
    try:
        yield
    except Exception as error:  # zipfile, zlib, numpy and safetensors raise a dozen types for damaged bytes
        cure = _CURES.get(path.name, _LOST).format(run=path.parent)
        if isinstance(error, FileNotFoundError):
            raise PyriteError(f"{path} is missing: {cure.removeprefix('remove it, and ')}") from None
        reason = getattr(error, "strerror", None) or str(error).removeprefix(f"{path}: ") or type(error).__name__
        raise PyriteError(f"cannot read {path} ({' '.join(reason.split())}): {cure}") from None


def read_npz(path: Path, *names: str) -> dict[str, npt.NDArray[Any]]:
    """The arrays of an ``.npz`` file, which must include ``names``."""
    with _reading(path):
        if not path.exists():
            raise FileNotFoundError
        arrays = npz_files.read_npz(path)
        if missing := [name for name in names if name not in arrays]:
            raise PyriteError(f"it has no array {missing[0]!r}")
    return arrays


def read_labels(path: Path) -> dict[str, npt.NDArray[Any]]:
    """The columns of ``labels.npz``."""
    labels = read_npz(path, "given", "part")
    if "path" in labels:
        with _reading(path):
            labels["path"] = np.array(unpack_texts(labels["path"]), object)
    return labels


def read_json(path: Path, **types: type) -> dict[str, Any]:
    """The values of a JSON file, in which those of these names must be, and of these types."""
    with _reading(path):
        values: Any = json.loads(path.read_bytes())
        if not isinstance(values, dict):
            raise PyriteError("it does not contain a JSON object")
        for name, kind in types.items():
            if not isinstance(values.get(name), kind):
                raise PyriteError(f"its {name!r} is not a {kind.__name__}" if name in values else f"it has no {name!r}")
    return dict(values)


def read_history(path: Path, *names: str) -> list[Line]:
    """One line per epoch, each a JSON object that must include ``names``; empty if there is no such file yet."""
    history: list[Line] = []
    with _reading(path):
        for number, text in enumerate(path.read_text("utf-8").splitlines() if path.exists() else (), 1):
            try:
                line = json.loads(text)
            except (ValueError, RecursionError) as error:
                raise PyriteError(f"line {number}: {error}") from None
            if not isinstance(line, dict):
                raise PyriteError(f"line {number} is not a JSON object")
            if missing := [name for name in names if name not in line]:
                raise PyriteError(f"line {number} has no {missing[0]!r}")
            if odd := [name for name, value in line.items() if not isinstance(value, int | float | None)]:
                raise PyriteError(f"line {number}: its {odd[0]!r} is not a number")
            history.append(line)
    return history


def read_weights(path: Path) -> dict[str, Tensor]:
    """The tensors of a ``.safetensors`` file."""
    with _reading(path):
        path.open("rb").close()  # safetensors calls a file that may not be read missing
        return load_file(path)
