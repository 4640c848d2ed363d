"""What every net of this room is: a body that gives embeddings, and a head that makes scores of them."""

from typing import final

from torch import Tensor, nn

__all__ = ["Network", "Shape", "embed"]

Shape = tuple[int, ...]


@final
class Network(nn.Module):
    """Scores of inputs, and by ``embed`` the features before the last layer.

    Args:
        body: inputs to embeddings of shape (N, E).
        head: embeddings to scores of shape (N, K).
        shape: of one input, which is what the net was built for.
        any_size: whether images may be of another height and width, because the body averages over all places.
    """

    def __init__(self, body: nn.Module, head: nn.Module, shape: Shape, any_size: bool = False) -> None:
        super().__init__()
        self.body, self.head = body, head
        self.shape, self.any_size = shape, any_size

    def forward(self, inputs: Tensor) -> Tensor:
        scores: Tensor = self.head(self.embed(inputs))
        return scores

    def embed(self, inputs: Tensor) -> Tensor:
        """The features before the last layer, one row a sample."""
        given, expected = tuple(inputs.shape[1:]), self.shape
        fits = len(given) == len(expected) and given[0] == expected[0] if self.any_size else given == expected
        if not fits:
            size = "of any height and width" if self.any_size else "of that size"
            raise ValueError(
                f"inputs have the shape {tuple(inputs.shape)}, but the net was built for {('N', *expected)} {size}"
            )
        features: Tensor = self.body(inputs)
        return features


def embed(module: nn.Module, inputs: Tensor) -> Tensor:
    """The embeddings that a net of this room, or your own with a method ``embed``, computes its scores from."""
    method = getattr(module, "embed", None)
    # A guess, the input of the last linear layer say, would be silently wrong for some nets; so would a layer of that
    # name, a table of words say.
    if not callable(method) or isinstance(method, nn.Module):
        raise ValueError(f"{type(module).__name__} has no method embed(inputs), so its embeddings are not known")
    features: Tensor = method(inputs)
    return features
