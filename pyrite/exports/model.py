"""``export``: a run's model, together with everything that comes before it, as a file that other programs read."""

import io
import json
import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple, final

import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate

from pyrite.data.statistics import LIMIT
from pyrite.errors import PyriteError
from pyrite.exports.card import model_card
from pyrite.features.embedding import EfficientnetLite
from pyrite.files import write_or_refuse
from pyrite.models import fold_batch_norms
from pyrite.models.efficientnet import Resized
from pyrite.training import Run

_BYTES: Final = 255.0


class Exported(NamedTuple):
    """A file that was written, what its model takes, and features that must be computed before; empty for none."""

    path: Path
    inputs: str = ""
    left_out: str = ""


def export(run: Run | str | os.PathLike[str], path: str | os.PathLike[str]) -> Exported:
    """Export the model of a run, or write its model card; the suffix of ``path`` determines the format.

    ``.onnx`` is for onnxruntime and others, ``.pt2`` for PyTorch (``torch.export.load``), and ``.md`` is the model
    card. The exported model maps samples in the format of the training data to scores; it includes the normalisation
    and the net of ``efficientnet_lite`` features. Compute other features before. Apply a softmax for probabilities.
    The file contains the class names as JSON: the metadata entry ``classes`` in ONNX, the extra file ``classes.json``
    in ``.pt2``.

    Args:
        run: a run, or its folder.
        path: the file to write.
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
