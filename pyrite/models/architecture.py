"""``Architecture``: the description of a net, from which the net is built."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from pyrite.checks import is_whole, whole_number
from pyrite.draws import TORCH_GENERATOR, check_seed
from pyrite.errors import PyriteError
from pyrite.memory import check_memory
from pyrite.models.bins import TableInputs
from pyrite.models.network import Network, Shape
from pyrite.models.whitening import Whitening
from pyrite.spec import HasSpec

_COPIES = 3  # of every weight while a net is trained: itself, its gradient and its momentum

__all__ = ["Architecture", "check_shape", "check_widths", "seeded"]


@dataclass(frozen=True, repr=False)
class Architecture(HasSpec, ABC):
    """The description of a net for data of any shape. ``str(architecture)`` is its spec."""

    smallest: ClassVar[int | None] = None
    """The smallest height and width of the images it takes; None if it takes features, and images as rows of pixels."""

    any_size: ClassVar[bool] = False
    """Whether a net that was built for one image size takes other sizes too."""

    averages: ClassVar[bool] = False
    """Whether its features are means over all places of an image, and not maxima."""

    @property
    def rate(self) -> float:
        """A learning rate that suits it, for SGD with momentum 0.9 and batches of 128."""
        return 0.1

    @property
    def normalisation(self) -> tuple[float, float] | None:
        """Mean and deviation, of pixels from 0 to 1, that images are normalised by; None for those of the data."""
        return None

    def without_weights(self) -> "Architecture":
        """The same net with random weights, for one whose weights are loaded next."""
        return self

    def build(
        self, shape: Sequence[int], classes: int, seed: int, inputs: Tensor | Callable[[], Tensor] | None = None
    ) -> Network:
        """A net with new weights, on the CPU.

        Args:
            shape: of one input: (channels, height, width) for images, (features,) for features.
            classes: the number of classes, 2 or more.
            seed: of the initial weights. Global random state is not changed.
            inputs: some thousand training inputs as the net will see them, or a function that returns them. They are
                used by nets whose first layer whitens the inputs or divides them into bins. Without them such a layer
                uses general defaults.
        """
        size = self.check_size(shape, classes)
        with seeded(seed):
            body, head = self.parts(size, int(classes))
        network = Network(body, head, size, self.any_size)
        if inputs is not None:
            for layer in network.modules():
                if isinstance(layer, Whitening | TableInputs):
                    layer.fit(inputs if isinstance(inputs, Tensor) else inputs(), seed)
        return network

    def check_size(self, shape: Sequence[int], classes: int) -> Shape:
        """The shape as a tuple, if the net can be built for it and fits into memory while it is trained."""
        size = self.check(shape)
        weights = self.least_weights(size, whole_number("classes", classes, 2))
        check_memory(_COPIES * 4 * weights, f"training {self} with its {weights:,} weights")
        return size

    def least_weights(self, shape: Shape, classes: int) -> int:
        """A lower bound of the number of weights, computed without building the net."""
        return classes

    @abstractmethod
    def parts(self, shape: Shape, classes: int) -> tuple[nn.Module, nn.Module]:
        """Body and head, with weights drawn from torch's global generator, which ``build`` has seeded."""

    def check(self, shape: Sequence[int]) -> Shape:
        """The shape as a tuple; a ValueError if the net cannot be built for it."""
        size = check_shape(shape)
        if self.smallest is None:
            return size
        if len(size) != 3:
            raise PyriteError(f"shape is {size}, but {self} takes images: (channels, height, width)")
        if min(size[1:]) < self.smallest:
            raise PyriteError(f"shape is {size}, but {self} takes images from {self.smallest} x {self.smallest} on")
        return size


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed torch's global generators, and restore their state afterwards.

    Weights are drawn on the CPU even if another device is the default, so that a seed means the same on all machines.
    """
    if check_seed(seed) >= 2**64:
        raise PyriteError(f"seed is {seed}, but torch takes seeds below 2**64")
    devices = range(torch.cuda.device_count()) if torch.cuda.is_available() else ()
    with TORCH_GENERATOR, torch.random.fork_rng(devices=devices), torch.device("cpu"):
        torch.manual_seed(int(seed))
        yield


def check_shape(shape: Sequence[int]) -> Shape:
    """The shape as a tuple of ``int``; a ValueError if it is not that of images or features."""
    try:
        size = tuple(shape)
    except TypeError:
        raise PyriteError(f"shape is {shape!r}, but must be (channels, height, width) or (features,)") from None
    if len(size) not in (1, 3) or not all(is_whole(side) and side >= 1 for side in size):
        raise PyriteError(f"shape is {size}, but must be (channels, height, width) or (features,)")
    return tuple(int(side) for side in size)


def check_widths(name: str, widths: object) -> tuple[int, ...]:
    """Widths of layers as a tuple of ``int``."""
    if isinstance(widths, str) or not isinstance(widths, Sequence) or not widths:
        raise PyriteError(f"{name} is {widths!r}, but must be a list of widths, one or more")
    return tuple(whole_number(f"{name}[{place}]", width, 1) for place, width in enumerate(widths))
