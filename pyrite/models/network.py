"""``Network``: a body that computes embeddings, and a head that computes scores from them."""

from typing import final

from torch import Tensor, nn

from pyrite.errors import PyriteError

__all__ = ["Network", "Shape", "embed"]

Shape = tuple[int, ...]


@final
class Network(nn.Module):
    """A net that computes scores, and with ``embed`` the features before the last layer.

    Args:
        body: maps inputs to embeddings of shape (N, E).
        head: maps embeddings to scores of shape (N, K).
        shape: the shape of one input that the net was built for.
        any_size: whether images may be of another height and width, because the body pools over all positions.
    """

    def __init__(self, body: nn.Module, head: nn.Module, shape: Shape, any_size: bool = False) -> None:
        super().__init__()
        self.body, self.head = body, head
        self.shape, self.any_size = shape, any_size

    def forward(self, inputs: Tensor) -> Tensor:
        scores: Tensor = self.head(self.embed(inputs))
        return scores

    def embed(self, inputs: Tensor) -> Tensor:
        """The features before the last layer, one row per sample."""
        given, expected = tuple(inputs.shape[1:]), self.shape
        fits = len(given) == len(expected) and given[0] == expected[0] if self.any_size else given == expected
        if not fits:
            size = "of any height and width" if self.any_size else "of that size"
            raise PyriteError(
                f"inputs have the shape {tuple(inputs.shape)}, but the net was built for {('N', *expected)} {size}"
            )
        features: Tensor = self.body(inputs)
        return features


def embed(module: nn.Module, inputs: Tensor) -> Tensor:
    """The embeddings of a ``Network``, or of any other net with a method ``embed``."""
    method = getattr(module, "embed", None)
    # A guess such as the input of the last linear layer would be silently wrong for some nets. So would a layer called
    # ``embed``, such as an embedding table of words.
    if not callable(method) or isinstance(method, nn.Module):
        raise PyriteError(f"{type(module).__name__} has no method embed(inputs), so its embeddings are not known")
    features: Tensor = method(inputs)
    return features
