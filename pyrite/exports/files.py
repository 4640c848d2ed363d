"""``export``: a run's model as a file that other programs read."""

import io
import json
import logging
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import torch

from pyrite.errors import PyriteError
from pyrite.exports.card import model_card
from pyrite.exports.whole import Whole, whole
from pyrite.files import write_or_refuse
from pyrite.training import Run


class Exported(NamedTuple):
    """A file that was written, what its model takes, and features that must be computed before; empty for none."""

    path: Path
    inputs: str = ""
    left_out: str = ""


def export(run: Run | str | os.PathLike[str], path: str | os.PathLike[str]) -> Exported:
    """Write the model of a run for other programs, or a page about it; the ending of ``path`` decides which.

    ``.onnx`` is for onnxruntime and others, ``.pt2`` is torch's own (``torch.export.load``), and ``.md`` is the model
    card. A model takes samples as the training data had them and gives scores, of which a softmax makes probabilities:
    normalisation is inside. So is the net of ``efficientnet_lite0`` features; other features must be computed before.
    The names of the classes are in the file, as JSON: in ONNX the metadata ``classes``, in ``.pt2`` the extra file
    ``classes.json``.

    Args:
        run: a run, or its folder.
        path: the file to write.
    """
    trained = run if isinstance(run, Run) else Run.load(Path(run))
    target = Path(path)
    if target.suffix.lower() not in (".md", *_WRITERS):
        raise PyriteError(f"path is {str(path)!r}, but must end in .onnx, .pt2 or .md")
    if not trained.finished:
        raise PyriteError(f"{trained.path} is unfinished: continue with pyrite train --resume {trained.path}")
    if target.suffix.lower() == ".md":
        return Exported(write_or_refuse(target, model_card(trained).encode()))
    model = whole(trained)
    content = _WRITERS[target.suffix.lower()](model, {"classes": json.dumps(trained.classes, ensure_ascii=False)})
    return Exported(write_or_refuse(target, content), model.inputs, model.left_out)


def _onnx(model: Whole, facts: dict[str, str]) -> bytes:
    try:
        import onnx
        import onnxscript  # noqa: F401  # torch needs it
    except ImportError:
        raise PyriteError("ONNX needs further packages: pip install 'pyrite[export]'") from None
    with _quiet():
        program = torch.onnx.export(
            model.module.eval(), (model.example,), dynamo=True, verbose=False, dynamic_shapes=_any_number(),
            input_names=["inputs"], output_names=["scores"],
        )  # fmt: skip
    assert program is not None
    proto: Any = program.model_proto
    onnx.helper.set_model_props(proto, facts | {"inputs": model.inputs})
    content: bytes = proto.SerializeToString()
    return content


def _pt2(model: Whole, facts: dict[str, str]) -> bytes:
    buffer = io.BytesIO()
    with _quiet():
        program = torch.export.export(model.module.eval(), (model.example,), dynamic_shapes=_any_number())
        torch.export.save(program, buffer, extra_files={f"{name}.json": text for name, text in facts.items()})
    return buffer.getvalue()


_WRITERS: dict[str, Callable[[Whole, dict[str, str]], bytes]] = {".onnx": _onnx, ".pt2": _pt2}


def _any_number() -> tuple[dict[int, Any], ...]:
    return ({0: torch.export.Dim("samples")},)


@contextmanager
def _quiet() -> Iterator[None]:
    """torch's exporters warn of packages that are missing, and of functions of their own."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "torch.export", "onnxscript")]
    with warnings.catch_warnings(), ExitStack() as stack:
        warnings.simplefilter("ignore")
        for logger in loggers:
            stack.callback(logger.setLevel, logger.level)
            logger.setLevel(logging.ERROR)
        yield
