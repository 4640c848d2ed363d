"""Empirical risk minimisation: the mean loss of a batch, and nothing else."""

from dataclasses import dataclass
from typing import final

from pyrite.checks import require
from pyrite.criterion import Loss
from pyrite.curves import Curve
from pyrite.errors import PyriteError
from pyrite.losses import grows_without_bound
from pyrite.methods.method import Context, Method, Trainer


@final
@dataclass(repr=False, eq=False)
class ERM(Method):
    """Minimise the mean loss of the given labels: all robustness is in the loss.

    Args:
        loss: any loss of the registry, or one of your own.

    >>> from pyrite import GCE
    >>> str(ERM(GCE(q=0.7)))
    'erm(gce(q=0.7))'
    """

    loss: Loss

    def __post_init__(self) -> None:
        require(isinstance(self.loss, Loss), "loss", self.loss, "a loss")
        if self.loss.reduction != "mean":
            raise PyriteError(f"loss is {str(self.loss)!r}: training takes the mean, so leave out reduction")

    @property
    def largest_weight(self) -> float:  # type: ignore[override]  # computed when it is needed
        return max(1.0, self.loss.peak().weight) if isinstance(self.loss, Curve) else 1.0

    @property
    def needs_clipping(self) -> bool:  # type: ignore[override]
        return grows_without_bound(self.loss)

    def start(self, context: Context) -> Trainer:
        return Trainer(context, self.loss)
