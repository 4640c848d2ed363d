"""Embeddings of a net that was passed as an object."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Final, final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from pyrite.data import InputKind
from pyrite.features.embedding import NetEncoder, checksum

__all__ = ["OwnModule"]

_AT_ONCE: Final = 64


@final
@dataclass(frozen=True, repr=False)
class OwnModule(NetEncoder):
    """The outputs of any module, one row per sample. It is used in evaluation mode and not trained.

    Args:
        module: takes images, (N, C, H, W), as numbers from 0 to 1, or rows of numbers as they are, in float32. It
            normalises them itself, if it needs to.

    >>> OwnModule(nn.Flatten()).embed(np.full((1, 1, 2, 1), 255, np.uint8))
    array([[1., 1.]], dtype=float32)
    """

    takes: ClassVar[frozenset[InputKind]] = frozenset({"images", "numbers"})

    module: nn.Module

    def __str__(self) -> str:
        return type(self.module).__name__

    @cached_property
    def weights(self) -> str:
        return checksum(self.module)

    def embed(self, samples: npt.NDArray[Any] | list[str]) -> npt.NDArray[np.float32]:
        was_training, weight = self.module.training, next(self.module.parameters(), torch.zeros(()))
        rows = []
        try:
            self.module.eval()
            with torch.inference_mode():
                for start in range(0, len(samples), _AT_ONCE):
                    part = np.array(samples[start : start + _AT_ONCE])
                    numbers = torch.from_numpy(part).to(weight.device, torch.float32)
                    out: Tensor = self.module(numbers / 255 if part.dtype == np.uint8 else numbers)
                    rows.append(out.float().cpu().numpy())
        finally:
            self.module.train(was_training)
        return np.concatenate(rows)
