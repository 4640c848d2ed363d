"""Batches without an end."""

from collections.abc import Mapping
from typing import Any, final

from pyrite.data import Batch, Batches

__all__ = ["Cycle"]


@final
class Cycle:
    """Batches of a small set, such as a meta set, that begin anew in another order whenever they end."""

    def __init__(self, batches: Batches) -> None:
        self.batches = batches
        self._coming = iter(batches)

    def next(self) -> Batch:
        """The next batch."""
        try:
            return next(self._coming)
        except StopIteration:
            self._coming = iter(self.batches)
            return next(self._coming)

    def state_dict(self) -> dict[str, Any]:
        """Where the batches stand."""
        return self.batches.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where other batches of the same set stood."""
        self.batches.load_state_dict(state)
        self._coming = iter(self.batches)
