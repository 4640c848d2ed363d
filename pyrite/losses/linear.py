"""A head and its loss in one module."""

from torch import Tensor, nn

from pyrite.checks import require
from pyrite.criterion import Loss


class LinearLoss(nn.Module):
    """A linear layer fused with a loss, so all scores are never in memory at once: for many classes, such as tokens.

    ``linear`` is the layer: it gives the scores for predictions, and its weight can be that of an embedding
    (``head.linear.weight = embedding.weight``).

    Args:
        loss: any loss.
        hidden: the number of features.
        classes: the number of classes.
        bias: whether the layer has a bias.
        chunk: the number of rows per projection; by default 16 million scores at a time.

    >>> import torch
    >>> from pyrite.curves import GCE
    >>> head = LinearLoss(GCE(q=0.7), hidden=8, classes=1000)
    >>> head(torch.zeros(2, 5, 8), torch.zeros(2, 5, dtype=torch.long)).shape
    torch.Size([])
    """

    def __init__(self, loss: Loss, hidden: int, classes: int, *, bias: bool = True, chunk: int | None = None) -> None:
        super().__init__()
        require(isinstance(loss, Loss), "loss", loss, "a loss")
        self.loss, self.chunk = loss, chunk
        self.linear = nn.Linear(hidden, classes, bias=bias)

    def forward(self, input: Tensor, target: Tensor, sample_weight: Tensor | None = None) -> Tensor:
        """The loss of (..., hidden) features under (...) labels."""
        layer, chunk = self.linear, self.chunk
        return self.loss.linear(input, layer.weight, target, layer.bias, sample_weight=sample_weight, chunk=chunk)
