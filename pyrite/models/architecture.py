"""``Architecture``, the description of a net, and ``Network``, the ``nn.Module`` that it builds."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, final

import torch
from torch import Tensor, nn

from pyrite.checks import check_memory, is_whole, whole_number
from pyrite.draws import TORCH_GENERATOR
from pyrite.errors import PyriteError
from pyrite.models.layers import TableInputs, Whitening
from pyrite.spec import HasSpec

_COPIES = 3  # of every weight while a net is trained: itself, its gradient and its momentum

Shape = tuple[int, ...]


@dataclass(frozen=True, repr=False)
class Architecture(HasSpec, ABC):
    """The configuration of a net for inputs of any shape. ``str(architecture)`` is its spec string.

    >>> import pyrite
    >>> pyrite.models.MLP(hidden=(8,)).build((2,), classes=3, seed=0)(torch.zeros(4, 2)).shape
    torch.Size([4, 3])
    """

    smallest: ClassVar[int | None] = None
    """The smallest height and width of the images it takes; None if it takes features, and images as rows of pixels."""

    any_size: ClassVar[bool] = False
    """Whether a net that was built for one image size takes other sizes too."""

    averages: ClassVar[bool] = False
    """Whether its features are means over all places of an image, and not maxima."""

    normalisation: ClassVar[tuple[float, float] | None] = None
    """Mean and deviation, of pixels from 0 to 1, that images are normalised by; None for those of the data."""

    @property
    def learning_rate(self) -> float:
        """The default learning rate: for SGD with momentum 0.9 and batches of 128; if pretrained, for AdamW and batches
        of 32.
        """
        return 0.1

    def without_weights(self) -> "Architecture":
        """The same architecture without pretrained weights, if weights are loaded afterwards."""
        return self

    def least_weights(self, shape: Shape, classes: int) -> int:
        """A lower bound on the number of weights, computed without building the net."""
        return classes

    @abstractmethod
    def parts(self, shape: Shape, classes: int) -> tuple[nn.Module, nn.Module]:
        """Create body and head, with weights drawn from the global generator of PyTorch, which ``build`` seeds."""

    def build(
        self, shape: Sequence[int], classes: int, seed: int, inputs: Tensor | Callable[[], Tensor] | None = None
    ) -> "Network":
        """Build a net with initial weights, on the CPU.

        Args:
            shape: of one input: (channels, height, width) for images, (features,) for features.
            classes: the number of classes, 2 or more.
            seed: the seed of the initial weights. Global random state is not changed.
            inputs: some thousand training inputs in the format that the net receives, or a function that returns them.
                They are used by nets whose first layer whitens inputs or divides them into bins. Without them, such a
                layer uses general defaults.
        """
        size = self.check(shape, classes)
        with seeded(seed):
            body, head = self.parts(size, int(classes))
        network = Network(body, head, size, self.any_size)
        if inputs is not None:
            for layer in network.modules():
                if isinstance(layer, Whitening | TableInputs):
                    layer.fit(inputs if isinstance(inputs, Tensor) else inputs(), seed)
        return network

    def check(self, shape: Sequence[int], classes: int) -> Shape:
        """Check that the net can be built for this shape and trained in memory; return the shape as a tuple."""
        size, smallest = check_shape(shape), self.smallest
        if smallest is not None and len(size) != 3:
            raise PyriteError(f"shape is {size}, but {self} takes images: (channels, height, width)")
        if smallest is not None and min(size[1:]) < smallest:
            raise PyriteError(f"shape is {size}, but {self} requires images of {smallest} x {smallest} pixels or more")
        weights = self.least_weights(size, whole_number("classes", classes, 2))
        check_memory(_COPIES * 4 * weights, f"training {self} with its {weights:,} weights")
        return size


@final
class Network(nn.Module):
    """A net that computes scores (N, K); ``embed`` computes the features (N, E) before the last layer.

    Args:
        body: the module from inputs to features.
        head: the module from features to scores.
        shape: the shape of one input.
        any_size: whether images can have any height and width, because the body pools over all positions.

    >>> net = Network(nn.Linear(2, 8), nn.Linear(8, 3), (2,))
    >>> net(torch.zeros(4, 2)).shape, net.embed(torch.zeros(4, 2)).shape
    (torch.Size([4, 3]), torch.Size([4, 8]))
    """

    def __init__(self, body: nn.Module, head: nn.Module, shape: Shape, any_size: bool = False) -> None:
        super().__init__()
        self.body, self.head, self.shape, self.any_size = body, head, shape, any_size

    def forward(self, inputs: Tensor, embed: bool = False) -> Tensor:
        given, expected = tuple(inputs.shape[1:]), self.shape
        fits = len(given) == len(expected) and given[0] == expected[0] if self.any_size else given == expected
        if not fits:
            size = "of any height and width" if self.any_size else "of that size"
            raise PyriteError(
                f"inputs have the shape {tuple(inputs.shape)}, but the net was built for {('N', *expected)} {size}"
            )
        features: Tensor = self.body(inputs)
        return features if embed else self.head(features)

    def embed(self, inputs: Tensor) -> Tensor:
        """The features before the last layer, one row per sample."""
        return self.forward(inputs, embed=True)


def embed(module: nn.Module, inputs: Tensor) -> Tensor:
    """The embeddings of a ``Network``, or of any other net with a method ``embed``."""
    method = getattr(module, "embed", None)
    # A guess such as the input of the last linear layer would be silently wrong for some nets. So would a layer called
    # ``embed``, such as an embedding table of words.
    if not callable(method) or isinstance(method, nn.Module):
        raise PyriteError(f"{type(module).__name__} has no method embed(inputs), so its embeddings are not known")
    features: Tensor = method(inputs)
    return features


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed torch's global generators, and restore their state afterwards.

    Weights are drawn on the CPU even if another device is the default, so that a seed means the same on all machines.
    """
    if whole_number("seed", seed, least=0) >= 2**64:
        raise PyriteError(f"seed is {seed}, but torch takes seeds below 2**64")
    devices = range(torch.cuda.device_count()) if torch.cuda.is_available() else ()
    with TORCH_GENERATOR, torch.random.fork_rng(devices=devices), torch.device("cpu"):
        # Without a GPU, ``torch.manual_seed`` takes a millisecond for devices that are not available.
        (torch.manual_seed if devices else torch.default_generator.manual_seed)(int(seed))
        yield


def reinitialised(net: nn.Module, seed: int) -> nn.Module:
    """A copy of a net with new initial weights, drawn by ``reset_parameters`` of its layers.

    >>> net = nn.Linear(2, 2)
    >>> one, same, other = (reinitialised(net, seed) for seed in (1, 1, 2))
    >>> torch.equal(one.weight, same.weight), torch.equal(one.weight, other.weight)
    (True, False)
    """
    copy = deepcopy(net)
    with seeded(seed):
        for name, layer in copy.named_modules():
            reset = getattr(layer, "reset_parameters", None)
            if reset is not None:
                reset()
            elif any(True for _ in layer.parameters(recurse=False)):
                where = f"{type(layer).__name__} {name!r}" if name else type(layer).__name__
                raise PyriteError(
                    f"model is a net whose {where} has no reset_parameters(), so it cannot be given new initial "
                    "weights: pass a function that makes the net instead of the net"
                )
    return copy


def check_shape(shape: Sequence[int]) -> Shape:
    """The shape as a tuple of ``int``; a ValueError if it is not that of images or features."""
    size = tuple(shape) if isinstance(shape, Iterable) else ()
    if len(size) not in (1, 3) or not all(is_whole(side) and side >= 1 for side in size):
        raise PyriteError(f"shape is {shape!r}, but must be (channels, height, width) or (features,)")
    return tuple(int(side) for side in size)


def _check_widths(name: str, widths: Any) -> tuple[int, ...]:
    if isinstance(widths, str) or not isinstance(widths, Sequence) or not widths:
        raise PyriteError(f"{name} is {widths!r}, but must be a list of widths, one or more")
    return tuple(whole_number(f"{name}[{place}]", width, 1) for place, width in enumerate(widths))


Widths = Annotated[Sequence[int], _check_widths]
"""Widths of layers, one or more."""
