"""Readers of the files in a run's folder, and its state as one file.

A file that is truncated, missing or of another kind raises ``PyriteError``.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save
from torch import Tensor

from pyrite import npz_files
from pyrite.data import to_objects
from pyrite.errors import PyriteError
from pyrite.files import npz_bytes
from pyrite.npz_files import pack_texts, unpack_texts

STATE: Final = "state/state.safetensors"
_TENSOR, _ARRAY, _TEXT = "tensor:", "array:", "text:"  # the last where a text begins like one of them
_DIGITS: Final = 32  # of the checksum

# What the user can do about a file that cannot be read.
_WRITTEN_AGAIN = "pyrite train --resume {run} writes it again"
_LOST = "the run has to be trained again, into another folder"
_RESULTS = ("history.jsonl", "samples.npz", "method.npz", "model.safetensors", "last.safetensors")
_CURES = dict.fromkeys(_RESULTS, _WRITTEN_AGAIN) | {"run.json": f"remove it, and {_WRITTEN_AGAIN}"}


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


def label_bytes(labels: Mapping[str, npt.NDArray[Any]]) -> bytes:
    """The content of ``labels.npz``."""
    return npz_bytes({name: pack_texts(column) if name == "path" else column for name, column in labels.items()})


def read_labels(path: Path) -> dict[str, npt.NDArray[Any]]:
    """The columns of ``labels.npz``."""
    labels = read_npz(path, "given", "part")
    if "path" in labels:
        with _reading(path):
            labels["path"] = to_objects(unpack_texts(labels["path"]))
    return labels


def read_json(path: Path, **types: type) -> dict[str, Any]:
    """The values of a JSON file, in which those of these names must be, and of these types."""
    with _reading(path):
        values: Any = json.loads(path.read_bytes())
        if not isinstance(values, dict):
            raise PyriteError("it does not hold an object")
        for name, kind in types.items():
            if not isinstance(values.get(name), kind):
                raise PyriteError(f"its {name!r} is no {kind.__name__}" if name in values else f"it has no {name!r}")
    return dict(values)


def read_history(path: Path, *names: str) -> list[dict[str, Any]]:
    """One line per epoch, each a JSON object that must include ``names``; empty if there is no such file yet."""
    if not path.exists():
        return []
    with _reading(path):
        return [_read_line(number, line, names) for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)]


def _read_line(number: int, line: str, names: Sequence[str]) -> dict[str, Any]:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise PyriteError(f"line {number}: {error}") from None
    if not isinstance(entry, dict):
        raise PyriteError(f"line {number} does not hold an object")
    if missing := [name for name in names if name not in entry]:
        raise PyriteError(f"line {number} has no {missing[0]!r}")
    if odd := [name for name, value in entry.items() if not isinstance(value, int | float | None)]:
        raise PyriteError(f"line {number}: its {odd[0]!r} is no number")
    return entry


def read_weights(path: Path) -> dict[str, Tensor]:
    """The tensors of a ``.safetensors`` file."""
    with _reading(path):
        return load_file(path)


def pack(state: Mapping[str, Any]) -> bytes:
    """Nested dictionaries of tensors, arrays, numbers, strings, and lists of numbers and strings, as bytes."""
    tensors: dict[str, Tensor] = {}

    def plain(value: Any, name: str) -> Any:
        if isinstance(value, Mapping):
            return {key: plain(item, f"{name}/{key}") for key, item in value.items()}
        if isinstance(value, Tensor):
            tensors[name] = value.detach().cpu().contiguous().clone()
            return _TENSOR + name
        if isinstance(value, np.ndarray):
            tensors[name] = torch.from_numpy(np.array(value))
            return _ARRAY + name
        if isinstance(value, str) and value.startswith((_TENSOR, _ARRAY, _TEXT)):
            return _TEXT + value
        return value.item() if isinstance(value, np.generic) else value

    tree = json.dumps(plain(state, ""))
    # One entry: the order of several would not be the same each time.
    return save(tensors, {"state": _checksum(tree, tensors) + tree})


def unpack(path: Path) -> dict[str, Any]:
    """What ``pack`` packed; ``PyriteError`` if a single bit of it has changed."""
    try:
        with safe_open(path, framework="pt") as file:
            text = file.metadata()["state"]
            checksum, tree = text[:_DIGITS], text[_DIGITS:]
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  # it is no dictionary
        if _checksum(tree, tensors) != checksum:
            raise PyriteError("its checksum is wrong, so it has been changed or damaged")
        plain = json.loads(tree)
    except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
        raise PyriteError(
            f"cannot read the state {path}: {error}. The run cannot be resumed: restore the file or train anew"
        ) from None

    def restored(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: restored(item) for key, item in value.items()}
        if isinstance(value, str) and value.startswith(_TENSOR):
            return tensors[value.removeprefix(_TENSOR)]
        if isinstance(value, str) and value.startswith(_ARRAY):
            return tensors[value.removeprefix(_ARRAY)].numpy()
        return value.removeprefix(_TEXT) if isinstance(value, str) else value

    state: dict[str, Any] = restored(plain)
    return state


def _checksum(tree: str, tensors: Mapping[str, Tensor]) -> str:
    digest = blake2b(tree.encode(), digest_size=_DIGITS // 2)
    for name in sorted(tensors):
        tensor = tensors[name].contiguous()
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data if tensor.numel() else b"")
    return digest.hexdigest()
