"""The description of a method: its arguments, its spec string, and what it needs of a run. That of the plain step."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, NamedTuple, final

from pyrite.checks import number, require
from pyrite.criterion import Loss
from pyrite.curves import Curve
from pyrite.errors import PyriteError
from pyrite.losses import grows_without_bound
from pyrite.methods.context import Context
from pyrite.methods.trainer import Step, Trainer
from pyrite.spec import HasSpec

__all__ = ["ERM", "Composed", "Context", "MetaSet", "Method", "PerSampleLoss", "RunPart", "Step", "Trainer"]


class MetaSet(NamedTuple):
    """The meta set that a method needs: the number of samples, whether their labels are true ones or given ones, and
    whether their images are augmented."""

    size: int
    clean: bool = False
    augmented: bool = False


class Method(HasSpec, ABC):
    """The configuration of a training algorithm, with a round-trippable string form, ``str(method)``.

    The methods of the library are dataclasses whose annotations validate the fields.

    Attributes:
        meta_set: the meta set that the method requires, or None.
        largest_weight: the largest weight of a sample, which divides the default learning rate. It is at least 1, the
            largest weight of cross entropy.
        needs_clipping: whether gradients are clipped by default, because the weight of learned samples does not vanish
            and scores can grow without bound.
        held_out: the fraction of samples that is held out by default; their given labels determine the saved epoch. For
            data without a test part, the default is at least a tenth.

    >>> import pyrite
    >>> elr = pyrite.method("elr(coefficient=7)")
    >>> str(elr), elr.largest_weight
    ('elr(coefficient=7, momentum=0.7)', 7)
    """

    meta_set: MetaSet | None = None
    largest_weight: float = 1.0
    needs_clipping: bool = False
    held_out: float = 0.0

    def resolve_defaults(self, *, augmented: bool, held_out: bool, pretrained: bool = False) -> "Method":
        """Fill in the parameters that depend on the run, so that the recipe records them.

        Args:
            augmented: whether images differ between epochs.
            held_out: whether samples are held out with their given labels.
            pretrained: whether the net has pretrained weights.
        """
        return self

    @property
    def paced(self) -> "Method":
        """A method whose steps take the same time, without one-off work before training; used to time a run."""
        return self

    @abstractmethod
    def start(self, context: Context) -> Trainer:
        """Start the method for one run."""

    def __eq__(self, other: Any) -> bool:
        return type(self) is type(other) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))


@final
@dataclass(repr=False, eq=False)
class ERM(Method):
    """Empirical risk minimisation: the mean loss of the given labels. All robustness is in the loss.

    Args:
        loss: any loss, registered or your own.

    >>> from pyrite import GCE
    >>> str(ERM(GCE(q=0.7)))
    'erm(gce(q=0.7))'
    """

    loss: Loss

    def __post_init__(self) -> None:
        require(isinstance(self.loss, Loss), "loss", self.loss, "a loss")
        if self.loss.reduction != "mean":
            raise PyriteError(f"loss is {str(self.loss)!r}: training uses the mean, so omit reduction")

    @property
    def largest_weight(self) -> float:  # type: ignore[override]  # computed when it is needed
        return max(1.0, self.loss.peak().weight) if isinstance(self.loss, Curve) else 1.0

    @property
    def needs_clipping(self) -> bool:  # type: ignore[override]
        return grows_without_bound(self.loss)

    def start(self, context: Context) -> Trainer:
        return Trainer(context, self.loss)


class Composed(Method):
    """A method that trains with others, and needs what they need."""

    def take_needs(self, **methods: Method) -> None:
        """Take over the needs of these methods, by the names of the arguments that they are."""
        for name, method in methods.items():
            require(isinstance(method, Method), name, method, "a method, such as erm(ce)")
        parts = methods.values()
        meta_sets = {part.meta_set for part in parts if part.meta_set}
        if len(meta_sets) > 1:
            names = " and ".join(methods) if len(methods) == 2 else "the methods"
            raise PyriteError(f"{names} require different meta sets: set the same size and meta for all")
        self.meta_set = next(iter(meta_sets), None)
        self.largest_weight = max((part.largest_weight for part in parts), default=1.0)
        self.needs_clipping = any(part.needs_clipping for part in parts)
        self.held_out = max((part.held_out for part in parts), default=0.0)


def _check_per_sample(name: str, loss: Loss) -> Loss:
    require(isinstance(loss, Loss), name, loss, "a loss")
    if any(part.couples for part in loss.modules() if isinstance(part, Loss)):
        raise PyriteError(
            f"{name} is {str(loss)!r}, in which the loss of a sample depends on others: use a loss of single samples"
        )
    if loss.reduction != "mean" or loss.weight is not None:
        raise PyriteError(f"{name} is {str(loss)!r}: the method weights the samples, so omit reduction and weight")
    return loss


PerSampleLoss = Annotated[Loss, _check_per_sample]
"""A loss with one value per sample that depends on that sample alone."""

RunPart = Annotated[float, partial(number, above=0, below=1)]
"""A fraction of the epochs that leaves some for another stage."""
