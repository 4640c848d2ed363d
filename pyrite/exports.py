"""What a run leaves for others: its model with everything that comes before it, and a page about it."""

import io
import json
import logging
import os
import warnings
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple, final

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate

from pyrite.data import Part
from pyrite.data.statistics import LIMIT
from pyrite.errors import PyriteError
from pyrite.features.embedding import EfficientnetLite
from pyrite.files import write_or_refuse
from pyrite.models import Architecture, fold_batch_norms
from pyrite.models.efficientnet import Resized
from pyrite.training import Run, python_name
from pyrite.training.run import read_json

_BYTES: Final = 255.0
_LISTED: Final = 30  # classes that are named; of more only the number is given


class Exported(NamedTuple):
    """A file that was written, what its model takes, and features that must be computed before; empty for none."""

    path: Path
    inputs: str = ""
    left_out: str = ""


def export(run: Run | str | os.PathLike[str], path: str | os.PathLike[str]) -> Exported:
    """Export the model of a run, or write its model card; the suffix of ``path`` determines the format.

    ``.onnx`` is the format of onnxruntime and other runtimes, ``.pt2`` that of PyTorch (``torch.export.load``), and
    ``.md`` selects the model card. The exported model maps samples in the format of the training data to scores; a
    softmax gives probabilities. It includes the normalisation and the net of ``efficientnet_lite`` features; other
    features must be computed before. The file contains the class names as JSON: in the metadata entry ``classes`` in
    ONNX, and in the extra file ``classes.json`` in ``.pt2``.

    Args:
        run: a run, or its folder.
        path: the file to write.

    Returns:
        The file, the input format of the model, and the features that it does not include.

    >>> import tempfile
    >>> import pyrite
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     run = pyrite.train("digits", loss="ce", model="linear", epochs=1, samples=200, out=f"{folder}/run")
    ...     export(run, f"{folder}/card.md").path.name
    'card.md'
    """
    trained = run if isinstance(run, Run) else Run.load(Path(run))
    target, ending = Path(path), Path(path).suffix.lower()
    if ending not in (".md", ".onnx", ".pt2"):
        raise PyriteError(f"path is {str(path)!r}, but must end in .onnx, .pt2 or .md")
    if not trained.finished:
        raise PyriteError(f"{trained.path} is unfinished: continue with pyrite train --resume {trained.path}")
    if ending == ".md":
        return Exported(write_or_refuse(target, model_card(trained).encode()))
    model, classes = whole(trained), json.dumps(trained.classes, ensure_ascii=False)
    content = _onnx(model, classes) if ending == ".onnx" else _pt2(model, classes)
    return Exported(write_or_refuse(target, content), model.inputs, model.left_out)


class Whole(NamedTuple):
    """A module that computes scores, and what it is given."""

    module: nn.Module
    example: Tensor  # two samples, of the type and shape that it takes
    inputs: str  # what these are, for people
    left_out: str  # features that must be computed before; empty if the module does everything


def whole(run: Run) -> Whole:
    """The model of a run with its normalisation and, for embeddings of a net of pyrite's own, that net."""
    mean, std = (torch.tensor(run.facts[name], dtype=torch.float64) for name in ("mean", "std"))
    shape, features = tuple(run.facts["inputs"]["shape"]), run.config.features
    net, embeds = _ready(run.model, shape), isinstance(features, EfficientnetLite)
    if not embeds and (features is not None or run.facts["inputs"]["kind"] != "images"):
        what, left_out = f"numbers: float64, (N, {len(mean)})", "" if features is None else str(features)
        return Whole(_Normalised(net, mean, std), torch.zeros(2, len(mean), dtype=torch.float64), what, left_out)
    is_bytes = run.facts["inputs"]["dtype"] == "uint8"
    module: nn.Module = _Normalised(net, mean, std, images=not embeds, largest=_BYTES if is_bytes else 1.0)
    if isinstance(features, EfficientnetLite):
        lite = features.architecture
        body = _ready(lite.build(shape, classes=2, seed=0).body, shape)
        usual = [torch.full((shape[0],), value, dtype=torch.float64) for value in lite.normalisation or ()]
        module = nn.Sequential(_Normalised(body, *usual, images=True), module)
    numbers = "uint8 from 0 to 255" if is_bytes else "float32"
    images = f"images as the training data had them: {numbers}, (N, {', '.join(map(str, shape))})"
    return Whole(module, torch.zeros(2, *shape, dtype=torch.uint8 if is_bytes else torch.float32), images, "")


@final
class _Normalised(nn.Module):
    """A net after the normalisation that ``pyrite.data.Batches`` has: of rows in float64, of images, with numbers up
    to ``largest``, as it multiplies and adds them in float32."""

    mean: Tensor
    std: Tensor

    def __init__(
        self, net: nn.Module, mean: Tensor, std: Tensor, *, images: bool = False, largest: float = _BYTES
    ) -> None:
        super().__init__()
        self.net, self.images, self.dtype = net, images, next(net.parameters()).dtype
        if images:
            mean, std = (part.float().view(-1, 1, 1).to(self.dtype) for part in (-mean / std, 1 / (std * largest)))
        self.register_buffer("mean", mean)
        self.register_buffer("std", std)

    def forward(self, inputs: Tensor) -> Tensor:
        if self.images:
            normal = inputs.to(self.dtype) * self.std + self.mean
        else:
            normal = ((inputs.double() - self.mean) / self.std).clamp(-LIMIT, LIMIT).float().to(self.dtype)
        scores: Tensor = self.net(normal)
        return scores


@final
class _Scaled(nn.Module):
    """Images of one size scaled to another by two products of matrices, which every runtime computes alike."""

    rows: Tensor
    columns: Tensor

    def __init__(self, shape: tuple[int, ...], size: int) -> None:
        super().__init__()
        for name, side in (("rows", shape[1]), ("columns", shape[2])):
            # What the interpolation makes of unit vectors is its matrix: it works on both axes apart.
            units = torch.eye(side).view(1, 1, side, side)
            self.register_buffer(name, interpolate(units, (size, side), mode="bicubic", antialias=True)[0, 0])

    def forward(self, images: Tensor) -> Tensor:
        return self.rows @ images @ self.columns.T


def _ready(net: nn.Module, shape: tuple[int, ...]) -> nn.Module:
    """A copy for images of one shape, in which every runtime computes the same."""
    copy = fold_batch_norms(net).cpu()
    for layers in copy.modules():
        for name, layer in layers.named_children():
            if isinstance(layer, Resized):
                setattr(layers, name, _Scaled(shape, layer.size))
    return copy


def _onnx(model: Whole, classes: str) -> bytes:
    try:
        import onnx
        import onnxscript  # noqa: F401  # torch needs it
    except ImportError:
        raise PyriteError("ONNX needs further packages: pip install 'pyrite-labels[export]'") from None
    with _quiet():
        program = torch.onnx.export(
            model.module.eval(), (model.example,), dynamo=True, verbose=False, input_names=["inputs"],
            output_names=["scores"], dynamic_shapes=({0: torch.export.Dim("samples")},),
        )  # fmt: skip
    assert program is not None
    proto: Any = program.model_proto
    onnx.helper.set_model_props(proto, {"classes": classes, "inputs": model.inputs})
    content: bytes = proto.SerializeToString()
    return content


def _pt2(model: Whole, classes: str) -> bytes:
    buffer, shapes = io.BytesIO(), ({0: torch.export.Dim("samples")},)
    with _quiet():
        program = torch.export.export(model.module.eval(), (model.example,), dynamic_shapes=shapes)
        torch.export.save(program, buffer, extra_files={"classes.json": classes})
    return buffer.getvalue()


@contextmanager
def _quiet() -> Iterator[None]:
    """torch's exporters warn of packages that are missing, and of functions of their own."""
    with warnings.catch_warnings(), ExitStack() as stack:
        warnings.simplefilter("ignore")
        for logger in map(logging.getLogger, ("torch.onnx", "torch.export", "onnxscript")):
            stack.callback(logger.setLevel, logger.level)
            logger.setLevel(logging.ERROR)
        yield


def model_card(run: Run) -> str:
    """A page in Markdown about the model of a run."""
    path = run.path / "audit.json"
    audited = read_json(path, sentence=str)["sentence"] if path.exists() else ""
    parts = {
        "Model": _table(_model(run)),
        "Data and labels": _table([*_data(run), ("audit of the labels", audited)]),
        "Results": _table(run.results.rows) if run.results.rows else "Nothing was measured.",
        "Limits": "\n".join(f"- {sentence}" for sentence in _limits(run, bool(audited))),
        "Settings": "```toml\n" + run.config.to_toml() + "```",
    }
    title = f"# Model card: {run.path.resolve().name}"
    return "\n\n".join([title, *(f"## {heading}\n\n{text}" for heading, text in parts.items())]) + "\n"


def _model(run: Run) -> list[tuple[str, str]]:
    config = run.config
    described = isinstance(config.model, Architecture)
    weights = sum(weight.numel() for weight in run.model.parameters()) if described else None
    return [
        ("net", f"`{python_name(config.model)}`" + (f", {weights:,} parameters" if weights else "")),
        ("features", "none: samples as they are" if config.features is None else f"`{config.features}`"),
        ("trained with", f"`{config.method}`, {config.epochs} epochs, seed {config.seed}"),
        ("saved", run.choice),
        ("versions", ", ".join(f"{name} {version}" for name, version in run.facts.get("versions", {}).items())),
    ]


def _data(run: Run) -> list[tuple[str, str]]:
    part, given, true, names = run.labels["part"], run.labels["given"], run.labels.get("true"), run.classes
    used = np.isin(part, (Part.TRAIN, Part.VALIDATION, Part.META))
    listed = ", ".join(names) if len(names) <= _LISTED else f"{', '.join(names[:5])} and so on"
    counts = np.bincount(given[used], minlength=len(names))
    wrong = "" if true is None else f"{100 * np.mean(given[used] != true[used]):.1f} %"
    return [
        ("data", f"`{run.config.data}`"),
        ("samples", f"{np.sum(part == Part.TRAIN):,} trained on, {np.sum(part == Part.VALIDATION):,} held out"),
        ("classes", f"{len(names)}: {listed}"),
        ("samples per class", f"{counts.min():,} to {counts.max():,}"),
        ("noise that was added", f"`{run.config.noise}`" if run.config.noise else ""),
        ("labels known to be wrong", wrong),
    ]


def _limits(run: Run, audited: bool) -> list[str]:
    """What a user must know, as far as the run itself shows it."""
    sentences = ["The model separates only the classes above: any other input is assigned to one of them."]
    if run.table.get("final_test_accuracy") is None:
        held_out = run.table.get("validation_accuracy") is not None
        sentences.append(
            "Its accuracy is measured on held-out given labels, wrong ones included: there was no test part."
            if held_out
            else "Its accuracy on samples that it was not trained on is not known: none were kept aside."
        )
    if not audited:
        sentences.append(f"The labels were not audited: `pyrite audit {run.path}` estimates how many are wrong.")
    sentences.append("Its probabilities are the softmax of its scores, and are not calibrated.")
    if unused := len(run.facts.get("unreadable", ())):
        sentences.append(f"{unused} samples could not be read and were set aside.")
    return sentences + [f"{warning[0].upper()}{warning[1:]}." for warning in run.facts["warnings"] if warning]


def _table(rows: Iterable[tuple[str, ...]]) -> str:
    # A vertical bar in a name would end the cell.
    cells = (f"| {name} | {value.replace('|', chr(92) + '|')} |" for name, value in rows if value)
    return "\n".join(["| | |", "|---|---|", *cells])
