"""Readers of the files in a run's folder. One that is truncated, missing or of another kind raises ``ValueError``."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from safetensors.torch import load_file

from pyrite.errors import PyriteError

__all__ = ["read_history", "read_json", "read_npz", "read_weights"]

# What the user can do about a file that cannot be read.
_WRITTEN_AGAIN = "pyrite train --resume {run} writes it again"
_REMOVED = "remove it, and pyrite train --resume {run} writes it again"
_LOST = "the run has to be trained again, into another folder"
_CURES = {
    "history.jsonl": _WRITTEN_AGAIN,
    "samples.npz": _WRITTEN_AGAIN,
    "method.npz": _WRITTEN_AGAIN,
    "model.safetensors": _WRITTEN_AGAIN,
    "last.safetensors": _WRITTEN_AGAIN,
    "run.json": _REMOVED,
}


def read_npz(path: Path, *names: str) -> dict[str, npt.NDArray[Any]]:
    """The arrays of an ``.npz`` file, which must include ``names``."""
    try:
        with path.open("rb") as file, np.load(file) as archive:
            arrays = dict(archive)
    except Exception as error:  # zipfile, zlib and numpy raise a dozen types for bytes that are no archive
        raise _unreadable(path, error) from None
    for name in names:
        if name not in arrays:
            raise _unreadable(path, f"it has no array {name!r}")
    return arrays


def read_json(path: Path, **types: type) -> dict[str, Any]:
    """The values of a JSON file, in which those of these names must be, and of these types."""
    try:
        values = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise _unreadable(path, error) from None
    if not isinstance(values, dict):
        raise _unreadable(path, "it does not hold an object")
    for name, kind in types.items():
        if not isinstance(values.get(name), kind):
            problem = f"its {name!r} is no {kind.__name__}" if name in values else f"it does not say {name!r}"
            raise _unreadable(path, problem)
    return values


def read_history(path: Path, *names: str) -> list[dict[str, Any]]:
    """One line per epoch, each a JSON object that must include ``names``; empty if there is no such file yet."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from None
    history = []
    for number, line in enumerate(text.splitlines(), 1):
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise _unreadable(path, f"line {number}: {error}") from None
        if not isinstance(entry, dict):
            raise _unreadable(path, f"line {number} does not hold an object")
        missing = [name for name in names if name not in entry]
        if missing:
            raise _unreadable(path, f"line {number} does not say {missing[0]!r}")
        odd = [name for name, value in entry.items() if not isinstance(value, int | float | None)]
        if odd:
            raise _unreadable(path, f"line {number}: its {odd[0]!r} is no number")
        history.append(entry)
    return history


def read_weights(path: Path) -> dict[str, torch.Tensor]:
    """The tensors of a ``.safetensors`` file."""
    try:
        return load_file(path)
    except Exception as error:  # safetensors has a type of its own for each format error
        raise _unreadable(path, error) from None


def _unreadable(path: Path, reason: object) -> PyriteError:
    cure = _CURES.get(path.name, _LOST).format(run=path.parent)
    if isinstance(reason, FileNotFoundError):
        return PyriteError(f"{path} is missing: {cure.removeprefix('remove it, and ')}")
    detail = (
        reason.strerror if isinstance(reason, OSError) and reason.strerror else str(reason) or type(reason).__name__
    )
    return PyriteError(f"cannot read {path} ({' '.join(detail.split())}): {cure}")
