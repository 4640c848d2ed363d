"""The epoch whose model is saved, chosen by held-out given labels."""

from collections.abc import Mapping, Sequence
from typing import Any, final

import numpy as np
import numpy.typing as npt
from torch import Tensor, nn

from pyrite.diagnostics import clearly_better

__all__ = ["BestEpoch"]

Hits = npt.NDArray[np.bool_]


@final
class BestEpoch:
    """Keeps the weights of the epoch that predicts most of the held-out labels, and decides whether they are saved.

    Of many epochs some are better than the last by chance, so the best must be better by more than a standard error.

    Attributes:
        epoch: the best epoch so far, of equals the later; counted from 1.
        last: the last epoch so far.
    """

    def __init__(self) -> None:
        self.epoch = self.last = 0
        self._hits = self._last_hits = np.zeros(0, bool)
        self._weights: list[dict[str, Tensor]] = []

    def after_epoch(self, epoch: int, hits: Hits, nets: Sequence[nn.Module]) -> None:
        """Compare an epoch with the best one.

        Args:
            epoch: its number.
            hits: which of the held-out labels are predicted, in the same order in every epoch.
            nets: those that predict. If a new stage of a method predicts with nets of another number or kind, which
                cannot take the weights of the earlier ones, epochs are compared from this one on.
        """
        self.last, self._last_hits = epoch, hits
        states = [net.state_dict() for net in nets]
        fit = [list(state) for state in states] == [list(weights) for weights in self._weights]
        if not fit or hits.sum() >= self._hits.sum():
            self.epoch, self._hits = epoch, hits
            self._weights = [{name: value.detach().clone() for name, value in state.items()} for state in states]

    @property
    def chosen(self) -> int:
        """The best epoch, if it beats the last by more than one standard error of their difference; else the last.

        The best of E equal epochs is ahead by more than that rather often, and rarely by √(2 ln E) standard errors.
        But an epoch that is chosen by chance is nearly as good as the last, while a high threshold keeps the last of a
        net that has become worse. Simulated (``benchmarks.best_epoch``), one standard error loses less.
        """
        return self.epoch if clearly_better(self._hits, self._last_hits) else self.last

    def restore(self, nets: Sequence[nn.Module]) -> None:
        """Give the nets the weights that they had after the best epoch."""
        for net, weights in zip(nets, self._weights, strict=True):
            net.load_state_dict(weights)

    def state_dict(self) -> dict[str, Any]:
        """For a resume."""
        weights = {str(number): dict(each) for number, each in enumerate(self._weights)}
        hits = {"hits": self._hits, "last_hits": self._last_hits}
        return {"epoch": self.epoch, "last": self.last, **hits, "weights": weights}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue where another one stopped."""
        self.epoch, self.last = state["epoch"], state["last"]
        self._hits, self._last_hits = state["hits"], state["last_hits"]
        self._weights = [state["weights"][str(number)] for number in range(len(state["weights"]))]
