"""The state of a run as one file: tensors as safetensors, the rest as JSON in its header, with a checksum."""

import json
from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from pyrite.errors import PyriteError

__all__ = ["pack", "unpack"]

_TENSOR, _ARRAY = "tensor:", "array:"
_DIGITS: Final = 32  # of the checksum


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
        return value.item() if isinstance(value, np.generic) else value

    tree = json.dumps(plain(state, ""))
    # One entry: the order of several would not be the same each time.
    return save(tensors, {"state": _checksum(tree, tensors) + tree})


def unpack(path: Path) -> dict[str, Any]:
    """What ``pack`` packed; ``ValueError`` if a single bit of it has changed."""
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
        return value

    state: dict[str, Any] = restored(plain)
    return state


def _checksum(tree: str, tensors: Mapping[str, Tensor]) -> str:
    digest = blake2b(tree.encode(), digest_size=_DIGITS // 2)
    for name in sorted(tensors):
        tensor = tensors[name].contiguous()
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data if tensor.numel() else b"")
    return digest.hexdigest()
