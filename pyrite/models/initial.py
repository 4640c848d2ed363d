"""New initial weights for an existing net."""

from copy import deepcopy

from torch import nn

from pyrite.errors import PyriteError
from pyrite.models.architecture import seeded

__all__ = ["reinitialised"]


def reinitialised(net: nn.Module, seed: int) -> nn.Module:
    """A copy of a net with new initial weights, drawn by ``reset_parameters`` of its layers.

    >>> from torch import equal
    >>> net = nn.Linear(2, 2)
    >>> one, same, other = (reinitialised(net, seed) for seed in (1, 1, 2))
    >>> equal(one.weight, same.weight), equal(one.weight, other.weight)
    (True, False)
    """
    copy = deepcopy(net)
    with seeded(seed):
        for name, layer in copy.named_modules():
            reset = getattr(layer, "reset_parameters", None)
            if reset is not None:
                reset()
            elif any(True for _ in layer.parameters(recurse=False)):
                where = f"{type(layer).__name__} {name!r}" if name else type(layer).__name__
                raise PyriteError(
                    f"model is a net whose {where} has no reset_parameters(), so it cannot be given new initial "
                    "weights: pass a function that makes the net instead of the net"
                )
    return copy
