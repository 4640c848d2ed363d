"""Numbers that are kept for every sample during the whole run."""

from collections.abc import Mapping
from typing import Any, final

from torch import Tensor

from pyrite.processes import all_gather

__all__ = ["Memory"]


@final
class Memory:
    """One row per sample, such as a running mean of its probabilities or its present label.

    Every process holds all rows. A process writes the rows of its own samples, and ``write`` gives them to the others,
    so that after every step all processes have the same rows, the same as one process alone would have.

    Args:
        rows: what is remembered at the beginning, of shape (samples, ...).

    >>> import torch
    >>> memory = Memory(torch.zeros(3, 2))
    >>> memory.write(torch.tensor([2]), torch.tensor([[0.5, 0.5]]))
    >>> memory[torch.tensor([1, 2])]
    tensor([[0.0000, 0.0000],
            [0.5000, 0.5000]])
    """

    def __init__(self, rows: Tensor) -> None:
        self.rows = rows.detach().clone()

    def __getitem__(self, index: Tensor) -> Tensor:
        """A copy of the rows of these samples."""
        return self.rows[index.to(self.rows.device)]

    def __len__(self) -> int:
        return len(self.rows)

    def write(self, index: Tensor, values: Tensor) -> None:
        """Replace the rows of these samples. All processes must call it, even those with no sample."""
        own = index.detach().cpu(), values.detach().to("cpu", self.rows.dtype)
        for numbers, new in all_gather(own):
            self.rows[numbers.to(self.rows.device)] = new.to(self.rows.device)

    def state_dict(self) -> dict[str, Tensor]:
        """All rows."""
        return {"rows": self.rows}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the rows of another memory of the same samples."""
        self.rows.copy_(state["rows"])
