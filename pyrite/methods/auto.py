"""The default: what suits the data, decided before training."""

from typing import final

from pyrite.curves import CE
from pyrite.methods.context import Context
from pyrite.methods.curriculum import Curriculum
from pyrite.methods.elr import ELR
from pyrite.methods.erm import ERM
from pyrite.methods.method import Method
from pyrite.methods.select import Select
from pyrite.methods.self_corrected import SelfCorrected
from pyrite.methods.trainer import Trainer

__all__ = ["Auto"]


@final
class Auto(Method):
    """The default: ``self_corrected`` for augmented images in nets with convolutions, ``select`` for all else.

    Augmented images are learned slowly and memorised late, so that the net itself can tell which labels look wrong.
    Features, texts and embeddings are memorised within a few epochs, and which loss is best depends on the noise and
    on the length of training. Their nets are small, so three methods are trained side by side, and held-out labels
    decide. The recipe of a run has the method that was chosen.

    >>> str(Auto().resolve_defaults(augmented=True, held_out=True))
    'self_corrected(at=0.35, momentum=0.7)'
    """

    @property
    def held_out(self) -> float:
        return max(method.held_out for method in _CHOICES)

    def resolve_defaults(self, *, augmented: bool, held_out: bool) -> Method:
        corrected, select = _CHOICES
        chosen = corrected if augmented and held_out else select
        return chosen.resolve_defaults(augmented=augmented, held_out=held_out)

    def start(self, context: Context) -> Trainer:
        augmented, held_out = context.batches.augment is not None, context.held_out is not None
        return self.resolve_defaults(augmented=augmented, held_out=held_out).start(context)


_CHOICES = SelfCorrected(), Select(ERM(CE()), Curriculum(), ELR())
