"""Embeddings of EfficientNet-Lite0, for photographs."""

from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Final, final

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from pyrite import models
from pyrite.checks import whole_number
from pyrite.data import Dataset, InputKind
from pyrite.errors import PyriteError
from pyrite.features.embedding import NetEncoder
from pyrite.models.efficientnet import LITE0_SHA256, lite0_file

__all__ = ["EfficientnetLite0"]

# So few that what is computed on the way stays in the processor's cache: twice as fast as 64 at a time.
_AT_ONCE: Final = 8


@final
@dataclass(frozen=True, repr=False)
class EfficientnetLite0(NetEncoder):
    """1,280 numbers per image, by a net that was trained on ImageNet: EfficientNet-Lite0.

    Args:
        size: images are scaled to this height and width; the net was trained on 224, and smaller is faster.

    >>> str(EfficientnetLite0(size=112))
    'efficientnet_lite0(size=112)'
    """

    takes: ClassVar[frozenset[InputKind]] = frozenset({"images"})

    size: int = 224

    def __post_init__(self) -> None:
        whole_number("size", self.size, 32, 1024)

    def check(self, data: Dataset) -> None:
        super().check(data)
        lite0_file()
        channels = data.inputs.shape[1]
        if channels not in (1, 3):
            raise PyriteError(f"features is {self}, which takes images of 1 or 3 channels: {data.name} has {channels}")

    @property
    def weights(self) -> str:
        return LITE0_SHA256

    def embed(self, samples: npt.NDArray[Any] | list[str]) -> npt.NDArray[np.float32]:
        net, (mean, std) = _net(self.size), _described(self.size).normalisation or (0.0, 1.0)
        rows = []
        with torch.inference_mode():
            for start in range(0, len(samples), _AT_ONCE):
                pixels = torch.from_numpy(np.array(samples[start : start + _AT_ONCE])).float()
                images = ((pixels / 255 - mean) / std).expand(-1, 3, -1, -1)
                rows.append(net(images.to(memory_format=torch.channels_last)).numpy())
        return np.concatenate(rows)


def _described(size: int) -> models.EfficientnetLite0:
    return models.EfficientnetLite0(size=size, pretrained=True)


@cache
def _net(size: int) -> nn.Module:
    body = _described(size).build((3, size, size), classes=2, seed=0).body
    return models.fold_batch_norms(body).to(memory_format=torch.channels_last)  # type: ignore[call-overload,no-any-return]
