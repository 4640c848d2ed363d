"""The description of a method: its arguments, its spec string, and what it needs of a run."""

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

from pyrite.errors import PyriteError
from pyrite.methods.context import Context
from pyrite.methods.trainer import Trainer
from pyrite.spec import HasSpec

__all__ = ["Composed", "MetaSet", "Method"]


class MetaSet(NamedTuple):
    """The meta set that a method needs: the number of samples, and whether their labels are true ones or given ones."""

    size: int
    clean: bool = False


class Method(HasSpec, ABC):
    """A description of a training algorithm. ``str(method)`` is the text that builds it again."""

    @property
    def meta_set(self) -> MetaSet | None:
        """The meta set that it needs; None if it needs none."""
        return None

    @property
    def largest_weight(self) -> float:
        """The largest weight it gives a sample, at least 1, which is that of cross entropy.

        Default learning rates suit cross entropy. A method that weights samples more makes larger steps, so its default
        learning rate is lower.
        """
        return 1.0

    @property
    def needs_clipping(self) -> bool:
        """Whether it keeps pushing samples that are learned, so that scores can grow without bound.

        Then gradients grow with the scores, so they are clipped unless a recipe has another setting.
        """
        return False

    @property
    def held_out(self) -> float:
        """The fraction of samples that is best held out, by whose given labels the epoch to save is chosen.

        Data without a test part have a tenth held out in any case. A recipe may have another setting.
        """
        return 0.0

    def resolve_defaults(self, *, augmented: bool, held_out: bool) -> "Method":
        """The method with what suits a run filled in, so that its recipe has it.

        Args:
            augmented: whether every epoch shows other images.
            held_out: whether some samples are held out with their given labels.
        """
        return self

    @abstractmethod
    def start(self, context: Context) -> Trainer:
        """Start the method for one run."""

    def __eq__(self, other: Any) -> bool:
        return type(self) is type(other) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))


class Composed(Method):
    """A method that trains with others, and needs what they need.

    Args:
        methods: the others, by the names of the arguments.
    """

    def __init__(self, **methods: Method) -> None:
        for name, method in methods.items():
            if not isinstance(method, Method):
                raise PyriteError(f"{name} is {method!r}, but must be a method, such as erm(ce)")
        if len({method.meta_set for method in methods.values() if method.meta_set}) > 1:
            names = " and ".join(methods) if len(methods) == 2 else "the methods"
            raise PyriteError(f"{names} want different meta sets: give all of them the same size and labels")
        self.parts = tuple(methods.values())

    @property
    def meta_set(self) -> MetaSet | None:
        return next((part.meta_set for part in self.parts if part.meta_set), None)

    @property
    def largest_weight(self) -> float:
        return max(part.largest_weight for part in self.parts)

    @property
    def needs_clipping(self) -> bool:
        return any(part.needs_clipping for part in self.parts)

    @property
    def held_out(self) -> float:
        return max(part.held_out for part in self.parts)
