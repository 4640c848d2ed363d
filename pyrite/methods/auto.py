"""The default: what suits the data, decided before training."""

from typing import final

from pyrite.curves import CE
from pyrite.methods.bench import Bench
from pyrite.methods.curriculum import Curriculum
from pyrite.methods.elr import ELR
from pyrite.methods.erm import ERM
from pyrite.methods.method import Method, Trainer
from pyrite.methods.relearn import Relearn
from pyrite.methods.select import Select

__all__ = ["Auto"]


@final
class Auto(Method):
    """The default: ``relearn`` for augmented images in nets with convolutions, ``select`` for all else.

    Augmented images are learned slowly and memorised late, so that the net itself can tell which labels look wrong.
    Features, texts and embeddings are memorised within a few epochs, and which loss is best depends on the noise and
    on the length of training. Their nets are small, so three methods are trained side by side, and held-out labels
    decide. The recipe of a run has the method that was chosen.

    >>> str(Auto().settled(augmented=False, held_out=True))
    'select(erm(ce), curriculum(keep=0.5, gain=4, most=1), elr(coefficient=3, momentum=0.7))'
    """

    @property
    def held_out(self) -> float:
        return max(method.held_out for method in _CHOICES)

    def settled(self, *, augmented: bool, held_out: bool) -> Method:
        relearn, select = _CHOICES
        return (relearn if augmented and held_out else select).settled(augmented=augmented, held_out=held_out)

    def start(self, bench: Bench) -> Trainer:
        augmented, held_out = bench.batches.augment is not None, bench.held_out is not None
        return self.settled(augmented=augmented, held_out=held_out).start(bench)


_CHOICES = Relearn(Curriculum()), Select(ERM(CE()), Curriculum(), ELR())
