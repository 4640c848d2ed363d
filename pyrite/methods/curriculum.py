"""A loss that moves with the margins, from cross entropy towards absolute error."""

import math
from collections.abc import Mapping
from typing import Any, Final, final

import torch
from torch import Tensor
from torch.nn.functional import softplus

from pyrite.checks import number
from pyrite.curves import GCE
from pyrite.data import Batch
from pyrite.methods.bench import Bench
from pyrite.methods.erm import ERM
from pyrite.methods.method import Method, Trainer
from pyrite.methods.step import Step
from pyrite.processes import all_gather

__all__ = ["Curriculum", "largest_exponent"]

_STEPS: Final = 50  # over which the exponent is averaged
_LEAST: Final = 1e-3  # generalised cross entropy with this exponent is cross entropy to three digits


@final
class Curriculum(Method):
    """Generalised cross entropy whose exponent q grows as the net learns.

    A label that the net gives the probability p has the weight p^q (1 − p), which is p^q times that of cross entropy.
    The exponent is the largest, up to ``most``, for which p^q is at least ``keep`` in the mean over the given labels.
    So training begins near cross entropy, q = log(1/keep) / log(classes), with any number of classes, and doubted
    labels lose weight as soon as others are learned.

    Args:
        keep: the share of the weights of cross entropy that is kept.
        most: the largest exponent; 1 is absolute error.

    >>> str(Curriculum())
    'curriculum(keep=0.5, most=1)'
    """

    def __init__(self, keep: float = 0.5, most: float = 1) -> None:
        self.keep = number("keep", keep, above=0, below=1)
        self.most = number("most", most, above=0, most=1)

    @property
    def held_out(self) -> float:
        """Held-out labels tell the epoch after which wrong labels are memorised all the same."""
        return 0.05

    def start(self, bench: Bench) -> "_Moving":
        return _Moving(self, bench)


def largest_exponent(log_p: Tensor, keep: float, most: float) -> float:
    """The largest q up to ``most`` for which the mean of p^q is at least ``keep``.

    >>> round(largest_exponent(torch.full((3,), -math.log(10.0)), keep=0.5, most=1), 3)
    0.301
    """

    def kept(q: float) -> float:
        return float((q * log_p).exp().mean())

    low, high = 0.0, most  # the mean falls with q, from 1 at q = 0
    if not len(log_p) or kept(high) >= keep:
        return high
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (middle, high) if kept(middle) >= keep else (low, middle)
    return low


@final
class _Moving(Trainer):
    """Gradient steps, after each of which the exponent follows the margins."""

    def __init__(self, method: Curriculum, bench: Bench) -> None:
        self.keep, self.most = method.keep, method.most
        self.descent = ERM(GCE(q=1.0)).start(bench)
        self.learners, self.loss = self.descent.learners, self.descent.loss
        self.q = min(self.most, -math.log(self.keep) / math.log(bench.classes))

    @property
    def q(self) -> float:
        """The exponent as it is now."""
        return float(self.loss.q)

    @q.setter
    def q(self, value: float) -> None:
        self.loss.q = max(value, _LEAST)

    def step(self, batch: Batch) -> Step:
        step = self.descent.step(batch)
        margins = torch.cat(all_gather(step.margin.double().cpu())) if step.share else step.labels[:0]
        if len(margins):
            now = largest_exponent(-softplus(-margins), self.keep, self.most)
            self.q += (now - self.q) / _STEPS
        return step

    def facts(self) -> Mapping[str, float]:
        return {"exponent": self.q}

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "q": self.q}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict(state)
        self.q = state["q"]
