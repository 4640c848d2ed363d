"""Batches that start again whenever they end."""

from collections.abc import Mapping
from typing import Any, final

from pyrite.data import Batch, Batches

__all__ = ["Cycle"]


@final
class Cycle:
    """Batches of a small set, such as a meta set, that start again, in a new order, whenever they end."""

    def __init__(self, batches: Batches) -> None:
        self.batches = batches
        self._iterator = iter(batches)

    def next(self) -> Batch:
        """The next batch."""
        try:
            return next(self._iterator)
        except StopIteration:
            self._iterator = iter(self.batches)
            return next(self._iterator)

    def state_dict(self) -> dict[str, Any]:
        """The position in the batches."""
        return self.batches.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from the position of other batches of the same set."""
        self.batches.load_state_dict(state)
        self._iterator = iter(self.batches)
