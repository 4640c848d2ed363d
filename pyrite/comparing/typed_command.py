"""The command that trains with given settings."""

import shlex
from collections.abc import Mapping
from typing import Any

__all__ = ["typed_command"]


def typed_command(data: str, settings: Mapping[str, Any]) -> str:
    """``pyrite train`` with one flag per setting, as it is typed.

    >>> typed_command("digits", {"lr": 0.1, "mirror": False, "samples": None})
    'pyrite train digits --lr 0.1 --no-mirror'
    """
    words = ["pyrite", "train", data]
    for name, value in settings.items():
        flag = name.replace("_", "-")
        if isinstance(value, bool):
            words.append(f"--{flag}" if value else f"--no-{flag}")
        elif value is not None:
            words += [f"--{flag}", str(value)]
    return shlex.join(words)
