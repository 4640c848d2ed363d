"""What a resume needs as one file: tensors as safetensors, the rest as JSON in its header. No pickle."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

__all__ = ["pack", "unpack"]

_TENSOR, _ARRAY = "tensor:", "array:"


def pack(state: Mapping[str, Any]) -> bytes:
    """A tree of dictionaries with tensors, arrays, numbers, texts and lists of these three as bytes."""
    tensors: dict[str, Tensor] = {}

    def plain(value: Any, name: str) -> Any:
        if isinstance(value, Mapping):
            return {key: plain(held, f"{name}/{key}") for key, held in value.items()}
        if isinstance(value, Tensor):
            tensors[name] = value.detach().cpu().contiguous().clone()
            return _TENSOR + name
        if isinstance(value, np.ndarray):
            tensors[name] = torch.from_numpy(np.array(value))
            return _ARRAY + name
        return value.item() if isinstance(value, np.generic) else value

    tree = plain(state, "")
    return save(tensors, {"state": json.dumps(tree)})


def unpack(path: Path) -> dict[str, Any]:
    """What ``pack`` packed."""
    try:
        with safe_open(path, framework="pt") as file:
            tree = json.loads(file.metadata()["state"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  # it is no dictionary
    except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"cannot read the state {path}: {error}") from None

    def full(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: full(held) for key, held in value.items()}
        if isinstance(value, str) and value.startswith(_TENSOR):
            return tensors[value.removeprefix(_TENSOR)]
        if isinstance(value, str) and value.startswith(_ARRAY):
            return tensors[value.removeprefix(_ARRAY)].numpy()
        return value

    read: dict[str, Any] = full(tree)
    return read
